//! Attackers on or off the path, without the keys.

use bytes::BytesMut;
use proptest::prelude::*;
use rc3_core::{DatagramMeta, internals::keys::receiver_id, units::Level};
use rc3_sim::pattern;

use super::support::*;

#[test]
fn a_replayed_datagram_is_discarded() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let datagram = seal(&mut keys(&pair, client, true), data(STREAM, 0, None, b"once"));
    deliver(&mut pair, server, &datagram);
    deliver(&mut pair, server, &datagram);
    let received = pair.server.connection(server).unwrap().stats().received;
    assert_eq!((received.rlp_datagrams, received.rlp_discarded, received.rlp_bytes[1]), (1, 1, 4));
}

/// A whole transfer during which an attacker modifies each datagram of either side and sends it to its receiver, from
/// `from` or with the original source.
fn transfer_under_attack(from: Option<&str>, attack: impl Fn(usize, &[u8]) -> Option<Vec<u8>>) {
    const BYTES: u64 = 600_000;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let addresses = [pair.client.address(), pair.server.address()];
    let (up, down) = (Tap::default(), Tap::default());
    pair.client.set_tamper(up.tamper());
    pair.server.set_tamper(down.tamper());
    send(&mut pair, client, BYTES);
    let mut reader = Reader::default();
    let mut thrown = [0; 2];
    let done = pair.drive_until(RTT * 200, |pair| {
        for (side, tap) in [&up, &down].into_iter().enumerate() {
            let seen = tap.lock().seen.split_off(0);
            for (_, contents) in seen {
                let Some(made) = attack(thrown[side], &contents) else { continue };
                thrown[side] += 1;
                let remote = from.map_or(addresses[side], |from| from.parse().unwrap());
                // The attacker is nearer than the link: this arrives before the original.
                let node = if side == 0 { &mut pair.server } else { &mut pair.client };
                node.inject(remote, &made);
            }
        }
        reader.pump(pair, server);
        reader.ended == 1
    });
    assert!(done, "{:?}", pair.server.connection(server).unwrap().lost());
    // The address taken for the client's gets most of the answers.
    assert!(
        thrown[0] > 400 && thrown[1] > if from.is_none() { 20 } else { 3 },
        "{thrown:?}: hardly an attack"
    );
    // An attacker that copies datagrams faster than the path may become the primary's path for a moment (RFC 9000
    // §9.3.2), but does not stay there.
    pair.drive_until(RTT * 20, |_| false);
    let connection = pair.server.connection(server).unwrap();
    assert!(connection.lost().is_none());
    if from.is_none() {
        assert_eq!(connection.remote_address(), addresses[0]);
    }
}

#[test]
fn datagrams_cut_short_do_no_harm() {
    transfer_under_attack(None, |nth, datagram| Some(datagram[..nth * 7 % datagram.len()].to_vec()));
}

#[test]
fn datagrams_with_a_flipped_bit_do_no_harm() {
    transfer_under_attack(None, |nth, datagram| {
        let mut datagram = datagram.to_vec();
        let bit = nth * 7919 % (datagram.len() * 8);
        datagram[bit / 8] ^= 1 << (bit % 8);
        Some(datagram)
    });
}

#[test]
fn datagrams_repeated_before_they_arrive_do_no_harm() {
    transfer_under_attack(None, |_, datagram| Some(datagram.to_vec()));
}

#[test]
fn the_low_priority_datagrams_of_a_stranger_s_copies_move_no_path() {
    // Only of RLP: the primary follows RFC 9000 §9.3.
    let is_rlp = |datagram: &[u8]| datagram[0] & 0xc0 == 0;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let address = pair.client.address();
    let tap = Tap::default();
    pair.client.set_tamper(tap.tamper());
    send(&mut pair, client, 600_000);
    let mut reader = Reader::default();
    let done = pair.drive_until(RTT * 200, |pair| {
        let seen = tap.lock().seen.split_off(0);
        for (_, contents) in seen.iter().filter(|(_, contents)| is_rlp(contents)) {
            pair.server.inject("203.0.113.9:999".parse().unwrap(), contents);
        }
        assert_eq!(pair.server.connection(server).unwrap().remote_address(), address);
        reader.pump(pair, server);
        reader.ended == 1
    });
    assert!(done);
    let received = pair.server.connection(server).unwrap().stats().received;
    assert!(received.rlp_datagrams > 200, "{received:?}");
    assert!(received.rlp_discarded > received.rlp_datagrams / 2, "then the originals count as copies");
}

#[test]
fn a_stranger_s_copies_of_everything_end_no_connection() {
    transfer_under_attack(Some("203.0.113.9:999"), |nth, datagram| {
        // Not each one: a copy that always wins is the path.
        (nth % 3 != 0 || datagram.len() < 30).then(|| datagram.to_vec()).or(Some(Vec::new()))
    });
}

