mod properties;

use super::{
    aead::{AeadGeneration, expand_into},
    protection::Generation,
    *,
};
use crate::{
    seams::cryptography::hkdf::{HKDF_SHA256, Prk},
    units::{Level, Receipt, Span},
    wire::{
        control::EarlySecret,
        document::documented,
        frame::DataHeader,
        header::{self, HEADER_LEN, Header, SAMPLE_LEN},
        sack,
    },
};

fn secrets() -> ([u8; 32], [u8; 32]) {
    (std::array::from_fn(|i| i as u8), std::array::from_fn(|i| 0x20 + i as u8))
}

fn pair() -> (RlpKeys, RlpKeys) {
    let (client, server) = secrets();
    let keys = |side_is_client| RlpKeys::new(&Aead, [&client, &server], side_is_client);
    (keys(true), keys(false))
}

fn pair_updating_every(packets_per_key: u64) -> (RlpKeys, RlpKeys) {
    let (mut client, mut server) = pair();
    client.seal.packets_per_key = packets_per_key;
    server.seal.packets_per_key = packets_per_key;
    (client, server)
}

fn seal(sealer: &mut Sealer, level: u8, payload: &[u8]) -> Vec<u8> {
    let mut buf = Vec::new();
    let sealing = sealer.begin(Level::new(level).unwrap(), &mut buf);
    buf.extend(payload);
    sealer.finish(sealing, &mut buf);
    buf
}

fn open(opener: &mut Opener, datagram: &[u8]) -> Result<(u64, Vec<u8>), OpenError> {
    let mut datagram = datagram.to_vec();
    let opened = opener.open(&mut datagram)?;
    Ok((opened.packet_number, datagram[opened.payload].to_vec()))
}

fn first_generation(secret: &[u8]) -> AeadGeneration {
    AeadGeneration::new(Prk::new_less_safe(HKDF_SHA256, secret))
}

/// Seals as the client of [`secrets`], with fields no honest sender would write.
fn seal_header(keys: &RlpKeys, generations: u32, header: Header, packet_number: u64) -> Vec<u8> {
    let mut generation: Box<dyn Generation> = Box::new(first_generation(&secrets().0));
    for _ in 0..generations {
        generation = generation.next();
    }
    let mut bytes = header.emit();
    let mut payload = b"payload".to_vec();
    let tag = generation.seal(packet_number, &bytes, &mut payload);
    payload.extend(tag.as_ref());
    header::apply_mask(&mut bytes, keys.seal.mask().of(&payload[..SAMPLE_LEN]).unwrap());
    [&bytes[..], &payload].concat()
}

fn header(keys: &RlpKeys, packet_number: u64) -> Header {
    Header {
        key_phase: false,
        reserved: false,
        level: Level::FIRST,
        receiver: keys.seal.ids.current,
        packet_number: packet_number as u32,
    }
}

fn expanded(secret: &[u8], info: &[u8], len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    expand_into(&Prk::new_less_safe(HKDF_SHA256, secret), info, &mut out);
    out
}

