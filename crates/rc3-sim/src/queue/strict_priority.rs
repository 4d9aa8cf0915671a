//! The router queue RC3 asks for (RC3 §2.1, §5.1): priority scheduling and priority dropping in one shared buffer.
//!
//! One FIFO per level. Service takes the best occupied level. When an arrival does not fit, packets of strictly
//! worse levels make room, from the tail of the worst occupied level on; if even all of them would not make
//! enough room, the arrival is dropped and nobody else.
//!
//! An arrival of the same level as the worst packets queued is dropped itself. RC3 leaves open which of two
//! packets of one level goes, and the number lost is the same for equal sizes. This choice makes the queue
//! exactly a drop-tail queue for traffic of a single level, so a comparison of the two disciplines sees the
//! effect of priority and nothing else. Pushing out an equal would also let the last packet of every burst
//! survive, which spares its sender timeouts that a drop-tail queue would cause.
//!
//! Invariants: `bytes` is the sum of `level_bytes`, each the sum of the sizes in its FIFO, and never above
//! `limit`; bit *k* of `occupied` says whether level *k* holds a packet. Units: bytes on the wire.

use std::{array, collections::VecDeque, time::Instant};

use rc3_core::units::Level;

use super::{Dropped, Packet, Queue, restart};

/// Strict priority over all levels with push-out, under one shared byte limit.
#[derive(Debug)]
pub struct StrictPriority<T> {
    levels: [VecDeque<Packet<T>>; Level::COUNT],
    level_bytes: [u64; Level::COUNT],
    occupied: u16,
    bytes: u64,
    limit: u64,
}

impl<T> StrictPriority<T> {
    /// An empty queue for at most `limit` bytes over all levels.
    pub fn new(limit: u64) -> Self {
        Self {
            levels: array::from_fn(|_| VecDeque::new()),
            level_bytes: [0; Level::COUNT],
            occupied: 0,
            bytes: 0,
            limit,
        }
    }

    /// Takes packets off the tail of the worst levels until `size` fits.
    ///
    /// The caller has checked that the levels below the arrival's hold enough.
    fn push_out(&mut self, size: u64) -> Dropped<T> {
        let mut dropped = Dropped::Nothing;
        while size > self.limit - self.bytes {
            let Some(index) = self.occupied.checked_ilog2() else { break };
            let Some(packet) = self.take(index as usize, VecDeque::pop_back) else { break };
            dropped = match dropped {
                Dropped::PushedOut { first, mut rest } => {
                    rest.push(packet);
                    Dropped::PushedOut { first, rest }
                }
                _ => Dropped::PushedOut { first: packet, rest: Vec::new() },
            };
        }
        dropped
    }

    fn take(
        &mut self,
        index: usize,
        end: impl FnOnce(&mut VecDeque<Packet<T>>) -> Option<Packet<T>>,
    ) -> Option<Packet<T>> {
        let fifo = &mut self.levels[index];
        let packet = end(fifo)?;
        if fifo.is_empty() {
            restart(fifo);
            self.occupied &= !(1 << index);
        }
        self.level_bytes[index] -= packet.size as u64;
        self.bytes -= packet.size as u64;
        Some(packet)
    }
}

impl<T> Queue<T> for StrictPriority<T> {
    fn enqueue(&mut self, _now: Instant, packet: Packet<T>) -> Dropped<T> {
        let index = packet.level.index();
        let size = packet.size as u64;
        let dropped = if size <= self.limit - self.bytes {
            Dropped::Nothing
        } else {
            let kept: u64 = self.level_bytes[..=index].iter().sum();
            if size > self.limit - kept {
                return Dropped::Arrival(packet);
            }
            self.push_out(size)
        };
        self.bytes += size;
        self.level_bytes[index] += size;
        self.occupied |= 1 << index;
        self.levels[index].push_back(packet);
        dropped
    }

