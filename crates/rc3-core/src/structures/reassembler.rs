//! Joins spans from both loops into one stream, at the receiver.
//!
//! The RLP loop fills the stream from the tail down, the primary from the head up; both may bring the same byte, and
//! RLP leaves gaps by design. The first arrival of a byte counts, later ones are duplicates.
//!
//! Memory is bounded, whatever the peer sends:
//!
//! - *Runs.* Received bytes are recorded as runs. RLP data that would exceed the allowed number is refused; RLP may
//!   lose packets anyway, and the primary brings those bytes. The primary's own data arrives in order and is never
//!   refused: it adds at most one run. (Before the primary's data continues after a skip, the skipped bytes must be
//!   checked with [`Reassembler::contains`].)
//! - *Pieces.* Two that touch are joined unless they have more than 2048 bytes together. So a peer that sends single
//!   bytes cannot make a piece of each: there are at most one per run and per 1024 buffered bytes. Unordered reads of
//!   parts of pieces may leave more; RLP data is refused while there are more than two for each allowed run.
//! - *Pinned buffers.* A piece is stored by reference only if it has at least [`REFERENCE_MIN`] bytes and three
//!   quarters of the buffer it arrived in; anything smaller is copied. So a buffered byte pins at most a third of
//!   another.
//! - *Bytes.* The caller bounds the sum with credit: [`Reassembler::consumed`] plus a window. It also bounds the memory
//!   of all streams together, by [`Reassembler::held`].
//!
//! Joining copies at most 4096 bytes per insert besides the inserted bytes, so the cost of inserts is linear up to the
//! logarithm (compare RUSTSEC-2026-0185).
//!
//! All offsets and lengths are bytes of the stream.

use std::ops::Add;

use bytes::Bytes;
use thiserror::Error;

use crate::{
    structures::{
        held::{GAP_COST, MemoryUse, SPAN_COST, extra},
        pieces::{JOIN_MAX, Pieces},
        range_map::SpanSet,
    },
    units::Span,
};

/// Pieces of at least this many bytes may be stored as references into the buffer they arrived in.
pub(crate) const REFERENCE_MIN: usize = 1024;

/// Which loop brought some data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// The primary loop: in order, reliable.
    Primary,
    /// The RLP loop: any order, lossy.
    Rlp,
}

/// The fates of inserted bytes; their sum is the length of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inserted {
    /// Arrived for the first time.
    pub new: u64,
    /// Received before, by whichever loop.
    pub duplicate: u64,
    /// Dropped: too many runs, an offset beyond 2⁶⁴ - 1, or the reassembler is cleared.
    pub refused: u64,
}

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its offset.
    pub offset: u64,
    /// The bytes, never empty.
    pub bytes: Bytes,
}

/// An ordered read after an unordered one passed a gap: the order is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("bytes beyond a gap were read unordered, keep reading unordered until the gap is filled and read")]
pub struct IllegalOrderedRead;

/// The receiving side of one stream.
#[derive(Debug, Default)]
pub struct Reassembler {
    /// Every byte received, read or not.
    received: SpanSet,
    /// The received bytes that were not read.
    pieces: Pieces,
    /// Bytes read, or dropped by [`Self::clear`].
    consumed: u64,
    /// Most runs in `received` that RLP may cause.
    spans_max: usize,
    /// The application has stopped reading.
    cleared: bool,
}

impl Reassembler {
    /// An empty stream in which RLP may make up to `spans_max` runs.
    pub fn new(spans_max: usize) -> Self {
        Self { spans_max, ..Self::default() }
    }

