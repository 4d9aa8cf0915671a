//! What a peer may send, checked before h3 sees it: sans-IO.
//!
//! h3 0.0.8 stores a frame until it is whole, whatever its length, ignores the order of a header's fields, and compares
//! no body with its `content-length`. A [`Guard`] reads the frames of one stream ahead of it. Invariant: what it passes
//! on is a sequence of whole frames and beginnings of DATA frames, no header in it is malformed, and it stores at most one
//! frame of bounded length.

mod fields;
mod frame;
mod huffman;
mod message;
mod refused;
mod section;
mod static_table;

use bytes::{Buf, Bytes, BytesMut};

use self::frame::{Beginning, DATA, HEADERS, varint};
pub(crate) use self::{
    message::{HttpMessage, allows_any_content},
    refused::{Refused, Scope},
};

/// Of a control stream (RFC 9114 §6.2.1).
const CONTROL: u64 = 0;

/// Most bytes of a frame other than DATA and HEADERS. The longest with a use is SETTINGS.
const CONTROL_FRAME_MAX: u64 = 4096;

/// Reads the frames of one stream.
#[derive(Debug)]
pub(crate) struct Guard {
    state: GuardState,
    /// The beginning of a frame, or of a stream, whose other bytes have not arrived.
    beginning: BytesMut,
    /// Of a request or a response.
    message: Option<HttpMessage>,
    /// Most bytes of a header.
    header_max: u64,
}

/// What the next bytes are; counts are bytes.
#[derive(Debug)]
enum GuardState {
    /// The type of a unidirectional stream.
    StreamType,
    /// Type and length of a frame.
    Beginning,
    /// Of a frame of data, or of one that is not passed on.
    Payload { left: u64, passes: bool },
    /// Of a frame that is passed on whole, after its beginning of `head` bytes.
    Whole { frame: BytesMut, head: usize, left: usize, is_header: bool },
    /// No frames, or none of interest.
    Opaque,
}

impl Guard {
    /// Of a request's stream, in either direction.
    pub(crate) fn of_message(message: HttpMessage, header_max: u64) -> Self {
        Self { state: GuardState::Beginning, beginning: BytesMut::new(), message: Some(message), header_max }
    }

    /// Of a stream in one direction.
    pub(crate) fn of_unidirectional() -> Self {
        Self { state: GuardState::StreamType, beginning: BytesMut::new(), message: None, header_max: 0 }
    }

    /// See [`HttpMessage::allow_any_content`].
    pub(crate) fn allow_any_content(&mut self) {
        if let Some(message) = &mut self.message {
            message.allow_any_content();
        }
    }

    /// Takes bytes from `input`; the next ones to pass on, or `None` if it needs more input.
    pub(crate) fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Refused> {
        while input.has_remaining() {
            let passed = match &mut self.state {
                GuardState::StreamType => self.stream_type(input),
                GuardState::Beginning => self.frame(input)?,
                GuardState::Payload { left, passes } => {
                    let data = Some(take(input, left)).filter(|_| *passes);
                    if *left == 0 {
                        self.state = GuardState::Beginning;
                    }
                    data
                }
                GuardState::Whole { .. } => self.whole(input)?,
                GuardState::Opaque => Some(input.split_to(input.len())),
            };
            if passed.is_some() {
                return Ok(passed);
            }
        }
        Ok(None)
    }

    /// Checks that the stream may end here.
    pub(crate) fn end(&mut self) -> Result<(), Refused> {
        match self.state {
            GuardState::StreamType | GuardState::Opaque => Ok(()),
            GuardState::Beginning if self.beginning.is_empty() => {
                self.message.as_mut().map_or(Ok(()), HttpMessage::on_end)
            }
            _ => Err(Refused::truncated()),
        }
    }

    fn stream_type(&mut self, input: &mut Bytes) -> Option<Bytes> {
        let (kind, beginning) = frame::collect(&mut self.beginning, input, varint)?;
        self.state = if kind == CONTROL { GuardState::Beginning } else { GuardState::Opaque };
        Some(beginning)
    }

