//! A super-packet and its segments.
//!
//! Segments are what Linux makes (`tcp_gso_segment`, `__udp_gso_segment`, `inet_gso_segment`): identifications and
//! sequence numbers count on, FIN and PSH are only in the last segment, CWR only in the first.
//!
//! Invariant: `packet` has at least `headers` bytes, and `count` segments of at most `size` bytes of payload cover the
//! rest.

use std::ops::Range;

use super::{Account, Charge};
use crate::{
    packet::{FlowKey, Malformed, Packet, TCP, UDP, array, set_word, word},
    signal::Subject,
};

/// What a host left to its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// Bytes of payload in each segment, except the last; `None` for a packet that is not to be segmented.
    pub segment_size: Option<u16>,
    /// A checksum to complete; `None` if there is nothing to do.
    pub checksum: Option<PartialChecksum>,
}

/// A checksum that only covers the pseudo-header so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Offset in the packet of the first byte that it is to cover, up to the end.
    pub start: u16,
    /// Its place, counted from `start`.
    pub offset: u16,
}

/// A packet from a device.
#[derive(Debug)]
pub enum DevicePacket {
    /// A packet with complete checksums.
    Whole(Packet),
    /// A super-packet, or a single packet of TCP or UDP whose checksum is not complete.
    Super(SuperPacket),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

/// Several packets of one flow under one header. See [the module](super).
#[derive(Debug)]
pub struct SuperPacket {
    packet: Packet,
    pub(super) transport: Transport,
    /// Where the transport header begins.
    transport_at: usize,
    /// Where it ends: bytes that each segment repeats.
    pub(super) headers: usize,
    /// Bytes of payload in each segment except the last.
    pub(super) size: usize,
    count: usize,
    /// Of a segment without payload.
    empty: Subject,
    pub(super) flow: FlowKey,
    _charge: Charge,
}

const TCP_HEADER_MIN: usize = 20;
const TCP_SEQUENCE: usize = 4;
const TCP_DATA_OFFSET: usize = 12;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
pub(super) const TCP_FIN: u8 = 0x01;
pub(super) const TCP_PSH: u8 = 0x08;
pub(super) const TCP_CWR: u8 = 0x80;
/// Not in a segment of a super-packet: what they say is about one packet alone.
const TCP_SINGLE: u8 = TCP_SYN | TCP_RST | TCP_URG;
const TCP_SYN: u8 = 0x02;
const TCP_RST: u8 = 0x04;
const TCP_URG: u8 = 0x20;
const UDP_HEADER: usize = 8;
const UDP_LEN: usize = 4;
const UDP_CHECKSUM: usize = 6;

impl Offload {
    /// Checks a packet against what is left to do. `account` counts the buffer of a super-packet.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn apply(self, mut packet: Packet, account: &Account) -> Result<DevicePacket, Malformed> {
        let Self { segment_size, checksum } = self;
        let Some(checksum) = checksum else {
            // Segments need checksums of their own, so the kernel always leaves those, too.
            return match segment_size {
                None => Ok(DevicePacket::Whole(packet)),
                Some(_) => Err(Malformed::Offload),
            };
        };
        let start = usize::from(checksum.start);
        let field = start + usize::from(checksum.offset);
        // Headers of IP end where the transport's begins; a host completes checksums before it makes fragments.
        let (protocol, transport_at) = packet.transport().ok_or(Malformed::Offload)?;
        if field + 2 > packet.total_len() || start < transport_at {
            return Err(Malformed::Offload);
        }
        if start == transport_at
            && let Some((transport, headers)) = transport(protocol, packet.as_bytes(), start)
            && field - start == transport.checksum_at()
            && (segment_size.is_some() || transport.has_fitting_len(&packet, start))
        {
            return SuperPacket::new(packet, transport, start..headers, segment_size, account)
                .map(DevicePacket::Super);
        }
        if segment_size.is_some() {
            return Err(Malformed::Offload);
        }
        packet.complete_checksum(start, field);
        Ok(DevicePacket::Whole(packet))
    }
}

