//! Types and lengths of frames (RFC 9114 §7).

use bytes::{Buf, Bytes, BytesMut};

pub(super) const DATA: u64 = 0x0;
pub(super) const HEADERS: u64 = 0x1;
/// The last type of a row that h3 knows: those of HTTP/3, and those of HTTP/2, which are errors.
const CONTINUATION: u64 = 0x9;
const MAX_PUSH_ID: u64 = 0xd;
/// A stream of WebTransport, which h3 refuses.
const WEBTRANSPORT: u64 = 0x41;

/// What a frame begins with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beginning {
    pub(super) kind: u64,
    /// Bytes of the payload.
    pub(super) len: u64,
}

impl Beginning {
    /// With the number of its bytes; `None` if there are not enough.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (kind, kind_size) = varint(bytes)?;
        if kind == WEBTRANSPORT {
            return Some((Self { kind, len: 0 }, kind_size));
        }
        let (len, len_size) = varint(&bytes[kind_size..])?;
        Some((Self { kind, len }, kind_size + len_size))
    }

    /// Whether the rest of the stream belongs to it.
    pub(super) fn has_no_length(&self) -> bool {
        self.kind == WEBTRANSPORT
    }

    /// Whether h3 does anything with the frame except to skip it.
    pub(super) fn is_known(&self) -> bool {
        self.kind <= CONTINUATION || self.kind == MAX_PUSH_ID
    }
}

/// A variable-length integer and its size (RFC 9000 §16); `None` if there are not enough bytes.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let size = 1 << (first >> 6);
    let rest = bytes.get(1..size)?;
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, &byte| value << 8 | u64::from(byte));
    Some((value, size))
}

/// Takes from `input` what `parse` understands, with its bytes. What is not complete waits in `begun`.
pub(super) fn collect<T>(
    begun: &mut BytesMut,
    input: &mut Bytes,
    parse: impl Fn(&[u8]) -> Option<(T, usize)>,
) -> Option<(T, Bytes)> {
    if begun.is_empty()
        && let Some((parsed, size)) = parse(input)
    {
        return Some((parsed, input.split_to(size)));
    }
    // At most 16 bytes.
    while input.has_remaining() {
        begun.extend_from_slice(&[input.get_u8()]);
        if let Some((parsed, _)) = parse(begun) {
            return Some((parsed, begun.split().freeze()));
        }
    }
    None
}
