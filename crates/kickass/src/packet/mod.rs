//! IP packets: checked once, then read and fragmented in place.
//!
//! A [`Packet`] owns the bytes of one whole IPv4 or IPv6 packet and knows where its parts are. Invalid bytes never
//! become a [`Packet`], so no later call can fail or panic because of input from the network. Time and memory for
//! checking are linear in the packet's length.
//!
//! "Payload" is the part that fragmentation divides: in IPv4 everything after the header; in IPv6 everything after the
//! headers that every fragment repeats and after the Fragment header, if any (the fragmentable part of RFC 8200 §4.5).

mod checksum;
mod flow;
mod ipv4;
mod ipv6;
mod split;

use std::{fmt, net::IpAddr, ops::Range};

pub use flow::FlowKey;
pub(crate) use ipv6::FRAGMENT_HEADER_LEN;
pub use split::Indivisible;
use thiserror::Error;

/// Protocol numbers above IP.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// Most bytes of a reassembled payload in either version (RFC 791 §3.1, RFC 8200 §4.5).
pub(crate) const REASSEMBLED_MAX: usize = 65_535;
/// Fragment offsets are multiples of this many bytes (RFC 791 §3.1).
pub const FRAGMENT_UNIT: usize = 8;

/// Why bytes are not a valid packet. Routers discard such packets (RFC 1812 §5.2.2, RFC 8200 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The version is neither 4 nor 6.
    #[error("neither ipv4 nor ipv6")]
    Version,
    /// It ends before its headers do, or before the length in its header.
    #[error("shorter than the length in its header")]
    Truncated,
    /// A length in a header is impossible.
    #[error("impossible length in a header")]
    Length,
    /// The header's checksum is wrong.
    #[error("wrong header checksum")]
    Checksum,
    /// A fragment that would extend beyond the longest possible packet.
    #[error("fragment ends beyond the longest possible packet")]
    TooLong,
    /// Segmentation or a checksum is left to the device in a way that contradicts the headers.
    #[error("offload contradicts the headers")]
    Offload,
}

/// Explicit Congestion Notification, the two low bits of the traffic class (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: the endpoints do not support it.
    NotEct,
    /// The endpoints support it, ECT(1).
    Ect1,
    /// The endpoints support it, ECT(0).
    Ect0,
    /// CE: congestion experienced.
    Ce,
}

/// Which part of a packet a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Its offset in the whole payload in bytes, a multiple of 8.
    pub offset: usize,
    /// Whether more fragments follow.
    pub more: bool,
    /// Identification shared by all fragments of a packet: 16 bits in IPv4, 32 in IPv6.
    pub identification: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

/// One IP packet, with `bytes` of exactly the length in its header.
///
/// ```
/// use kickass::packet::{Malformed, Packet};
///
/// # fn datagram(payload: usize) -> Vec<u8> { // A UDP datagram over IPv4 without Don't Fragment.
/// #     let mut bytes = vec![0; 20 + payload];
/// #     let len = (bytes.len() as u16).to_be_bytes();
/// #     bytes[..20].copy_from_slice(&[0x45, 0, len[0], len[1], 0, 7, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
/// #     let sum: u32 = bytes[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
/// #     bytes[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
/// #     bytes
/// # }
/// let mut packet = Packet::parse(datagram(1480))?;
/// assert_eq!((packet.total_len(), packet.hop_limit(), packet.fragment()), (1500, 64, None));
///
/// // A router signals a rate by where it cuts the packet.
/// let rest = packet.split(888, 0).expect("Don't Fragment is not set");
/// assert_eq!(packet.leading_len(), Some(888));
/// assert_eq!(rest.fragment().unwrap().offset, 888);
/// assert_eq!(rest.payload().len(), 1480 - 888);
///
/// assert_eq!(Packet::parse(vec![0x45; 3]), Err(Malformed::Truncated));
/// # Ok::<(), Malformed>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    bytes: Vec<u8>,
    parts: Parts,
}

/// Offsets of the parts of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    version: Version,
    /// Bytes of headers that all fragments repeat, before a Fragment header; in IPv4 the whole header. The payload
    /// begins here or after the Fragment header.
    headers: usize,
    /// Offset of the byte that names the header at `headers`. Unused in IPv4.
    next_header_at: usize,
    /// Whether an IPv6 Fragment header is at `headers`.
    fragment_header: bool,
}

