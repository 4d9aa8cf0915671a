//! 0-RTT data by RLP.

use std::{sync::Arc, time::Duration};

use rc3_core::{ClientConfig, ConnectionHandle, Event, RlpMode, ServerConfig, Verdict, units::Rate};
use rc3_sim::{
    DropTail, Impairments, LinkConfig, Pair, StrictPriority,
    identity::{SERVER_NAME, tls},
};

use super::support::*;

const RATE: u64 = 50_000_000;
const RTT: Duration = Duration::from_millis(100);
/// The bandwidth-delay product of the link.
const BDP: u64 = 625_000;

/// The time the link needs for this many bytes, headers of both loops included: 92 bytes for 1200 of UDP payload.
fn service(bytes: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 * 8.0 * 1.08 / RATE as f64)
}

/// Two ends that have exchanged some megabytes before, on `connections` connections.
fn known(mode: RlpMode, connections: usize, early_rlp: bool) -> Pair {
    let mut pair = world_of(RATE, |config| {
        config.client.rlp(mode).early_rlp(early_rlp);
        config.server.rlp(mode);
    });
    meet(&mut pair);
    for _ in 0..connections {
        let (_, _, client) = transfer(&mut pair, 3_000_000, false);
        leave(&mut pair, client);
    }
    pair
}

/// The arrival of one BDP: when the server had it, without RLP in 0-RTT and with it.
fn flows_of_a_bdp(mode: RlpMode, connections: usize) -> [Duration; 2] {
    [false, true].map(|early_rlp| {
        let mut pair = known(mode, connections, early_rlp);
        let (_, last, client) = transfer(&mut pair, BDP, true);
        let early = pair.client.connection(client).unwrap().stats().sent.early_bytes;
        assert_eq!(early > 0, early_rlp, "{early} bytes");
        eprintln!("{mode:?} after {connections}: RLP in 0-RTT {early_rlp}: {last:?}, {early} bytes early");
        last
    })
}

#[test]
fn a_flow_of_a_bdp_to_a_known_peer_takes_half_a_round_trip_and_its_bits() {
    let best = RTT / 2 + service(BDP);
    let margin = Duration::from_millis(6);
    for (mode, connections) in [(RlpMode::Guard, 8), (RlpMode::Trust, 0)] {
        let [without, with] = flows_of_a_bdp(mode, connections);
        assert!(with < best + margin, "{mode:?}: {with:?} against {best:?}");
        assert!(with + RTT * 9 / 10 < without, "{mode:?}: {with:?} against {without:?}");
    }
    // On paths not known to honour priorities: half of it, and the rest at seven tenths of the rate.
    let [without, with] = flows_of_a_bdp(RlpMode::Guard, 1);
    assert!(with < RTT * 3 / 2 + service(BDP / 2) * 4 / 3 + margin, "{with:?}");
    assert!(with + RTT / 2 < without, "{with:?} against {without:?}");
}

#[test]
fn what_is_known_is_what_the_test_says() {
    for (connections, verdict) in [(1, Verdict::Unproven), (8, Verdict::Honoured)] {
        let mut pair = known(RlpMode::Guard, connections, true);
        let now = pair.now;
        let known: Vec<_> = pair.client.endpoint().verdicts(now).collect();
        let pace = known[0].pace.expect("a pace").rate.bits_per_second();
        assert_eq!(known[0].verdict, verdict);
        assert!((pace as f64 / RATE as f64 - 0.98).abs() < 0.03, "{pace}");
    }
}

#[test]
fn an_unknown_path_gets_a_train_and_a_trickle() {
    let mut pair = known(RlpMode::Guard, 0, true);
    let client = resume(&mut pair);
    let id = write(&mut pair, client, BDP);
    pair.drive_until(RTT - Duration::from_millis(1), |_| false);
    let stats = pair.client.connection(client).unwrap().stats();
    let packets: u64 = stats.sent.levels.iter().map(|level| level.packets).sum();
    assert!((17..=16 + 128).contains(&packets), "{packets} packets");
    let server = accept(&mut pair, id);
    read(&mut pair, server, id, BDP);
}