    /// Begins a frame; its first bytes, if they are passed on at once.
    fn frame(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Refused> {
        let Some((frame, bytes)) = frame::collect(&mut self.beginning, input, Beginning::parse) else {
            return Ok(None);
        };
        if frame.kind == DATA {
            if let Some(message) = &mut self.message {
                message.on_data(frame.len)?;
            }
            // h3 takes a frame without data for the end of a body.
            if frame.len == 0 {
                return Ok(None);
            }
            self.state = GuardState::Payload { left: frame.len, passes: true };
            return Ok(Some(bytes));
        }
        if frame.has_no_length() {
            self.state = GuardState::Opaque;
            return Ok(Some(bytes));
        }
        if !frame.is_known() {
            if frame.len > 0 {
                self.state = GuardState::Payload { left: frame.len, passes: false };
            }
            return Ok(None);
        }
        let is_header = frame.kind == HEADERS && self.message.is_some();
        let left = self.bounded(frame.len, is_header)?;
        self.state =
            GuardState::Whole { frame: BytesMut::from(&bytes[..]), head: bytes.len(), left, is_header };
        // A frame without a payload is whole.
        if left == 0 { self.whole(input) } else { Ok(None) }
    }

    /// The length of a frame that will be stored until it is whole.
    fn bounded(&self, len: u64, is_header: bool) -> Result<usize, Refused> {
        let (max, excess) = if is_header {
            (self.header_max, Refused::too_large())
        } else {
            (CONTROL_FRAME_MAX, Refused::too_long())
        };
        usize::try_from(len).ok().filter(|_| len <= max).ok_or(excess)
    }

    /// Continues a frame that is passed on whole.
    fn whole(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, Refused> {
        let GuardState::Whole { frame, head, left, is_header } = &mut self.state else { return Ok(None) };
        let taken = input.split_to(input.len().min(*left));
        *left -= taken.len();
        frame.extend_from_slice(&taken);
        if *left > 0 {
            return Ok(None);
        }
        let (frame, head, is_header) = (std::mem::take(frame).freeze(), *head, *is_header);
        self.state = GuardState::Beginning;
        if let Some(message) = self.message.as_mut().filter(|_| is_header) {
            message.on_header(&frame[head..], self.header_max)?;
        }
        Ok(Some(frame))
    }
}

/// Takes up to `left` bytes.
fn take(input: &mut Bytes, left: &mut u64) -> Bytes {
    let len = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    *left -= len as u64;
    input.split_to(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER_MAX: u64 = 1000;

    #[test]
    fn the_method_shows_at_the_beginning_of_a_long_header() {
        // HEADERS of 100,000 bytes, of which `:method` comes first: an index of the static table (RFC 9204 appendix A).
        let request = |method: u8| [&[1, 0x80, 1, 0x86, 0xa0][..], &[0, 0, 0xc0 | method]].concat();
        assert!(allows_any_content(&request(18)), "HEAD");
        assert!(!allows_any_content(&request(17)), "GET");
    }

    /// Passes pieces of these sizes, in turn, through a guard; what it passes on.
    fn pass(mut guard: Guard, bytes: &[u8], sizes: &[usize]) -> Result<Vec<u8>, Refused> {
        let (mut rest, mut passed) = (Bytes::copy_from_slice(bytes), Vec::new());
        for size in sizes.iter().cycle() {
            let mut piece = rest.split_to(rest.len().min(*size));
            while let Some(bytes) = guard.next(&mut piece)? {
                assert!(!bytes.is_empty());
                passed.extend_from_slice(&bytes);
            }
            assert!(piece.is_empty(), "it takes all");
            if rest.is_empty() {
                return guard.end().map(|()| passed);
            }
        }
        unreachable!("there are sizes")
    }

    fn request() -> Guard {
        Guard::of_message(HttpMessage::request(), HEADER_MAX)
    }

    /// GET https://a/ with a content-length of 3.
    const HEADER: &[u8] = b"\x01\x0b\x00\x00\xd1\xd7\x50\x01a\xc1\x54\x013";

    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let frame = prop_oneof![
            Just(HEADER.to_vec()),
            (
                prop_oneof![Just(0_u8), Just(1), Just(4), Just(0x21), any::<u8>()],
                prop::collection::vec(any::<u8>(), 0..60)
            )
                .prop_map(|(kind, payload)| [&[kind & 0x3f, payload.len() as u8][..], &payload].concat()),
        ];
        let frames = prop::collection::vec(frame, 0..6).prop_map(|frames| frames.concat());
        prop_oneof![3 => frames, 1 => prop::collection::vec(any::<u8>(), 0..200)]
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_passed_on_alike(
            bytes in frames(),
            sizes in prop::collection::vec(1..40_usize, 1..5),
            is_request: bool,
        ) {
            let guard = || if is_request { request() } else { Guard::of_unidirectional() };
            let whole = pass(guard(), &bytes, &[usize::MAX]);
            prop_assert_eq!(&pass(guard(), &bytes, &sizes), &whole);
            prop_assert!(whole.is_err() || whole.is_ok_and(|passed| passed.len() <= bytes.len()));
        }
    }

    #[test]
    fn only_frames_without_a_meaning_are_left_out() {
        let data = b"\x00\x02ab\x00\x01c";
        let sent = [HEADER, b"\x21\x02??", &data[..4], b"\x00\x00", &data[4..], b"\x40\x5f\x40\x00"].concat();
        assert_eq!(pass(request(), &sent, &[1]).unwrap(), [HEADER, data].concat());
        let control = b"\x00\x04\x00\x07\x01\x00";
        let sent = [&control[..3], b"\x21\x02??", &control[3..]].concat();
        assert_eq!(pass(Guard::of_unidirectional(), &sent, &[2]).unwrap(), control);
        // A stream of another type has no frames.
        assert_eq!(pass(Guard::of_unidirectional(), b"\x02\xff\xff\xff", &[1]).unwrap(), b"\x02\xff\xff\xff");
    }

    #[test]
    fn frames_are_refused_by_their_lengths_alone() {
        let refused = |guard, bytes| pass(guard, bytes, &[usize::MAX]).unwrap_err();
        assert_eq!(refused(request(), b"\x01\x43\xe9"), Refused::too_large());
        assert_eq!(refused(request(), b"\x01\x43\xe8"), Refused::truncated());
        assert_eq!(refused(request(), b"\x04\x50\x01"), Refused::too_long());
        assert_eq!(refused(Guard::of_unidirectional(), b"\x00\x04\x50\x01"), Refused::too_long());
        assert_eq!(refused(Guard::of_unidirectional(), b"\x00\x04\x50\x00"), Refused::truncated());
    }
}
