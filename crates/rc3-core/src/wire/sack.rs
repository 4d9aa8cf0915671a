//! The SACK frame (`docs/WIRE.md#sack`): spans of stream bytes the receiver has.
//!
//! Spans ascend, are not empty and do not touch; parser and emitter both enforce that. A SACK is cumulative and
//! idempotent: it only adds spans, and omitted spans have no meaning. Each span comes with its receipt.

use super::varint::{self, Reader, VARINT_MAX};
use crate::units::{Receipt, Span};

/// Frame type of a SACK.
pub(super) const TYPE: u64 = 0x02;
/// Length of the receipt of a span, and of a DATA frame, in bytes.
pub(super) const RECEIPT_LEN: usize = 4;
/// Most spans whose count still fits into a one-byte varint.
const ONE_BYTE_COUNT_MAX: usize = 63;
/// Most spans in one frame, so that the count takes two bytes at most.
const COUNT_MAX: usize = 16_383;

/// A checked view of a SACK frame: spans are decoded on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sack<'a> {
    /// The QUIC stream id the spans belong to.
    pub stream: u64,
    /// The varints of the spans, checked by `parse`.
    fields: &'a [u8],
}

impl<'a> Sack<'a> {
    /// Checks a frame whose type has been read and advances past it.
    pub(super) fn parse(reader: &mut Reader<'a>) -> Option<Self> {
        let stream = reader.varint()?;
        let count = reader.varint().filter(|&count| count > 0)?;
        let mut spans = Spans::new(reader.rest());
        // Ends with the datagram at the latest, whatever the count claims: each span takes bytes.
        for _ in 0..count {
            spans.step()?;
        }
        let fields = reader.take(spans.reader.position as u64)?;
        Some(Self { stream, fields })
    }

    /// The spans, ascending, each with its receipt.
    pub fn spans(&self) -> Spans<'a> {
        Spans::new(self.fields)
    }
}

/// Iterator over the spans of a [`Sack`].
#[derive(Debug, Clone)]
pub struct Spans<'a> {
    reader: Reader<'a>,
    /// End of the previous span; `None` before the first, whose start is absolute.
    end: Option<u64>,
}

impl<'a> Spans<'a> {
    const fn new(fields: &'a [u8]) -> Self {
        Self { reader: Reader::new(fields), end: None }
    }

    /// `None` also for an empty span, an empty gap, and an end past the largest offset.
    fn step(&mut self) -> Option<(Span, Receipt)> {
        let (distance, len) = (self.reader.varint()?, self.reader.varint()?);
        // Three values below 2^62 do not overflow.
        let start = self.end.unwrap_or(0) + distance;
        let end = start + len;
        if len == 0 || (distance == 0 && self.end.is_some()) || end > VARINT_MAX {
            return None;
        }
        self.end = Some(end);
        Some((Span::new(start, end), Receipt::parse(&mut self.reader)?))
    }
}

impl Iterator for Spans<'_> {
    type Item = (Span, Receipt);

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        // `Sack::parse` took the same steps: they cannot fail here.
        self.step()
    }
}