#[test]
fn early_rlp_makes_no_flow_slower() {
    for rate in [5_000_000, 50_000_000, 1_000_000_000] {
        for (connections, bytes) in
            [(0, 100_000), (0, 1_000_000), (0, 4_000_000), (1, 100_000), (1, 4_000_000)]
        {
            let [without, with] = [false, true].map(|early_rlp| {
                let mut pair = world_of(rate, |config| {
                    config.client.early_rlp(early_rlp);
                });
                meet(&mut pair);
                for _ in 0..connections {
                    let (_, _, client) = transfer(&mut pair, 3_000_000, false);
                    leave(&mut pair, client);
                }
                transfer(&mut pair, bytes, true).1
            });
            assert!(with <= without, "{bytes} at {rate} after {connections}: {with:?} against {without:?}");
        }
    }
}

#[test]
fn a_server_that_does_not_take_it_gets_all_by_the_primary_and_later() {
    for early_rlp in [false, true] {
        let mut pair = world_of(RATE, |config| {
            config.server.early_rlp(early_rlp);
        });
        meet(&mut pair);
        let client = resume(&mut pair);
        let id = write(&mut pair, client, BDP);
        pair.drive_until(RTT, |_| false);
        let server = accept(&mut pair, id);
        let came = pair.server.connection(server).unwrap().stats().received.rlp_datagrams;
        assert_eq!(came > 0, early_rlp, "{came}");
        read(&mut pair, server, id, BDP);
    }
}

#[test]
fn what_is_sent_early_is_acknowledged_when_the_handshake_is_complete() {
    let mut pair = known(RlpMode::Guard, 1, true);
    let client = resume(&mut pair);
    let id = write(&mut pair, client, 300_000);
    let server = accept(&mut pair, id);
    // All of it arrived before the client's address was validated.
    pair.drive_until(RTT * 3 / 2 - Duration::from_millis(1) - DELAY, |_| false);
    let connection = pair.server.connection(server).unwrap();
    assert!(connection.is_handshaking());
    assert_eq!(connection.stats().received.sacks, 0);
    assert!(connection.stats().received.rlp_bytes.iter().sum::<u64>() > 250_000);
    read(&mut pair, server, id, 300_000);
    pair.drive_until(RTT, |_| false);
    let sent = pair.client.connection(client).unwrap().stats().sent;
    let [sent, delivered] = [
        sent.levels.iter().map(|level| level.bytes).sum::<u64>(),
        sent.levels.iter().map(|level| level.delivered_bytes).sum::<u64>(),
    ];
    // Except what the primary sent again meanwhile.
    assert!(delivered > sent * 8 / 10, "{delivered} of {sent}");
    assert!(pair.client.events.contains(&(client, Event::Finished(id))));
}

/// Another client and server than those of the pair.
fn reconnect(pair: &mut Pair, client: &ClientConfig, server: rustls::ServerConfig) -> ConnectionHandle {
    let config = ServerConfig::with_crypto(Arc::new(server));
    pair.server.endpoint().set_server_config(Some(&config)).unwrap();
    let (now, remote) = (pair.now, pair.server.address());
    pair.client.endpoint().connect(now, client, remote, SERVER_NAME).unwrap()
}

#[test]
fn what_the_server_rejects_counts_as_never_sent() {
    let (client, server) = tls(&["sim"]);
    let client = ClientConfig::new(Arc::new(client));
    let mut pair = known(RlpMode::Guard, 1, true);
    let first = reconnect(&mut pair, &client, server.clone());
    pair.drive_until(Duration::from_secs(1), |_| false);
    leave(&mut pair, first);

    // The same identity, without the sessions.
    let mut forgetful = server;
    forgetful.session_storage = rustls::server::ServerSessionMemoryCache::new(1);
    let second = reconnect(&mut pair, &client, forgetful);
    assert!(pair.client.with(second, |c| c.begin_early()));
    write(&mut pair, second, BDP);
    let known = pair.drive_until(RTT * 2, |pair| {
        pair.client.events.iter().any(|(of, event)| *of == second && *event == Event::EarlyDataRejected)
    });
    assert!(known && pair.client.connection(second).unwrap().stats().sent.early_bytes > 250_000);
    pair.drive_until(RTT * 2, |_| false);
    let server = pair.server.accepted[0];
    let received = pair.server.connection(server).unwrap().stats().received;
    assert_eq!((received.rlp_datagrams, received.rlp_discarded, received.primary_bytes), (0, 0, 0));

    let id = write(&mut pair, second, BDP);
    let server = accept(&mut pair, id);
    read(&mut pair, server, id, BDP);
    let received = pair.server.connection(server).unwrap().stats().received;
    assert!(received.rlp_bytes.iter().sum::<u64>() > BDP / 2, "{received:?}");
}

