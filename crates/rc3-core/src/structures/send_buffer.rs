//! The bytes of one send stream, by offset, until they are delivered.
//!
//! Both loops read from here, from opposite ends, and bytes are released in any order: those the primary has taken,
//! those the peer has SACKed. Large writes are stored without a copy; writes smaller than [`COALESCE_BELOW`] are
//! collected in a tail of that size, so that a program that writes byte by byte does not need a map entry for each.
//!
//! The end of a stream may be *lent*: its length is known and its bytes are in a source, for example a file, from which
//! pieces are requested, supplied, and dropped again when they are not needed soon. Only requested pieces cost memory.
//!
//! The bound: n appended bytes make at most 1 + n / 512 entries, plus one for each release that leaves bytes on both of
//! its sides; a supplied piece makes one entry for each missing part of it. An entry costs some 40 bytes, and the tail
//! keeps its room (1 KiB). The rest of a large write is copied once SACKs leave less than an eighth of it, so that its
//! buffer is freed: a stored byte pins at most eight.
//!
//! All offsets and lengths are bytes of the stream.

use std::mem;

use bytes::{Buf, Bytes};

use crate::{
    structures::{
        held::{CHUNK_COST, SPAN_COST, extra},
        offset_map::OffsetMap,
        range_map::SpanSet,
    },
    units::Span,
};

/// Appends smaller than this many bytes are copied together. Packets received by the primary are larger: a program that
/// forwards them causes no copy.
pub(crate) const COALESCE_BELOW: usize = 1024;

/// Bytes of a write that one byte of it may pin.
const PINNED_PER_BYTE: usize = 8;

/// What one send stream holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct SendBuffer {
    /// Stored bytes below the tail, by an offset at or below their first one and above the chunk before: releasing the
    /// first bytes moves the start of a chunk and not its key. No chunk is empty, none overlap.
    chunks: OffsetMap<Chunk>,
    /// The last bytes up to `end`, still growing; shorter than [`COALESCE_BELOW`].
    tail: Vec<u8>,
    /// Length of the stream so far.
    end: u64,
    /// Sum of the lengths of `chunks` and `tail`, except supplied bytes.
    pub(crate) held: u64,
    /// Boxed: few streams have a source.
    lent: Option<Box<Lent>>,
}

/// Some consecutive bytes of the stream.
#[derive(Debug, Clone)]
struct Chunk {
    start: u64,
    bytes: Bytes,
    /// Length of the buffer that `bytes` is part of.
    buffer_len: usize,
}

impl Chunk {
    /// Bytes with their own buffer.
    fn new(start: u64, bytes: Bytes) -> Self {
        Self { start, buffer_len: bytes.len(), bytes }
    }

    /// Copies the bytes if they are a small part of their buffer.
    fn unpin(&mut self) {
        if self.bytes.len() * PINNED_PER_BYTE < self.buffer_len {
            *self = Self::new(self.start, Bytes::copy_from_slice(&self.bytes));
        }
    }

    fn span(&self) -> Span {
        Span::new(self.start, self.start + self.bytes.len() as u64)
    }
}

/// The part of a stream that is in a source: from `start` to the end.
#[derive(Debug, Clone)]
struct Lent {
    start: u64,
    /// Stored or requested bytes.
    present: SpanSet,
}

impl SendBuffer {
    /// Adds bytes at the end of the stream.
    pub(crate) fn append(&mut self, data: Bytes) {
        let len = data.len() as u64;
        self.held += len;
        if data.len() >= COALESCE_BELOW {
            self.cut_tail();
            self.insert(self.end, data);
            self.end += len;
            return;
        }
        if self.tail.capacity() == 0 && data.is_unique() {
            // The only reference to its buffer: takes the buffer instead of a copy.
            self.tail = Vec::from(data);
            self.tail.shrink_to(COALESCE_BELOW);
            self.end += len;
            return;
        }
        let room = COALESCE_BELOW - self.tail.len();
        let (now, later) = data.split_at(room.min(data.len()));
        self.tail.extend_from_slice(now);
        self.end += now.len() as u64;
        if self.tail.len() == COALESCE_BELOW {
            // Completely full: becomes a chunk without another copy.
            let start = self.tail_start();
            let full = Bytes::from(mem::take(&mut self.tail));
            self.insert(start, full);
        }
        self.tail.extend_from_slice(later);
        self.end += later.len() as u64;
    }

