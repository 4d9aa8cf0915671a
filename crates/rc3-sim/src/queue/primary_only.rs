//! A router without priorities at the border of a network that has them: it drops what is marked low (RC3 §6).

use std::time::Instant;

use super::{Dropped, Packet, Queue};

/// Lets packets of normal priority into the queue within and drops all others.
#[derive(Debug)]
pub struct PrimaryOnly<Q>(pub Q);

impl<T, Q: Queue<T>> Queue<T> for PrimaryOnly<Q> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>) -> Dropped<T> {
        if packet.level.is_primary() { self.0.enqueue(now, packet) } else { Dropped::Arrival(packet) }
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<T>> {
        self.0.dequeue(now)
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn len(&self) -> usize {
        self.0.len()
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
        assert_eq!(queue.enqueue(now, packet(Level::PRIMARY, 1)), Dropped::Nothing);
        let low = packet(Level::FIRST, 2);
        assert_eq!(queue.enqueue(now, low.clone()), Dropped::Arrival(low));
        assert_eq!((queue.len(), queue.bytes()), (1, 100));
        assert_eq!(queue.dequeue(now).map(|packet| packet.payload), Some(1));
    }
}
