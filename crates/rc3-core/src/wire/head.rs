//! The records inside each QUIC stream (`docs/WIRE.md#head`): where the primary loop runs, and what it skips.
//!
//! A record is one varint `v`. Even: a RUN, `v >> 1` stream bytes follow. Odd: a SKIP, the cursor advances by `v >> 1`
//! bytes that the receiver has acknowledged by SACK. The cursor starts at 0 and only moves forward. The stream ends
//! between two records, and the cursor then is the final size. Offsets are those of the rc3 stream, in bytes; those of
//! the QUIC stream that carries the records appear nowhere.

use bytes::{Buf, Bytes};

use super::{
    malformed::Malformed,
    varint::{self, VARINT_MAX},
};
use crate::units::Span;

/// Most bytes of one record.
const RECORD_LEN_MAX: u64 = VARINT_MAX >> 1;
const SKIP: u64 = 1;
const VARINT_LEN_MAX: usize = 8;

/// Writes the records of one stream, from offset 0 on.
#[derive(Debug, Default)]
pub struct HeadEncoder {
    position: u64,
}

impl HeadEncoder {
    /// The cursor: first offset that no record has covered.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Appends the header of a RUN of `span`, and a SKIP before it if `span` begins after the cursor. The caller
    /// appends the `span.len()` bytes themselves. An empty span has no RUN.
    ///
    /// # Panics
    /// When `span` begins before the cursor, ends beyond [`VARINT_MAX`], or is longer than 2^61 - 1 bytes.
    pub fn run(&mut self, span: Span, out: &mut Vec<u8>) {
        assert!(span.end <= VARINT_MAX, "{span:?} ends past the largest offset");
        assert!(span.len() <= RECORD_LEN_MAX, "{span:?} is too long for one run");
        self.skip_to(span.start, out);
        if !span.is_empty() {
            varint::emit(span.len() << 1, out);
            self.position = span.end;
        }
    }

    /// The length of what [`Self::run`] appends, unless it begins with a SKIP.
    pub fn run_header_len(span: Span) -> usize {
        varint::encoded_len(span.len() << 1)
    }

    /// Ends the stream at `end`, its final size: appends a SKIP if the cursor is not there yet. The caller finishes the
    /// QUIC stream after it.
    ///
    /// # Panics
    /// When `end` lies before the cursor or beyond [`VARINT_MAX`].
    pub fn finish(&mut self, end: u64, out: &mut Vec<u8>) {
        assert!(end <= VARINT_MAX, "{end} is past the largest offset");
        self.skip_to(end, out);
    }

    fn skip_to(&mut self, offset: u64, out: &mut Vec<u8>) {
        assert!(offset >= self.position, "offset {offset} lies before the cursor at {}", self.position);
        while self.position < offset {
            let len = (offset - self.position).min(RECORD_LEN_MAX);
            varint::emit(len << 1 | SKIP, out);
            self.position += len;
        }
    }
}

/// A piece of a stream as the primary loop delivers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// Bytes of the stream. One RUN may come out in several pieces, split like the chunks.
    Run {
        /// Offset in the stream of the first byte.
        offset: u64,
        /// The bytes, never empty, sharing memory with the chunk they arrived in.
        data: Bytes,
    },
    /// The peer claims that these bytes were acknowledged. The caller must check it: if they were not, the peer is at
    /// fault.
    Skip(Span),
}

/// Parses the records of one stream as its bytes arrive.
///
/// Stores at most one chunk, and up to 8 bytes of a varint split between chunks.
#[derive(Debug, Default)]
pub struct HeadDecoder {
    chunk: Bytes,
    /// The varint being read: its first `varint_len` bytes.
    varint: [u8; VARINT_LEN_MAX],
    varint_len: usize,
    /// The rest of the current RUN.
    run_left: u64,
    position: u64,
}

impl HeadDecoder {
    /// The cursor: first offset not yielded yet.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Adds the next bytes of the QUIC stream.
    ///
    /// # Panics
    /// When the previous chunk is not used up, that is, [`Self::next`] has not returned `Ok(None)` since.
    pub fn push(&mut self, chunk: Bytes) {
        assert!(self.chunk.is_empty(), "take everything out before pushing the next chunk");
        self.chunk = chunk;
    }

