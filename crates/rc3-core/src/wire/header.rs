//! The header of an RLP datagram (`docs/WIRE.md#datagram`): 13 bytes of fixed layout.
//!
//! ```text
//! byte 0      0 0 K R L L L L    key phase, reserved, level; the low six bits are masked
//! bytes 1-8   receiver id        in the clear
//! bytes 9-12  packet number      its low 32 bits, big endian, masked
//! ```
//!
//! Two zero top bits distinguish the datagram from QUIC's on the same port: QUIC sets the second in everything except
//! Version Negotiation, which sets the first (RFC 9000 §17.2, §17.3).

use std::fmt;

use crate::units::Level;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 13;
/// Length of the tag behind the payload in bytes (AEAD_AES_128_GCM).
pub const TAG_LEN: usize = 16;
/// The sample for header protection: bytes after the header (RFC 9001 §5.4.2).
pub(crate) const SAMPLE_LEN: usize = 16;
/// First packet number beyond the last one (RFC 9000 §12.3).
pub(crate) const PACKET_NUMBER_END: u64 = 1 << 62;

const NOT_RLP: u8 = 0b1100_0000;
/// The bit of QUIC's long headers (RFC 8999 §5.1).
const LONG: u8 = 0b1000_0000;
const KEY_PHASE: u8 = 0b0010_0000;
const RESERVED: u8 = 0b0001_0000;
const LEVEL: u8 = 0b0000_1111;
/// The bits of the first byte under header protection.
const MASKED: u8 = KEY_PHASE | RESERVED | LEVEL;

/// Identifies one direction of one connection to the endpoint that receives it. Derived from the secret of that
/// direction, so both ends know it and no one else can guess it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReceiverId(pub [u8; 8]);

impl fmt::Debug for ReceiverId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// The receiver id of a datagram, or `None` if it is not an RLP datagram: too short, or QUIC's by its first byte.
///
/// Reads nine bytes without keys: it routes datagrams but does not authenticate them.
pub fn receiver_id(datagram: &[u8]) -> Option<ReceiverId> {
    let &[first, a, b, c, d, e, f, g, h, ..] = datagram else { return None };
    let is_whole = first & NOT_RLP == 0 && datagram.len() >= HEADER_LEN + TAG_LEN;
    is_whole.then_some(ReceiverId([a, b, c, d, e, f, g, h]))
}

/// Whether a datagram belongs to RLP, and not to the primary, by its first byte.
#[inline]
pub fn is_rlp(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & NOT_RLP == 0)
}

/// Whether a QUIC packet has a long header.
pub(crate) fn has_long_header(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & LONG != 0)
}

/// The header without its protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The lowest bit of the generation of keys that sealed the datagram.
    pub key_phase: bool,
    /// Must be zero in rc3/1. Not trustworthy before authentication.
    pub reserved: bool,
    /// The level of the datagram. Level 0 is a fault. Not trustworthy before authentication.
    pub level: Level,
    /// The receiver of the datagram.
    pub receiver: ReceiverId,
    /// The low 32 bits of the packet number.
    pub packet_number: u32,
}

impl Header {
    /// The header as bytes, not masked yet.
    pub(crate) fn emit(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = self.level.get();
        if self.key_phase {
            bytes[0] |= KEY_PHASE;
        }
        if self.reserved {
            bytes[0] |= RESERVED;
        }
        bytes[1..9].copy_from_slice(&self.receiver.0);
        bytes[9..].copy_from_slice(&self.packet_number.to_be_bytes());
        bytes
    }

    /// Parses an unmasked header. [`receiver_id`] checks the two top bits of the first byte.
    pub(crate) fn parse(bytes: &[u8; HEADER_LEN]) -> Self {
        let &[first, a, b, c, d, e, f, g, h, w, x, y, z] = bytes;
        Self {
            key_phase: first & KEY_PHASE != 0,
            reserved: first & RESERVED != 0,
            level: Level::new(first & LEVEL).unwrap_or(Level::MAX),
            receiver: ReceiverId([a, b, c, d, e, f, g, h]),
            packet_number: u32::from_be_bytes([w, x, y, z]),
        }
    }
}

/// Applies or removes header protection (RFC 9001 §5.4.1).
pub(crate) fn apply_mask(header: &mut [u8; HEADER_LEN], mask: [u8; 5]) {
    let [first, number @ ..] = mask;
    header[0] ^= first & MASKED;
    for (byte, mask) in header[9..].iter_mut().zip(number) {
        *byte ^= mask;
    }
}

/// The packet number nearest to `expected` (the highest authenticated one plus 1) that ends in `truncated`
/// (RFC 9000 A.3).
pub(crate) fn expand_packet_number(truncated: u32, expected: u64) -> u64 {
    const WINDOW: u64 = 1 << 32;
    const HALF: u64 = WINDOW / 2;
    let candidate = expected & !(WINDOW - 1) | u64::from(truncated);
    if candidate.saturating_add(HALF) <= expected && candidate < PACKET_NUMBER_END - WINDOW {
        candidate + WINDOW
    } else if candidate > expected.saturating_add(HALF) && candidate >= WINDOW {
        candidate - WINDOW
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_header() -> impl Strategy<Value = Header> {
        (any::<bool>(), any::<bool>(), 0..16_u8, any::<[u8; 8]>(), any::<u32>()).prop_map(
            |(key_phase, reserved, level, id, packet_number)| Header {
                key_phase,
                reserved,
                level: Level::new(level).unwrap(),
                receiver: ReceiverId(id),
                packet_number,
            },
        )
    }

    #[test]
    fn quic_datagrams_have_no_receiver_id() {
        for first in 0..=u8::MAX {
            let mut datagram = [7; HEADER_LEN + TAG_LEN];
            datagram[0] = first;
            assert_eq!(receiver_id(&datagram).is_some(), first < 0x40, "{first:#x}");
        }
    }

    #[test]
    fn packet_numbers_expand_past_32_bits() {
        assert_eq!(expand_packet_number(0, 1 << 32), 1 << 32);
        assert_eq!(expand_packet_number(u32::MAX, 1 << 32), (1 << 32) - 1);
        assert_eq!(expand_packet_number(5, (1 << 32) - 1), (1 << 32) + 5);
        assert_eq!(expand_packet_number(u32::MAX, 0), u64::from(u32::MAX), "nothing lies below zero");
        assert_eq!(expand_packet_number(0, PACKET_NUMBER_END - 1), PACKET_NUMBER_END - (1 << 32));
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(header in any_header(), mask: [u8; 5]) {
            let mut bytes = header.emit();
            apply_mask(&mut bytes, mask);
            prop_assert_eq!(bytes[0] & NOT_RLP, 0);
            prop_assert_eq!(&bytes[1..9], &header.receiver.0[..]);
            apply_mask(&mut bytes, mask);
            prop_assert_eq!(Header::parse(&bytes), header);
        }

        #[test]
        fn numbers_less_than_half_a_window_away_expand_to_themselves(
            expected in 0..PACKET_NUMBER_END,
            distance in -(1_i64 << 31) + 1..1_i64 << 31,
        ) {
            let number = expected.saturating_add_signed(distance).min(PACKET_NUMBER_END - 1);
            prop_assert_eq!(expand_packet_number(number as u32, expected), number);
        }

        #[test]
        fn short_datagrams_have_no_receiver_id(
            datagram in prop::collection::vec(0..0x40_u8, 0..HEADER_LEN + TAG_LEN),
        ) {
            prop_assert_eq!(receiver_id(&datagram), None);
        }
    }
}
