//! First in, first out; arrivals that do not fit are dropped. Classes are ignored.
//!
//! Invariant: `bytes` is the sum of the lengths in `packets` and at most `limit`.

use std::{collections::VecDeque, time::Instant};

use crate::{Queue, Queued, Tally, fifo};

/// A FIFO with a limit.
///
/// ```
/// use std::time::Instant;
/// use rc3_queue::{DropTail, Queue, Queued};
///
/// # #[derive(Debug, PartialEq)]
/// struct Packet(u64);
///
/// impl Queued for Packet {
///     fn bytes(&self) -> u64 {
///         self.0
///     }
///
///     fn class(&self) -> u8 {
///         0
///     }
/// }
///
/// let now = Instant::now();
/// let mut queue = DropTail::new(2000);
/// let mut dropped = Vec::new();
/// for bytes in [1500, 1000, 500] {
///     queue.enqueue(now, Packet(bytes), &mut |packet| dropped.push(packet));
/// }
/// assert_eq!(dropped, [Packet(1000)], "this one did not fit, the smaller one did");
/// assert_eq!((queue.bytes(), queue.limit()), (2000, 2000));
/// ```
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