/// The transport header at `at`, if it is TCP's or UDP's: which, and where it ends.
fn transport(protocol: u8, bytes: &[u8], at: usize) -> Option<(Transport, usize)> {
    let (transport, len) = match protocol {
        TCP => {
            let len = usize::from(*bytes.get(at + TCP_DATA_OFFSET)? >> 4) * 4;
            (Transport::Tcp, (len >= TCP_HEADER_MIN).then_some(len)?)
        }
        UDP => (Transport::Udp, UDP_HEADER),
        _ => return None,
    };
    (at + len <= bytes.len()).then_some((transport, at + len))
}

impl Transport {
    /// Whether the length in UDP's header is that of the packet, which segments get.
    fn has_fitting_len(self, packet: &Packet, at: usize) -> bool {
        self == Self::Tcp || usize::from(word(packet.as_bytes(), at + UDP_LEN)) == packet.total_len() - at
    }

    fn checksum_at(self) -> usize {
        match self {
            Self::Tcp => TCP_CHECKSUM,
            Self::Udp => UDP_CHECKSUM,
        }
    }
}

impl SuperPacket {
    fn new(
        packet: Packet,
        transport: Transport,
        header: Range<usize>,
        segment_size: Option<u16>,
        account: &Account,
    ) -> Result<Self, Malformed> {
        let payload = packet.total_len() - header.end;
        let size = match segment_size {
            Some(0) => return Err(Malformed::Offload),
            Some(size) => usize::from(size),
            None => payload,
        };
        let empty = Subject::of(&packet);
        let empty = Subject { total_len: header.end, payload_len: empty.payload_len - payload, ..empty };
        Ok(Self {
            transport,
            transport_at: header.start,
            headers: header.end,
            size,
            // A packet without payload is one segment too.
            count: if payload == 0 { 1 } else { payload.div_ceil(size) },
            empty,
            flow: packet.flow(),
            // The last segment keeps all of this, too.
            _charge: account.charge(packet.capacity() + size_of::<Self>()),
            packet,
        })
    }

    /// The packet as it came: its addresses, class and hop limit are those of all segments.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }

    /// Takes the packet's buffer back.
    pub fn into_bytes(self) -> Vec<u8> {
        self.packet.into_bytes()
    }

    /// Segments: at least one.
    pub fn count(&self) -> usize {
        self.count
    }

    /// IP total length of a segment. The first is the longest.
    pub fn segment_len(&self, index: usize) -> usize {
        self.headers + self.span(index, 1).len()
    }

    /// Bytes of all segments together, headers included.
    pub fn bytes(&self) -> usize {
        self.packet.total_len() + (self.count - 1) * self.headers
    }

    /// Decrements the hop limit of all segments, as [`Packet::decrement_hop_limit`] does.
    #[must_use]
    pub fn decrement_hop_limit(&mut self) -> bool {
        self.packet.decrement_hop_limit()
    }

    /// A copy of one segment, as a packet with complete checksums.
    ///
    /// # Panics
    /// If there is no such segment.
    pub fn segment(&self, index: usize) -> Packet {
        assert!(index < self.count, "segment {index} of {}", self.count);
        let span = self.span(index, 1);
        let mut bytes = Vec::with_capacity(self.headers + span.len());
        self.write_header(index, span.len(), self.end_flags(index), &mut bytes);
        bytes.extend_from_slice(&self.packet.as_bytes()[span]);
        let mut packet = self.packet.with_bytes(bytes);
        let field = self.transport_at + self.transport.checksum_at();
        packet.complete_checksum(self.transport_at, field);
        packet
    }

    pub(super) fn subject(&self, index: usize) -> Subject {
        let len = self.span(index, 1).len();
        Subject {
            total_len: self.empty.total_len + len,
            payload_len: self.empty.payload_len + len,
            ..self.empty
        }
    }

    /// Whether its segments may share a header with those of others.
    pub(super) fn may_join(&self) -> bool {
        self.size > 0 && self.flags() & TCP_SINGLE == 0
    }

    /// Offset of the transport header, and of the checksum from there.
    pub(super) fn partial_checksum(&self) -> PartialChecksum {
        // Both were made from such numbers.
        PartialChecksum { start: self.transport_at as u16, offset: self.transport.checksum_at() as u16 }
    }

    /// Where the payload of some segments is in the packet.
    pub(super) fn span(&self, first: usize, count: usize) -> Range<usize> {
        let end = self.packet.total_len();
        let at = |index: usize| end.min(self.headers + index * self.size);
        at(first)..if first + count >= self.count { end } else { at(first + count) }
    }