    /// Adds the bytes at `offset`, part of a buffer of `buffer_len` bytes that nothing else references. The first
    /// arrival of each byte counts.
    pub fn insert(&mut self, offset: u64, data: Bytes, buffer_len: usize, from: Loop) -> Inserted {
        let len = data.len() as u64;
        let refused = Inserted { refused: len, ..Inserted::default() };
        let Some(end) = offset.checked_add(len) else { return refused };
        let span = Span::new(offset, end);
        if self.cleared || (from == Loop::Rlp && self.is_one_too_many(span)) {
            return refused;
        }
        if self.received.append(span) {
            self.store(offset, data, buffer_len);
            return Inserted { new: len, ..Inserted::default() };
        }
        let mut new = 0;
        let mut rest = span;
        // Lowest gap first; filling it closes it.
        while let Some(gap) = self.first_gap_in(rest) {
            self.received.insert(gap);
            let piece = data.slice((gap.start - offset) as usize..(gap.end - offset) as usize);
            self.store(gap.start, piece, buffer_len);
            new += gap.len();
            rest.start = gap.end;
        }
        Inserted { new, duplicate: len - new, refused: 0 }
    }

    /// Like [`Self::insert`] and [`Self::read`] in one, for the next bytes in order while nothing waits: records them
    /// without storing them. `false`: they are not the next bytes, and nothing was done.
    pub fn pass(&mut self, span: Span) -> bool {
        let is_next = !self.cleared && self.pieces.count == 0 && self.received.covered() == span.start;
        // Everything received is one run from 0 on, and all of it was read.
        let is_next = is_next && self.consumed == span.start && self.contiguous_end() == span.start;
        let passed = is_next && self.received.append(span);
        if passed {
            self.consumed += span.len();
        }
        passed
    }

    /// Removes the next bytes, at most `max`. Ordered: those at [`Self::read_offset`]. Unordered: the lowest available.
    /// `None` if there are none (yet), if `max` is 0, or after [`Self::clear`].
    ///
    /// # Errors
    /// If the read is ordered and an unordered one has passed a gap that was not filled and read since.
    pub fn read(&mut self, max: usize, ordered: bool) -> Result<Option<Chunk>, IllegalOrderedRead> {
        let read_offset = self.read_offset();
        if ordered && !self.cleared && self.consumed != read_offset {
            return Err(IllegalOrderedRead);
        }
        if ordered && self.pieces.start() != Some(read_offset) {
            return Ok(None);
        }
        Ok(self.read_from(0, max))
    }

    /// Like an unordered [`Self::read`], but takes the lowest bytes beyond a gap at or above `from`.
    pub fn read_from(&mut self, from: u64, max: usize) -> Option<Chunk> {
        let (offset, bytes) = self.pieces.pop(from, max)?;
        self.consumed += bytes.len() as u64;
        Some(Chunk { offset, bytes })
    }

    /// The lowest unread offset: the position of ordered reads.
    pub fn read_offset(&self) -> u64 {
        // Received bytes that are not buffered have been read.
        let end = self.contiguous_end();
        self.pieces.start().map_or(end, |start| start.min(end))
    }

    /// The number of bytes passed to the application, in any order, or dropped by [`Self::clear`]. Credit of this plus
    /// a window bounds the buffered bytes.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The number of unread bytes.
    pub fn buffered(&self) -> u64 {
        self.pieces.bytes
    }

    /// The unread bytes, and their memory including the record of received spans.
    pub fn held(&self) -> MemoryUse {
        let overhead = extra(self.run_count()) * SPAN_COST + self.pieces.overhead();
        MemoryUse { bytes: self.buffered(), overhead }
    }

    /// What inserting a span would add to [`Self::held`]: these bytes, and at most this overhead.
    pub fn cost(&self, span: Span) -> MemoryUse {
        let gaps = self.received.gaps(span).map(|gap| MemoryUse { bytes: gap.len(), overhead: GAP_COST });
        let cost = gaps.fold(MemoryUse::default(), Add::add);
        if self.received.is_empty() { MemoryUse { overhead: 0, ..cost } } else { cost }
    }

    /// The lowest offset that has not been received.
    pub fn contiguous_end(&self) -> u64 {
        self.received.first().filter(|run| run.start == 0).map_or(0, |run| run.end)
    }

