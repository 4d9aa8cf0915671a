//! The length of a datagram's leading fragment: seen, or concluded from the longest.
//!
//! Pure: bytes and numbers go in, lengths come out. No sockets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Bytes of an IPv4 header without options, and with the most options.
pub(super) const IPV4_HEADER: usize = 20;
pub(super) const IPV4_HEADER_MAX: usize = 60;
pub(super) const UDP_HEADER: usize = 8;

/// Bytes of UDP payload that match a fragment to its datagram. The longest of QUIC's headers without a token has 52
/// before its packet number (RFC 9000 §17.2); the rest is encrypted, so no two are the same.
pub(super) const START_MAX: usize = 64;

/// The fewest: they include eight bytes of connection id, which cannot be guessed without seeing the path. The shortest
/// length that encodes a rate leaves as many.
const START_MIN: usize = 16;

/// The leading fragment of a UDP datagram over IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeadingFragment {
    source: SocketAddr,
    /// Length of the datagram, with the UDP header, as in that header.
    whole: u16,
    /// Bytes of payload, without the IP header.
    len: u16,
    start: [u8; START_MAX],
    start_len: usize,
}

impl LeadingFragment {
    /// Parses the first bytes of a packet, the IP header included. `None` if it is not such a fragment, if its lengths
    /// contradict each other, or if it is too short to identify its datagram.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        const MORE_FRAGMENTS: u16 = 0x2000;
        const FRAGMENT_OFFSET: u16 = 0x1fff;
        const UDP: u8 = 17;
        let fixed: &[u8; IPV4_HEADER] = packet.first_chunk()?;
        let number = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let (version, header) = (fixed[0] >> 4, usize::from(fixed[0] & 0x0f) * 4);
        let leading = number(6) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) == MORE_FRAGMENTS;
        if version != 4 || header < IPV4_HEADER || !leading || fixed[9] != UDP {
            return None;
        }
        let len = number(2).checked_sub(header as u16)?;
        // Truncated bytes and the padding of a frame are ignored.
        let payload = packet.get(header..)?;
        let payload = &payload[..payload.len().min(len.into())];
        let (udp, start) = payload.split_first_chunk::<UDP_HEADER>()?;
        let whole = u16::from_be_bytes([udp[4], udp[5]]);
        // RFC 791 §3.2: all except the last carry a multiple of 8 bytes.
        if !len.is_multiple_of(8) || len >= whole || start.len() < START_MIN {
            return None;
        }
        let source = Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]);
        let source = SocketAddr::new(IpAddr::V4(source), u16::from_be_bytes([udp[0], udp[1]]));
        let start_len = start.len().min(START_MAX);
        let mut fragment = Self { source, whole, len, start: [0; START_MAX], start_len };
        fragment.start[..start_len].copy_from_slice(&start[..start_len]);
        Some(fragment)
    }

    /// Whether it belongs to the datagram with this payload from `remote`, whose longest fragment had `longest` bytes
    /// of payload.
    pub(super) fn is_of(&self, remote: SocketAddr, payload: &[u8], longest: usize) -> bool {
        self.source == remote
            && usize::from(self.whole) == payload.len() + UDP_HEADER
            && payload.starts_with(&self.start[..self.start_len])
            // The kernel has reassembled no longer one: this one is forged.
            && usize::from(self.len) <= longest
    }

    /// Bytes of payload, without the IP header.
    pub(super) fn len(&self) -> u16 {
        self.len
    }
}

