//! The IPv6 header and its extensions (RFC 8200 §3, §4). All functions except [`parse`] take the bytes of a packet that
//! `parse` accepted.

use super::{
    FRAGMENT_UNIT, Fragment, Malformed, Packet, Parts, REASSEMBLED_MAX, TCP, Version, array, set_word, word,
};

const PAYLOAD_LEN: usize = 4;
const NEXT_HEADER: usize = 6;
pub(super) const HOP_LIMIT: usize = 7;
pub(super) const SOURCE: usize = 8;
pub(super) const DESTINATION: usize = 24;
pub(super) const HEADER_LEN: usize = 40;

/// Next header, a reserved byte, offset and flags, identification (RFC 8200 §4.5).
pub(crate) const FRAGMENT_HEADER_LEN: usize = 8;
const FRAGMENT_OFFSET: usize = 2;
const FRAGMENT_IDENTIFICATION: usize = 4;
const MORE_FRAGMENTS: u16 = 1;
/// Bytes in units of 8, three bits to the left: the offset in bytes.
const OFFSET: u16 = 0xfff8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(super) const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

pub(super) fn parse(mut bytes: Vec<u8>) -> Result<Packet, Malformed> {
    let fixed: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(Malformed::Truncated)?;
    let payload_len = usize::from(word(fixed, PAYLOAD_LEN));
    if bytes.len() - HEADER_LEN < payload_len {
        return Err(Malformed::Truncated);
    }
    // A jumbogram has length 0 but carries more (RFC 2675 §3); its content is cut off here with the padding.
    bytes.truncate(HEADER_LEN + payload_len);

    // Up to the last header that routers process, or up to a Fragment header.
    let mut headers = HEADER_LEN;
    let mut next_header_at = NEXT_HEADER;
    let (mut at, mut named_at) = (headers, next_header_at);
    let fragment_header = loop {
        match bytes[named_at] {
            FRAGMENT => {
                (headers, next_header_at) = (at, named_at);
                break true;
            }
            HOP_BY_HOP if at != HEADER_LEN => break false,
            kind @ (HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS) => {
                let len = extension_len(kind, &bytes[at..]).ok_or(Malformed::Truncated)?;
                (at, named_at) = (at + len, at);
                if kind != DESTINATION_OPTIONS {
                    (headers, next_header_at) = (at, named_at);
                }
            }
            _ => break false,
        }
    };
    let parts = Parts { version: Version::V6, headers, next_header_at, fragment_header };
    let packet = Packet { bytes, parts };
    if fragment_header {
        let bytes = &packet.bytes;
        if bytes.len() < headers + FRAGMENT_HEADER_LEN {
            return Err(Malformed::Truncated);
        }
        // The headers that all fragments repeat count towards the length of the whole packet (RFC 8200 §4.5).
        let whole = headers - HEADER_LEN + fragment(&bytes[headers..]).offset + packet.payload().len();
        if whole > REASSEMBLED_MAX {
            return Err(Malformed::TooLong);
        }
    }
    Ok(packet)
}

pub(super) fn traffic_class(bytes: &[u8]) -> u8 {
    bytes[0] << 4 | bytes[1] >> 4
}

pub(super) fn set_ce(bytes: &mut [u8]) {
    bytes[1] |= 0b11 << 4;
}

/// Reads the Fragment header at the front of `header`.
pub(super) fn fragment(header: &[u8]) -> Fragment {
    let place = word(header, FRAGMENT_OFFSET);
    Fragment {
        offset: (place & OFFSET).into(),
        more: place & MORE_FRAGMENTS != 0,
        identification: u32::from_be_bytes(array(header, FRAGMENT_IDENTIFICATION)),
    }
}

/// A Fragment header in front of a payload that begins with `next_header`.
pub(super) fn fragment_header(next_header: u8, fragment: Fragment) -> [u8; FRAGMENT_HEADER_LEN] {
    // A multiple of 8 below 2^16, since the payload is no longer than that.
    let place = fragment.offset as u16 & OFFSET | u16::from(fragment.more);
    let [offset_high, offset_low] = place.to_be_bytes();
    let [a, b, c, d] = fragment.identification.to_be_bytes();
    [next_header, 0, offset_high, offset_low, a, b, c, d]
}

/// Writes the payload length of a packet of this length.
pub(super) fn set_len(header: &mut [u8], total_len: usize) {
    set_word(header, PAYLOAD_LEN, (total_len - HEADER_LEN) as u16);
}

/// Whether two chains of headers differ at most in the length.
pub(super) fn is_same_but_for_length(one: &[u8], other: &[u8]) -> bool {
    one[..PAYLOAD_LEN] == other[..PAYLOAD_LEN] && one[PAYLOAD_LEN + 2..] == other[PAYLOAD_LEN + 2..]
}

/// Where the transport header begins in a payload.
pub(super) struct UpperLayer {
    /// Its protocol number.
    pub(super) protocol: u8,
    /// Its offset, at most the end of the payload.
    pub(super) offset: usize,
    /// Whether all headers before it are complete.
    whole: bool,
}

/// Walks the chain of extension headers that a payload begins with.
pub(super) fn upper_layer(mut protocol: u8, payload: &[u8]) -> UpperLayer {
    let mut offset = 0;
    loop {
        let header = &payload[offset..];
        if !matches!(
            protocol,
            HOP_BY_HOP | ROUTING | AUTHENTICATION | DESTINATION_OPTIONS | MOBILITY | HIP | SHIM6
        ) {
            return UpperLayer { protocol, offset, whole: true };
        }
        let Some(len) = extension_len(protocol, header) else {
            return UpperLayer { protocol, offset, whole: false };
        };
        (protocol, offset) = (header[0], offset + len);
    }
}

/// Bytes of payload up to the end of the transport header: the rest of the header chain (RFC 7112 §3). Exceeds the
/// payload if the chain is cut off.
pub(super) fn chain_len(protocol: u8, payload: &[u8]) -> usize {
    /// The length of UDP's header, and enough to identify any other.
    const TRANSPORT_HEADER: usize = 8;
    const TCP_HEADER: usize = 20;
    const TCP_DATA_OFFSET: usize = 12;
    let UpperLayer { protocol, offset, whole } = upper_layer(protocol, payload);
    if !whole {
        return usize::MAX;
    }
    let header = match (protocol, payload.get(offset + TCP_DATA_OFFSET)) {
        (TCP, Some(&byte)) => (usize::from(byte >> 4) * 4).max(TCP_HEADER),
        (TCP, None) => TCP_HEADER,
        _ => TRANSPORT_HEADER,
    };
    offset + header
}

/// Length of the extension header at the front of `bytes`; `None` if it is incomplete.
fn extension_len(kind: u8, bytes: &[u8]) -> Option<usize> {
    let units = usize::from(*bytes.get(1)?);
    let len = if kind == AUTHENTICATION { (units + 2) * 4 } else { (units + 1) * FRAGMENT_UNIT };
    (len <= bytes.len()).then_some(len)
}
