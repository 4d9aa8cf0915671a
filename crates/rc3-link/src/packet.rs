//! Packets of a link.

use std::time::Instant;

use rc3_queue::{Queued, Routed};
use rc3_units::Level;

/// A packet as seen by a link and its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes on the wire, IP and UDP headers included.
    pub size: usize,
    /// Its level; 0 is normal priority.
    pub level: Level,
    /// The content, which the link never reads.
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

/// What waits in the queue of a [`Link`](crate::Link).
pub type Waiting<T> = Packet<Stamped<T>>;

/// A payload with its arrival time at the link: the content of a [`Link`](crate::Link)'s queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped<T> {
    pub(crate) sent: Instant,
    pub(crate) payload: T,
}

impl<T> Stamped<T> {
    /// A payload that arrives now.
    pub fn new(sent: Instant, payload: T) -> Self {
        Self { sent, payload }
    }

    /// The payload, for queues that read it.
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// The payload, for queues that modify it.
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