#[test]
fn a_flood_that_wants_answers_gets_few_and_short_ones() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let now = pair.now;
    let endpoint = pair.server.endpoint();
    let (mut came, mut flood) = (0, 0);
    for nth in 0..50_000_u32 {
        // A long header of an unsupported version, padded as a client must: worth a Version Negotiation packet.
        let mut datagram = vec![0; 1200];
        datagram[..5].copy_from_slice(&[0xc0, 0x0a, 0x0b, 0x0c, 0x0d]);
        datagram[5] = 8;
        datagram[6..10].copy_from_slice(&nth.to_be_bytes());
        datagram[14] = 8;
        flood += datagram.len();
        let remote = std::net::SocketAddr::from(([192, 0, 2, 1], nth as u16 | 1));
        endpoint.handle_datagram(
            now,
            DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None },
            BytesMut::from(&datagram[..]),
        );
    }
    let (mut buf, mut answers) = (Vec::new(), 0);
    while let Some(transmit) = endpoint.poll_primary(now, 1, &mut buf) {
        answers += 1;
        came += transmit.size;
        buf.clear();
    }
    assert!(answers > 0, "no answer at all proves nothing");
    assert!(answers <= 1100, "{answers} answers were kept");
    assert!(came < flood / 50, "{came} bytes for {flood}");
    send(&mut pair, client, 1000);
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 10, |pair| reader.pump(pair, server) == 1000));
}

#[test]
fn a_flood_with_a_valid_receiver_id_changes_nothing_but_a_counter() {
    const FLOOD: u64 = 20_000;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let id = receiver_id(&seal(&mut keys(&pair, client, true), |buf| buf.push(0))).unwrap();
    let before = pair.server.connection(server).unwrap().stats();
    let mut random = 1_u64;
    for _ in 0..FLOOD {
        let mut datagram: Vec<u8> = (0..60)
            .map(|_| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) as u8
            })
            .collect();
        datagram[0] &= 0x3f;
        datagram[1..9].copy_from_slice(&id.0);
        pair.server.inject("203.0.113.9:999".parse().unwrap(), &datagram);
    }
    let after = pair.server.connection(server).unwrap().stats();
    assert_eq!(after.received.rlp_discarded - before.received.rlp_discarded, FLOOD);
    assert_eq!(after.received.rlp_datagrams, before.received.rlp_datagrams);
    assert_eq!(pair.server.traffic.with("203.0.113.9:999".parse().unwrap()).sent, 0);
    send(&mut pair, client, 300_000);
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 20, |pair| reader.pump(pair, server) == 300_000));
}

/// Somebody who sees a connection id sends 20 datagrams a millisecond with it. The receiver's reports, and so the sender's
/// rate, stay as they are without them.
#[test]
fn junk_with_an_observed_connection_id_reaches_no_report() {
    let rate = |junk: bool| {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let tap = Tap::default();
        pair.client.set_tamper(tap.tamper());
        send(&mut pair, client, 3_000_000);
        let (remote, mut reader) = (pair.client.address(), Reader::default());
        for nth in 0..100_u8 {
            pair.drive_until(RTT / 40, |_| false);
            reader.pump(&mut pair, server);
            let observed = tap.lock().seen.iter().rev().find(|(level, _)| level.is_primary()).cloned();
            let Some((_, mut datagram)) = observed.filter(|_| junk) else { continue };
            for copy in 0..20 {
                datagram[9..].fill(nth ^ copy);
                pair.server.inject(remote, &datagram);
            }
        }
        let received = pair.server.connection(server).unwrap().stats().udp_rx.datagrams;
        assert_eq!(received > 1500, junk, "{received} datagrams: the junk went elsewhere");
        pair.client.connection(client).unwrap().stats().clock.unwrap().rate
    };
    assert!(rate(false).is_some());
    assert_eq!(rate(true), rate(false));
}

/// Only the holder of the keys can make a datagram that opens, whatever its level.
#[test]
fn levels_are_authenticated() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let mut keys = keys(&pair, client, true);
    for level in 0..Level::COUNT as u8 {
        let mut datagram = seal(&mut keys, data(STREAM, 0, None, &[pattern(0)]));
        datagram[0] ^= level + 1;
        deliver(&mut pair, server, &datagram);
    }
    let received = pair.server.connection(server).unwrap().stats().received;
    assert_eq!((received.rlp_datagrams, received.rlp_bytes), (0, [0; Level::COUNT]));
}

proptest! {
    #[test]
    fn garbage_at_an_endpoint_does_no_harm(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1500), 0..50),
    ) {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let remote = pair.client.address();
        for datagram in &datagrams {
            pair.server.inject(remote, datagram);
        }
        prop_assert!(pair.server.connection(server).unwrap().lost().is_none());
        prop_assert!(pair.client.connection(client).unwrap().lost().is_none());
    }
}
