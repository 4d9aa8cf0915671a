//! A router that clears marks: whatever is behind it sees normal priority alone.

use std::time::Instant;

use rc3_core::units::Level;

use super::{Dropped, Packet, Queue};

/// Clears the level of each packet and hands it to the queue within.
#[derive(Debug)]
pub struct Bleached<Q>(pub Q);

impl<T, Q: Queue<T>> Queue<T> for Bleached<Q> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>) -> Dropped<T> {
        self.0.enqueue(now, Packet { level: Level::PRIMARY, ..packet })
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

    fn poll_dropped(&mut self) -> Option<Packet<T>> {
        self.0.poll_dropped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StrictPriority;

    #[test]
    fn priorities_behind_it_see_one_level() {
        let now = Instant::now();
        let mut queue = Bleached(StrictPriority::new(10_000));
        for (level, payload) in [(Level::FIRST, 1), (Level::PRIMARY, 2)] {
            assert_eq!(queue.enqueue(now, Packet { size: 100, level, payload }), Dropped::Nothing);
        }
        let out: Vec<_> = std::iter::from_fn(|| queue.dequeue(now)).collect();
        assert_eq!(out.iter().map(|packet| packet.payload).collect::<Vec<_>>(), [1, 2]);
        assert!(out.iter().all(|packet| packet.level.is_primary()));
    }
}
