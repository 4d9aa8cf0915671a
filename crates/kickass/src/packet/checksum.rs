//! The Internet checksum (RFC 1071).

/// The ones' complement sum over 16-bit words, with an odd last byte padded with zero. It is `0xffff` over a header
/// with a correct checksum; its complement is the checksum of a header whose checksum field is zero.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    // Two words at a time: the upper one is worth 2^16, which is 1 in this arithmetic.
    let (pairs, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    // Fewer than 2^32 pairs fit into a packet, so the sum cannot overflow.
    let pairs = pairs.iter().chain([&last]).map(|&pair| u64::from(u32::from_be_bytes(pair)));
    let mut sum = pairs.sum::<u64>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_holds() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&bytes), 0xddf2);
        assert_eq!(sum(&bytes[..7]), 0xdcfb);
        assert_eq!(sum(&[]), 0);
        assert_eq!(!sum(&[0xff; 60]), 0);
    }
}
