//! First in, first out; where room is wanting, the packets that have waited longest go. Levels are ignored.
//!
//! Invariant: `bytes` is the sum of the sizes in `packets` and never above `limit`. Units: bytes on the wire.

use std::{collections::VecDeque, time::Instant};

use super::{Dropped, Packet, Queue, restart};

/// A FIFO with a byte limit that drops at its head.
#[derive(Debug)]
pub struct DropFront<T> {
    packets: VecDeque<Packet<T>>,
    bytes: u64,
    limit: u64,
}

impl<T> DropFront<T> {
    /// An empty queue for at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, limit }
    }

    fn pop(&mut self) -> Option<Packet<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size as u64;
        if self.packets.is_empty() {
            restart(&mut self.packets);
        }
        Some(packet)
    }
}

impl<T> Queue<T> for DropFront<T> {
    fn enqueue(&mut self, _now: Instant, packet: Packet<T>) -> Dropped<T> {
        let size = packet.size as u64;
        if size > self.limit {
            return Dropped::Arrival(packet);
        }
        let mut dropped = Dropped::Nothing;
        while size > self.limit - self.bytes {
            let Some(packet) = self.pop() else { break };
            dropped = match dropped {
                Dropped::PushedOut { first, mut rest } => {
                    rest.push(packet);
                    Dropped::PushedOut { first, rest }
                }
                _ => Dropped::PushedOut { first: packet, rest: Vec::new() },
            };
        }
        self.bytes += size;
        self.packets.push_back(packet);
        dropped
    }

    fn dequeue(&mut self, _now: Instant) -> Option<Packet<T>> {
        self.pop()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn len(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Level;

    use super::*;

    fn packet(size: usize, payload: u32) -> Packet<u32> {
        Packet { size, level: Level::PRIMARY, payload }
    }

    #[test]
    fn the_oldest_make_room() {
        let now = Instant::now();
        let mut queue = DropFront::new(3000);
        for payload in 1..=3 {
            assert_eq!(queue.enqueue(now, packet(1000, payload)), Dropped::Nothing);
        }
        let lost: Vec<_> = queue.enqueue(now, packet(1500, 4)).into_iter().collect();
        assert_eq!(lost, [packet(1000, 1), packet(1000, 2)]);
        assert_eq!((queue.bytes(), queue.len()), (2500, 2));
        assert_eq!(queue.enqueue(now, packet(3001, 5)), Dropped::Arrival(packet(3001, 5)));
        assert_eq!(queue.dequeue(now), Some(packet(1000, 3)));
        assert_eq!(queue.dequeue(now), Some(packet(1500, 4)));
        assert_eq!(queue.dequeue(now), None);
    }
}