    /// The next piece, or `None` until another chunk arrives.
    ///
    /// # Errors
    /// The peer's fault. The connection must be closed; every further call returns the same.
    #[expect(clippy::should_implement_trait, reason = "yields again after None, once a chunk has come")]
    pub fn next(&mut self) -> Result<Option<Head>, Malformed> {
        if self.run_left == 0 {
            let Some(value) = self.record_header() else { return Ok(None) };
            let len = value >> 1;
            // Both are below 2^62.
            let end = self.position + len;
            if len == 0 || end > VARINT_MAX {
                return Err(Malformed);
            }
            self.varint_len = 0;
            if value & SKIP != 0 {
                let span = Span::new(self.position, end);
                self.position = end;
                return Ok(Some(Head::Skip(span)));
            }
            self.run_left = len;
        }
        if self.chunk.is_empty() {
            return Ok(None);
        }
        // In the chunk's length: fits a usize either way.
        let len = self.run_left.min(self.chunk.len() as u64);
        let data = self.chunk.split_to(len as usize);
        let offset = self.position;
        self.run_left -= len;
        self.position += len;
        Ok(Some(Head::Run { offset, data }))
    }

    /// The final size of the stream; call it when the QUIC stream has ended and [`Self::next`] has nothing more.
    ///
    /// # Errors
    /// When the stream ends inside a record.
    pub fn finish(&self) -> Result<u64, Malformed> {
        let whole = self.run_left == 0 && self.varint_len == 0 && self.chunk.is_empty();
        if whole { Ok(self.position) } else { Err(Malformed) }
    }

