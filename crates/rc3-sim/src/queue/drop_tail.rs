//! First in, first out; what does not fit is dropped on arrival. Levels are ignored.
//!
//! Invariant: `bytes` is the sum of the sizes in `packets` and never above `limit`. Units: bytes on the wire.

use std::{collections::VecDeque, time::Instant};

use super::{Dropped, Packet, Queue, restart};

/// A FIFO with a byte limit that ignores levels: a path that does not know RC3.
#[derive(Debug)]
pub struct DropTail<T> {
    packets: VecDeque<Packet<T>>,
    bytes: u64,
    limit: u64,
}

impl<T> DropTail<T> {
    /// An empty queue for at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, limit }
    }
}

impl<T> Queue<T> for DropTail<T> {
    fn enqueue(&mut self, _now: Instant, packet: Packet<T>) -> Dropped<T> {
        let size = packet.size as u64;
        if size > self.limit - self.bytes {
            return Dropped::Arrival(packet);
        }
        self.bytes += size;
        self.packets.push_back(packet);
        Dropped::Nothing
    }

    fn dequeue(&mut self, _now: Instant) -> Option<Packet<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size as u64;
        if self.packets.is_empty() {
            restart(&mut self.packets);
        }
        Some(packet)
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

    fn packet(level: u8, size: usize, payload: u32) -> Packet<u32> {
        Packet { size, level: Level::new(level).unwrap(), payload }
    }

    #[test]
    fn what_does_not_fit_is_dropped_on_arrival() {
        let now = Instant::now();
        let mut queue = DropTail::new(3000);
        assert_eq!(queue.enqueue(now, packet(0, 1500, 1)), Dropped::Nothing);
        assert_eq!(queue.enqueue(now, packet(0, 1501, 2)), Dropped::Arrival(packet(0, 1501, 2)));
        assert_eq!(queue.enqueue(now, packet(0, 1500, 3)), Dropped::Nothing);
        assert_eq!(queue.enqueue(now, packet(0, 1, 4)), Dropped::Arrival(packet(0, 1, 4)));
        assert_eq!((queue.bytes(), queue.len()), (3000, 2));
        assert_eq!(queue.dequeue(now), Some(packet(0, 1500, 1)));
        assert_eq!(queue.dequeue(now), Some(packet(0, 1500, 3)));
        assert_eq!(queue.dequeue(now), None);
        assert!(queue.is_empty());
    }

    #[test]
    fn levels_make_no_difference() {
        let now = Instant::now();
        let mut queue = DropTail::new(2000);
        assert_eq!(queue.enqueue(now, packet(7, 1000, 1)), Dropped::Nothing);
        assert_eq!(queue.enqueue(now, packet(0, 1000, 2)), Dropped::Nothing);
        assert_eq!(queue.enqueue(now, packet(0, 1000, 3)), Dropped::Arrival(packet(0, 1000, 3)));
        assert_eq!(queue.dequeue(now), Some(packet(7, 1000, 1)));
    }
}
