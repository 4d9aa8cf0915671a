//! First in, first out; where room is wanting, the packets that have waited longest go. Levels are ignored.

use std::time::Instant;

use crate::{DropTail, Queue, Queued, Tally};

/// A FIFO with a byte limit that drops at its head.
#[derive(Debug)]
pub struct DropFront<T>(DropTail<T>);

impl<T> DropFront<T> {
    /// An empty queue for at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self(DropTail::new(limit))
    }
}

impl<T: Queued> Queue<T> for DropFront<T> {
    fn enqueue(&mut self, now: Instant, packet: T, dropped: &mut dyn FnMut(T)) {
        let Self(fifo) = self;
        // Nothing makes room for a packet that is longer than the limit.
        let may_fit = packet.bytes() <= fifo.limit();
        while may_fit
            && packet.bytes() > fifo.limit() - fifo.bytes()
            && let Some(oldest) = fifo.dequeue(now, dropped)
        {
            dropped(oldest);
        }
        fifo.enqueue(now, packet, dropped);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(T)) -> Option<T> {
        self.0.dequeue(now, dropped)
    }

    fn waiting(&self) -> Tally {
        self.0.waiting()
    }

    fn limit(&self) -> u64 {
        self.0.limit()
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
        assert_eq!(queue.waiting(), Tally { packets: 2, bytes: 2500 });
        queue.enqueue(now, packet(3001, 5), &mut |packet| dropped.push(packet.payload));
        assert_eq!(dropped, [1, 2, 5]);
        let out = std::iter::from_fn(|| queue.dequeue(now, &mut |_| panic!("on arrival only")));
        assert_eq!(out.map(|packet| packet.payload).collect::<Vec<_>>(), [3, 4]);
    }
}