    /// Memory of its pieces beyond the first, besides their bytes.
    pub(crate) fn overhead(&self) -> u64 {
        let present = self.lent.as_ref().map_or(0, |lent| lent.present.span_count());
        extra(self.chunks.len()) * CHUNK_COST + extra(present) * SPAN_COST
    }

    /// Extends the stream by `len` bytes of a source. Nothing can be appended after them.
    pub(crate) fn append_source(&mut self, len: u64) {
        debug_assert!(self.lent.is_none(), "one source is the end of a stream");
        self.cut_tail();
        self.lent = Some(Box::new(Lent { start: self.end, present: SpanSet::default() }));
        self.end += len;
    }

    /// The number of source bytes stored or requested.
    pub(crate) fn present(&self) -> u64 {
        self.lent.as_ref().map_or(0, |lent| lent.present.covered())
    }

    /// The parts of a span that are only in the source and not requested; lowest first.
    pub(crate) fn missing(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        self.lent.iter().flat_map(move |lent| {
            lent.present.gaps(Span::new(span.start.max(lent.start).min(span.end), span.end))
        })
    }

    /// Marks this span as requested from the source. Until it is supplied or released it counts as present.
    pub(crate) fn ask(&mut self, span: Span) {
        if let Some(lent) = &mut self.lent {
            lent.present.insert(span);
        }
    }

    /// Accepts bytes of the source. Bytes that were not requested, or released meanwhile, are dropped.
    pub(crate) fn supply(&mut self, offset: u64, data: Bytes) {
        let Some(lent) = &self.lent else { return };
        let span = Span::new(offset, offset.saturating_add(data.len() as u64));
        let wanted: Vec<Span> = lent.present.intersection(span).collect();
        for mut piece in wanted {
            while !piece.is_empty() {
                let held_to = self.held_from(piece.start, piece.end);
                let above = self.chunks.range(held_to..piece.end).next();
                let gap_end = above.map_or(piece.end, |(_, chunk)| chunk.start);
                if held_to < gap_end {
                    let part = (held_to - offset) as usize..(gap_end - offset) as usize;
                    self.insert(held_to, data.slice(part));
                }
                piece.start = gap_end.max(held_to);
            }
        }
    }

    /// End of the contiguous stored bytes from `start`, at most `end`; `start` if there are none.
    pub(crate) fn held_from(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        while at < end {
            if at >= self.tail_start() {
                at = self.end.max(at);
                break;
            }
            match self.chunks.range(..=at).next_back().map(|(_, chunk)| chunk.span()) {
                Some(chunk) if chunk.start <= at && chunk.end > at => at = chunk.end,
                _ => break,
            }
        }
        at.min(end)
    }

    /// Start of the contiguous stored bytes down from `end`, at least `start`; `end` if there are none.
    pub(crate) fn held_below(&self, end: u64, start: u64) -> u64 {
        let mut at = if end > self.tail_start() { self.tail_start() } else { end };
        while at > start {
            match self.chunks.range(..at).next_back().map(|(_, chunk)| chunk.span()) {
                Some(chunk) if chunk.start < at && chunk.end >= at => at = chunk.start,
                _ => break,
            }
        }
        at.max(start).min(end)
    }