    /// End of the highest received byte; 0 before any.
    pub fn end(&self) -> u64 {
        self.received.last().map_or(0, |run| run.end)
    }

    /// Whether every byte of the span has been received, read or not.
    pub fn contains(&self, span: Span) -> bool {
        self.received.contains(span)
    }

    /// How many runs have been received.
    pub fn run_count(&self) -> usize {
        self.received.span_count()
    }

    /// Ends the stream for its reader (reset or stopped): drops everything, and refuses later data.
    ///
    /// Returns how many bytes were dropped. They count as consumed, so that a connection with shared credit recovers
    /// it; all other positions are 0 from now on.
    pub fn clear(&mut self) -> u64 {
        let dropped = self.pieces.bytes;
        *self = Self { consumed: self.consumed + dropped, cleared: true, ..Self::new(self.spans_max) };
        dropped
    }

    /// Whether RLP data for this span must be refused, because of the existing runs and pieces.
    fn is_one_too_many(&self, span: Span) -> bool {
        let pieces_max = self.spans_max.saturating_mul(2) as u64;
        self.pieces.count as u64 > pieces_max.saturating_add(self.buffered() / (JOIN_MAX as u64 / 2))
            || (self.received.span_count() >= self.spans_max && !self.received.touches(span))
    }

    fn first_gap_in(&self, span: Span) -> Option<Span> {
        self.received.gaps(span).next()
    }

    /// Buffers a piece of a buffer of `buffer_len` bytes.
    fn store(&mut self, start: u64, piece: Bytes, buffer_len: usize) {
        let is_worth_a_reference = piece.len() >= REFERENCE_MIN && piece.len() * 4 >= buffer_len * 3;
        let piece = if is_worth_a_reference { piece } else { Bytes::copy_from_slice(&piece) };
        self.pieces.insert(start, piece);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        Loop::{Primary, Rlp},
        *,
    };
    use crate::structures::held::{PIECE_COST, RUN_COST};

    fn span(start: u64, end: u64) -> Span {
        Span::new(start, end)
    }

    fn new(new: u64) -> Inserted {
        Inserted { new, ..Inserted::default() }
    }

    /// Bytes `start..end` of a test stream; streams differ by their seed.
    fn bytes(start: u64, end: u64, seed: u8) -> Bytes {
        (start..end).map(|offset| (offset % 251) as u8 ^ seed).collect()
    }

    fn insert(to: &mut Reassembler, start: u64, end: u64, from: Loop) -> Inserted {
        to.insert(start, bytes(start, end, 0), (end - start) as usize, from)
    }

    fn read(from: &mut Reassembler, ordered: bool) -> Option<(u64, usize)> {
        let chunk = from.read(usize::MAX, ordered).unwrap()?;
        let end = chunk.offset + chunk.bytes.len() as u64;
        assert_eq!(chunk.bytes, bytes(chunk.offset, end, 0));
        Some((chunk.offset, chunk.bytes.len()))
    }

    #[test]
    fn loops_fill_the_stream_from_both_ends() {
        let mut stream = Reassembler::new(8);
        assert_eq!(insert(&mut stream, 20, 30, Rlp), new(10));
        assert_eq!(insert(&mut stream, 0, 5, Primary), new(5));
        assert_eq!(insert(&mut stream, 10, 20, Rlp), new(10));
        assert_eq!(stream.received.intersection(span(3, 30)).collect::<Vec<_>>(), [span(3, 5), span(10, 30)]);
        assert_eq!((stream.contiguous_end(), stream.run_count(), stream.buffered()), (5, 2, 25));
        assert!(stream.contains(span(12, 30)) && !stream.contains(span(4, 11)));
        assert_eq!(read(&mut stream, true), Some((0, 5)));
        assert_eq!(read(&mut stream, true), None);
        assert_eq!(insert(&mut stream, 5, 12, Primary), Inserted { new: 5, duplicate: 2, refused: 0 });
        assert_eq!(read(&mut stream, true), Some((5, 25)));
        assert_eq!((stream.read_offset(), stream.consumed(), stream.buffered()), (30, 30, 0));
    }