    fn dequeue(&mut self, _now: Instant) -> Option<Packet<T>> {
        if self.occupied == 0 {
            return None;
        }
        self.take(self.occupied.trailing_zeros() as usize, VecDeque::pop_front)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn len(&self) -> usize {
        self.levels.iter().map(VecDeque::len).sum()
    }

    fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    fn is_best(&self, packet: &Packet<T>) -> bool {
        packet.level.is_primary()
    }

    fn best_bytes(&self) -> u64 {
        self.level_bytes[Level::PRIMARY.index()]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::DropTail;

    fn packet(level: u8, size: usize, payload: u32) -> Packet<u32> {
        Packet { size, level: Level::new(level).unwrap(), payload }
    }

    fn filled(limit: u64, packets: &[(u8, usize, u32)]) -> StrictPriority<u32> {
        let mut queue = StrictPriority::new(limit);
        for &(level, size, payload) in packets {
            assert_eq!(queue.enqueue(Instant::now(), packet(level, size, payload)), Dropped::Nothing);
        }
        queue
    }

    fn drain(queue: &mut StrictPriority<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.dequeue(Instant::now())).map(|packet| packet.payload).collect()
    }

    #[test]
    fn better_levels_leave_first_and_each_level_in_order() {
        let mut queue = filled(9000, &[(3, 100, 1), (0, 100, 2), (15, 100, 3), (0, 100, 4), (3, 100, 5)]);
        assert_eq!(drain(&mut queue), [2, 4, 1, 5, 3]);
        assert_eq!((queue.bytes(), queue.len()), (0, 0));
    }

    #[test]
    fn a_better_arrival_pushes_out_the_tail_of_the_worst_level() {
        let mut queue = filled(4000, &[(1, 1000, 1), (2, 1000, 2), (2, 1000, 3), (1, 1000, 4)]);
        let dropped = queue.enqueue(Instant::now(), packet(0, 1000, 5));
        assert_eq!(dropped, Dropped::PushedOut { first: packet(2, 1000, 3), rest: vec![] });
        assert_eq!(drain(&mut queue), [5, 1, 4, 2]);
    }

    #[test]
    fn push_out_goes_on_to_better_levels_until_the_arrival_fits() {
        let mut queue = filled(4000, &[(1, 1000, 1), (1, 1000, 2), (5, 1000, 3), (7, 900, 4)]);
        let dropped = queue.enqueue(Instant::now(), packet(0, 2500, 5));
        assert_eq!(dropped.into_iter().map(|packet| packet.payload).collect::<Vec<_>>(), [4, 3, 2]);
        assert_eq!(queue.bytes(), 3500);
        assert_eq!(drain(&mut queue), [5, 1]);
    }

    #[test]
    fn an_arrival_that_is_the_worst_is_dropped() {
        let mut queue = filled(2000, &[(0, 1000, 1), (2, 1000, 2)]);
        assert_eq!(queue.enqueue(Instant::now(), packet(3, 1000, 3)), Dropped::Arrival(packet(3, 1000, 3)));
        assert_eq!(queue.enqueue(Instant::now(), packet(2, 1000, 4)), Dropped::Arrival(packet(2, 1000, 4)));
        assert_eq!(drain(&mut queue), [1, 2]);
    }

    #[test]
    fn nobody_is_pushed_out_in_vain() {
        let mut queue = filled(3000, &[(0, 1500, 1), (0, 1000, 2), (9, 500, 3)]);
        let dropped = queue.enqueue(Instant::now(), packet(1, 1500, 4));
        assert_eq!(dropped, Dropped::Arrival(packet(1, 1500, 4)));
        assert_eq!(drain(&mut queue), [1, 2, 3]);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Enqueue { level: u8, size: usize },
        Dequeue,
    }

    fn ops(levels: std::ops::Range<u8>) -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            3 => (levels, 0..700_usize).prop_map(|(level, size)| Op::Enqueue { level, size }),
            2 => Just(Op::Dequeue),
        ];
        prop::collection::vec(op, 0..200)
    }

    /// The discipline in its plainest form: one list in order of arrival, searched each time.
    #[derive(Default)]
    struct Model(Vec<Packet<u32>>);

    impl Model {
        const LIMIT: usize = 2000;

        fn bytes(&self) -> usize {
            self.0.iter().map(|packet| packet.size).sum()
        }

        fn enqueue(&mut self, arrival: Packet<u32>) -> Vec<Packet<u32>> {
            let kept: usize = self.0.iter().filter(|p| p.level <= arrival.level).map(|p| p.size).sum();
            if kept + arrival.size > Self::LIMIT {
                return vec![arrival];
            }
            let mut dropped = vec![];
            while self.bytes() + arrival.size > Self::LIMIT {
                let worst = self.0.iter().map(|p| p.level).max().unwrap();
                let tail = self.0.iter().rposition(|p| p.level == worst).unwrap();
                dropped.push(self.0.remove(tail));
            }
            self.0.push(arrival);
            dropped
        }

        fn dequeue(&mut self) -> Option<Packet<u32>> {
            let best = self.0.iter().map(|p| p.level).min()?;
            let head = self.0.iter().position(|p| p.level == best)?;
            Some(self.0.remove(head))
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_searched_list(ops in ops(0..16)) {
            let now = Instant::now();
            let mut queue = StrictPriority::new(Model::LIMIT as u64);
            let mut model = Model::default();
            for (serial, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Enqueue { level, size } => {
                        let packet = packet(level, size, serial as u32);
                        let dropped: Vec<_> = queue.enqueue(now, packet.clone()).into_iter().collect();
                        prop_assert_eq!(dropped, model.enqueue(packet));
                    }
                    Op::Dequeue => prop_assert_eq!(queue.dequeue(now), model.dequeue()),
                }
                prop_assert_eq!(queue.bytes(), model.bytes() as u64);
                prop_assert_eq!(queue.len(), model.0.len());
            }
        }

        #[test]
        fn traffic_of_one_level_sees_a_drop_tail_queue(level in 0..16_u8, ops in ops(0..1)) {
            let now = Instant::now();
            let mut queue = StrictPriority::new(2000);
            let mut fifo = DropTail::new(2000);
            for (serial, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Enqueue { size, .. } => {
                        let packet = packet(level, size, serial as u32);
                        prop_assert_eq!(queue.enqueue(now, packet.clone()), fifo.enqueue(now, packet));
                    }
                    Op::Dequeue => prop_assert_eq!(queue.dequeue(now), fifo.dequeue(now)),
                }
            }
        }
    }
}
