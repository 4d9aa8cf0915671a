use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::wire::frame::{Frame, Frames};

proptest! {
    #[test]
    fn open_undoes_seal(level in 1..16_u8, number in 0..1_u64 << 31, payload: Vec<u8>) {
        let (mut client, mut server) = pair();
        client.seal.packet_number = number;
        let mut datagram = seal(&mut client.seal, level, &payload);
        prop_assert_eq!(datagram[0] & 0xc0, 0);
        let opened = server.open.open(&mut datagram).unwrap();
        prop_assert_eq!((opened.level.get(), opened.packet_number), (level, number));
        prop_assert_eq!(&datagram[opened.payload], &payload[..]);
    }

    #[test]
    fn mutated_datagrams_never_open(
        payload in prop::collection::vec(any::<u8>(), 0..50),
        at: prop::sample::Index,
        flip in 1..=u8::MAX,
        cut in any::<bool>(),
    ) {
        let (mut client, mut server) = pair();
        let datagram = seal(&mut client.seal, 1, &payload);
        let at = at.index(datagram.len());
        let mut mutated = datagram.clone();
        if cut { mutated.truncate(at) } else { mutated[at] ^= flip }
        let error = open(&mut server.open, &mutated).unwrap_err();
        prop_assert!(matches!(error, OpenError::Unauthentic | OpenError::NotForUs), "{:?}", error);
        prop_assert!(open(&mut server.open, &datagram).is_ok());
    }

    #[test]
    fn garbage_never_opens(garbage: Vec<u8>, routed in any::<bool>()) {
        let (_, mut server) = pair();
        let mut garbage = garbage;
        if routed && garbage.len() >= 9 {
            garbage[0] &= 0x3f;
            garbage[1..9].copy_from_slice(&server.open.ids.first().0);
        }
        prop_assert!(open(&mut server.open, &garbage).is_err());
    }

    /// Packets are lost, doubled and displaced by up to 8 places, with an update every 8: never further
    /// than into the generation before.
    #[test]
    fn key_updates_survive_reordering_both_ways(
        displacements in prop::collection::vec((0..8_usize, 0..3_usize), 1..120),
    ) {
        let (mut client, mut server) = pair_updating_every(8);
        let mut flight: Vec<_> = Vec::new();
        for (number, &(displacement, copies)) in displacements.iter().enumerate() {
            let datagram = seal(&mut client.seal, 1, &[number as u8]);
            // Not a whole generation may be lost, or the direction stops: see docs/WIRE.md.
            let copies = if number % 4 == 0 { copies.max(1) } else { copies };
            for _ in 0..copies {
                flight.push((number + displacement, number, datagram.clone()));
            }
        }
        flight.sort_by_key(|&(place, ..)| place);
        let mut seen = BTreeSet::new();
        for (_, number, datagram) in flight {
            let result = open(&mut server.open, &datagram);
            if seen.insert(number) {
                prop_assert_eq!(result, Ok((number as u64, vec![number as u8])));
            } else {
                prop_assert_eq!(result, Err(OpenError::Duplicate));
            }
        }
    }

    #[test]
    fn what_was_framed_comes_out_framed(data in prop::collection::vec(any::<u8>(), 0..1200)) {
        let (mut client, mut server) = pair();
        let mut payload = Vec::new();
        DataHeader { stream: 8, offset: 9, final_size: None, explicit_len: None, receipt: Receipt(0) }.emit(&mut payload);
        payload.extend(&data);
        let mut datagram = seal(&mut client.seal, 3, &payload);
        let opened = server.open.open(&mut datagram).unwrap();
        let payload = &datagram[opened.payload];
        let Some(Ok(Frame::Data(frame))) = Frames::new(payload).next() else { panic!("not data") };
        prop_assert_eq!(&payload[frame.data], &data[..]);
    }
}