    #[test]
    fn first_arrival_of_a_byte_stays() {
        let mut stream = Reassembler::new(8);
        stream.insert(2, Bytes::from_static(b"cd"), 2, Rlp);
        let inserted = stream.insert(0, Bytes::from_static(b"ABCDEF"), 6, Primary);
        assert_eq!(inserted, Inserted { new: 4, duplicate: 2, refused: 0 });
        assert_eq!(&stream.read(9, true).unwrap().unwrap().bytes[..], b"ABcdEF");
    }

    #[test]
    fn bytes_read_before_are_duplicates() {
        let mut stream = Reassembler::new(8);
        insert(&mut stream, 0, 5, Primary);
        read(&mut stream, true);
        assert_eq!(insert(&mut stream, 0, 5, Rlp), Inserted { new: 0, duplicate: 5, refused: 0 });
        assert_eq!(read(&mut stream, false), None);
    }

    #[test]
    fn rlp_may_not_make_one_run_too_many_and_the_primary_may() {
        let mut stream = Reassembler::new(2);
        insert(&mut stream, 10, 20, Rlp);
        insert(&mut stream, 30, 40, Rlp);
        assert_eq!(insert(&mut stream, 50, 60, Rlp), Inserted { new: 0, duplicate: 0, refused: 10 });
        assert_eq!(insert(&mut stream, 40, 50, Rlp), new(10), "growing a run is fine");
        assert_eq!(insert(&mut stream, 0, 5, Primary), new(5));
        assert_eq!(stream.run_count(), 3);
    }

    #[test]
    fn data_past_the_last_offset_is_refused() {
        let mut stream = Reassembler::new(2);
        let data = Bytes::from_static(b"ab");
        assert_eq!(stream.insert(u64::MAX - 1, data.clone(), 2, Primary).refused, 2);
        assert_eq!(stream.insert(u64::MAX - 2, data, 2, Rlp).new, 2);
    }

    #[test]
    fn ordered_read_past_a_hole_is_an_error_until_the_hole_is_read() {
        let mut stream = Reassembler::new(8);
        insert(&mut stream, 5, 10, Rlp);
        assert_eq!(read(&mut stream, true), None);
        assert_eq!(read(&mut stream, false), Some((5, 5)));
        assert_eq!((stream.read_offset(), stream.consumed()), (0, 5));
        assert_eq!(stream.read(1, true), Err(IllegalOrderedRead));
        insert(&mut stream, 0, 5, Primary);
        assert_eq!(stream.read(1, true), Err(IllegalOrderedRead));
        assert_eq!(read(&mut stream, false), Some((0, 5)));
        assert_eq!(stream.read_offset(), 10);
        assert_eq!(stream.read(1, true), Ok(None));
    }

    #[test]
    fn unordered_reads_without_a_hole_keep_the_order() {
        let mut stream = Reassembler::new(8);
        insert(&mut stream, 0, 5, Primary);
        assert_eq!(stream.read(3, false).unwrap().unwrap().bytes, bytes(0, 3, 0));
        assert_eq!(read(&mut stream, true), Some((3, 2)));
    }

    #[test]
    fn reads_from_an_offset_take_what_is_there_once() {
        let mut stream = Reassembler::new(8);
        insert(&mut stream, 0, 5, Primary);
        insert(&mut stream, 10, 20, Rlp);
        let chunk = stream.read_from(6, 4).unwrap();
        assert_eq!((chunk.offset, chunk.bytes), (10, bytes(10, 14, 0)));
        assert_eq!(stream.read_from(14, 0), None);
        assert_eq!(stream.read_from(14, 100).map(|chunk| chunk.offset), Some(14));
        assert_eq!(stream.read_from(5, 100), None);
        assert_eq!((stream.buffered(), stream.consumed()), (5, 10));
        assert_eq!(read(&mut stream, false), Some((0, 5)));
    }