#[test]
fn the_worked_example_of_the_document_is_what_we_seal() {
    let (mut client, mut server) = pair();
    let secret = documented("client secret");
    assert_eq!((secret.clone(), documented("server secret")), (secrets().0.to_vec(), secrets().1.to_vec()));
    assert_eq!(documented("client key"), expanded(&secret, b"rc3 key", 16));
    assert_eq!(documented("client iv"), *first_generation(&secret).iv);
    assert_eq!(documented("client hp"), expanded(&secret, b"rc3 hp", 16));
    assert_eq!(documented("client id"), client.seal.ids.current.0);
    assert_eq!(documented("client id of the second path"), client.seal.ids.next.0);
    assert_eq!(documented("client next"), expanded(&secret, b"rc3 ku", 32));
    assert_eq!(documented("server id"), client.open.ids.first().0);

    let mut payload = Vec::new();
    sack::emit(1, [Span::new(0, 10), Span::new(100, 400)].map(|span| (span, Receipt(7))), 100, &mut payload);
    let data = DataHeader {
        stream: 4,
        offset: 1_000,
        final_size: Some(1_003),
        explicit_len: None,
        receipt: Receipt(0x0102_0304),
    };
    data.emit(&mut payload);
    payload.extend(b"rc3");
    assert_eq!(documented("payload"), payload);

    client.seal.packet_number = 0x0102;
    let datagram = seal(&mut client.seal, 2, &payload);
    let mask = client.seal.mask().of(&datagram[HEADER_LEN..][..SAMPLE_LEN]).unwrap();
    assert_eq!(documented("mask"), mask);
    let mut header = *datagram.first_chunk().unwrap();
    header::apply_mask(&mut header, mask);
    assert_eq!(documented("header"), header);
    assert_eq!(documented("nonce"), first_generation(&secret).nonce(0x0102).as_ref());
    assert_eq!(documented("datagram"), datagram);
    assert_eq!(open(&mut server.open, &datagram), Ok((0x0102, payload)));

    client.seal.packets_per_key = 1;
    assert_eq!(documented("datagram after key update"), seal(&mut client.seal, 15, &[0]));
}

#[test]
fn the_early_keys_are_those_of_the_document_and_no_others() {
    let secret = EarlySecret(<[u8; _]>::try_from(documented("early secret")).unwrap().into());
    let direction = documented("early client secret");
    assert_eq!(direction, expanded(&*secret.0, b"rc3 early client", 32));
    let mut sealer = secret.sealer();
    assert_eq!(documented("early client key"), expanded(&direction, b"rc3 key", 16));
    assert_eq!(documented("early client iv"), *AeadGeneration::new(secret.prk()).iv);
    assert_eq!(documented("early client hp"), expanded(&direction, b"rc3 hp", 16));
    assert_eq!(documented("early client id"), sealer.ids.current.0);
    let datagram = seal(&mut sealer, 1, &[0]);
    assert_eq!(documented("early datagram"), datagram);
    assert_eq!(open(&mut secret.opener(), &datagram), Ok((0, vec![0])));
    // The same bytes as a secret of the exporter yield other keys.
    let mut keys = RlpKeys::new(&Aead, [&secret.0, &[0; 32]], false);
    assert_eq!(open(&mut keys.open, &datagram), Err(OpenError::NotForUs));
}

#[test]
fn packet_numbers_go_on_with_the_next_keys() {
    let mut early = EarlySecret([7; 32].into()).sealer();
    for number in 0..3 {
        assert_eq!(early.next_number(), number);
        seal(&mut early, 1, b"early");
    }
    let (client, mut server) = pair();
    let mut sealer = client.seal.continuing_at(early.next_number());
    assert_eq!(open(&mut server.open, &seal(&mut sealer, 1, b"later")), Ok((3, b"later".to_vec())));
}

#[test]
fn a_batch_opens_datagram_by_datagram() {
    let (mut client, mut server) = pair();
    let mut buf = b"in front".to_vec();
    let mut borders = vec![buf.len()];
    for number in 0..3_u8 {
        let sealing = client.seal.begin(Level::new(number + 1).unwrap(), &mut buf);
        buf.extend([number; 20]);
        assert_eq!(client.seal.finish(sealing, &mut buf), u64::from(number));
        borders.push(buf.len());
    }
    assert!(buf.starts_with(b"in front"));
    for (number, border) in borders.windows(2).enumerate() {
        let datagram = &mut buf[border[0]..border[1]];
        assert_eq!(datagram.len(), 20 + Sealer::OVERHEAD);
        assert_eq!(receiver_id(datagram), Some(server.open.ids.first()));
        let opened = server.open.open(datagram).unwrap();
        assert_eq!((opened.level.index(), opened.packet_number), (number + 1, number as u64));
        assert_eq!(datagram[opened.payload], [number as u8; 20]);
    }
}

