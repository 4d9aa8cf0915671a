//! What waits in front of a link: packets, and the one small trait all disciplines share.
//!
//! Units: sizes and limits are bytes on the wire, IP and UDP headers included. A packet that a link is
//! transmitting has left its queue and counts against no limit.

pub(crate) mod bleached;
pub(crate) mod cake;
pub(crate) mod codel;
pub(crate) mod drop_front;
pub(crate) mod drop_tail;
pub(crate) mod fq_codel;
pub(crate) mod ip;
pub(crate) mod kick_ass;
pub(crate) mod policer;
pub(crate) mod primary_only;
pub(crate) mod strict_priority;
pub(crate) mod two_classes;

use std::{collections::VecDeque, time::Instant};

use rc3_core::units::Level;

use ip::Routed;

/// A packet as a queue and a link see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes on the wire, IP and UDP headers included.
    pub size: usize,
    /// The service it asks for; 0 is normal priority.
    pub level: Level,
    /// What the link carries and never looks into.
    pub payload: T,
}

/// A queue discipline. `now` never runs backwards between calls.
pub trait Queue<T> {
    /// Takes `packet` in and says what had to go: nothing, the arrival itself, or worse packets.
    fn enqueue(&mut self, now: Instant, packet: Packet<T>) -> Dropped<T>;

    /// Takes out the packet to be sent next.
    fn dequeue(&mut self, now: Instant) -> Option<Packet<T>>;

    /// Bytes waiting.
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn len(&self) -> usize;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a packet is of the best level, which the others do not keep waiting. Disciplines without levels have
    /// only that one.
    fn is_best(&self, _packet: &Packet<T>) -> bool {
        true
    }

    /// Bytes waiting at the best level.
    fn best_bytes(&self) -> u64 {
        self.bytes()
    }

    /// A packet that was dropped while it waited, one after the other. For disciplines that drop when they are asked
    /// for a packet; what an arrival costs is told at once.
    fn poll_dropped(&mut self) -> Option<Packet<T>> {
        None
    }
}

impl<T, Q: Queue<T> + ?Sized> Queue<T> for Box<Q> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>) -> Dropped<T> {
        (**self).enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<T>> {
        (**self).dequeue(now)
    }

    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn is_empty(&self) -> bool {
        (**self).is_empty()
    }

    fn is_best(&self, packet: &Packet<T>) -> bool {
        (**self).is_best(packet)
    }

    fn best_bytes(&self) -> u64 {
        (**self).best_bytes()
    }

    fn poll_dropped(&mut self) -> Option<Packet<T>> {
        (**self).poll_dropped()
    }
}

/// Begins an empty FIFO at its first slot again. Through most queues packets go one at a time, and after a long burst
/// each would otherwise find a slot that no cache holds.
fn restart<T>(fifo: &mut VecDeque<T>) {
    debug_assert!(fifo.is_empty(), "packets that wait");
    fifo.clear();
}

/// What an arrival cost. It iterates over the dropped packets, in the order in which they went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Dropped<T> {
    /// Everything found room.
    Nothing,
    /// The arrival was dropped, the queue is as before.
    Arrival(Packet<T>),
    /// The arrival was queued in the place of worse packets. The first is kept inline: among packets of one
    /// size there is no second, so a flood causes no allocation.
    PushedOut {
        /// The packet pushed out first, from the tail of the worst level.
        first: Packet<T>,
        /// The others.
        rest: Vec<Packet<T>>,
    },
}

impl<T> IntoIterator for Dropped<T> {
    type Item = Packet<T>;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Packet<T>>, std::vec::IntoIter<Packet<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        let (first, rest) = match self {
            Self::Nothing => (None, Vec::new()),
            Self::Arrival(packet) => (Some(packet), Vec::new()),
            Self::PushedOut { first, rest } => (Some(first), rest),
        };
        first.into_iter().chain(rest)
    }
}