    #[test]
    fn cleared_stream_refuses_and_returns_the_credit() {
        let mut stream = Reassembler::new(8);
        insert(&mut stream, 0, 5, Primary);
        insert(&mut stream, 10, 20, Rlp);
        read(&mut stream, true);
        assert_eq!(stream.clear(), 10);
        assert_eq!(insert(&mut stream, 5, 10, Primary).refused, 5);
        assert_eq!((stream.consumed(), stream.buffered(), stream.run_count()), (15, 0, 0));
        assert_eq!((stream.read(1, true), stream.read(1, false), stream.clear()), (Ok(None), Ok(None), 0));
    }

    #[test]
    fn whole_datagrams_are_kept_by_reference_and_scraps_are_copied() {
        let mut stream = Reassembler::new(8);
        let datagram = bytes(10_000, 11_200, 0);
        stream.insert(10_000, datagram.clone(), 1250, Rlp);
        assert_eq!(stream.read(usize::MAX, false).unwrap().unwrap().bytes.as_ptr(), datagram.as_ptr());
        // All but 1100 bytes of a jumbo datagram are there already: the rest must not pin all of it.
        insert(&mut stream, 1100, 4000, Primary);
        let jumbo = bytes(0, 4000, 0);
        assert_eq!(stream.insert(0, jumbo.clone(), 4000, Rlp).new, 1100);
        let rest = stream.read(usize::MAX, false).unwrap().unwrap();
        assert!(rest.offset == 0 && rest.bytes.as_ptr() != jumbo.as_ptr());
        while read(&mut stream, false).is_some() {}
        let scrap = bytes(20_000, 20_000 + REFERENCE_MIN as u64 - 1, 0);
        stream.insert(20_000, scrap.clone(), scrap.len(), Rlp);
        assert_ne!(stream.read(usize::MAX, false).unwrap().unwrap().bytes.as_ptr(), scrap.as_ptr());
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes of interpretation")]
    fn single_bytes_in_any_order_cost_no_more_than_their_runs() {
        const COUNT: u64 = 100_000;
        // 7919 is a prime that does not divide COUNT: every offset comes once, far from the one before.
        let orders: [fn(u64) -> u64; 4] = [
            |nth| nth,
            |nth| COUNT - 1 - nth,
            |nth| nth * 7919 % COUNT,
            |nth| (nth * 2) % COUNT + nth * 2 / COUNT,
        ];
        for order in orders {
            let mut stream = Reassembler::new(usize::MAX);
            for nth in 0..COUNT {
                assert_eq!(insert(&mut stream, order(nth), order(nth) + 1, Rlp), new(1));
                let pieces_max = stream.run_count() as u64 + stream.buffered() / 1024;
                assert!(stream.pieces.count as u64 <= pieces_max);
            }
            assert_eq!((stream.run_count(), stream.buffered()), (1, COUNT));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes of interpretation")]
    fn thousands_of_gaps_of_one_byte_are_bounded_and_fill_up() {
        const COUNT: u64 = 100_000;
        let mut stream = Reassembler::new(1000);
        let refused: u64 = (1..COUNT).map(|nth| insert(&mut stream, 2 * nth, 2 * nth + 1, Rlp).refused).sum();
        assert_eq!((refused, stream.run_count(), stream.pieces.count), (COUNT - 1001, 1000, 1000));
        // The primary comes by with datagrams, each of which closes hundreds of gaps.
        for start in (0..2 * COUNT).step_by(1200) {
            insert(&mut stream, start, start + 1200, Primary);
        }
        assert_eq!((stream.run_count(), stream.contiguous_end()), (1, stream.buffered()));
        assert!(stream.pieces.count as u64 <= 1 + stream.buffered() / 1024);
        while read(&mut stream, true).is_some() {}
        assert_eq!(stream.consumed(), stream.contiguous_end());
    }

    #[test]
    fn small_unordered_reads_do_not_lift_the_bound() {
        // Downwards, each insert extends the one run, and a read of one byte of it leaves the other alone.
        let mut stream = Reassembler::new(10);
        let mut refused = 0;
        for nth in (0..1000).rev() {
            refused += insert(&mut stream, 2 * nth, 2 * nth + 2, Rlp).refused;
            stream.read(1, false).unwrap();
        }
        assert!(refused > 0);
        assert!(stream.pieces.count <= 21);
    }

    #[derive(Debug, Clone)]
    enum Op {
        Insert { start: u64, len: u64, seed: u8, from: Loop },
        Read { max: usize, ordered: bool },
    }

    /// Sequences of operations on spans of a few bytes, some with spans of thousands among them, around the
    /// bounds for copies and references.
    fn any_ops(seed: impl Strategy<Value = u8> + Clone + 'static) -> impl Strategy<Value = Vec<Op>> {
        let small = || (0..60u64, 0..10u64);
        let large = (0..8000u64, 0..4000u64);
        let mixed = prop_oneof![small(), large].boxed();
        prop_oneof![
            3 => prop::collection::vec(any_op(small().boxed(), seed.clone()), 0..60),
            1 => prop::collection::vec(any_op(mixed, seed), 0..30),
        ]
    }

    fn any_op(
        span: BoxedStrategy<(u64, u64)>,
        seed: impl Strategy<Value = u8> + 'static,
    ) -> impl Strategy<Value = Op> {
        let from = prop_oneof![Just(Primary), Just(Rlp)];
        let read = prop_oneof![0..8usize, 0..5000usize, Just(usize::MAX)];
        prop_oneof![
            3 => (span, seed, from)
                .prop_map(|((start, len), seed, from)| Op::Insert { start, len, seed, from }),
            1 => (read, prop::bool::weighted(0.6)).prop_map(|(max, ordered)| Op::Read { max, ordered }),
        ]
    }

    /// The stream as one entry per byte: what arrived first, and whether it was read.
    struct Oracle(Vec<Option<(u8, bool)>>);

    impl Oracle {
        fn is_received(&self, offset: u64) -> bool {
            self.0.get(offset as usize).copied().flatten().is_some()
        }

        fn is_unread(&self, offset: u64) -> bool {
            matches!(self.0.get(offset as usize), Some(Some((_, false))))
        }

        fn runs(&self, from: u64) -> Vec<Span> {
            let mut runs: Vec<Span> = Vec::new();
            for offset in (from..self.0.len() as u64).filter(|&offset| self.is_received(offset)) {
                match runs.last_mut() {
                    Some(run) if run.end == offset => run.end += 1,
                    _ => runs.push(span(offset, offset + 1)),
                }
            }
            runs
        }

        fn count(&self, read: bool) -> u64 {
            self.0.iter().flatten().filter(|byte| byte.1 == read).count() as u64
        }
    }

    fn run(ops: Vec<Op>, spans_max: usize) -> Result<(), TestCaseError> {
        let mut stream = Reassembler::new(spans_max);
        let mut oracle = Oracle(Vec::new());
        for op in ops {
            match op {
                Op::Insert { start, len, seed, from } => {
                    let end = start + len;
                    let alone = !(start.saturating_sub(1)..=end).any(|offset| oracle.is_received(offset));
                    let crowded =
                        stream.pieces.count as u64 > 2 * spans_max as u64 + stream.buffered() / 1024;
                    let refuse = from == Rlp && ((alone && oracle.runs(0).len() >= spans_max) || crowded);
                    let (before, cost) = (stream.held(), stream.cost(span(start, end)));
                    let inserted = stream.insert(start, bytes(start, end, seed), len as usize, from);
                    let held = stream.held();
                    if inserted.new == 0 {
                        prop_assert_eq!(held, before);
                    } else {
                        prop_assert_eq!(held.bytes, before.bytes + cost.bytes);
                        prop_assert!(held.overhead <= before.overhead + cost.overhead);
                    }
                    prop_assert_eq!(inserted.new + inserted.duplicate + inserted.refused, len);
                    prop_assert_eq!(inserted.refused, if refuse { len } else { 0 });
                    if refuse {
                        continue;
                    }
                    oracle.0.resize(oracle.0.len().max(end as usize), None);
                    let mut fresh = 0;
                    for (offset, byte) in (start..end).zip(bytes(start, end, seed)) {
                        if !oracle.is_received(offset) {
                            oracle.0[offset as usize] = Some((byte, false));
                            fresh += 1;
                        }
                    }
                    prop_assert_eq!(inserted.new, fresh);
                }
                Op::Read { max, ordered } => {
                    let position =
                        oracle.0.iter().take_while(|byte| matches!(byte, Some((_, true)))).count() as u64;
                    prop_assert_eq!(stream.read_offset(), position);
                    let chunk = stream.read(max, ordered);
                    if ordered && oracle.count(true) != position {
                        prop_assert_eq!(chunk, Err(IllegalOrderedRead));
                        continue;
                    }
                    let next = if ordered {
                        Some(position).filter(|&offset| oracle.is_unread(offset))
                    } else {
                        (0..oracle.0.len() as u64).find(|&offset| oracle.is_unread(offset))
                    };
                    let chunk = chunk.unwrap();
                    prop_assert_eq!(chunk.as_ref().map(|chunk| chunk.offset), next.filter(|_| max > 0));
                    let Some(chunk) = chunk else { continue };
                    prop_assert!(!chunk.bytes.is_empty() && chunk.bytes.len() <= max);
                    for (offset, byte) in (chunk.offset..).zip(chunk.bytes) {
                        prop_assert_eq!(oracle.0[offset as usize].replace((byte, true)), Some((byte, false)));
                    }
                }
            }
            let runs = oracle.runs(0);
            prop_assert_eq!(stream.held(), recounted(&stream));
            prop_assert_eq!(stream.run_count(), runs.len());
            prop_assert_eq!(stream.received.iter().collect::<Vec<_>>(), runs.clone());
            prop_assert_eq!(
                stream.received.intersection(span(30, u64::MAX)).collect::<Vec<_>>(),
                oracle.runs(30)
            );
            let contiguous = runs.first().filter(|run| run.start == 0).map_or(0, |run| run.end);
            prop_assert_eq!(stream.contiguous_end(), contiguous);
            prop_assert_eq!(
                (stream.buffered(), stream.consumed()),
                (oracle.count(false), oracle.count(true))
            );
            for probe in [span(0, 5), span(20, 40), span(1000, 3000)] {
                let all = (probe.start..probe.end).all(|offset| oracle.is_received(offset));
                prop_assert_eq!(stream.contains(probe), all);
            }
        }
        stream.clear();
        prop_assert_eq!(stream.held(), MemoryUse::default());
        Ok(())
    }

    /// What is held, by a look at all of it.
    fn recounted(stream: &Reassembler) -> MemoryUse {
        let (runs, pieces) = stream.pieces.recounted();
        let bytes = pieces.iter().map(|&len| len as u64).sum();
        let spans = stream.received.iter().count();
        let overhead = extra(spans) * SPAN_COST + extra(runs) * RUN_COST + extra(pieces.len()) * PIECE_COST;
        MemoryUse { bytes, overhead }
    }

    proptest! {
        #[test]
        fn a_consistent_stream_comes_out_as_it_went_in(ops in any_ops(Just(0))) {
            run(ops, 64)?;
        }

        #[test]
        fn an_inconsistent_stream_is_its_first_arrivals(
            ops in any_ops(0..255u8),
            spans_max in 0..6usize,
        ) {
            run(ops, spans_max)?;
        }
    }
}
