//! Packets between the transmitter of a link and its far end.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, VecDeque},
    time::Instant,
};

use crate::Packet;

/// The packets between the transmitter and the far end. Without jitter they arrive in order, so a queue is enough; the
/// heap is for the others.
pub(crate) struct Propagating<T> {
    in_order: VecDeque<Arrival<T>>,
    others: BinaryHeap<Reverse<Arrival<T>>>,
    /// Serial number of the next packet.
    next: u64,
}

impl<T> Default for Propagating<T> {
    fn default() -> Self {
        Self { in_order: VecDeque::new(), others: BinaryHeap::new(), next: 0 }
    }
}

impl<T> Propagating<T> {
    /// Adds a packet that arrives at `at`, after earlier packets with the same arrival time.
    pub(crate) fn push(&mut self, at: Instant, packet: Packet<T>) {
        let arrival = Arrival { at, serial: self.next, packet };
        self.next += 1;
        match self.in_order.back() {
            Some(last) if arrival.at < last.at => self.others.push(Reverse(arrival)),
            _ => self.in_order.push_back(arrival),
        }
    }

    /// The next arrival time.
    pub(crate) fn first(&self) -> Option<Instant> {
        let others = self.others.peek().map(|Reverse(arrival)| arrival.at);
        match (self.in_order.front().map(|arrival| arrival.at), others) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The packet that arrives first.
    pub(crate) fn pop(&mut self) -> Option<Packet<T>> {
        let other = match (self.in_order.front(), self.others.peek()) {
            (Some(next), Some(Reverse(other))) => other < next,
            (next, _) => next.is_none(),
        };
        let first =
            if other { self.others.pop().map(|Reverse(arrival)| arrival) } else { self.in_order.pop_front() };
        first.map(|arrival| arrival.packet)
    }

    /// The number of packets.
    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }
}

/// A packet between the transmitter and the far end.
struct Arrival<T> {
    at: Instant,
    serial: u64,
    packet: Packet<T>,
}

impl<T> Ord for Arrival<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

impl<T> PartialOrd for Arrival<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Arrival<T> {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}

impl<T> Eq for Arrival<T> {}