#[test]
fn what_overtakes_the_secret_waits_for_it() {
    const BYTES: u64 = 180_000;
    let mut pair = known(RlpMode::Guard, 1, true);
    let tap = Tap::listen(&mut pair, true);
    let start = pair.now;
    let client = resume(&mut pair);
    let id = write(&mut pair, client, BYTES);
    pair.drive_until(RTT, |_| false);
    let secret = tap.lock().unwrap().secret.clone().expect("a first datagram");
    let server = pair.server.accepted[0];
    assert_eq!(pair.server.connection(server).unwrap().stats().received.rlp_datagrams, 0);
    let from = pair.client.address();
    pair.server.inject(from, &secret);
    assert!(pair.server.connection(server).unwrap().stats().received.rlp_datagrams > 100);
    let server = accept(&mut pair, id);
    read(&mut pair, server, id, BYTES);
    assert_eq!(pair.now, start + RTT, "all of it was there");
    pair.drive_until(RTT * 5, |_| false);
    assert!(pair.server.connection(server).unwrap().lost().is_none());
}

#[test]
fn without_the_secret_all_arrives_later() {
    let mut pair = known(RlpMode::Guard, 1, true);
    Tap::listen(&mut pair, true);
    let (_, last, _) = transfer(&mut pair, BDP, true);
    assert!(last < RTT * 5, "{last:?}");
}

#[test]
fn losses_reordering_and_repetitions_cost_no_byte() {
    for seed in 0..30 {
        let jitter = [Duration::from_millis(seed % 3 * 10); rc3_core::units::Level::COUNT];
        let mut pair = world_of(RATE, |config| {
            let impairments = Impairments {
                loss: 0.05,
                duplicate: 0.05,
                reorder: 0.1,
                reorder_delay: Duration::from_millis(20),
                jitter,
                ..Impairments::default()
            };
            for link in [&mut config.forward, &mut config.backward] {
                link.impairments = impairments.clone();
                link.seed += seed;
            }
        });
        let first = pair.connect();
        pair.drive_until(Duration::from_secs(10), |_| false);
        leave(&mut pair, first);
        transfer(&mut pair, 400_000, true);
    }
}

#[test]
fn a_path_that_has_become_slower_meanwhile_costs_little() {
    for (slower, bytes) in [(4, 100_000), (4, BDP), (4, 3_000_000), (20, 100_000), (20, BDP), (20, 3_000_000)]
    {
        for priority in [false, true] {
            let [without, with] = [false, true].map(|early_rlp| {
                let mut pair = known(RlpMode::Guard, 1, early_rlp);
                let rate = Rate::from_bits_per_second(RATE / slower);
                let link = LinkConfig { rate, delay: DELAY, ..LinkConfig::default() };
                let buffer = BDP / slower;
                pair.set_forward_queue(
                    link,
                    match priority {
                        true => Box::new(StrictPriority::by_level(buffer)),
                        false => Box::new(DropTail::new(buffer)),
                    },
                );
                transfer(&mut pair, bytes, true).1
            });
            let times = with.as_secs_f64() / without.as_secs_f64();
            eprintln!("{bytes} bytes, {slower} times slower, priority {priority}: {times:.2} times as long");
            assert!(times < 1.08, "{bytes} at 1/{slower}: {with:?} against {without:?}");
        }
    }
}

#[test]
fn all_that_came_early_is_acknowledged_however_it_lies() {
    const BYTES: u64 = 500_000;
    let mut pair = known(RlpMode::Trust, 0, true);
    let mut count = 0;
    pair.client.set_tamper(Box::new(move |_, datagram| {
        count += usize::from(is_rlp(&datagram.contents));
        usize::from(!is_rlp(&datagram.contents) || count % 2 == 0)
    }));
    let client = resume(&mut pair);
    let id = write(&mut pair, client, BYTES);
    let server = accept(&mut pair, id);
    let up = |pair: &mut Pair| !pair.server.connection(server).unwrap().is_handshaking();
    assert!(pair.drive_until(RTT * 3, up));
    let came: u64 = pair.server.connection(server).unwrap().stats().received.rlp_bytes.iter().sum();
    // Half a round trip for the SACKs; there are more runs than three of them hold.
    pair.drive_until(DELAY + Duration::from_millis(1), |_| false);
    let sent = pair.client.connection(client).unwrap().stats().sent;
    let delivered: u64 = sent.levels.iter().map(|level| level.delivered_bytes).sum();
    assert!(came > BYTES * 2 / 5 && delivered > came * 9 / 10, "{delivered} of {came}");
    read(&mut pair, server, id, BYTES);
}