/// Payload bytes of the leading fragment of a datagram of `len` bytes whose longest fragment had `longest`.
///
/// All except the last carry a multiple of 8 bytes (RFC 791 §3.2, RFC 8200 §4.5). So if the longest does not, it is the
/// last, and of two the other one is the first; if it does, it is the first, unless all do. Three or more fragments
/// give a wrong result if the first is not the longest.
pub(super) fn concluded_len(longest: usize, len: usize) -> Option<u16> {
    let whole = len + UDP_HEADER;
    if whole.is_multiple_of(8) || longest >= whole {
        return None;
    }
    let leading = if longest.is_multiple_of(8) { longest } else { whole - longest };
    u16::try_from(leading).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) const FROM: &str = "192.0.2.7:4433";
    const SNAP: usize = IPV4_HEADER_MAX + UDP_HEADER + START_MAX;

    /// The first fragment of `payload`, with `lead` bytes behind the IP header and `options` words of options.
    pub(in super::super) fn fragment(options: usize, lead: usize, payload: &[u8]) -> Vec<u8> {
        let header = IPV4_HEADER + 4 * options;
        let mut packet = vec![0; header];
        packet[0] = 0x40 | (header / 4) as u8;
        packet[2..4].copy_from_slice(&((header + lead) as u16).to_be_bytes());
        packet[6] = 0x20;
        packet[9] = 17;
        packet[12..16].copy_from_slice(&[192, 0, 2, 7]);
        packet.extend(4433u16.to_be_bytes());
        packet.extend([0, 9]);
        packet.extend(((payload.len() + UDP_HEADER) as u16).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(&payload[..lead - UDP_HEADER]);
        packet
    }

    #[test]
    fn multiples_of_eight_identify_the_leading_fragment() {
        // UDP payload of 1471: 1479 bytes behind the IP header, whatever the first fragment carries.
        for leading in (24..1479).step_by(8) {
            let longest = leading.max(1479 - leading);
            assert_eq!(concluded_len(longest, 1471), u16::try_from(leading).ok(), "{leading}");
        }
        assert_eq!(concluded_len(800, 1472), None, "680 or 800");
        assert_eq!(concluded_len(1479, 1471), None);
    }

    #[test]
    fn a_fragment_too_short_to_identify_its_datagram_is_of_none() {
        let payload = [7; 1471];
        assert!(LeadingFragment::parse(&fragment(0, 24, &payload)).is_some());
        assert_eq!(LeadingFragment::parse(&fragment(0, 16, &payload)), None);
    }

    #[test]
    fn one_that_claims_to_be_longer_than_the_longest_is_of_none() {
        let payload = [7; 1471];
        let leading = LeadingFragment::parse(&fragment(0, 800, &payload)).unwrap();
        assert!(leading.is_of(FROM.parse().unwrap(), &payload, 800));
        assert!(!leading.is_of(FROM.parse().unwrap(), &payload, 792));
    }

    proptest! {
        #[test]
        fn it_is_recognised_by_its_datagram_and_by_no_other(
            options in 0usize..=10,
            payload in prop::collection::vec(any::<u8>(), 64..2000),
            lead in any::<prop::sample::Index>(),
            changed in 0usize..START_MAX,
        ) {
            let whole = payload.len() + UDP_HEADER;
            let lead = 24 + 8 * lead.index((whole - 24).div_ceil(8));
            let packet = fragment(options, lead, &payload);
            let leading = LeadingFragment::parse(&packet[..packet.len().min(SNAP)]).unwrap();
            prop_assert_eq!(usize::from(leading.len()), lead);
            let (from, longest) = (FROM.parse().unwrap(), lead);
            prop_assert!(leading.is_of(from, &payload, longest));

            prop_assert!(!leading.is_of("192.0.2.7:4434".parse().unwrap(), &payload, longest));
            prop_assert!(!leading.is_of("192.0.2.8:4433".parse().unwrap(), &payload, longest));
            prop_assert!(!leading.is_of(from, &payload[..payload.len() - 1], longest));
            let mut other = payload.clone();
            other[changed] ^= 1;
            prop_assert_eq!(leading.is_of(from, &other, longest), changed >= lead - UDP_HEADER);
        }

        /// Half of them nearly right: only those get far.
        #[test]
        fn any_bytes_are_a_fragment_with_fitting_lengths_or_none(
            mut packet in prop::collection::vec(any::<u8>(), 0..SNAP + 8),
            likely in any::<bool>(),
        ) {
            if likely && packet.len() > IPV4_HEADER {
                packet[0] = 0x40 | (packet[0] & 7);
                (packet[2], packet[3]) = (packet[2] & 7, packet[3] & !3);
                (packet[6], packet[7], packet[9]) = (0x20, 0, 17);
            }
            if let Some(leading) = LeadingFragment::parse(&packet) {
                prop_assert!(leading.len.is_multiple_of(8) && leading.len < leading.whole);
                prop_assert!(leading.start_len >= START_MIN && leading.start_len <= usize::from(leading.len));
                prop_assert!(leading.start[leading.start_len..].iter().all(|byte| *byte == 0));
            }
        }
    }
}
