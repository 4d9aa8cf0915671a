//! A connection's memory use, and the part of it that its peer may cause.
//!
//! Windows bound only stream bytes, but a gap can cost 308 times the byte behind it. So the overhead is counted, at its
//! cost on a 64-bit system in B-trees as full as ascending inserts leave them. In each direction it may grow to half of
//! the stored bytes plus a fixed number ([`TransportConfig::overhead_max`](crate::TransportConfig::overhead_max)).
//!
//! The first run of a stream and its first piece are not counted: the limit on streams bounds them.
//!
//! All numbers are bytes.

use std::ops::Add;

/// A run in a set or map of spans, with its part of the tree's nodes.
pub(crate) const SPAN_COST: u64 = 44;

/// A run of buffered pieces, likewise.
pub(crate) const RUN_COST: u64 = 124;

/// A buffered piece: its slot in the run, counted twice since runs grow by doubling, and the overhead of its
/// allocation.
pub(crate) const PIECE_COST: u64 = 96;

/// A piece of a send buffer, with its part of the tree's nodes.
pub(crate) const CHUNK_COST: u64 = 124;

/// The most by which filling a gap, in part or completely, increases a stream's overhead.
pub(crate) const GAP_COST: u64 = 2 * SPAN_COST + RUN_COST + PIECE_COST;

/// The same for a SACK at the sender: delivered and undelivered spans, and a piece of the send buffer.
pub(crate) const SACK_COST: u64 = 2 * SPAN_COST + CHUNK_COST;

/// What a byte that the primary may still send can cost: itself, half a byte that it pins, and as much overhead as it
/// pays for.
pub(crate) const PROMISE_COST: u64 = 2;

/// Stored bytes for each byte of overhead they pay for. Packets of 1200 bytes with a gap after each need half of that.
const BYTES_PER_OVERHEAD: u64 = 2;

/// Limit for the primary's own gaps, as a multiple of RLP's limit: its data cannot be refused, so beyond this the
/// connection ends.
const PRIMARY_SHARE: u64 = 2;

/// Memory use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Stream bytes.
    pub bytes: u64,
    /// Overhead: records of gaps and pieces, and allocations.
    pub overhead: u64,
}

impl MemoryUse {
    /// The total. A byte stored in the buffer it arrived in may pin half a byte of others.
    pub fn total(self) -> u64 {
        self.bytes + self.bytes / 2 + self.overhead
    }

    /// One part of the sum has changed.
    pub(crate) fn replace(&mut self, before: Self, after: Self) {
        self.bytes = self.bytes + after.bytes - before.bytes;
        self.overhead = self.overhead + after.overhead - before.overhead;
    }

    /// How much the overhead may still grow, with `free` bytes of it beyond what the bytes pay for. `None`: already too
    /// much.
    pub(crate) fn overhead_room(self, free: u64) -> Option<u64> {
        free.saturating_add(self.bytes / BYTES_PER_OVERHEAD).checked_sub(self.overhead)
    }
}

/// Memory use of the receiving side of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReceiveMemory {
    pub(crate) all: MemoryUse,
    /// The part that only the primary causes.
    pub(crate) by_primary: MemoryUse,
    /// Bytes that RLP brought and the primary has not reached.
    pub(crate) ahead: u64,
}

impl ReceiveMemory {
    /// As [`MemoryUse::replace`].
    pub(crate) fn replace(&mut self, before: Self, after: Self) {
        self.all.replace(before.all, after.all);
        self.by_primary.replace(before.by_primary, after.by_primary);
        self.ahead = self.ahead + after.ahead - before.ahead;
    }

    /// Unread bytes that the primary has brought or skipped.
    pub(crate) fn unread_of_primary(&self) -> u64 {
        self.all.bytes.saturating_sub(self.ahead)
    }

    /// Whether it exceeds what any honest primary causes.
    pub(crate) fn is_hostile(self, free: u64) -> bool {
        self.by_primary.overhead_room(free.saturating_mul(PRIMARY_SHARE)).is_none()
    }
}

/// The counted ones of `count`: all except the first.
pub(crate) fn extra(count: usize) -> u64 {
    count.saturating_sub(1) as u64
}

impl Add for MemoryUse {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, overhead: self.overhead + other.overhead }
    }
}
