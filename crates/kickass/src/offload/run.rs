//! Neighbouring segments of a flow that leave together.
//!
//! A run is a super-packet again: segmenting it gives exactly its segments. So a segment only joins if its header
//! continues the one before: same fields, next identification, next sequence number, and only the last one is shorter or
//! has FIN or PSH.

use std::sync::Arc;

use super::{Offload, SuperPacket, SuperSegment, super_packet::TCP_CWR};
use crate::packet::REASSEMBLED_MAX;

/// Segments that follow each other.
#[derive(Debug, Default)]
pub struct SegmentRun {
    pieces: Vec<Piece>,
    /// Bytes.
    payload: usize,
    segments: usize,
    /// Whether the last segment is full and has neither FIN nor PSH.
    is_open: bool,
}

/// Neighbouring segments of one super-packet.
#[derive(Debug)]
struct Piece {
    of: Arc<SuperPacket>,
    first: usize,
    count: usize,
}

impl Piece {
    fn is_before(&self, part: &SuperSegment) -> bool {
        Arc::ptr_eq(&self.of, &part.of) && part.index() == self.first + self.count
    }
}

impl SegmentRun {
    /// Most super-packets that a run has parts of, and so most pieces of its payload.
    pub const PIECES_MAX: usize = 64;

    /// Whether a segment may be appended; an empty run takes any.
    pub fn continues_with(&self, part: &SuperSegment) -> bool {
        let Some(last) = self.pieces.last() else { return true };
        let len = part.payload_len();
        // Full segments of one super-packet can be short ones of the run.
        self.is_open
            && (1..=self.size()).contains(&len)
            && self.headers() + self.payload + len <= REASSEMBLED_MAX
            && (last.is_before(part) || self.is_continued_by(part))
    }

    /// Appends a segment that [`Self::continues_with`] allows.
    pub fn push(&mut self, part: SuperSegment) {
        debug_assert!(self.continues_with(&part), "{part:?} does not continue the run");
        let (len, end, index) = (part.payload_len(), part.of.end_flags(part.index()), part.index());
        match self.pieces.last_mut() {
            Some(last) if last.is_before(&part) => last.count += 1,
            _ => self.pieces.push(Piece { of: part.of, first: index, count: 1 }),
        }
        self.payload += len;
        self.segments += 1;
        self.is_open = len == self.size() && end == 0;
    }

    /// Whether it has no segment.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// Segments.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Bytes of all segments, headers included.
    pub fn bytes(&self) -> usize {
        self.payload + self.segments * self.headers()
    }

    /// Whether it is IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.pieces.first().is_some_and(|first| first.of.packet().is_ipv6())
    }

    /// Whether it is UDP.
    pub fn is_udp(&self) -> bool {
        self.pieces.first().is_some_and(|first| first.of.is_udp())
    }

    /// Appends the header for all of it, whose checksum is partial.
    pub fn write_header(&self, to: &mut Vec<u8>) {
        let (Some(first), Some(last)) = (self.pieces.first(), self.pieces.last()) else { return };
        let end = last.of.end_flags(last.first + last.count - 1);
        first.of.write_header(first.first, self.payload, end, to);
    }

    /// Length of the header.
    pub fn headers(&self) -> usize {
        self.pieces.first().map_or(0, |first| first.of.headers)
    }

    /// The pieces of the payload, in order: at most [`Self::PIECES_MAX`].
    pub fn payload(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| &piece.of.packet().as_bytes()[piece.of.span(piece.first, piece.count)])
    }

    /// What is left to the device.
    pub fn offload(&self) -> Offload {
        let size = self.size() as u16;
        Offload {
            segment_size: (self.segments > 1).then_some(size),
            checksum: self.pieces.first().map(|first| first.of.partial_checksum()),
        }
    }

    /// Whether the first segment has TCP's CWR, which the others then must not repeat.
    pub fn has_cwr(&self) -> bool {
        self.pieces.first().is_some_and(|first| first.first == 0 && first.of.flags() & TCP_CWR != 0)
    }

    /// Empties it. Passes on the buffers of super-packets that nothing else refers to.
    pub fn clear(&mut self, mut recycle: impl FnMut(Vec<u8>)) {
        for piece in self.pieces.drain(..) {
            if let Some(last) = Arc::into_inner(piece.of) {
                recycle(last.into_bytes());
            }
        }
        (self.payload, self.segments, self.is_open) = (0, 0, false);
    }

    /// Bytes of payload of the first segment, which none exceeds.
    fn size(&self) -> usize {
        self.pieces.first().map_or(0, |first| first.of.span(first.first, 1).len())
    }

    /// Whether a segment of another super-packet continues the last one.
    fn is_continued_by(&self, part: &SuperSegment) -> bool {
        let Some(Piece { of: first, first: begin, .. }) = self.pieces.first() else { return true };
        let (next, index) = (&part.of, part.index());
        self.pieces.len() < Self::PIECES_MAX
            && first.may_join()
            && next.may_join()
            && next.has_header_of(first)
            && (index > 0 || next.flags() & TCP_CWR == 0)
            && next.place(index, index * next.size)
                == first.place(begin + self.segments, begin * first.size + self.payload)
    }
}
