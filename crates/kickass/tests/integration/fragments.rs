//! Fragmentation against the parser and the reassembly of another crate.

use crate::common::{V4, V6, packets, reassembled, v4};
use etherparse::{Ipv4Header, LaxIpSlice};
use kickass::{
    packet::{Ecn, Fragment, Indivisible, Malformed, Packet},
    queue::Routed,
};
use proptest::prelude::*;

/// Splits a packet, and one of its parts again, at these places if possible.
fn cut(packet: Packet, cuts: &[(usize, usize)]) -> Vec<Packet> {
    let mut parts = vec![packet];
    for &(which, lead) in cuts {
        let which = which % parts.len();
        if let Ok(rest) = parts[which].split(lead * 8, 0xfeed_beef) {
            parts.insert(which + 1, rest);
        }
    }
    parts
}

/// Another crate parses the same fields.
fn check(packet: &Packet) {
    let bytes = packet.as_bytes();
    // That crate parses extension headers behind a Fragment header in every fragment; hence the lax parser.
    let (parsed, _) = LaxIpSlice::from_slice(bytes).expect("readable");
    assert_eq!((parsed.source_addr(), parsed.destination_addr()), (packet.source(), packet.destination()));
    let fragment = packet.fragment();
    assert_eq!(parsed.is_fragmenting_payload(), fragment.is_some());
    match &parsed {
        LaxIpSlice::Ipv4(parsed) => {
            let header = parsed.header();
            let (owned, payload) = Ipv4Header::from_slice(bytes).unwrap();
            assert_eq!(header.header_checksum(), owned.calc_header_checksum());
            assert_eq!(usize::from(header.total_len()), bytes.len());
            assert_eq!(payload, packet.payload());
            let place = (usize::from(header.fragments_offset().value()) * 8, header.more_fragments());
            assert_eq!(place, fragment.map_or((0, false), |fragment| (fragment.offset, fragment.more)));
            assert_eq!(header.dcp().value(), packet.dscp());
        }
        LaxIpSlice::Ipv6(parsed) => {
            let header = parsed.header();
            assert_eq!(usize::from(header.payload_length()) + 40, bytes.len());
            assert_eq!(header.traffic_class() >> 2, packet.dscp());
            assert!(bytes.ends_with(packet.payload()));
        }
    }
}

