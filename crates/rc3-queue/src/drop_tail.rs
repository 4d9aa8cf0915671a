//! First in, first out; arrivals that do not fit are dropped. Classes are ignored.
//!
//! Invariant: `bytes` is the sum of the lengths in `packets` and at most `limit`.

use std::{collections::VecDeque, time::Instant};

use crate::{Queue, Queued, Tally, fifo};

/// A FIFO with a limit.
#[derive(Debug)]
pub struct DropTail<T> {
    packets: VecDeque<T>,
    bytes: u64,
    limit: u64,
}

impl<T> DropTail<T> {
    /// An empty queue for at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, limit }
    }
}

impl<T: Queued> Queue<T> for DropTail<T> {
    fn enqueue(&mut self, _now: Instant, packet: T, dropped: &mut dyn FnMut(T)) {
        let bytes = packet.bytes();
        if bytes > self.limit - self.bytes {
            return dropped(packet);
        }
        self.bytes += bytes;
        self.packets.push_back(packet);
    }

    fn dequeue(&mut self, _now: Instant, _lost: &mut dyn FnMut(T)) -> Option<T> {
        let packet = fifo::take(&mut self.packets, VecDeque::pop_front)?;
        self.bytes -= packet.bytes();
        Some(packet)
    }

    fn waiting(&self) -> Tally {
        Tally { packets: self.packets.len() as u64, bytes: self.bytes }
    }

    fn limit(&self) -> u64 {
        self.limit
    }
}