    /// The whole varint in front of a record, or `None` while part of it is missing. Stays until
    /// `varint_len` is reset, so that an error repeats.
    fn record_header(&mut self) -> Option<u64> {
        while self.chunk.has_remaining() || self.varint_len > 0 {
            let (header, _) = self.varint.split_at(self.varint_len);
            if let Some((value, _)) = varint::parse(header) {
                return Some(value);
            }
            if !self.chunk.has_remaining() {
                return None;
            }
            // Not complete, so shorter than the longest: the index holds.
            self.varint[self.varint_len] = self.chunk.get_u8();
            self.varint_len += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::document::documented;

    fn decode_all(decoder: &mut HeadDecoder, chunk: &[u8]) -> Result<Vec<Head>, Malformed> {
        decoder.push(Bytes::copy_from_slice(chunk));
        let mut heads = Vec::new();
        while let Some(head) = decoder.next()? {
            heads.push(head);
        }
        Ok(heads)
    }

    #[test]
    fn the_worked_example_of_the_document_is_what_we_encode() {
        let mut encoder = HeadEncoder::default();
        let mut out = Vec::new();
        encoder.run(Span::new(0, 3), &mut out);
        out.extend(b"abc");
        encoder.run(Span::new(1000, 1003), &mut out);
        out.extend(b"rc3");
        encoder.finish(1003, &mut out);
        assert_eq!(out, documented("head"));
    }

    #[test]
    fn runs_share_the_memory_of_their_chunk() {
        let chunk = Bytes::from_static(&[4, b'a', b'b', 9, 6, b'c']);
        let mut decoder = HeadDecoder::default();
        decoder.push(chunk.clone());
        let Ok(Some(Head::Run { offset: 0, data })) = decoder.next() else { panic!("no run") };
        assert_eq!(data.as_ptr(), chunk[1..].as_ptr());
        assert_eq!(decoder.next(), Ok(Some(Head::Skip(Span::new(2, 6)))));
        assert_eq!(decoder.next(), Ok(Some(Head::Run { offset: 6, data: Bytes::from_static(b"c") })));
        assert_eq!(decoder.next(), Ok(None));
        assert_eq!((decoder.position(), decoder.finish()), (7, Err(Malformed)));
    }

    #[test]
    fn faults_are_named_again_and_again() {
        let most = [0xff; 8];
        for (bytes, why) in [
            (&[0][..], "empty"),
            (&[1], "empty"),
            (&[0x40, 0x01], "empty"),
            (&[most, most, most].concat(), "past the largest offset"),
            (&[&most[..], &most[..], &[5, 2]].concat(), "past the largest offset"),
        ] {
            let mut decoder = HeadDecoder::default();
            assert_eq!(decode_all(&mut decoder, bytes), Err(Malformed), "{why}: {bytes:x?}");
            assert_eq!(decoder.next(), Err(Malformed), "{why}: {bytes:x?}");
        }
    }

    #[test]
    fn a_stream_may_only_end_at_a_record_border() {
        for (bytes, end) in [
            (&[][..], Ok(0)),
            (&[3], Ok(1)),
            (&[2, b'a'], Ok(1)),
            (&[2], Err(Malformed)),
            (&[4, b'a'], Err(Malformed)),
            (&[0x40], Err(Malformed)),
        ] {
            let mut decoder = HeadDecoder::default();
            decode_all(&mut decoder, bytes).unwrap();
            assert_eq!(decoder.finish(), end, "{bytes:x?}");
        }
    }

    #[test]
    fn the_longest_skip_takes_three_records() {
        let mut encoder = HeadEncoder::default();
        let mut out = Vec::new();
        encoder.finish(VARINT_MAX, &mut out);
        let mut decoder = HeadDecoder::default();
        let skips = decode_all(&mut decoder, &out).unwrap();
        assert_eq!(skips.len(), 3);
        assert_eq!(decoder.finish(), Ok(VARINT_MAX));
    }

    #[test]
    #[should_panic = "before the cursor"]
    fn the_cursor_does_not_move_back() {
        let mut encoder = HeadEncoder::default();
        encoder.run(Span::new(0, 5), &mut Vec::new());
        encoder.run(Span::new(4, 6), &mut Vec::new());
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding_however_the_stream_is_cut(
            runs in prop::collection::vec(
                (
                    prop_oneof![Just(0), 0..100_u64, 0..1_u64 << 55],
                    prop::collection::vec(any::<u8>(), 0..200),
                ),
                0..20,
            ),
            tail in 0..1_u64 << 55,
            chunk in 1..300_usize,
        ) {
            let mut encoder = HeadEncoder::default();
            let mut bytes = Vec::new();
            let mut content = Vec::new();
            for (gap, data) in &runs {
                let start = encoder.position() + gap;
                encoder.run(Span::new(start, start + data.len() as u64), &mut bytes);
                bytes.extend(data);
                content.extend(data.iter().zip(start..).map(|(&byte, offset)| (offset, byte)));
            }
            let end = encoder.position() + tail;
            encoder.finish(end, &mut bytes);

            let mut decoder = HeadDecoder::default();
            let mut decoded = Vec::new();
            let mut cursor = 0;
            for chunk in bytes.chunks(chunk) {
                for head in decode_all(&mut decoder, chunk).unwrap() {
                    match head {
                        Head::Run { offset, data } => {
                            prop_assert_eq!(offset, cursor);
                            prop_assert!(!data.is_empty());
                            cursor += data.len() as u64;
                            decoded.extend(data.iter().zip(offset..).map(|(&byte, offset)| (offset, byte)));
                        }
                        Head::Skip(span) => {
                            prop_assert_eq!(span.start, cursor);
                            prop_assert!(!span.is_empty());
                            cursor = span.end;
                        }
                    }
                }
            }
            prop_assert_eq!(decoded, content);
            prop_assert_eq!(decoder.finish(), Ok(end));
        }

        #[test]
        fn garbage_moves_the_cursor_on_or_fails(bytes: Vec<u8>, chunk in 1..40_usize) {
            let mut decoder = HeadDecoder::default();
            for chunk in bytes.chunks(chunk) {
                let before = decoder.position();
                let Ok(heads) = decode_all(&mut decoder, chunk) else { break };
                let span = |head: &Head| match head {
                    Head::Run { data, .. } => data.len() as u64,
                    Head::Skip(span) => span.len(),
                };
                prop_assert_eq!(before + heads.iter().map(span).sum::<u64>(), decoder.position());
                prop_assert!(decoder.position() <= VARINT_MAX);
                prop_assert!(decoder.chunk.is_empty() && decoder.varint_len < VARINT_LEN_MAX);
            }
        }
    }
}