    /// The bytes of a span, in order. Only the tail (less than [`COALESCE_BELOW`] bytes) is copied.
    ///
    /// Bytes that are released or not appended yet are missing from the result.
    ///
    /// # Panics
    /// In debug builds if bytes are missing: the ledger never asks for them.
    pub(crate) fn slice(&self, span: Span) -> impl Iterator<Item = Bytes> + '_ {
        let tail_start = self.tail_start();
        self.pieces(span).map(move |(at, piece)| match piece {
            Piece::Chunk(chunk) => chunk.slice(within(at, span)),
            Piece::Tail(tail) => Bytes::copy_from_slice(&tail[within(Span::new(tail_start, self.end), span)]),
        })
    }

    /// Appends the bytes of a span to `out`; otherwise like [`Self::slice`].
    ///
    /// # Panics
    /// In debug builds if bytes are missing.
    pub(crate) fn copy_into(&self, span: Span, out: &mut Vec<u8>) {
        for (at, piece) in self.pieces(span) {
            let bytes: &[u8] = match piece {
                Piece::Chunk(chunk) => chunk,
                Piece::Tail(tail) => tail,
            };
            out.extend_from_slice(&bytes[within(at, span)]);
        }
    }

    /// Frees the bytes of a span; those already released are ignored.
    pub(crate) fn release(&mut self, span: Span) {
        let lent_from = match &mut self.lent {
            Some(lent) => {
                lent.present.remove(span);
                lent.start
            }
            None => u64::MAX,
        };
        let tail = Span::new(self.tail_start(), self.end);
        let from_tail = tail.intersection(span);
        if from_tail.is_empty() {
            // The tail keeps growing.
        } else if from_tail.start == tail.start {
            self.tail.drain(..from_tail.len() as usize);
            self.held -= from_tail.len();
        } else {
            // A gap in the tail: turn it into an ordinary chunk.
            self.cut_tail();
        }
        while let Some((key, at)) = self.first_chunk_in(span) {
            let gone = at.intersection(span);
            let is_own = at.start < lent_from;
            if is_own {
                self.held -= gone.len();
            }
            if gone == at {
                self.chunks.remove(key);
                continue;
            }
            let Some(chunk) = self.chunks.get_mut(key) else { break };
            // Source bytes may be supplied again below; appended ones may not.
            if is_own && gone.start == at.start {
                chunk.bytes.advance(gone.len() as usize);
                chunk.start = gone.end;
                // At the cursor only one is cut, and soon released.
                if span.start > 0 {
                    chunk.unpin();
                }
                continue;
            }
            let mut above = Chunk { start: gone.end, ..chunk.clone() };
            above.bytes.advance((gone.end - at.start) as usize);
            chunk.bytes.truncate((gone.start - at.start) as usize);
            chunk.unpin();
            if chunk.bytes.is_empty() {
                self.chunks.remove(key);
            }
            if !above.bytes.is_empty() {
                above.unpin();
                self.chunks.insert(above.start, above);
            }
        }
    }

    /// Frees the room of the tail if it is empty.
    pub(crate) fn shrink(&mut self) {
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }

    fn insert(&mut self, start: u64, bytes: Bytes) {
        self.chunks.insert(start, Chunk::new(start, bytes));
    }

    /// The held chunks that overlap a span, the tail last, each with its place in the stream.
    fn held_pieces(&self, span: Span) -> impl Iterator<Item = (Span, Piece<'_>)> {
        let before = self.chunks.range(..span.start).next_back();
        let first = before.map_or(span.start, |(&start, _)| start);
        let chunks = self.chunks.range(first..span.end);
        let tail = (!self.tail.is_empty())
            .then_some((Span::new(self.tail_start(), self.end), Piece::Tail(&self.tail)));
        chunks
            .map(|(_, chunk)| (chunk.span(), Piece::Chunk(&chunk.bytes)))
            .chain(tail)
            .filter(move |(at, _)| !at.intersection(span).is_empty())
    }

    /// [`Self::held_pieces`], all of which must be present.
    fn pieces(&self, span: Span) -> impl Iterator<Item = (Span, Piece<'_>)> {
        debug_assert_eq!(
            self.held_pieces(span).map(|(at, _)| at.intersection(span).len()).sum::<u64>(),
            span.len(),
            "{span:?} is not stored any more, or not yet"
        );
        self.held_pieces(span)
    }

    /// The lowest chunk that overlaps the span: its key, and where it is.
    fn first_chunk_in(&self, span: Span) -> Option<(u64, Span)> {
        if span.is_empty() {
            return None;
        }
        let overlapping = |(&key, chunk): (&u64, &Chunk)| {
            let at = chunk.span();
            (!at.intersection(span).is_empty()).then_some((key, at))
        };
        let before = self.chunks.range(..=span.start).next_back().and_then(overlapping);
        before.or_else(|| self.chunks.range(span.start..span.end).next().and_then(overlapping))
    }

    /// Turns the tail into a chunk of exactly its size; its buffer is reused.
    fn cut_tail(&mut self) {
        if !self.tail.is_empty() {
            self.insert(self.tail_start(), Bytes::copy_from_slice(&self.tail));
            self.tail.clear();
        }
    }

    fn tail_start(&self) -> u64 {
        self.end - self.tail.len() as u64
    }
}