proptest! {
    #[test]
    fn fragments_put_together_are_the_packet(
        packet in packets(),
        cuts in prop::collection::vec((any::<usize>(), 0..400_usize), 0..6),
        order in any::<prop::sample::Index>(),
    ) {
        let mut parts = cut(packet.clone(), &cuts);
        for part in &parts {
            check(part);
            // The headers of each part describe its content.
            prop_assert_eq!(&Packet::parse(part.as_bytes().to_vec()).unwrap(), part);
        }
        let turn = order.index(parts.len());
        parts.rotate_left(turn);
        prop_assert_eq!(reassembled(&parts), packet.payload());
    }

    #[test]
    fn a_cut_is_where_it_was_asked_for(packet in packets(), lead in 0..4000_usize) {
        let payload = packet.payload().to_vec();
        let mut first = packet.clone();
        match first.split(lead, 9) {
            Ok(rest) => {
                prop_assert_eq!(first.payload(), &payload[..lead]);
                prop_assert_eq!(rest.payload(), &payload[lead..]);
                prop_assert_eq!(first.leading_len(), Some(lead));
                prop_assert_eq!(rest.leading_len(), None);
            }
            Err(error) => {
                prop_assert_eq!(error, Indivisible::Length);
                prop_assert!(lead == 0 || lead % 8 > 0 || lead >= payload.len());
                prop_assert_eq!(first, packet);
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_are_a_packet_or_not(
        mut bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            packets().prop_map(Packet::into_bytes),
        ],
        damage in prop::collection::vec((0..80_usize, any::<u8>()), 0..4),
        cuts in prop::collection::vec((any::<usize>(), 0..20_usize), 0..4),
    ) {
        for (at, byte) in damage {
            if let Some(at) = bytes.get_mut(at) {
                *at = byte;
            }
        }
        let Ok(packet) = Packet::parse(bytes.clone()) else { return Ok(()) };
        prop_assert!(bytes.starts_with(packet.as_bytes()));
        for part in cut(packet, &cuts) {
            let _ = (part.flow(), part.protocol(), part.ecn(), part.dscp());
            prop_assert_eq!(&Packet::parse(part.as_bytes().to_vec()).unwrap(), &part);
        }
    }
}

#[test]
fn only_copied_options_are_in_all_fragments() {
    // Record route is in the first fragment only, the stream identifier in all (RFC 791 §3.1).
    let (record_route, stream) = ([7, 7, 4, 0, 0, 0, 0], [0x88, 4, 1, 2]);
    let options = [&record_route[..], &[1], &stream].concat();
    let mut first = V4 { options: options.clone(), ..V4::default() }.packet();
    let rest = first.split(24, 0).unwrap();
    assert_eq!(first.as_bytes()[20..32], options);
    assert_eq!(first.payload().len(), 24);
    assert_eq!(rest.as_bytes()[20..24], stream);
    assert_eq!(rest.total_len(), 24 + 1480 - 24);
    assert_eq!(rest.fragment(), Some(Fragment { offset: 24, more: false, identification: 7 }));
}

#[test]
fn options_that_nobody_can_read_are_left_alone() {
    let mut packet = V4 { options: vec![0x88, 0, 0, 0], ..V4::default() }.packet();
    let before = packet.clone();
    assert_eq!(packet.split(24, 0), Err(Indivisible::Options));
    assert_eq!(packet, before);
}

#[test]
fn a_packet_is_forwarded_as_often_as_it_may_be() {
    for mut packet in [v4(1500), V6::default().packet()] {
        let limit = packet.hop_limit();
        let times = std::iter::from_fn(|| {
            check(&packet);
            packet.decrement_hop_limit().then_some(())
        });
        assert_eq!(times.count(), usize::from(limit) - 1);
        assert_eq!(packet.hop_limit(), 1);
        assert!(limit > 1);
    }
}

#[test]
fn a_packet_that_may_not_be_fragmented_is_not() {
    let mut packet = crate::common::v4_dont_fragment(1500);
    assert_eq!(packet.split(24, 0), Err(Indivisible::DontFragment));
}

#[test]
fn a_fragment_header_goes_behind_the_headers_that_routers_read() {
    let packet = V6 {
        hop_by_hop: Some(vec![1; 6]),
        destination_first: Some(vec![1; 14]),
        routing: Some(vec![0; 6]),
        destination_last: Some(vec![1; 6]),
        ..V6::default()
    };
    let mut first = packet.packet();
    let rest = first.split(200, 0xdead_beef).unwrap();
    let fragment = |offset, more| Some(Fragment { offset, more, identification: 0xdead_beef });
    assert_eq!(first.fragment(), fragment(0, true));
    assert_eq!(rest.fragment(), fragment(200, false));
    // 8 bytes of hop-by-hop options, 16 for the destinations in the routing header, 8 of it, 8 of the Fragment header.
    assert_eq!((first.total_len(), rest.total_len()), (40 + 40 + 200, 40 + 40 + 8 + 1440 - 200));
    // Without a routing header the options are for the last destination, and so belong to the payload.
    let mut first = V6 { routing: None, ..packet }.packet();
    first.split(200, 1).unwrap();
    assert_eq!(first.total_len(), 40 + 8 + 8 + 200);
}

#[test]
fn fragments_of_one_packet_share_a_queue() {
    // Only the leading fragment shows the protocol behind these options.
    let options = V6 { destination_last: Some(vec![1; 6]), ..V6::default() };
    for mut first in [v4(1500), V6::default().packet(), options.packet()] {
        let rest = first.split(200, 1).unwrap();
        assert_eq!(first.flow_hash(7), rest.flow_hash(7), "{first:?}");
    }
}

#[test]
fn leading_parts_are_no_longer_than_they_may_be() {
    for mut packet in [v4(1500), V6::default().packet(), V6::default().atomic(9).packet()] {
        let payload = packet.payload().to_vec();
        let mut parts: Vec<_> = std::iter::from_fn(|| packet.split_leading(600, 1)).collect();
        parts.push(packet);
        assert_eq!(parts.len(), 3);
        assert!(parts[..2].iter().all(|part| (593..=600).contains(&part.total_len())), "{parts:?}");
        assert_eq!(reassembled(&parts), payload);
    }
    assert_eq!(crate::common::v4_dont_fragment(1500).split_leading(600, 1), None);
}

#[test]
fn malformed_packets_are_none() {
    let good = v4(100).into_bytes();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Packet::parse(bytes)
    };
    assert_eq!(Packet::parse(vec![]), Err(Malformed::Truncated));
    assert_eq!(Packet::parse(good[..19].to_vec()), Err(Malformed::Truncated));
    assert_eq!(Packet::parse(good[..99].to_vec()), Err(Malformed::Truncated));
    assert_eq!(with(0, 0x55), Err(Malformed::Version));
    assert_eq!(with(0, 0x44), Err(Malformed::Length));
    assert_eq!(with(3, 19), Err(Malformed::Length));
    assert_eq!(with(8, 63), Err(Malformed::Checksum));
    let padded = [&good[..], &[0; 6]].concat();
    assert_eq!(Packet::parse(padded).unwrap().as_bytes(), good);
    let death = V4 { offset: 65_528, payload_len: 8, ..V4::default() };
    assert_eq!(Packet::parse(death.bytes()), Err(Malformed::TooLong));

    let mut cut = V6 { hop_by_hop: Some(vec![0; 6]), payload_len: 0, ..V6::default() }.bytes();
    cut[41] = 1;
    assert_eq!(Packet::parse(cut), Err(Malformed::Truncated));
    let mut cut = V6 { payload_len: 7, ..V6::default() }.bytes();
    cut[6] = 44;
    assert_eq!(Packet::parse(cut), Err(Malformed::Truncated));
}

#[test]
fn marks_of_either_version_are_read_and_set() {
    for class in 0..=255_u8 {
        let v4 = V4 { traffic_class: class, ..V4::default() }.packet();
        let v6 = V6 { traffic_class: class, ..V6::default() }.packet();
        for mut packet in [v4, v6] {
            assert_eq!(packet.dscp(), class >> 2);
            let knows = class & 3 != 0;
            assert_eq!(packet.mark_congestion(), knows);
            assert_eq!(packet.ecn(), if knows { Ecn::Ce } else { Ecn::NotEct });
            assert_eq!(packet.dscp(), class >> 2);
            check(&packet);
        }
    }
}
