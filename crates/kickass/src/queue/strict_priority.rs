//! Strict priority by code point, in one shared buffer (RC3 §2.1, §5.1): the best level is served first, and where
//! room is wanting the worst one pays.
//!
//! An arrival that does not fit takes the place of packets of strictly worse levels, from the tail of the worst one
//! on. If even all of them would not make enough room, the arrival is dropped and nobody else. So for traffic of a
//! single level this is exactly a drop-tail queue.
//!
//! Invariants: `bytes` is the sum of `level_bytes`, each the sum of the lengths in its FIFO, and at most `limit`.

use std::{array, collections::VecDeque, time::Instant};

use super::{Queue, Queued};

/// Which level each code point asks for.
///
/// By default lower effort (RFC 8622) is the worst level and everything else the best.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// Each below [`Levels::COUNT`].
    of: [u8; Self::CODE_POINTS],
}

impl Levels {
    /// How many levels there are; 0 is the best.
    pub const COUNT: usize = 16;
    const CODE_POINTS: usize = 64;
    const LOWER_EFFORT: u8 = 1;

    /// One code point for each low level: 4*k* - 1 for level *k*, out of the pool for local use (RFC 2474 §6), as
    /// operators of RC3 can set it at its ends. Lower effort is the worst level.
    pub fn ladder() -> Self {
        (1..Self::COUNT as u8).fold(Self::default(), |levels, level| levels.with(4 * level - 1, level))
    }

    /// The same with another level for one code point.
    ///
    /// # Panics
    /// If `dscp` is above 63 or `level` not below [`Self::COUNT`].
    pub fn with(mut self, dscp: u8, level: u8) -> Self {
        assert!(usize::from(dscp) < Self::CODE_POINTS, "a code point has six bits, {dscp} more");
        assert!(usize::from(level) < Self::COUNT, "there is no level {level}");
        self.of[usize::from(dscp)] = level;
        self
    }

    /// The level of a code point; of one with more than six bits, that of the low ones.
    pub fn of(&self, dscp: u8) -> u8 {
        self.of[usize::from(dscp) % Self::CODE_POINTS]
    }
}

impl Default for Levels {
    fn default() -> Self {
        let none = Self { of: [0; Self::CODE_POINTS] };
        none.with(Self::LOWER_EFFORT, Self::COUNT as u8 - 1)
    }
}

/// Strict priority with push-out.
#[derive(Debug)]
pub struct StrictPriority<T> {
    levels: Levels,
    fifos: [VecDeque<T>; Levels::COUNT],
    level_bytes: [u64; Levels::COUNT],
    bytes: u64,
    limit: u64,
}

impl<T> StrictPriority<T> {
    /// An empty queue for at most `limit` bytes over all levels.
    pub fn new(levels: Levels, limit: u64) -> Self {
        Self {
            levels,
            fifos: array::from_fn(|_| VecDeque::new()),
            level_bytes: [0; Levels::COUNT],
            bytes: 0,
            limit,
        }
    }
}

impl<T: Queued> StrictPriority<T> {
    fn remove(&mut self, level: usize, end: fn(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        let packet = end(&mut self.fifos[level])?;
        self.level_bytes[level] -= packet.bytes();
        self.bytes -= packet.bytes();
        Some(packet)
    }
}

impl<T: Queued> Queue<T> for StrictPriority<T> {
    fn enqueue(&mut self, _now: Instant, packet: T, lost: &mut dyn FnMut(T)) {
        let bytes = packet.bytes();
        let level = usize::from(self.levels.of(packet.dscp()));
        let kept: u64 = self.level_bytes[..=level].iter().sum();
        if bytes > self.limit - kept {
            return lost(packet);
        }
        for worse in (level + 1..Levels::COUNT).rev() {
            while bytes > self.limit - self.bytes
                && let Some(out) = self.remove(worse, VecDeque::pop_back)
            {
                lost(out);
            }
        }
        self.bytes += bytes;
        self.level_bytes[level] += bytes;
        self.fifos[level].push_back(packet);
    }

    fn dequeue(&mut self, _now: Instant, _lost: &mut dyn FnMut(T)) -> Option<T> {
        let best = self.fifos.iter().position(|fifo| !fifo.is_empty())?;
        self.remove(best, VecDeque::pop_front)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn packets(&self) -> usize {
        self.fifos.iter().map(VecDeque::len).sum()
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn is_best(&self, packet: &T) -> bool {
        self.levels.of(packet.dscp()) == 0
    }

    fn best_bytes(&self) -> u64 {
        self.level_bytes[0]
    }
}
