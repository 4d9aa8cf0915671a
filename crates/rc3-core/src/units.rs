//! The few quantities of the protocol, each with only the operators that make sense.

use std::{
    fmt,
    num::NonZero,
    ops::{self, Range},
    time::Duration,
};

/// A service level: 0 is the primary loop's normal priority, 1 to 15 are the increasingly worse levels of the RLP loop
/// (RC3 §2.1).
///
/// Ordering follows the number, so a *greater* level is a *worse* service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Level(u8);

impl Level {
    /// Normal priority: everything the primary loop sends.
    pub const PRIMARY: Self = Self(0);
    /// The best low-priority level.
    pub const FIRST: Self = Self(1);
    /// The worst level in the wire format.
    pub const MAX: Self = Self(15);
    /// The number of levels, including the primary's: the size of a table indexed by [`Self::index`].
    pub const COUNT: usize = 16;

    /// The level with this number, or `None` past [`Self::MAX`].
    pub const fn new(number: u8) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// The number of the level, 0 to 15.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number as an index into a table of [`Self::COUNT`] entries.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this is normal priority.
    pub const fn is_primary(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A receiver's proof that it has a span of a stream (docs/WIRE.md, receipts). The exclusive or of the receipts of two
/// adjoining spans is the receipt of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Receipt(pub u32);

impl ops::BitXor for Receipt {
    type Output = Self;

    fn bitxor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
}

/// A half-open range `start..end` of byte offsets in one stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// First offset inside.
    pub start: u64,
    /// First offset beyond the end; never below `start`.
    pub end: u64,
}

impl Span {
    /// The span `start..end`.
    ///
    /// # Panics
    /// In debug builds when `end < start`.
    pub const fn new(start: u64, end: u64) -> Self {
        debug_assert!(start <= end);
        Self { start, end }
    }

    /// Length in bytes.
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether the span holds no byte.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The common part, possibly empty (then positioned arbitrarily).
    pub fn intersection(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self { start, end: self.end.min(other.end).max(start) }
    }
}

impl From<Range<u64>> for Span {
    fn from(range: Range<u64>) -> Self {
        Self::new(range.start, range.end)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A data rate in bits per second, above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// The rate of `bits` per second, or `None` for zero: nothing would ever be sent.
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate, rounded up to the nanosecond.
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanos = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// How many whole bytes fit into `time` at this rate.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bytes = time.as_nanos() * u128::from(self.0) / 8 / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl From<NonZero<u64>> for Rate {
    /// The rate of so many bits per second.
    fn from(bits: NonZero<u64>) -> Self {
        Self(bits.get())
    }
}