    /// FIN and PSH of a segment.
    pub(super) fn end_flags(&self, index: usize) -> u8 {
        if index + 1 == self.count { self.flags() & (TCP_FIN | TCP_PSH) } else { 0 }
    }

    /// Appends the header of `payload` bytes from segment `first` on, with a partial checksum. `end` are FIN and PSH of
    /// the last segment. The whole must not exceed the longest IP packet.
    pub(super) fn write_header(&self, first: usize, payload: usize, end: u8, to: &mut Vec<u8>) {
        let at = to.len();
        to.extend_from_slice(&self.packet.as_bytes()[..self.headers]);
        let header = &mut to[at..];
        let total_len = self.headers + payload;
        let transport_len = total_len - self.transport_at;
        self.packet.set_lengths(header, total_len, first as u16);
        let field = self.transport_at + self.transport.checksum_at();
        let before = self.packet.total_len() - self.transport_at;
        let partial = add(add(word(header, field), !(before as u16)), transport_len as u16);
        set_word(header, field, partial);
        let transport = &mut header[self.transport_at..];
        match self.transport {
            Transport::Tcp => {
                let sequence = self.sequence().wrapping_add((first * self.size) as u32);
                transport[TCP_SEQUENCE..TCP_SEQUENCE + 4].copy_from_slice(&sequence.to_be_bytes());
                let first_only = if first > 0 { TCP_CWR } else { 0 };
                let kept = self.flags() & !(TCP_FIN | TCP_PSH | first_only);
                transport[TCP_FLAGS] = kept | end;
            }
            Transport::Udp => set_word(transport, UDP_LEN, transport_len as u16),
        }
    }

    /// Identification and sequence number after so many segments and bytes; 0 where there is none.
    pub(super) fn place(&self, segments: usize, bytes: usize) -> (u16, u32) {
        let identification =
            self.packet.identification().map_or(0, |first| first.wrapping_add(segments as u16));
        let sequence = match self.transport {
            Transport::Udp => 0,
            Transport::Tcp => self.sequence().wrapping_add(bytes as u32),
        };
        (identification, sequence)
    }

    pub(super) fn is_udp(&self) -> bool {
        self.transport == Transport::Udp
    }

    /// TCP's flags; none in UDP.
    pub(super) fn flags(&self) -> u8 {
        match self.transport {
            Transport::Udp => 0,
            Transport::Tcp => self.packet.as_bytes()[self.transport_at + TCP_FLAGS],
        }
    }

    /// TCP's sequence number of the first byte.
    fn sequence(&self) -> u32 {
        u32::from_be_bytes(array(self.packet.as_bytes(), self.transport_at + TCP_SEQUENCE))
    }

    /// Whether the header differs from that of `other` only in fields that count on or follow from the content: lengths,
    /// identification, sequence number, FIN, PSH, CWR and checksums.
    pub(super) fn has_header_of(&self, other: &Self) -> bool {
        if (self.transport, self.transport_at, self.headers)
            != (other.transport, other.transport_at, other.headers)
        {
            return false;
        }
        let [mine, others] = [self, other].map(|one| one.packet.as_bytes());
        let (at, end) = (self.transport_at, self.headers);
        let transport_is_same = match self.transport {
            Transport::Tcp => {
                let counted_on = TCP_FIN | TCP_PSH | TCP_CWR;
                mine[at..at + TCP_SEQUENCE] == others[at..at + TCP_SEQUENCE]
                    && mine[at + TCP_SEQUENCE + 4..at + TCP_FLAGS]
                        == others[at + TCP_SEQUENCE + 4..at + TCP_FLAGS]
                    && (self.flags() ^ other.flags()) & !counted_on == 0
                    && mine[at + TCP_FLAGS + 1..at + TCP_CHECKSUM]
                        == others[at + TCP_FLAGS + 1..at + TCP_CHECKSUM]
                    && mine[at + TCP_CHECKSUM + 2..end] == others[at + TCP_CHECKSUM + 2..end]
            }
            Transport::Udp => mine[at..at + UDP_LEN] == others[at..at + UDP_LEN],
        };
        transport_is_same && self.packet.has_headers_of(&other.packet, at)
    }
}

/// The ones' complement sum of two.
fn add(one: u16, other: u16) -> u16 {
    let (sum, carry) = one.overflowing_add(other);
    sum + u16::from(carry)
}
