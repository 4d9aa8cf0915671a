//! Parts of a file back to back: its data without the holes, or the missing parts of those, which a stream carries.
//!
//! Invariant: the spans are ascending, not empty, do not touch, and lie inside the file.
//!
//! All offsets and lengths are bytes.

use std::{io, ops::Range};

use rc3_core::{internals::SpanSet, units::Span};

/// Most gaps of one file; a receiver with more reports fewer, larger ones.
pub const GAPS_MAX: usize = 128;

/// The missing parts of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gaps(SpanSet);

impl Gaps {
    /// All of a file of `len` bytes.
    pub fn whole(len: u64) -> Self {
        Self::from_spans([Span::new(0, len)].into_iter())
    }

    /// From ascending spans that do not touch. With more than [`GAPS_MAX`], the last one covers all beyond it, so some
    /// existing bytes are sent again.
    pub fn from_spans(all: impl Iterator<Item = Span>) -> Self {
        let mut gaps = SpanSet::default();
        for span in all {
            let last = gaps.last().filter(|_| gaps.span_count() == GAPS_MAX);
            gaps.insert(Span::new(last.map_or(span.start, |last| last.end), span.end));
        }
        Self(gaps)
    }

    /// The gaps without those of `others`; may be more than [`GAPS_MAX`].
    #[must_use]
    pub fn without(&self, others: &Self) -> Self {
        let mut rest = self.clone();
        for hole in others.0.iter() {
            rest.0.remove(hole);
        }
        rest
    }

    /// The gaps that a peer reports for a file of `file_len` bytes; `None` if they are invalid.
    pub fn parse(said: &[(u64, u64)], file_len: u64) -> Option<Self> {
        let mut gaps = SpanSet::default();
        let mut from = 0;
        for &(start, end) in said {
            if gaps.span_count() == GAPS_MAX || start < from || start >= end || end > file_len {
                return None;
            }
            gaps.insert(Span::new(start, end));
            // Touching gaps would be a single one.
            from = end.saturating_add(1);
        }
        Some(Self(gaps))
    }

    /// Start and end of each gap, for [`Self::parse`].
    pub fn said(&self) -> Vec<(u64, u64)> {
        self.spans().map(|span| (span.start, span.end)).collect()
    }

    /// Total bytes of the gaps: the length of the stream.
    pub fn len(&self) -> u64 {
        self.0.covered()
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The file offset of the byte at `offset` of the stream, and how many bytes from there are contiguous in both;
    /// `None` beyond the end.
    pub fn locate(&self, mut offset: u64) -> Option<(u64, u64)> {
        for span in self.0.iter() {
            if offset < span.len() {
                return Some((span.start + offset, span.len() - offset));
            }
            offset -= span.len();
        }
        None
    }

    /// The gaps in order.
    pub fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.0.iter()
    }

    /// Visits what is at `len` bytes from `offset` of the stream: file offsets, and the range of the bytes there.
    ///
    /// # Errors
    /// Those of `visit`, and an end before.
    pub fn pieces(
        &self,
        offset: u64,
        len: usize,
        mut visit: impl FnMut(u64, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let (place, room) = self.locate(offset + done as u64).ok_or(io::ErrorKind::UnexpectedEof)?;
            let end = len.min(done.saturating_add(usize::try_from(room).unwrap_or(usize::MAX)));
            visit(place, done..end)?;
            done = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_the_stream_are_places_in_the_file() {
        let gaps = Gaps::parse(&[(10, 15), (20, 21), (30, 40)], 40).unwrap();
        assert_eq!(gaps.len(), 16);
        assert_eq!(gaps.locate(0), Some((10, 5)));
        assert_eq!(gaps.locate(4), Some((14, 1)));
        assert_eq!(gaps.locate(5), Some((20, 1)));
        assert_eq!(gaps.locate(6), Some((30, 10)));
        assert_eq!(gaps.locate(15), Some((39, 1)));
        assert_eq!(gaps.locate(16), None);
        assert_eq!(Gaps::parse(&gaps.said(), 40), Some(gaps));
        assert_eq!((Gaps::whole(0).is_empty(), Gaps::whole(7).said()), (true, vec![(0, 7)]));
        assert_eq!(Gaps::whole(0).locate(0), None);
    }

    #[test]
    fn holes_are_taken_out_wherever_they_reach() {
        let gaps = Gaps::parse(&[(0, 10), (20, 30), (40, 50)], 50).unwrap();
        let without = |holes: &[(u64, u64)]| gaps.without(&Gaps::parse(holes, 50).unwrap()).said();
        assert_eq!(without(&[]), gaps.said());
        assert_eq!(without(&[(0, 50)]), []);
        assert_eq!(without(&[(5, 25), (26, 27), (45, 50)]), [(0, 5), (25, 26), (27, 30), (40, 45)]);
        assert_eq!(without(&[(10, 20), (30, 40)]), gaps.said());
    }

    #[test]
    fn gaps_that_make_no_sense_are_refused() {
        let many: Vec<_> = (0..=GAPS_MAX as u64).map(|at| (2 * at, 2 * at + 1)).collect();
        let wrong: [&[(u64, u64)]; 6] =
            [&[(5, 5)], &[(6, 5)], &[(0, 11)], &[(0, 5), (4, 6)], &[(0, 5), (5, 6)], &many];
        for said in wrong {
            assert_eq!(Gaps::parse(said, if said.len() > 2 { u64::MAX } else { 10 }), None, "{said:?}");
        }
    }

    #[test]
    fn too_many_gaps_become_one_at_the_end() {
        let many = (0..1000).map(|at| Span::new(10 * at, 10 * at + 1));
        let gaps = Gaps::from_spans(many);
        assert_eq!(gaps.said().len(), GAPS_MAX);
        assert_eq!(gaps.said().last(), Some(&(10 * (GAPS_MAX as u64 - 1), 9991)));
        assert!(Gaps::parse(&gaps.said(), 10_000).is_some());
    }
}
