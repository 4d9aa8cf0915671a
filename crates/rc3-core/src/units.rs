//! The quantities of the protocol. [`Rate`] and [`Level`] are those of rc3-units.

use std::{fmt, ops};

pub use rc3_units::{Level, Rate};

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

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}
