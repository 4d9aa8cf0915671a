//! Links whose rate varies: recorded delivery times, in the format of Mahimahi (Netravali et al., USENIX ATC 2015).
//!
//! A trace is a text with one time per line, in whole milliseconds from its start, never falling. At each of them the
//! link may deliver 1500 bytes; two equal lines are 3000. After the last line the trace begins again. What is not used
//! when its time comes is lost.

use std::{str::FromStr, sync::Arc, time::Duration};

use rc3_units::Rate;
use thiserror::Error;

/// Times at which a link may deliver.
///
/// Invariant: never empty, never falling, and the last time is above zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    millis: Arc<[u64]>,
}

/// Why a text is no trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is no whole number of milliseconds.
    #[error("line {line} is no whole number of milliseconds")]
    Number {
        /// Counted from 1.
        line: usize,
    },
    /// A time is earlier than the one before it.
    #[error("line {line} is earlier than the line before")]
    Order {
        /// Counted from 1.
        line: usize,
    },
    /// The last time is zero, or there is none, so the trace has no duration.
    #[error("a trace needs a delivery later than 0 ms")]
    NoDuration,
}

impl Trace {
    /// Bytes that one line lets go, IP headers included.
    pub const BYTES: u64 = 1500;

    /// A trace of these delivery times in milliseconds.
    ///
    /// # Errors
    /// If they fall, or have no duration.
    pub fn new(millis: Vec<u64>) -> Result<Self, TraceError> {
        if let Some(at) = millis.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(TraceError::Order { line: at + 2 });
        }
        match millis.last() {
            Some(1..) => Ok(Self { millis: millis.into() }),
            _ => Err(TraceError::NoDuration),
        }
    }

    /// The mean rate.
    ///
    /// # Panics
    /// Never: a trace delivers something.
    pub fn mean_rate(&self) -> Rate {
        let bits = u128::from(Self::BYTES) * 8 * self.millis.len() as u128 * 1000 / u128::from(self.period());
        let bits = u64::try_from(bits).unwrap_or(u64::MAX).max(1);
        Rate::from_bits_per_second(bits).expect("at least one bit")
    }

    fn period(&self) -> u64 {
        self.millis[self.millis.len() - 1]
    }

    /// When the `n`-th opportunity is, from the start, in milliseconds.
    fn at(&self, n: u64) -> u64 {
        let (len, place) = (self.millis.len() as u64, n);
        (place / len) * self.period() + self.millis[(place % len) as usize]
    }

    /// The first opportunity not before a time from the start.
    fn first_from(&self, time: Duration) -> u64 {
        let millis = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let (cycle, within) = (millis / self.period(), millis % self.period());
        // The end of a cycle is the start of the next one: its deliveries at 0 come at the same time.
        let cycle = if within == 0 && cycle > 0 { cycle - 1 } else { cycle };
        let within = millis - cycle * self.period();
        cycle * self.millis.len() as u64 + self.millis.partition_point(|at| *at < within) as u64
    }
}

impl FromStr for Trace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let line = |(nth, line): (usize, &str)| {
            line.trim().parse().map_err(|_| TraceError::Number { line: nth + 1 })
        };
        Self::new(text.lines().enumerate().map(line).collect::<Result<_, _>>()?)
    }
}

/// How far a link has used a trace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    /// The opportunity to use next.
    next: u64,
    /// Bytes of it that are used.
    used: u64,
}

impl Cursor {
    /// Uses what a packet of this size needs from a time on, counted from the start; when its last byte has left.
    pub(crate) fn take(&mut self, trace: &Trace, from: Duration, size: u64) -> Duration {
        if Duration::from_millis(trace.at(self.next)) < from {
            *self = Self { next: trace.first_from(from), used: 0 };
        }
        let bytes = self.used + size.max(1);
        let last = self.next + (bytes - 1) / Trace::BYTES;
        *self = Self { next: self.next + bytes / Trace::BYTES, used: bytes % Trace::BYTES };
        Duration::from_millis(trace.at(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_trace_is_read_and_a_fault_names_its_line() {
        let trace: Trace = "0\n3\n3\n10\n".parse().unwrap();
        assert_eq!(trace, Trace::new(vec![0, 3, 3, 10]).unwrap());
        // 4 x 1500 bytes in 10 ms.
        assert_eq!(trace.mean_rate().bits_per_second(), 4_800_000);
        assert_eq!("1\nx\n".parse::<Trace>(), Err(TraceError::Number { line: 2 }));
        assert_eq!("1\n5\n4\n".parse::<Trace>(), Err(TraceError::Order { line: 3 }));
        assert_eq!("0\n".parse::<Trace>(), Err(TraceError::NoDuration));
        assert_eq!("".parse::<Trace>(), Err(TraceError::NoDuration));
    }

    #[test]
    fn a_cursor_uses_each_opportunity_once_and_begins_again() {
        let trace: Trace = "2\n2\n7\n10\n".parse().unwrap();
        let mut cursor = Cursor::default();
        let mut take = |from, size| cursor.take(&trace, millis(from), size).as_millis();
        assert_eq!([take(0, 1500), take(2, 1500), take(2, 1500)], [2, 2, 7]);
        // Two small packets share an opportunity, a long one needs two.
        assert_eq!([take(7, 700), take(10, 800), take(10, 1600)], [10, 10, 12]);
        // What nobody used in time is gone.
        assert_eq!([take(36, 1500), take(37, 100), take(41, 1500)], [37, 40, 42]);
    }
}
