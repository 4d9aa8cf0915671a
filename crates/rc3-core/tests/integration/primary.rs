//! The behaviour of the primary that rc3 relies on, on the wire and in time; and what it must not break there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Buf;
use rc3_core::{
    Congestion, ConnectionHandle, Dir, MtuDiscoveryConfig, ReadError, RlpMode, StreamId, TransportConfig,
    units::Rate,
};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const MTU: u16 = 1472;
const RTT: Duration = Duration::from_millis(40);

fn config(rlp: RlpMode, change: impl Fn(&mut TransportConfig)) -> PairConfig {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp).nic_rate(rate).initial_mtu(MTU).mtu_discovery(false).paced(false);
        side.congestion(Congestion::NewReno).initial_window(Some(4 * u64::from(MTU) + 1));
        change(side);
    }
    config
}

fn connected(pair: &mut Pair) -> (ConnectionHandle, ConnectionHandle) {
    let client = pair.connect();
    let up = pair.drive_until(RTT * 4, |pair| {
        let up = |node: &rc3_sim::Node, handle| node.connection(handle).is_some_and(|c| !c.is_handshaking());
        up(&pair.client, client)
            && pair.server.accepted.front().is_some_and(|&handle| up(&pair.server, handle))
    });
    assert!(up);
    (client, pair.server.accepted[0])
}

fn write_all(pair: &mut Pair, from_client: bool, handle: ConnectionHandle, bytes: usize) -> StreamId {
    let node = if from_client { &mut pair.client } else { &mut pair.server };
    let id = node.with(handle, |c| c.open(Dir::Uni)).unwrap();
    assert_eq!(node.with(handle, |c| c.write(id, vec![1; bytes].into())), Ok(bytes));
    node.with(handle, |c| c.finish(id)).unwrap();
    id
}

/// Reads everything of the streams the peer opened; returns whether one of them has ended.
fn read_all(pair: &mut Pair, by_client: bool, handle: ConnectionHandle, ids: &mut Vec<StreamId>) -> bool {
    let node = if by_client { &mut pair.client } else { &mut pair.server };
    ids.extend(std::iter::from_fn(|| node.with(handle, |c| c.accept(Dir::Uni))));
    let mut ended = false;
    for &id in ids.iter() {
        loop {
            match node.with(handle, |c| c.read(id, usize::MAX, true)) {
                Ok(Some(_)) => {}
                Err(ReadError::Blocked) => break,
                Ok(None) | Err(_) => {
                    ended = true;
                    break;
                }
            }
        }
    }
    ended
}

/// Packets the client sends at once, after the handshake, when it has plenty to send.
fn first_flight(window: u64, paced: bool) -> u64 {
    let mut pair = Pair::new(config(RlpMode::Off, |side| {
        side.initial_window(Some(window)).paced(paced);
    }));
    let (client, _) = connected(&mut pair);
    pair.drive_until(RTT * 3, |_| false);
    let before = pair.forward.stats().total().offered.packets;
    write_all(&mut pair, true, client, 1_000_000);
    pair.step();
    pair.forward.stats().total().offered.packets - before
}

#[test]
fn a_window_of_four_packets_and_a_byte_sends_four() {
    assert_eq!(first_flight(4 * u64::from(MTU) + 1, false), 4);
    // quinn-proto sends while in flight + mtu < window.
    assert_eq!(first_flight(4 * u64::from(MTU), false), 3);
}

#[test]
fn without_pacing_a_window_leaves_at_once_with_pacing_it_does_not() {
    let window = 100 * u64::from(MTU) + 1;
    assert_eq!(first_flight(window, false), 100);
    assert!(first_flight(window, true) < 50);
}

#[test]
fn a_side_that_only_acknowledged_can_send_at_once() {
    // Acknowledgments are not in flight; otherwise the window would look closed after a long download.
    let mut pair = Pair::new(config(RlpMode::Trust, |_| ()));
    let (client, server) = connected(&mut pair);
    write_all(&mut pair, true, client, 4_000_000);
    let mut ids = Vec::new();
    assert!(pair.drive_until(RTT * 20, |pair| read_all(pair, false, server, &mut ids)));
    let start = pair.now;
    write_all(&mut pair, false, server, 4_000);
    let mut ids = Vec::new();
    assert!(pair.drive_until(RTT * 20, |pair| read_all(pair, true, client, &mut ids)));
    assert!(pair.now - start < RTT * 3 / 4, "{:?}", pair.now - start);
}

#[test]
fn both_directions_at_once_do_not_starve_each_other_of_acknowledgments() {
    let mut pair = Pair::new(config(RlpMode::Trust, |_| ()));
    let (client, server) = connected(&mut pair);
    let start = pair.now;
    write_all(&mut pair, true, client, 1_000_000);
    write_all(&mut pair, false, server, 1_000_000);
    let (mut up, mut down) = ((Vec::new(), false), (Vec::new(), false));
    assert!(pair.drive_until(RTT * 20, |pair| {
        up.1 |= read_all(pair, false, server, &mut up.0);
        down.1 |= read_all(pair, true, client, &mut down.0);
        up.1 && down.1
    }));
    // Half a round trip and the time for 1 MB, since the idle link takes everything by RLP.
    assert!(pair.now - start < RTT * 3 / 2, "{:?}", pair.now - start);
}