impl Packet {
    /// Checks the headers. Bytes beyond the length in the header are cut off: links pad short packets.
    ///
    /// # Errors
    /// If a router would have to discard the packet; also for an IPv6 packet that ends before its Fragment header or
    /// payload, and for a jumbogram (RFC 2675).
    pub fn parse(bytes: Vec<u8>) -> Result<Self, Malformed> {
        match bytes.first().ok_or(Malformed::Truncated)? >> 4 {
            4 => ipv4::parse(bytes),
            6 => ipv6::parse(bytes),
            _ => Err(Malformed::Version),
        }
    }

    /// The packet's bytes on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The packet's bytes on the wire.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// IP total length: bytes including all headers.
    pub fn total_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.parts.version == Version::V6
    }

    /// Whether Don't Fragment is set. IPv6 has no such bit.
    pub fn dont_fragment(&self) -> bool {
        self.parts.version == Version::V4 && ipv4::dont_fragment(&self.bytes)
    }

    /// Whether it has an IPv6 Fragment header, even if it is not a fragment (RFC 6946).
    pub fn has_fragment_header(&self) -> bool {
        self.parts.fragment_header
    }

    /// Differentiated services code point, 0 to 63 (RFC 2474 §3).
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Explicit Congestion Notification.
    pub fn ecn(&self) -> Ecn {
        match self.traffic_class() & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Marks the packet as CE if its endpoints support ECN. Returns whether they do.
    pub fn mark_congestion(&mut self) -> bool {
        match self.ecn() {
            Ecn::NotEct => false,
            Ecn::Ce => true,
            Ecn::Ect0 | Ecn::Ect1 => {
                match self.parts.version {
                    Version::V4 => ipv4::set_ce(&mut self.bytes),
                    Version::V6 => ipv6::set_ce(&mut self.bytes),
                }
                true
            }
        }
    }

    /// How many more routers may forward it: time to live or hop limit.
    pub fn hop_limit(&self) -> u8 {
        match self.parts.version {
            Version::V4 => self.bytes[ipv4::TIME_TO_LIVE],
            Version::V6 => self.bytes[ipv6::HOP_LIMIT],
        }
    }

    /// Decrements the hop limit, as a router must before forwarding. Returns whether forwarding is allowed; a packet
    /// that arrives with one or zero stays unchanged and must be discarded.
    #[must_use]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let Some(left) = self.hop_limit().checked_sub(1).filter(|left| *left > 0) else { return false };
        match self.parts.version {
            Version::V4 => ipv4::set_time_to_live(&mut self.bytes, left),
            Version::V6 => self.bytes[ipv6::HOP_LIMIT] = left,
        }
        true
    }

    /// Address of the sender.
    pub fn source(&self) -> IpAddr {
        self.address(ipv4::SOURCE, ipv6::SOURCE)
    }

    /// Address of the receiver.
    pub fn destination(&self) -> IpAddr {
        self.address(ipv4::DESTINATION, ipv6::DESTINATION)
    }

    /// Protocol number of the payload's first header; in IPv6 possibly another extension header.
    pub fn protocol(&self) -> u8 {
        match (self.parts.version, self.parts.fragment_header) {
            (Version::V4, _) => self.bytes[ipv4::PROTOCOL],
            (Version::V6, false) => self.bytes[self.parts.next_header_at],
            (Version::V6, true) => self.bytes[self.parts.headers],
        }
    }

    /// The fragment's position in its packet; `None` for a whole packet.
    pub fn fragment(&self) -> Option<Fragment> {
        let fragment = match self.parts.version {
            Version::V4 => ipv4::fragment(&self.bytes),
            Version::V6 if self.parts.fragment_header => ipv6::fragment(&self.bytes[self.parts.headers..]),
            Version::V6 => return None,
        };
        (fragment.more || fragment.offset > 0).then_some(fragment)
    }

    /// The part that fragmentation divides.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.payload_range()]
    }

    /// The transport protocol of a whole packet, and the offset of its header; `None` for fragments.
    pub(crate) fn transport(&self) -> Option<(u8, usize)> {
        match self.parts.version {
            _ if self.parts.fragment_header || self.fragment().is_some() => None,
            Version::V4 => Some((self.protocol(), self.parts.headers)),
            Version::V6 => {
                let upper = ipv6::upper_layer(self.protocol(), self.payload());
                Some((upper.protocol, self.parts.headers + upper.offset))
            }
        }
    }

    /// The identification of an IPv4 packet.
    pub(crate) fn identification(&self) -> Option<u16> {
        // Of 16 bits in IPv4.
        (self.parts.version == Version::V4).then(|| ipv4::fragment(&self.bytes).identification as u16)
    }

    /// Whether the first `end` bytes, headers of IP of the same length, differ at most in fields that count on or follow
    /// from the content: lengths, identification, checksum.
    pub(crate) fn has_headers_of(&self, other: &Self, end: usize) -> bool {
        let [mine, others] = [self, other].map(|packet| &packet.bytes[..end]);
        self.parts == other.parts
            && match self.parts.version {
                Version::V4 => ipv4::is_same_but_for_counters(mine, others),
                Version::V6 => ipv6::is_same_but_for_length(mine, others),
            }
    }

    /// A packet with the same headers, and other bytes that begin with them.
    pub(crate) fn with_bytes(&self, bytes: Vec<u8>) -> Self {
        Self { bytes, parts: self.parts }
    }

    /// Writes the lengths for `total_len` into a copy of the headers, and in IPv4 an identification that is higher by
    /// `counted`, and the checksum.
    pub(crate) fn set_lengths(&self, headers: &mut [u8], total_len: usize, counted: u16) {
        match self.parts.version {
            Version::V4 => ipv4::set_len(headers, total_len, counted),
            Version::V6 => ipv6::set_len(headers, total_len),
        }
    }

    /// Completes a checksum at `field` over everything from `start` on; it holds the sum of the pseudo-header.
    pub(crate) fn complete_checksum(&mut self, start: usize, field: usize) {
        let checksum = match !checksum::sum(&self.bytes[start..]) {
            // It would mean that a datagram has none (RFC 768).
            0 if self.transport().is_some_and(|(protocol, _)| protocol == UDP) => 0xffff,
            checksum => checksum,
        };
        set_word(&mut self.bytes, field, checksum);
    }

    /// Bytes that its buffer takes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes of payload if it is a leading fragment: the length that can be a [`Code`](crate::code::Code).
    pub fn leading_len(&self) -> Option<usize> {
        let fragment = self.fragment()?;
        (fragment.offset == 0).then(|| self.payload().len())
    }

    /// The flow it belongs to.
    pub fn flow(&self) -> FlowKey {
        let leading = self.fragment().is_none_or(|fragment| fragment.offset == 0);
        let (protocol, ports) = match self.parts.version {
            _ if !leading => (self.protocol(), None),
            Version::V4 => (self.protocol(), ports(self.protocol(), self.payload())),
            Version::V6 => {
                let upper = ipv6::upper_layer(self.protocol(), self.payload());
                (upper.protocol, ports(upper.protocol, &self.payload()[upper.offset..]))
            }
        };
        FlowKey { source: self.source(), destination: self.destination(), protocol, ports }
    }

    /// Fewest bytes of payload in a leading fragment. In IPv6 it must hold the remaining extension headers and the
    /// transport header (RFC 7112 §5); IPv4 has no such rule.
    pub(crate) fn leading_min(&self) -> usize {
        match self.parts.version {
            Version::V4 => FRAGMENT_UNIT,
            Version::V6 => ipv6::chain_len(self.protocol(), self.payload()).max(FRAGMENT_UNIT),
        }
    }

    /// The address at one of these offsets, by version.
    fn address(&self, v4: usize, v6: usize) -> IpAddr {
        match self.parts.version {
            Version::V4 => array::<4>(&self.bytes, v4).into(),
            Version::V6 => array::<16>(&self.bytes, v6).into(),
        }
    }

    fn traffic_class(&self) -> u8 {
        match self.parts.version {
            Version::V4 => self.bytes[ipv4::TRAFFIC_CLASS],
            Version::V6 => ipv6::traffic_class(&self.bytes),
        }
    }

    fn payload_range(&self) -> Range<usize> {
        let fragment_header = if self.parts.fragment_header { ipv6::FRAGMENT_HEADER_LEN } else { 0 };
        self.parts.headers + fragment_header..self.bytes.len()
    }
}

/// Without the payload, which would hide the other fields.
impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("headers", &&self.bytes[..self.payload_range().start])
            .field("payload_len", &self.payload().len())
            .field("parts", &self.parts)
            .finish()
    }
}

/// The ports at the front of a transport header, for protocols that have them there.
fn ports(protocol: u8, header: &[u8]) -> Option<(u16, u16)> {
    const DCCP: u8 = 33;
    const SCTP: u8 = 132;
    const UDP_LITE: u8 = 136;
    let &[a, b, c, d] = header.first_chunk()?;
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
        .then(|| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// The two bytes at `at`, in network byte order.
pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

pub(crate) fn set_word(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}
