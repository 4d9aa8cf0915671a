//! First in, first out; where room is wanting, the packets that have waited longest go. Levels are ignored.
//!
//! Invariant: `bytes` is the sum of the sizes in `packets` and never above `limit`. Units: bytes on the wire.

use std::{collections::VecDeque, time::Instant};

use crate::{Queue, Queued};

/// A FIFO with a byte limit that drops at its head.
#[derive(Debug)]
pub struct DropFront<T> {
    packets: VecDeque<T>,
    bytes: u64,
    limit: u64,
}

impl<T> DropFront<T> {
    /// An empty queue for at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, limit }
    }
}

impl<T: Queued> DropFront<T> {
    fn pop(&mut self) -> Option<T> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.bytes();
        Some(packet)
    }
}

impl<T: Queued> Queue<T> for DropFront<T> {
    fn enqueue(&mut self, _now: Instant, packet: T, dropped: &mut dyn FnMut(T)) {
        let bytes = packet.bytes();
        if bytes > self.limit {
            return dropped(packet);
        }
        while bytes > self.limit - self.bytes {
            let Some(packet) = self.pop() else { break };
            dropped(packet);
        }
        self.bytes += bytes;
        self.packets.push_back(packet);
    }

    fn dequeue(&mut self, _now: Instant, _dropped: &mut dyn FnMut(T)) -> Option<T> {
        self.pop()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.packets.len()
    }

    fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Level;

    use super::*;
    use crate::Packet;

    fn packet(size: usize, payload: u32) -> Packet<u32> {
        Packet { size, level: Level::PRIMARY, payload }
    }

    #[test]
    fn the_oldest_make_room() {
        let now = Instant::now();
        let mut queue = DropFront::new(3000);
        let mut dropped = Vec::new();
        for (size, payload) in [(1000, 1), (1000, 2), (1000, 3), (1500, 4)] {
            queue.enqueue(now, packet(size, payload), &mut |packet| dropped.push(packet.payload));
        }
        assert_eq!(dropped, [1, 2]);
        assert_eq!((queue.bytes(), queue.packets()), (2500, 2));
        queue.enqueue(now, packet(3001, 5), &mut |packet| dropped.push(packet.payload));
        assert_eq!(dropped, [1, 2, 5]);
        let out = std::iter::from_fn(|| queue.dequeue(now, &mut |_| panic!("on arrival only")));
        assert_eq!(out.map(|packet| packet.payload).collect::<Vec<_>>(), [3, 4]);
    }
}
