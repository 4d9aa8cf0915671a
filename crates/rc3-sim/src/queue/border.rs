//! Routers at the border of a network with priorities: one clears marks, one drops what is marked low (RC3 §6).

use std::time::Instant;

use rc3_core::units::Level;

use crate::{Packet, Queue, Tally};

/// The packet as it enters the queue, or one that is dropped.
type Admitted<T> = Result<Packet<T>, Packet<T>>;

/// A queue, and what happens to packets in front of it.
pub struct Border<T, Q> {
    queue: Q,
    admit: fn(Packet<T>) -> Admitted<T>,
}

impl<T, Q: Queue<Packet<T>>> Border<T, Q> {
    /// The queue sees normal priority only.
    pub fn bleaching(queue: Q) -> Self {
        Self { queue, admit: |packet| Ok(Packet { level: Level::PRIMARY, ..packet }) }
    }

    /// Packets of another than normal priority are dropped.
    pub fn dropping_low(queue: Q) -> Self {
        Self { queue, admit: |packet| if packet.level.is_primary() { Ok(packet) } else { Err(packet) } }
    }
}

impl<T, Q: Queue<Packet<T>>> Queue<Packet<T>> for Border<T, Q> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>, dropped: &mut dyn FnMut(Packet<T>)) {
        match (self.admit)(packet) {
            Ok(packet) => self.queue.enqueue(now, packet, dropped),
            Err(packet) => dropped(packet),
        }
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Packet<T>)) -> Option<Packet<T>> {
        self.queue.dequeue(now, dropped)
    }

    fn waiting(&self) -> Tally {
        self.queue.waiting()
    }

    fn limit(&self) -> u64 {
        self.queue.limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DropTail, StrictPriority};

    #[test]
    fn priorities_behind_cleared_marks_see_one_level() {
        let now = Instant::now();
        let mut queue = Border::bleaching(StrictPriority::by_level(10_000));
        for (level, payload) in [(Level::FIRST, 1), (Level::PRIMARY, 2)] {
            queue.enqueue(now, Packet { size: 100, level, payload }, &mut |packet| {
                panic!("dropped {packet:?}")
            });
        }
        let out: Vec<_> = std::iter::from_fn(|| queue.dequeue(now, &mut |_| panic!("dropped"))).collect();
        assert_eq!(out.iter().map(|packet| packet.payload).collect::<Vec<_>>(), [1, 2]);
        assert!(out.iter().all(|packet| packet.level.is_primary()));
    }

    #[test]
    fn only_normal_priority_gets_in() {
        let now = Instant::now();
        let mut queue = Border::dropping_low(DropTail::new(1_000));
        let packet = |level, payload| Packet { size: 100, level, payload };
        let mut dropped = Vec::new();
        for packet in [packet(Level::PRIMARY, 1), packet(Level::FIRST, 2)] {
            queue.enqueue(now, packet, &mut |packet| dropped.push(packet.payload));
        }
        assert_eq!(dropped, [2]);
        assert_eq!(queue.waiting(), Tally { packets: 1, bytes: 100 });
        assert_eq!(queue.dequeue(now, &mut |_| panic!("dropped")).map(|packet| packet.payload), Some(1));
    }
}
