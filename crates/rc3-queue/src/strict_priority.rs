//! The router queue RC3 asks for (RC3 §2.1, §5.1): priority scheduling and priority dropping in one shared buffer.
//!
//! One FIFO per level. The best non-empty level is served. An arrival that does not fit pushes out packets of strictly
//! worse levels, from the tail of the worst one upwards. If pushing out all of them would not make enough room, only
//! the arrival is dropped.
//!
//! An arrival of the worst queued level is dropped itself. RC3 leaves open which of two packets of one level to drop,
//! and for equal sizes the number lost is the same. With this choice the queue is exactly a drop-tail queue for traffic
//! of a single level, so a comparison of the two disciplines shows only the effect of priority. Pushing out an equal
//! packet would also let the last packet of every burst survive, which avoids sender timeouts that a drop-tail queue
//! causes.
//!
//! Invariants: `waiting` has the sum of `level_bytes`, each the sum of the lengths in its FIFO, and at most `limit`; bit
//! *k* of `occupied` is set if level *k* holds a packet.

use std::{array, collections::VecDeque, time::Instant};

use crate::{Levels, Queue, Queued, Tally, fifo};

/// Strict priority over all levels with push-out, under one shared limit.
#[derive(Debug)]
pub struct StrictPriority<T> {
    levels: Levels,
    fifos: [VecDeque<T>; Levels::COUNT],
    level_bytes: [u64; Levels::COUNT],
    occupied: u16,
    waiting: Tally,
    limit: u64,
}

impl<T> StrictPriority<T> {
    /// An empty queue for at most `limit` bytes over all levels.
    pub fn new(levels: Levels, limit: u64) -> Self {
        Self {
            levels,
            fifos: array::from_fn(|_| VecDeque::new()),
            level_bytes: [0; Levels::COUNT],
            occupied: 0,
            waiting: Tally::default(),
            limit,
        }
    }

    /// The same for packets whose class is their level.
    pub fn by_level(limit: u64) -> Self {
        Self::new(Levels::by_number(), limit)
    }
}

impl<T: Queued> StrictPriority<T> {
    fn level(&self, packet: &T) -> usize {
        usize::from(self.levels.of(packet.class()))
    }

    fn take(&mut self, level: usize, end: impl FnOnce(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        let fifo = &mut self.fifos[level];
        let packet = fifo::take(fifo, end)?;
        if fifo.is_empty() {
            self.occupied &= !(1 << level);
        }
        self.level_bytes[level] -= packet.bytes();
        self.waiting.bytes -= packet.bytes();
        self.waiting.packets -= 1;
        Some(packet)
    }

    /// Drops packets from the tail of the worst levels until this many bytes fit.
    ///
    /// The caller has checked that the levels worse than the arrival's hold enough.
    fn push_out(&mut self, bytes: u64, dropped: &mut dyn FnMut(T)) {
        while bytes > self.limit - self.waiting.bytes {
            let Some(worst) = self.occupied.checked_ilog2() else { break };
            let Some(packet) = self.take(worst as usize, VecDeque::pop_back) else { break };
            dropped(packet);
        }
    }
}

impl<T: Queued> Queue<T> for StrictPriority<T> {
    fn enqueue(&mut self, _now: Instant, packet: T, dropped: &mut dyn FnMut(T)) {
        let bytes = packet.bytes();
        let level = self.level(&packet);
        if bytes > self.limit - self.waiting.bytes {
            let kept: u64 = self.level_bytes[..=level].iter().sum();
            if bytes > self.limit - kept {
                return dropped(packet);
            }
            self.push_out(bytes, dropped);
        }
        self.waiting += Tally { packets: 1, bytes };
        self.level_bytes[level] += bytes;
        self.occupied |= 1 << level;
        self.fifos[level].push_back(packet);
    }

    fn dequeue(&mut self, _now: Instant, _dropped: &mut dyn FnMut(T)) -> Option<T> {
        if self.occupied == 0 {
            return None;
        }
        self.take(self.occupied.trailing_zeros() as usize, VecDeque::pop_front)
    }

    fn waiting(&self) -> Tally {
        self.waiting
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn is_best(&self, packet: &T) -> bool {
        self.level(packet) == 0
    }

    fn best_bytes(&self) -> u64 {
        self.level_bytes[0]
    }
}
