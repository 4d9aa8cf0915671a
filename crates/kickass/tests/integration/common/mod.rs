//! Packets for tests, written by a crate other than the one under test.

use etherparse::{
    IpFragOffset, IpNumber, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, Ipv6RawExtHeader, defrag::IpDefragBuf,
};
use kickass::packet::Packet;
use proptest::prelude::*;

pub(crate) const UDP: u8 = 17;

/// A payload whose neighbouring bytes differ.
pub(crate) fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8).collect()
}

/// The payload of a packet in these parts, in any order, put together by another crate.
pub(crate) fn reassembled(parts: &[Packet]) -> Vec<u8> {
    let mut whole = IpDefragBuf::new(IpNumber(UDP), Vec::new(), Vec::new());
    for part in parts {
        assert!(!whole.is_complete(), "complete before its last part");
        let (offset, more) = part.fragment().map_or((0, false), |fragment| (fragment.offset, fragment.more));
        let offset = IpFragOffset::try_new((offset / 8) as u16).unwrap();
        whole.add(offset, more, part.payload()).unwrap();
    }
    assert!(whole.is_complete(), "{parts:?}");
    whole.take_bufs().0
}

/// An IPv4 UDP packet of `total_len` bytes without options.
pub(crate) fn v4(total_len: usize) -> Packet {
    V4 { payload_len: total_len - 20, ..V4::default() }.packet()
}

/// The same with Don't Fragment.
pub(crate) fn v4_dont_fragment(total_len: usize) -> Packet {
    V4 { payload_len: total_len - 20, dont_fragment: true, ..V4::default() }.packet()
}

/// The IPv4 fields that tests choose.
#[derive(Debug, Clone)]
pub(crate) struct V4 {
    pub(crate) payload_len: usize,
    pub(crate) options: Vec<u8>,
    pub(crate) identification: u16,
    pub(crate) dont_fragment: bool,
    pub(crate) more_fragments: bool,
    /// In bytes.
    pub(crate) offset: usize,
    pub(crate) traffic_class: u8,
    pub(crate) source: [u8; 4],
    pub(crate) protocol: u8,
}

impl Default for V4 {
    fn default() -> Self {
        Self {
            payload_len: 1480,
            options: Vec::new(),
            identification: 7,
            dont_fragment: false,
            more_fragments: false,
            offset: 0,
            traffic_class: 0,
            source: [10, 0, 0, 1],
            protocol: UDP,
        }
    }
}

impl V4 {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let len = self.payload_len as u16;
        let mut header =
            Ipv4Header::new(len, 64, IpNumber(self.protocol), self.source, [10, 0, 0, 2]).unwrap();
        header.options = self.options[..].try_into().unwrap();
        header.set_payload_len(self.payload_len).unwrap();
        header.identification = self.identification;
        header.dont_fragment = self.dont_fragment;
        header.more_fragments = self.more_fragments;
        header.fragment_offset = IpFragOffset::try_new((self.offset / 8) as u16).unwrap();
        header.dscp = (self.traffic_class >> 2).try_into().unwrap();
        header.ecn = (self.traffic_class & 3).try_into().unwrap();
        header.header_checksum = header.calc_header_checksum();
        let mut bytes = Vec::new();
        header.write(&mut bytes).unwrap();
        bytes.extend(payload(self.offset + self.payload_len).split_off(self.offset));
        bytes
    }

    pub(crate) fn packet(&self) -> Packet {
        Packet::parse(self.bytes()).unwrap()
    }
}

/// The IPv6 fields that tests choose.
#[derive(Debug, Clone)]
pub(crate) struct V6 {
    pub(crate) payload_len: usize,
    /// Bytes of options in the extension headers, which appear in this order.
    pub(crate) hop_by_hop: Option<Vec<u8>>,
    pub(crate) destination_first: Option<Vec<u8>>,
    pub(crate) routing: Option<Vec<u8>>,
    pub(crate) fragment: Option<Ipv6FragmentHeader>,
    pub(crate) destination_last: Option<Vec<u8>>,
    pub(crate) traffic_class: u8,
}

impl Default for V6 {
    fn default() -> Self {
        Self {
            payload_len: 1440,
            hop_by_hop: None,
            destination_first: None,
            routing: None,
            fragment: None,
            destination_last: None,
            traffic_class: 0,
        }
    }
}

