//! The interface of all queue disciplines.

use std::time::Instant;

use auto_impl::auto_impl;

use crate::Tally;

/// A queue discipline. `now` never runs backwards between calls.
///
/// A discipline passes every packet it drops, on arrival or later, to `dropped`.
#[auto_impl(Box)]
pub trait Queue<T> {
    /// Adds a packet; it or others may go to `dropped`.
    fn enqueue(&mut self, now: Instant, packet: T, dropped: &mut dyn FnMut(T));

    /// Removes the packet to send next; others may go to `dropped`.
    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(T)) -> Option<T>;

    /// What waits: at most [`Self::limit`] bytes.
    fn waiting(&self) -> Tally;

    /// Limit in bytes.
    fn limit(&self) -> u64;

    /// Whether a packet is of the best level, which the other levels never delay. Disciplines without levels have only
    /// that one.
    fn is_best(&self, _packet: &T) -> bool {
        true
    }

    /// Bytes waiting.
    fn bytes(&self) -> u64 {
        self.waiting().bytes
    }

    /// Bytes waiting at the best level.
    fn best_bytes(&self) -> u64 {
        self.bytes()
    }

    /// Packets marked instead of dropped so far, where a discipline counts them.
    fn marked(&self) -> u64 {
        0
    }

    /// Whether the queue is empty.
    fn is_empty(&self) -> bool {
        self.waiting().packets == 0
    }
}