/// Where some stored bytes are.
enum Piece<'a> {
    Chunk(&'a Bytes),
    Tail(&'a [u8]),
}

/// The part of the bytes at `at` that `span` covers, as indices into them.
fn within(at: Span, span: Span) -> std::ops::Range<usize> {
    let part = at.intersection(span);
    (part.start - at.start) as usize..(part.end - at.start) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(start: u64, end: u64) -> Span {
        Span::new(start, end)
    }

    /// The byte of every test stream at this offset.
    fn byte(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    /// Appends `len` bytes of the test stream.
    fn append(buffer: &mut SendBuffer, len: u64) -> Bytes {
        let data: Bytes = (buffer.end..buffer.end + len).map(byte).collect();
        buffer.append(data.clone());
        data
    }

    #[test]
    fn little_that_sacks_leave_of_a_large_write_does_not_pin_it() {
        const LEN: u64 = 1 << 20;
        for left in [span(0, 1), span(LEN / 2, LEN / 2 + 1), span(LEN - 1, LEN)] {
            let mut buffer = SendBuffer::default();
            // Another before it: the cursor is not there.
            append(&mut buffer, LEN);
            let data = append(&mut buffer, LEN);
            assert!(!data.is_unique());
            buffer.release(span(LEN, LEN + left.start));
            buffer.release(span(LEN + left.end, 2 * LEN));
            assert!(data.is_unique(), "{left:?}");
            let held: Vec<Bytes> = buffer.slice(span(LEN + left.start, LEN + left.end)).collect();
            assert_eq!(held, [data.slice(left.start as usize..left.end as usize)]);
        }
    }

    #[test]
    fn the_first_small_write_gives_its_buffer_away_unless_that_is_large_or_shared() {
        let tail_of = |data: Bytes| {
            let mut buffer = SendBuffer::default();
            buffer.append(data);
            assert_eq!((&buffer.tail[..], buffer.held, buffer.end), (&[7, 7, 7][..], 3, 3));
            buffer.tail
        };
        let own = Bytes::from(vec![7; 3]);
        let at = own.as_ptr();
        let tail = tail_of(own);
        assert_eq!(tail.as_ptr(), at);
        let part_of_more = Bytes::from(vec![7; 1 << 20]).split_to(3);
        assert!(tail_of(part_of_more).capacity() <= COALESCE_BELOW);
        let shared = Bytes::from(vec![7; 3]);
        let tail = tail_of(shared.clone());
        assert_ne!(tail.as_ptr(), shared.as_ptr());
    }

    #[test]
    fn large_writes_are_not_copied() {
        let mut buffer = SendBuffer::default();
        append(&mut buffer, 3);
        let data = append(&mut buffer, 5000);
        let slices: Vec<Bytes> = buffer.slice(span(1000, 2000)).collect();
        assert_eq!(slices.len(), 1);
        assert_eq!(slices[0].as_ptr(), data[997..].as_ptr());
    }

    #[test]
    fn a_chunk_whose_start_was_released_stays_where_it_is() {
        let mut buffer = SendBuffer::default();
        append(&mut buffer, 4000);
        append(&mut buffer, 4000);
        buffer.release(span(0, 1000));
        assert_eq!((buffer.held, buffer.held_from(500, 8000), buffer.held_below(1000, 0)), (7000, 500, 1000));
        assert_eq!((buffer.held_from(1000, 8000), buffer.held_below(8000, 0)), (8000, 1000));
        // From its middle, and what is left of it from its start again.
        buffer.release(span(2000, 3000));
        buffer.release(span(500, 1500));
        assert_eq!(
            (buffer.held, buffer.held_from(1500, 8000), buffer.held_below(8000, 0)),
            (5500, 2000, 3000)
        );
        let mut out = Vec::new();
        buffer.copy_into(span(1500, 2000), &mut out);
        buffer.copy_into(span(3000, 8000), &mut out);
        assert!((1500..2000).chain(3000..8000).map(byte).eq(out));
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes of interpretation")]
    fn one_byte_writes_share_entries() {
        let mut buffer = SendBuffer::default();
        for _ in 0..100_000 {
            append(&mut buffer, 1);
        }
        assert_eq!(buffer.chunks.len(), 100_000 / COALESCE_BELOW);
        let mut out = Vec::new();
        buffer.copy_into(span(0, 100_000), &mut out);
        assert!((0..100_000).map(byte).eq(out));
    }

    #[test]
    fn alternating_sizes_stay_within_the_bound() {
        let mut buffer = SendBuffer::default();
        for _ in 0..1000 {
            append(&mut buffer, 1);
            append(&mut buffer, COALESCE_BELOW as u64);
        }
        assert!(buffer.chunks.len() as u64 <= 1 + buffer.end / 512);
    }

    #[test]
    fn reading_and_releasing_byte_by_byte_leaves_no_entries() {
        let mut buffer = SendBuffer::default();
        for at in 0..5000 {
            append(&mut buffer, 2);
            assert_eq!(
                buffer.slice(span(at, at + 2)).flatten().collect::<Vec<_>>(),
                [byte(at), byte(at + 1)]
            );
            buffer.release(span(at, at + 1));
        }
        buffer.release(span(5000, 10_000));
        assert_eq!((buffer.held, buffer.chunks.len(), buffer.tail.len()), (0, 0, 0));
    }

    #[test]
    #[cfg_attr(not(debug_assertions), ignore = "the check is for debug builds")]
    #[should_panic(expected = "not stored any more")]
    fn reading_released_bytes_is_a_bug() {
        let mut buffer = SendBuffer::default();
        append(&mut buffer, 10);
        buffer.release(span(3, 5));
        buffer.slice(span(0, 10)).count();
    }

    #[test]
    fn released_bytes_are_missing_from_what_is_held() {
        let mut buffer = SendBuffer::default();
        append(&mut buffer, 10);
        buffer.release(span(3, 5));
        let spans: Vec<Span> = buffer.held_pieces(span(2, 7)).map(|(at, _)| at).collect();
        assert_eq!(spans, [span(0, 3), span(5, 10)]);
    }

    /// Bytes of the test stream, as its source has them.
    fn source(at: Span) -> Bytes {
        (at.start..at.end).map(byte).collect()
    }

    #[test]
    fn lent_bytes_cost_nothing_until_they_are_asked_for() {
        let mut buffer = SendBuffer::default();
        append(&mut buffer, 10);
        buffer.append_source(1 << 40);
        assert_eq!((buffer.held, buffer.present()), (10, 0));
        assert_eq!(buffer.missing(span(0, 100)).collect::<Vec<_>>(), [span(10, 100)]);
        buffer.ask(span(50, 100));
        assert_eq!((buffer.present(), buffer.held_from(50, 100)), (50, 50));
        buffer.supply(50, source(span(50, 100)));
        assert_eq!((buffer.held, buffer.present()), (10, 50));
        assert_eq!((buffer.held_from(50, 90), buffer.held_below(100, 0)), (90, 50));
        assert_eq!(buffer.slice(span(60, 70)).flatten().collect::<Vec<_>>(), source(span(60, 70)));
        buffer.release(span(60, 100));
        assert_eq!((buffer.present(), buffer.held_below(100, 0), buffer.held_below(60, 0)), (10, 100, 50));
    }

    #[test]
    fn held_runs_cross_from_written_to_lent_bytes() {
        let mut buffer = SendBuffer::default();
        append(&mut buffer, 10);
        assert_eq!((buffer.held_from(3, 20), buffer.held_below(10, 4)), (10, 4));
        buffer.append_source(100);
        buffer.ask(span(10, 30));
        buffer.supply(10, source(span(10, 20)));
        assert_eq!((buffer.held_from(0, 100), buffer.held_below(20, 0)), (20, 0));
    }

    #[test]
    fn pieces_that_come_twice_or_too_late_are_not_kept() {
        let mut buffer = SendBuffer::default();
        buffer.append_source(100);
        buffer.supply(0, source(span(0, 10)));
        assert_eq!(buffer.held_from(0, 100), 0, "nobody asked");
        buffer.ask(span(0, 40));
        buffer.release(span(10, 20));
        buffer.supply(0, source(span(0, 30)));
        assert_eq!((buffer.held_from(0, 100), buffer.held_from(20, 100), buffer.present()), (10, 30, 30));
        buffer.ask(span(0, 40));
        buffer.supply(5, source(span(5, 40)));
        assert_eq!((buffer.held_from(0, 100), buffer.present()), (40, 40));
        let mut out = Vec::new();
        buffer.copy_into(span(0, 40), &mut out);
        assert_eq!(out, source(span(0, 40)));
    }

    #[derive(Debug, Clone)]
    enum Op {
        Append(u64),
        Release(Span),
        Read(Span),
    }

    fn any_op() -> impl Strategy<Value = Op> {
        let any_span = (0..20_000u64, 0..6000u64).prop_map(|(start, len)| span(start, start + len));
        prop_oneof![
            3 => prop_oneof![0..4u64, 0..3000u64, Just(COALESCE_BELOW as u64)].prop_map(Op::Append),
            2 => any_span.clone().prop_map(Op::Release),
            2 => any_span.prop_map(Op::Read),
        ]
    }

    proptest! {
        #[test]
        fn a_buffer_is_a_vec_with_holes(ops in prop::collection::vec(any_op(), 0..50)) {
            let mut buffer = SendBuffer::default();
            let mut oracle: Vec<Option<u8>> = Vec::new();
            let mut releases = 0;
            for op in ops {
                match op {
                    Op::Append(len) => oracle.extend(append(&mut buffer, len).into_iter().map(Some)),
                    Op::Release(at) => {
                        buffer.release(at);
                        releases += 1;
                        let gone = oracle.iter_mut().take(at.end as usize).skip(at.start as usize);
                        gone.for_each(|byte| *byte = None);
                    }
                    Op::Read(at) => {
                        // Only stored bytes may be read: truncate the span at the first missing byte.
                        let wanted = oracle.iter().take(at.end as usize).skip(at.start as usize);
                        let bytes: Vec<u8> = wanted.map_while(|byte| *byte).collect();
                        let at = span(at.start, at.start + bytes.len() as u64);
                        prop_assert_eq!(buffer.slice(at).flatten().collect::<Vec<_>>(), bytes.clone());
                        let mut out = vec![7];
                        buffer.copy_into(at, &mut out);
                        prop_assert_eq!(&out[1..], &bytes);
                    }
                }
                prop_assert_eq!(buffer.end, oracle.len() as u64);
                prop_assert_eq!(buffer.held, oracle.iter().flatten().count() as u64);
                let held: u64 = buffer.chunks.iter().map(|(_, chunk)| chunk.bytes.len() as u64).sum();
                prop_assert_eq!(buffer.held, held + buffer.tail.len() as u64);
                prop_assert!(buffer.chunks.iter().all(|(_, chunk)| !chunk.bytes.is_empty()));
                prop_assert!(buffer.chunks.len() as u64 <= 1 + buffer.end / 512 + releases);
            }
        }
    }
}
