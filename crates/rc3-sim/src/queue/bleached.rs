//! A router that clears marks: the queue behind it sees normal priority only.

use std::time::Instant;

use rc3_core::units::Level;

use crate::{Packet, Queue};

/// Clears the level of each packet and hands it to the queue within.
#[derive(Debug)]
pub struct Bleached<Q>(pub Q);

impl<T, Q: Queue<Packet<T>>> Queue<Packet<T>> for Bleached<Q> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>, dropped: &mut dyn FnMut(Packet<T>)) {
        self.0.enqueue(now, Packet { level: Level::PRIMARY, ..packet }, dropped);
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
    use super::*;
    use crate::StrictPriority;

    #[test]
    fn priorities_behind_it_see_one_level() {
        let now = Instant::now();
        let mut queue = Bleached(StrictPriority::by_level(10_000));
        for (level, payload) in [(Level::FIRST, 1), (Level::PRIMARY, 2)] {
            queue.enqueue(now, Packet { size: 100, level, payload }, &mut |packet| {
                panic!("dropped {packet:?}")
            });
        }
        let out: Vec<_> = std::iter::from_fn(|| queue.dequeue(now, &mut |_| panic!("dropped"))).collect();
        assert_eq!(out.iter().map(|packet| packet.payload).collect::<Vec<_>>(), [1, 2]);
        assert!(out.iter().all(|packet| packet.level.is_primary()));
    }
}