impl V6 {
    /// A Fragment header around a whole packet (RFC 6946).
    pub(crate) fn atomic(self, identification: u32) -> Self {
        let fragment = Ipv6FragmentHeader::new(IpNumber(UDP), IpFragOffset::ZERO, false, identification);
        Self { fragment: Some(fragment), ..self }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        // From the last header to the first, as each names its successor.
        let mut next = IpNumber(UDP);
        let mut bytes = payload(self.payload_len);
        let mut put = |number: IpNumber, header: &dyn Fn(IpNumber) -> Vec<u8>| {
            bytes.splice(0..0, header(next));
            next = number;
        };
        let raw =
            |options: &[u8], next| Ipv6RawExtHeader::new_raw(next, options).unwrap().to_bytes().to_vec();
        if let Some(options) = &self.destination_last {
            put(IpNumber::IPV6_DESTINATION_OPTIONS, &|next| raw(options, next));
        }
        if let Some(fragment) = &self.fragment {
            put(IpNumber::IPV6_FRAGMENTATION_HEADER, &|next_header| {
                Ipv6FragmentHeader { next_header, ..fragment.clone() }.to_bytes().to_vec()
            });
        }
        for (number, options) in [
            (IpNumber::IPV6_ROUTE_HEADER, &self.routing),
            (IpNumber::IPV6_DESTINATION_OPTIONS, &self.destination_first),
            (IpNumber::IPV6_HEADER_HOP_BY_HOP, &self.hop_by_hop),
        ] {
            if let Some(options) = options {
                put(number, &|next| raw(options, next));
            }
        }
        let header = Ipv6Header {
            traffic_class: self.traffic_class,
            payload_length: bytes.len() as u16,
            next_header: next,
            hop_limit: 64,
            source: [0xfd; 16],
            destination: [0xfc; 16],
            ..Ipv6Header::default()
        };
        bytes.splice(0..0, header.to_bytes());
        bytes
    }

    pub(crate) fn packet(&self) -> Packet {
        Packet::parse(self.bytes()).unwrap()
    }
}

/// Well-formed IPv4 options in any order, at most 40 bytes.
pub(crate) fn v4_options() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        Just(vec![1]),
        (2..=255_u8, prop::collection::vec(any::<u8>(), 0..12)).prop_map(|(kind, data)| {
            let mut option = vec![kind, data.len() as u8 + 2];
            option.extend(data);
            option
        }),
    ];
    prop::collection::vec(option, 0..8).prop_map(|options| {
        let mut bytes: Vec<u8> = Vec::new();
        for option in options {
            if bytes.len() + option.len() <= 40 {
                bytes.extend(option);
            }
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    })
}

/// IPv4 packets without Don't Fragment.
pub(crate) fn v4_packets() -> impl Strategy<Value = Packet> {
    (0..3000_usize, v4_options(), any::<u16>(), 0..64_u8, any::<u8>()).prop_map(
        |(payload_len, options, identification, dscp, protocol)| {
            V4 { payload_len, options, identification, traffic_class: dscp << 2, protocol, ..V4::default() }
                .packet()
        },
    )
}

/// IPv6 packets with extension headers.
pub(crate) fn v6_packets() -> impl Strategy<Value = Packet> {
    let options =
        || prop::option::of((0..6_usize, any::<u8>()).prop_map(|(units, byte)| vec![byte; 6 + 8 * units]));
    let fragment = prop::option::of(any::<u32>());
    (0..3000_usize, options(), options(), options(), fragment, options(), 0..64_u8).prop_map(
        |(payload_len, hop_by_hop, destination_first, routing, fragment, destination_last, dscp)| {
            let packet = V6 {
                payload_len,
                hop_by_hop,
                destination_first,
                routing,
                fragment: None,
                destination_last,
                traffic_class: dscp << 2,
            };
            match fragment {
                Some(identification) => packet.atomic(identification).packet(),
                None => packet.packet(),
            }
        },
    )
}

/// Packets of either version.
pub(crate) fn packets() -> impl Strategy<Value = Packet> {
    prop_oneof![v4_packets(), v6_packets()]
}
