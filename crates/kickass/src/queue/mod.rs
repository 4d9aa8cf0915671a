//! What waits in front of a link: one small trait, and the disciplines.
//!
//! Limits are in bytes of packets, IP headers included. What a discipline drops, on arrival or later, it hands to
//! `lost`; nothing else disappears.

mod codel;
mod drop_tail;
mod fq_codel;
mod strict_priority;

use std::time::Instant;

pub use codel::CoDel;
pub use drop_tail::DropTail;
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use strict_priority::{Levels, StrictPriority};

use crate::packet::Packet;

/// What queues ask of a packet. Simulators have packets of their own.
pub trait Queued {
    /// Bytes on the wire, IP header included.
    fn bytes(&self) -> u64;

    /// The differentiated services code point, 0 to 63.
    fn dscp(&self) -> u8;

    /// A hash of the flow it belongs to, alike for all fragments of one packet. `key` makes it unforeseeable.
    fn flow_hash(&self, key: u64) -> u64;

    /// Marks that it met congestion (RFC 3168 §5); whether its ends understand that.
    fn mark_congestion(&mut self) -> bool;
}

impl Queued for Packet {
    fn bytes(&self) -> u64 {
        self.total_len() as u64
    }

    fn dscp(&self) -> u8 {
        self.dscp()
    }

    fn flow_hash(&self, key: u64) -> u64 {
        let flow = self.flow();
        // The other fragments do not show theirs, and must not be overtaken by the leading one.
        let flow = if self.fragment().is_some() { flow.without_ports() } else { flow };
        flow.hash(key)
    }

    fn mark_congestion(&mut self) -> bool {
        self.mark_congestion()
    }
}

/// A queue discipline. `now` never runs backwards between calls.
pub trait Queue<T> {
    /// Takes a packet in; it or others may go to `lost`.
    fn enqueue(&mut self, now: Instant, packet: T, lost: &mut dyn FnMut(T));

    /// Takes out the packet to be sent next; others may go to `lost`.
    fn dequeue(&mut self, now: Instant, lost: &mut dyn FnMut(T)) -> Option<T>;

    /// Bytes waiting: at most [`Self::limit`].
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn packets(&self) -> usize;

    /// How many bytes may wait.
    fn limit(&self) -> u64;

    /// Whether a packet is of the best level, which the others do not keep waiting. Disciplines without levels have
    /// only that one.
    fn is_best(&self, _packet: &T) -> bool {
        true
    }

    /// Bytes waiting at the best level.
    fn best_bytes(&self) -> u64 {
        self.bytes()
    }

    /// Packets marked instead of dropped so far.
    fn marked(&self) -> u64 {
        0
    }

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.packets() == 0
    }
}

impl<T, Q: Queue<T> + ?Sized> Queue<T> for Box<Q> {
    fn enqueue(&mut self, now: Instant, packet: T, lost: &mut dyn FnMut(T)) {
        (**self).enqueue(now, packet, lost);
    }

    fn dequeue(&mut self, now: Instant, lost: &mut dyn FnMut(T)) -> Option<T> {
        (**self).dequeue(now, lost)
    }

    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn packets(&self) -> usize {
        (**self).packets()
    }

    fn limit(&self) -> u64 {
        (**self).limit()
    }

    fn is_best(&self, packet: &T) -> bool {
        (**self).is_best(packet)
    }

    fn best_bytes(&self) -> u64 {
        (**self).best_bytes()
    }

    fn marked(&self) -> u64 {
        (**self).marked()
    }
}

#[cfg(test)]
mod tests;