/// Appends a SACK frame for `stream` with as many of `spans`, from the first, as fit into `budget` bytes, and
/// returns how many. With none, nothing is appended.
///
/// `spans` must ascend, be non-empty and leave gaps; the frame ends before a span that does not. The count has its
/// shortest encoding, and a frame has at most 16,383 spans.
///
/// # Panics
/// When `stream` or an offset is above 2^62 - 1.
pub fn emit(
    stream: u64,
    spans: impl IntoIterator<Item = (Span, Receipt)>,
    budget: usize,
    out: &mut Vec<u8>,
) -> usize {
    let frame_start = out.len();
    varint::emit_all([TYPE, stream], out);
    let count_at = out.len();
    out.push(0);
    let mut budget_left = budget.saturating_sub(out.len() - frame_start);
    let mut count = 0;
    let mut previous_end = None;
    for (span, receipt) in spans {
        let Some(distance) = span.start.checked_sub(previous_end.unwrap_or(0)) else { break };
        if span.start >= span.end || (distance == 0 && previous_end.is_some()) || count == COUNT_MAX {
            break;
        }
        let mut cost = varint::encoded_len(distance) + varint::encoded_len(span.len()) + RECEIPT_LEN;
        if count == ONE_BYTE_COUNT_MAX {
            cost += 1;
        }
        if cost > budget_left {
            break;
        }
        budget_left -= cost;
        if count == ONE_BYTE_COUNT_MAX {
            // The count grows to two bytes here: once per frame, some 130 bytes move.
            out.insert(count_at, 0);
        }
        varint::emit_all([distance, span.len()], out);
        receipt.emit(out);
        previous_end = Some(span.end);
        count += 1;
    }
    if count == 0 {
        out.truncate(frame_start);
    } else if count <= ONE_BYTE_COUNT_MAX {
        out[count_at] = count as u8;
    } else {
        let field = (count as u16 | 0x4000).to_be_bytes();
        out[count_at..count_at + field.len()].copy_from_slice(&field);
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{
        frame::{Frame, Frames},
        malformed::Malformed,
    };

    fn parsed(frame: &[u8]) -> (u64, Vec<(Span, Receipt)>) {
        let mut frames = Frames::new(frame);
        let Some(Ok(Frame::Sack(sack))) = frames.next() else { panic!("not one sack: {frame:x?}") };
        assert_eq!(frames.next(), None);
        (sack.stream, sack.spans().collect())
    }

    fn ascending(steps: Vec<(u64, u64)>) -> Vec<(Span, Receipt)> {
        let mut end = 0;
        let mut spans = Vec::new();
        for (gap, len) in steps {
            let start = end + gap;
            end = start + len;
            spans.push((Span::new(start, end), Receipt(end as u32)));
        }
        spans
    }

    #[test]
    fn the_64th_span_costs_one_byte_more() {
        let spans = ascending(vec![(1, 1); 64]);
        // Type, stream and count, then two bytes and a receipt for each span.
        for (budget, count, len) in [(3 + 378, 63, 381), (3 + 384, 63, 381), (3 + 385, 64, 388)] {
            let mut out = Vec::new();
            assert_eq!(emit(0, spans.iter().copied(), budget, &mut out), count);
            assert_eq!(out.len(), len);
            assert_eq!(parsed(&out).1, spans[..count]);
        }
    }

    #[test]
    fn touching_spans_are_not_emitted() {
        let mut out = Vec::new();
        let spans = [Span::new(0, 5), Span::new(5, 6)].map(|span| (span, Receipt(7)));
        assert_eq!(emit(0, spans, 100, &mut out), 1);
        assert_eq!(parsed(&out).1, [(Span::new(0, 5), Receipt(7))]);
    }

    #[test]
    fn a_count_of_two_bytes_stops_at_its_maximum() {
        let mut out = Vec::new();
        assert_eq!(emit(0, ascending(vec![(1, 1); 20_000]), usize::MAX, &mut out), COUNT_MAX);
        assert_eq!(parsed(&out).1.len(), COUNT_MAX);
    }

    #[test]
    fn spans_that_are_no_spans_are_refused() {
        for (frame, why) in [
            (&[2, 0, 0][..], "no span"),
            (&[2, 0, 1, 9, 0], "empty"),
            (&[2, 0, 2, 9, 1, 0, 0, 0, 0, 0, 1], "empty"),
            (&[2, 0, 2, 9, 1, 0, 0, 0, 0], "cut short"),
            (&[2, 0, 1, 9, 1, 0, 0, 0], "cut short"),
            (&[2, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 9, 1], "cut short"),
            (&[2, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "past the largest offset"),
        ] {
            assert_eq!(Frames::new(frame).next(), Some(Err(Malformed)), "{why}: {frame:x?}");
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_emit_within_the_budget(
            stream in 0..=VARINT_MAX,
            first in 0..1_u64 << 61,
            steps in prop::collection::vec((1..1_u64 << 40, 1..1_u64 << 40), 1..100),
            small in any::<bool>(),
            budget in 0..800_usize,
            before: Vec<u8>,
        ) {
            let mut steps = steps;
            if small {
                steps.iter_mut().for_each(|(gap, len)| (*gap, *len) = (*gap % 60 + 1, *len % 60 + 1));
            }
            steps[0].0 = first;
            let spans = ascending(steps);
            let mut out = before.clone();
            let count = emit(stream, spans.iter().copied(), budget, &mut out);
            let frame = out.strip_prefix(&before[..]).unwrap();
            if count == 0 {
                prop_assert!(frame.is_empty());
            } else {
                prop_assert!(frame.len() <= budget);
                prop_assert_eq!(parsed(frame), (stream, spans[..count].to_vec()));
            }
            if let Some(next) = spans.get(count) {
                // One span more would not have fitted.
                let mut longer = Vec::new();
                let spans = spans[..=count].iter().copied();
                prop_assert_eq!(emit(stream, spans, usize::MAX, &mut longer), count + 1);
                prop_assert!(longer.len() > budget, "{:?} fits", next);
            }
        }
    }
}