#[test]
fn an_empty_payload_is_sealed_and_opened() {
    let (mut client, mut server) = pair();
    let datagram = seal(&mut client.seal, 1, &[]);
    assert_eq!(datagram.len(), Sealer::OVERHEAD);
    assert_eq!(open(&mut server.open, &datagram), Ok((0, vec![])));
}

#[test]
fn a_dropped_sealing_spends_no_packet_number() {
    let (mut client, _) = pair();
    let mut buf = Vec::new();
    drop(client.seal.begin(Level::FIRST, &mut buf));
    buf.clear();
    let sealing = client.seal.begin(Level::FIRST, &mut buf);
    assert_eq!(client.seal.finish(sealing, &mut buf), 0);
}

#[test]
fn directions_do_not_open_each_other() {
    let (mut client, mut server) = pair();
    let ids = |keys: &RlpKeys| (keys.open.ids.first(), keys.seal.ids.current);
    assert_ne!(ids(&client).0, ids(&client).1);
    assert_eq!(ids(&client), (ids(&server).1, ids(&server).0));
    let datagram = seal(&mut client.seal, 1, b"to the server");
    assert_eq!(open(&mut client.open, &datagram), Err(OpenError::NotForUs));
    let mut reflected = datagram.clone();
    reflected[1..9].copy_from_slice(&client.open.ids.first().0);
    assert_eq!(open(&mut client.open, &reflected), Err(OpenError::Unauthentic));
    assert!(open(&mut server.open, &datagram).is_ok());
}

#[test]
fn each_path_has_an_id_of_its_own() {
    let (mut client, mut server) = pair();
    let mut ids = Vec::new();
    for path in 0..20_u8 {
        let probe = {
            let mut buf = Vec::new();
            let sealing = client.seal.begin_on_next_path(Level::FIRST, &mut buf);
            client.seal.finish(sealing, &mut buf);
            buf
        };
        let datagram = seal(&mut client.seal, 1, &[path]);
        assert!(open(&mut server.open, &datagram).is_ok());
        assert!(open(&mut server.open, &probe).is_ok());
        client.seal.change_path();
        assert_eq!(receiver_id(&probe), Some(client.seal.ids.current));
        ids.extend(receiver_id(&datagram));
    }
    ids.sort_unstable_by_key(|id| id.0);
    ids.dedup();
    assert_eq!(ids.len(), 20);
}

#[test]
fn replay_is_refused() {
    let (mut client, mut server) = pair_updating_every(2);
    let datagrams: Vec<_> = (0..4).map(|i| seal(&mut client.seal, 1, &[i])).collect();
    for order in [[3, 1, 2, 0], [0, 1, 2, 3]] {
        for number in order {
            let _ = open(&mut server.open, &datagrams[number]);
            // Packet 1 was opened with the previous keys, 2 and 3 with the current.
            assert_eq!(open(&mut server.open, &datagrams[number]), Err(OpenError::Duplicate), "{number}");
        }
    }
}

#[test]
fn packets_behind_the_window_are_too_old() {
    let (mut client, mut server) = pair();
    let old = seal(&mut client.seal, 1, b"old");
    client.seal.packet_number = crate::structures::replay::WINDOW;
    let new = seal(&mut client.seal, 1, b"new");
    assert!(open(&mut server.open, &new).is_ok());
    assert_eq!(open(&mut server.open, &old), Err(OpenError::TooOld));
}

#[test]
fn packet_numbers_expand_past_32_bits() {
    let (mut client, mut server) = pair();
    // Each step is below 2^31, as is the number of packets an honest sender may lose in a row.
    for number in [0x6000_0000, 0xc000_0000, 0xffff_ffff, 0x1_0000_0000, 0x1_0000_0001, 0x1_7000_0000] {
        client.seal.packet_number = number;
        let datagram = seal(&mut client.seal, 1, b"far");
        assert_eq!(open(&mut server.open, &datagram), Ok((number, b"far".to_vec())));
    }
}

