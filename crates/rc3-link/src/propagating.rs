//! Packets between the transmitter of a link and its far end.

use std::{collections::VecDeque, time::Instant};

use crate::Packet;

/// The packets between the transmitter and the far end with their arrival times, in the order of arrival. Without jitter
/// each is added at the end.
pub(crate) struct Propagating<T>(VecDeque<(Instant, Packet<T>)>);

impl<T> Default for Propagating<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Propagating<T> {
    /// Adds a packet that arrives at `at`, after earlier packets with the same arrival time.
    pub(crate) fn push(&mut self, at: Instant, packet: Packet<T>) {
        let overtaken = self.0.iter().rev().take_while(|(arrival, _)| *arrival > at).count();
        self.0.insert(self.0.len() - overtaken, (at, packet));
    }

    /// The next arrival time.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.front().map(|(arrival, _)| *arrival)
    }

    /// The packet that arrives first.
    pub(crate) fn pop(&mut self) -> Option<Packet<T>> {
        self.0.pop_front().map(|(_, packet)| packet)
    }

    /// The number of packets.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
