//! The IPv4 header (RFC 791 §3.1). All functions except [`parse`] take the bytes of a packet that `parse` accepted.

use super::{
    FRAGMENT_UNIT, Fragment, Malformed, Packet, Parts, REASSEMBLED_MAX, Version, checksum, set_word, word,
};

pub(super) const TRAFFIC_CLASS: usize = 1;
const TOTAL_LEN: usize = 2;
const IDENTIFICATION: usize = 4;
const FLAGS: usize = 6;
pub(super) const TIME_TO_LIVE: usize = 8;
pub(super) const PROTOCOL: usize = 9;
const CHECKSUM: usize = 10;
pub(super) const SOURCE: usize = 12;
pub(super) const DESTINATION: usize = 16;
const HEADER_MIN: usize = 20;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// An option with this bit is in every fragment.
const OPTION_COPIED: u8 = 0x80;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;

pub(super) fn parse(mut bytes: Vec<u8>) -> Result<Packet, Malformed> {
    let fixed: &[u8; HEADER_MIN] = bytes.first_chunk().ok_or(Malformed::Truncated)?;
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    let total_len = usize::from(word(fixed, TOTAL_LEN));
    if header_len < HEADER_MIN || total_len < header_len {
        return Err(Malformed::Length);
    }
    if total_len > bytes.len() {
        return Err(Malformed::Truncated);
    }
    if checksum::sum(&bytes[..header_len]) != 0xffff {
        return Err(Malformed::Checksum);
    }
    // Offset, payload and header together give the length of the whole packet.
    if fragment(&bytes).offset + total_len > REASSEMBLED_MAX {
        return Err(Malformed::TooLong);
    }
    bytes.truncate(total_len);
    let parts =
        Parts { version: Version::V4, headers: header_len, next_header_at: 0, fragment_header: false };
    Ok(Packet { bytes, parts })
}

pub(super) fn dont_fragment(bytes: &[u8]) -> bool {
    word(bytes, FLAGS) & DONT_FRAGMENT != 0
}

pub(super) fn fragment(bytes: &[u8]) -> Fragment {
    let flags = word(bytes, FLAGS);
    Fragment {
        offset: usize::from(flags & OFFSET) * FRAGMENT_UNIT,
        more: flags & MORE_FRAGMENTS != 0,
        identification: word(bytes, IDENTIFICATION).into(),
    }
}

pub(super) fn set_ce(bytes: &mut [u8]) {
    bytes[TRAFFIC_CLASS] |= 0b11;
    finish(bytes);
}

pub(super) fn set_time_to_live(bytes: &mut [u8], left: u8) {
    bytes[TIME_TO_LIVE] = left;
    finish(bytes);
}

/// Turns the header into that of a fragment: sets length, offset, flags and checksum.
pub(super) fn set_fragment(bytes: &mut [u8], offset: usize, more: bool) {
    let kept = word(bytes, FLAGS) & !(MORE_FRAGMENTS | OFFSET);
    let more = if more { MORE_FRAGMENTS } else { 0 };
    // A multiple of 8 below 2^16, since the payload is no longer than that.
    let units = (offset / FRAGMENT_UNIT) as u16 & OFFSET;
    set_word(bytes, FLAGS, kept | more | units);
    set_word(bytes, TOTAL_LEN, bytes.len() as u16);
    finish(bytes);
}

/// Whether two headers differ at most in length, identification and checksum.
pub(super) fn is_same_but_for_counters(one: &[u8], other: &[u8]) -> bool {
    one[..TOTAL_LEN] == other[..TOTAL_LEN]
        && one[FLAGS..CHECKSUM] == other[FLAGS..CHECKSUM]
        && one[CHECKSUM + 2..] == other[CHECKSUM + 2..]
}

/// Sets length and checksum, and raises the identification.
pub(super) fn set_len(header: &mut [u8], total_len: usize, counted: u16) {
    set_word(header, TOTAL_LEN, total_len as u16);
    let identification = word(header, IDENTIFICATION).wrapping_add(counted);
    set_word(header, IDENTIFICATION, identification);
    finish(header);
}

/// The header for a fragment other than the leading one, with room for its payload: it has only the options to be
/// copied (RFC 791 §3.1). Length, offset and checksum are left to [`set_fragment`]. `None` if the options are
/// malformed.
pub(super) fn header_of_rest(header: &[u8], payload_len: usize) -> Option<Vec<u8>> {
    let (fixed, mut options) = header.split_at(HEADER_MIN);
    let mut rest = Vec::with_capacity(header.len() + payload_len);
    rest.extend_from_slice(fixed);
    while let Some(&kind) = options.first() {
        let len = match kind {
            OPTION_END => break,
            OPTION_NOP => 1,
            _ => usize::from(*options.get(1)?),
        };
        if kind != OPTION_NOP && len < 2 {
            return None;
        }
        let (option, others) = options.split_at_checked(len)?;
        if kind & OPTION_COPIED != 0 {
            rest.extend_from_slice(option);
        }
        options = others;
    }
    rest.resize(rest.len().next_multiple_of(4), OPTION_END);
    // At most as long as the original header.
    rest[0] = 0x40 | (rest.len() / 4) as u8;
    Some(rest)
}

fn finish(bytes: &mut [u8]) {
    let header_len = usize::from(bytes[0] & 0x0f) * 4;
    set_word(bytes, CHECKSUM, 0);
    let checksum = !checksum::sum(&bytes[..header_len]);
    set_word(bytes, CHECKSUM, checksum);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with these options, padded.
    fn header(options: &[u8]) -> Vec<u8> {
        let mut header = vec![0; HEADER_MIN];
        header.extend_from_slice(options);
        header.resize(header.len().next_multiple_of(4), OPTION_END);
        header[0] = 0x40 | (header.len() / 4) as u8;
        header
    }

    fn options_of_rest(options: &[u8]) -> Option<Vec<u8>> {
        let rest = header_of_rest(&header(options), 0)?;
        assert_eq!(rest.len(), usize::from(rest[0] & 0x0f) * 4);
        Some(rest[HEADER_MIN..].to_vec())
    }

    #[test]
    fn only_options_to_be_copied_are() {
        // Record route is not copied, a strict source route is (RFC 791 §3.1).
        let record_route = [7, 7, 4, 0, 0, 0, 0];
        let source_route = [0x89, 7, 4, 10, 0, 0, 1];
        let options = [&[OPTION_NOP][..], &record_route, &source_route, &[OPTION_END]].concat();
        assert_eq!(options_of_rest(&options).unwrap(), [&source_route[..], &[OPTION_END]].concat());
        assert_eq!(options_of_rest(&[]), Some(vec![]));
        assert_eq!(options_of_rest(&record_route), Some(vec![]));
        let after_the_end = [&[OPTION_END][..], &source_route].concat();
        assert_eq!(options_of_rest(&after_the_end), Some(vec![]));
    }

    #[test]
    fn options_that_do_not_end_are_refused() {
        for options in
            [&[0x89, 0, 0, 0][..], &[0x89, 1, 0, 0], &[7, 5, 0, 0], &[OPTION_NOP; 4][..3], &[1, 1, 1, 7]]
        {
            let refused = options != &[OPTION_NOP; 3][..];
            assert_eq!(options_of_rest(options).is_none(), refused, "{options:?}");
        }
    }
}
