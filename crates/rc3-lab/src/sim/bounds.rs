//! Bounds of memory and time, for worlds that take more than expected.

use std::{
    fs,
    time::{Duration, Instant},
};

use rc3_text::units::{about_bytes, about_time};
use thiserror::Error;

/// Steps of a world between two checks: a check reads a file of the kernel.
const STEPS: u32 = 32;

/// Bounds of what a run may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory of the whole process.
    memory: Option<u64>,
    /// Wall-clock time of each world.
    time: Option<Duration>,
}

/// Why a world was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BoundsError {
    /// The process has too much memory.
    #[error("{} of memory, more than --max-memory allows, with {flows} flows under way", about_bytes(*bytes))]
    Memory {
        /// Bytes it has.
        bytes: u64,
        /// Flows under way.
        flows: usize,
    },
    /// The world took too long.
    #[error("more than {} for one world, with {flows} flows under way", about_time(*limit))]
    Time {
        /// The bound.
        limit: Duration,
        /// Flows under way.
        flows: usize,
    },
    /// The memory cannot be measured.
    #[error("--max-memory needs Linux, which reports the memory of a process")]
    NoMemory,
}

impl Bounds {
    /// Bounds in bytes of the process and in wall-clock time of each world.
    ///
    /// # Errors
    /// [`BoundsError::NoMemory`].
    pub fn new(memory: Option<u64>, time: Option<Duration>) -> Result<Self, BoundsError> {
        match memory.is_some() && resident().is_none() {
            true => Err(BoundsError::NoMemory),
            false => Ok(Self { memory, time }),
        }
    }

    /// Watches a world that begins now.
    pub(super) fn watch(self) -> Watch {
        Watch { bounds: self, began: Instant::now(), steps: 0 }
    }
}

/// The bounds of one world.
#[derive(Debug)]
pub(super) struct Watch {
    bounds: Bounds,
    began: Instant,
    steps: u32,
}

impl Watch {
    /// The world has made a step and has so many flows under way.
    ///
    /// # Errors
    /// [`BoundsError::Memory`], [`BoundsError::Time`].
    pub(super) fn check(&mut self, flows: usize) -> Result<(), BoundsError> {
        self.steps += 1;
        if self.steps % STEPS != 1 {
            return Ok(());
        }
        if let Some(limit) = self.bounds.time.filter(|limit| self.began.elapsed() > *limit) {
            return Err(BoundsError::Time { limit, flows });
        }
        match self.bounds.memory.zip(self.bounds.memory.and_then(|_| resident())) {
            Some((limit, bytes)) if bytes > limit => Err(BoundsError::Memory { bytes, flows }),
            _ => Ok(()),
        }
    }
}

/// Resident bytes of this process; `None` where the kernel does not report them.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(1024 * kilobytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_within_bounds_go_on_and_others_stop_with_the_reason() {
        let check = |memory, time| Bounds { memory, time }.watch().check(7);
        assert_eq!(check(None, None), Ok(()));
        assert_eq!(check(Some(1 << 50), Some(Duration::from_secs(3600))), Ok(()));
        let limit = Duration::ZERO;
        assert_eq!(check(None, Some(limit)), Err(BoundsError::Time { limit, flows: 7 }));
        if resident().is_some() {
            assert!(matches!(check(Some(1), None), Err(BoundsError::Memory { flows: 7, .. })));
        }
    }
}
