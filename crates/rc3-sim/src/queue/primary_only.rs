//! A router without priorities at the border of a network that has them: it drops what is marked low (RC3 §6).

use std::time::Instant;

use crate::{Packet, Queue};

/// Lets packets of normal priority into the queue within and drops all others.
#[derive(Debug)]
pub struct PrimaryOnly<Q>(pub Q);

impl<T, Q: Queue<Packet<T>>> Queue<Packet<T>> for PrimaryOnly<Q> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>, dropped: &mut dyn FnMut(Packet<T>)) {
        if packet.level.is_primary() {
            self.0.enqueue(now, packet, dropped);
        } else {
            dropped(packet);
        }
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Packet<T>)) -> Option<Packet<T>> {
        self.0.dequeue(now, dropped)
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn packets(&self) -> usize {
        self.0.packets()
    }

    fn limit(&self) -> u64 {
        self.0.limit()
    }

    fn marked(&self) -> u64 {
        self.0.marked()
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Level;

    use super::*;
    use crate::DropTail;

    #[test]
    fn only_normal_priority_gets_in() {
        let now = Instant::now();
        let mut queue = PrimaryOnly(DropTail::new(1_000));
        let packet = |level, payload| Packet { size: 100, level, payload };
        let mut dropped = Vec::new();
        for packet in [packet(Level::PRIMARY, 1), packet(Level::FIRST, 2)] {
            queue.enqueue(now, packet, &mut |packet| dropped.push(packet.payload));
        }
        assert_eq!(dropped, [2]);
        assert_eq!((queue.packets(), queue.bytes()), (1, 100));
        assert_eq!(queue.dequeue(now, &mut |_| panic!("dropped")).map(|packet| packet.payload), Some(1));
    }
}