#[test]
fn late_packets_of_the_previous_keys_open_until_the_update_after() {
    let (mut client, mut server) = pair_updating_every(3);
    let datagrams: Vec<_> = (0..9).map(|i| seal(&mut client.seal, 1, &[i])).collect();
    for (number, result) in [
        (4, Ok(())),
        (1, Ok(())),
        (3, Ok(())),
        (0, Ok(())),
        (5, Ok(())),
        (7, Ok(())),
        // Two generations back: the same key phase as now, but not the same keys.
        (2, Err(OpenError::Unauthentic)),
        (6, Ok(())),
        (8, Ok(())),
    ] {
        let opened = open(&mut server.open, &datagrams[number]);
        assert_eq!(opened.map(|(opened, _)| assert_eq!(opened, number as u64)), result, "{number}");
    }
}

#[test]
fn the_first_packet_may_be_of_the_second_key() {
    let (mut client, mut server) = pair_updating_every(1);
    let lost = seal(&mut client.seal, 1, b"late");
    let first = seal(&mut client.seal, 1, b"first");
    assert_eq!(open(&mut server.open, &first), Ok((1, b"first".to_vec())));
    assert_eq!(open(&mut server.open, &lost), Ok((0, b"late".to_vec())));
}

#[test]
fn spoofed_key_phases_change_nothing() {
    let (mut client, mut server) = pair_updating_every(50);
    let mut failures = 0;
    for number in 0..200_u64 {
        let datagram = seal(&mut client.seal, 1, b"honest");
        // The mask is an exclusive or: a bit flipped on the wire flips below it.
        let mut spoofed = datagram.clone();
        spoofed[0] ^= 0x20;
        let phase = server.open.key_phase;
        assert_eq!(open(&mut server.open, &spoofed), Err(OpenError::Unauthentic));
        failures += 1;
        assert_eq!((server.open.key_phase, server.open.failures), (phase, failures));
        assert_eq!(server.open.next_number(), number);
        assert_eq!(open(&mut server.open, &datagram), Ok((number, b"honest".to_vec())));
    }
}

#[test]
fn only_the_peer_can_be_at_fault() {
    let (client, mut server) = pair();
    let honest = header(&client, 0);
    for (number, header, error) in [
        (0, Header { reserved: true, ..honest }, OpenError::ReservedBit),
        (1, Header { level: Level::PRIMARY, packet_number: 1, ..honest }, OpenError::PrimaryLevel),
    ] {
        let datagram = seal_header(&client, 0, header, number);
        let mut forged = datagram.clone();
        *forged.last_mut().unwrap() ^= 1;
        assert_eq!(open(&mut server.open, &forged), Err(OpenError::Unauthentic));
        assert_eq!(open(&mut server.open, &datagram), Err(error));
        assert!(error.is_peer_fault() && !OpenError::Unauthentic.is_peer_fault());
        assert_eq!(open(&mut server.open, &datagram), Err(OpenError::Duplicate));
    }
}

#[test]
fn newer_keys_below_the_highest_number_do_not_open() {
    let (mut client, mut server) = pair();
    let overtaken = seal_header(&client, 1, Header { key_phase: true, ..header(&client, 3) }, 3);
    client.seal.packet_number = 5;
    let datagram = seal(&mut client.seal, 1, b"highest");
    assert!(open(&mut server.open, &datagram).is_ok());
    assert_eq!(open(&mut server.open, &overtaken), Err(OpenError::Unauthentic));
    assert!(!server.open.key_phase);
}

#[test]
fn past_the_integrity_limit_nothing_opens() {
    let (mut client, mut server) = pair();
    server.open.failures_max = 2;
    let datagram = seal(&mut client.seal, 1, b"honest");
    let mut forged = datagram.clone();
    forged[20] ^= 1;
    assert_eq!(open(&mut server.open, &forged), Err(OpenError::Unauthentic));
    assert_eq!(open(&mut server.open, &[0; 40]), Err(OpenError::NotForUs), "no attempt, no failure");
    assert_eq!(open(&mut server.open, &forged), Err(OpenError::IntegrityLimit));
    assert_eq!(open(&mut server.open, &datagram), Err(OpenError::IntegrityLimit));
}
