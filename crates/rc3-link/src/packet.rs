//! Packets of a link.

use std::time::Instant;

use rc3_core::units::Level;
use rc3_queue::{Queued, Routed};

/// A packet as a link and its queue see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes on the wire, IP and UDP headers included.
    pub size: usize,
    /// The service it asks for; 0 is normal priority.
    pub level: Level,
    /// What the link carries and never looks into.
    pub payload: T,
}

impl<T> Queued for Packet<T> {
    fn bytes(&self) -> u64 {
        self.size as u64
    }

    fn class(&self) -> u8 {
        self.level.get()
    }
}

/// A payload with the instant it was handed to the link: what a [`Link`](crate::Link) puts into its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped<T> {
    pub(crate) sent: Instant,
    pub(crate) payload: T,
}

impl<T> Stamped<T> {
    /// A payload that is handed over now.
    pub fn new(sent: Instant, payload: T) -> Self {
        Self { sent, payload }
    }

    /// The payload, for queues that look into it.
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// The payload, for queues that write into it.
    pub fn payload_mut(&mut self) -> &mut T {
        &mut self.payload
    }
}

impl<T: Routed> Routed for Packet<Stamped<T>> {
    fn flow_hash(&self, key: u64) -> u64 {
        self.payload.payload.flow_hash(key)
    }

    fn mark_congestion(&mut self) -> bool {
        self.payload.payload.mark_congestion()
    }
}