#[test]
fn after_idleness_the_ladder_starts_again() {
    let mut pair = Pair::new(config(RlpMode::Trust, |_| ()));
    let (client, server) = connected(&mut pair);
    let mut ids = Vec::new();
    for round in 1..=3 {
        write_all(&mut pair, true, client, 200_000);
        assert!(pair.drive_until(RTT * 20, |pair| read_all(pair, false, server, &mut ids)));
        pair.drive_until(RTT * 5, |_| false);
        let stats = pair.client.connection(client).unwrap().stats();
        assert_eq!(stats.sent.levels[1].packets, 40 * round);
        ids.clear();
    }
}

#[test]
fn a_peer_without_rc3_gets_plain_quic() {
    for (client_mode, server_mode) in [(RlpMode::Trust, RlpMode::Off), (RlpMode::Off, RlpMode::Trust)] {
        let mut world = config(RlpMode::Off, |_| ());
        world.client.rlp(client_mode);
        world.server.rlp(server_mode);
        let report = Pair::new(world).flow(1_000_000, Duration::from_secs(10)).expect("it arrives");
        for stats in [report.sender, report.receiver] {
            assert!(!stats.rc3);
            assert!(stats.sent.levels.iter().all(|level| level.packets == 0));
        }
        assert_eq!(report.receiver.received.primary_bytes, 1_000_000);
    }
}

#[test]
fn packets_grow_to_what_the_path_takes() {
    // One probe in each round trip, and with RLP there are few.
    for (rlp, mtu_min) in [(RlpMode::Off, 8900), (RlpMode::Trust, 5000)] {
        let mut world = config(rlp, |side| {
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(8952);
            side.mtu_discovery_config(Some(discovery));
        });
        // More of the longest packets than one batch holds; the pair asserts its limit.
        world.batch = 64;
        let report = Pair::new(world).flow(5_000_000, Duration::from_secs(10)).expect("it arrives");
        let path = report.sender.path;
        assert!(path.current_mtu > mtu_min && path.lost_packets == 0, "{rlp:?} {path:?}");
    }
}

#[test]
fn a_search_beyond_what_the_path_takes_costs_a_dozen_probes() {
    let mut pair = Pair::new(config(RlpMode::Off, |side| {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(8952);
        side.initial_mtu(1200).mtu_discovery_config(Some(discovery));
    }));
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    pair.client.set_tamper(Box::new(move |_, datagram| {
        let passes = datagram.contents.len() <= usize::from(MTU);
        count.fetch_add(usize::from(!passes), Relaxed);
        usize::from(passes)
    }));
    let (client, server) = connected(&mut pair);
    let begun = pair.now;
    let mut ids = Vec::new();
    assert!(pair.drive_until(RTT * 60, |pair| {
        let id = pair.client.with(client, |c| c.open(Dir::Uni));
        if let Some(id) = id {
            pair.client.with(client, |c| c.write(id, vec![1; 5000].into())).unwrap();
            pair.client.with(client, |c| c.finish(id)).unwrap();
        }
        read_all(pair, false, server, &mut ids);
        pair.client.connection(client).unwrap().stats().path.current_mtu > 1400
    }));
    let rounds = (pair.now - begun).as_secs_f64() / RTT.as_secs_f64();
    let dropped = dropped.load(Relaxed);
    println!("{dropped} probes lost, {rounds:.1} round trips");
    assert!(dropped == 12 && rounds < 20.0, "{dropped} probes, {rounds} round trips");
}

#[test]
fn a_small_window_of_long_packets_is_not_held_up() {
    let mut world = config(RlpMode::Off, |side| {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(8952);
        side.mtu_discovery_config(Some(discovery)).paced(true);
    });
    world.batch = 64;
    let mut pair = Pair::new(world);
    let (client, server) = connected(&mut pair);
    pair.drive_until(RTT * 20, |_| false);
    let path = pair.client.connection(client).unwrap().stats().path;
    assert!(path.current_mtu > 8900 && path.cwnd > 2 * u64::from(path.current_mtu), "{path:?}");
    let begun = pair.now;
    write_all(&mut pair, true, client, 100_000);
    let mut ids = Vec::new();
    assert!(pair.drive_until(RTT * 20, |pair| read_all(pair, false, server, &mut ids)));
    // 2, 4, 8 packets, the last of which arrive half a round trip after they left.
    let rounds = (pair.now - begun).as_secs_f64() / RTT.as_secs_f64();
    assert!(rounds < 2.7, "{rounds} round trips");
}

#[test]
fn a_client_that_moves_goes_on_and_rlp_waits_for_the_new_path() {
    let mut pair = Pair::new(config(RlpMode::Trust, |_| ()));
    let (client, server) = connected(&mut pair);
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    let mut left = bytes::Bytes::from(vec![1; 20_000_000]);
    let mut write = |pair: &mut Pair| {
        while let Ok(taken @ 1..) = pair.client.with(client, |c| c.write(id, left.clone())) {
            left.advance(taken);
        }
        if left.is_empty() {
            // Finished before, from the second time on.
            let _ = pair.client.with(client, |c| c.finish(id));
        }
    };
    pair.drive_until(RTT * 2, |pair| {
        write(pair);
        false
    });
    let elsewhere = "10.9.9.9:9999".parse().unwrap();
    pair.client.set_address(elsewhere);
    let mut ids = Vec::new();
    assert!(pair.drive_until(RTT * 200, |pair| {
        write(pair);
        read_all(pair, false, server, &mut ids)
    }));
    let connection = pair.server.connection(server).unwrap();
    assert_eq!(connection.remote_address(), elsewhere);
}
