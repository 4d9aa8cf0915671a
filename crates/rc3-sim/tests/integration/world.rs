//! Worlds of hosts and links, with the real transport in them.

use std::{sync::Arc, time::Duration};

use rc3_core::{Congestion, RlpMode, TransportConfig, units::Rate};
use rc3_sim::{
    Crypto, LinkConfig, StrictPriority,
    agent::{Flow, FlowId, HostId, SchemeId, Writes},
    host::{Host, HostConfig},
    record::FlowRecord,
    world::{Counts, LinkId, World},
};

const MTU: u16 = 1472;

fn transport(rlp: RlpMode) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.rlp(rlp).congestion(Congestion::NewReno).initial_window(Some(4 * u64::from(MTU) + 1)).paced(false);
    config.initial_mtu(MTU).mtu_discovery(false);
    config
}

/// What hosts are like; scheme 0 is plain, scheme 1 rc3.
fn config(crypto: Crypto) -> HostConfig {
    let schemes = [transport(RlpMode::Off), transport(RlpMode::Trust)];
    HostConfig::new(schemes, transport(RlpMode::Trust), crypto, 1)
}

/// Two hosts at one router.
fn world(config: HostConfig, one_way: Duration) -> World {
    let config = Arc::new(config);
    let link = LinkConfig {
        rate: Rate::from_bits_per_second(1_000_000_000),
        delay: one_way,
        ..LinkConfig::default()
    };
    let mut world = World::new(Box::new(|from, to| [LinkId(2 * from.0), LinkId(2 * to.0 + 1)].into()));
    for host in [HostId(0), HostId(1)] {
        let uplink = world.add_link(link.clone(), Box::new(StrictPriority::by_level(u64::MAX)));
        world.add_link(LinkConfig::default(), Box::new(StrictPriority::by_level(u64::MAX)));
        world.add_host(Box::new(Host::new(host, config.clone())), uplink);
    }
    world
}

fn flow(id: u32, at: Duration, bytes: u64, scheme: u16) -> Flow {
    let (from, to) = (HostId(id % 2), HostId((id + 1) % 2));
    Flow { id: FlowId(id), at, from, to, bytes, scheme: SchemeId(scheme), writes: Writes::AtOnce }
}

fn records(world: &mut World) -> Vec<FlowRecord> {
    assert!(world.run_to_end(Duration::from_secs(100)));
    std::iter::from_fn(|| world.poll_record()).collect()
}

#[test]
fn a_flow_alone_takes_what_arithmetic_says() {
    for (bytes, plain_ms) in [(1_000, 60.0), (100_000, 220.0)] {
        for scheme in [0, 1] {
            let mut world = world(config(Crypto::None), Duration::from_millis(20));
            world.start(&flow(0, Duration::ZERO, bytes, scheme));
            let record = &records(&mut world)[0];
            let ms = |time: Option<Duration>| time.expect("it ended").as_secs_f64() * 1e3;
            let ideal = 60.0 + bytes as f64 * 8e-6;
            let expected = if scheme == 0 { plain_ms } else { ideal };
            let fct = ms(record.fct);
            assert!(fct > expected && fct < expected * 1.03, "{bytes} bytes, scheme {scheme}: {fct} ms");
            // The handshake takes one round trip, the last acknowledgement half a one or more.
            assert!((fct - ms(record.fct_data) - 40.0).abs() < 0.1, "{record:?}");
            assert!(ms(record.fct_acked) >= fct + 20.0, "{record:?}");
        }
    }
}

#[test]
fn chunks_leave_in_their_rhythm() {
    let mut world = world(config(Crypto::None), Duration::from_millis(5));
    let every = Duration::from_millis(100);
    let writes = Writes::Chunked { first: 200_000, chunk: 64_000, every };
    world.start(&Flow { writes, ..flow(0, Duration::ZERO, 520_000, 1) });
    // Five chunks, the last one half a second after the connection is there, which takes 10 ms.
    let fct = records(&mut world)[0].fct.expect("it ended");
    assert!(fct > Duration::from_millis(515) && fct < Duration::from_millis(518), "{fct:?}");
}

#[test]
fn rlp_waits_while_enough_waits_at_the_uplink() {
    let alone = |uplink_backlog| {
        let config = HostConfig { uplink_backlog, ..config(Crypto::None) };
        let mut world = world(config, Duration::from_millis(20));
        world.start(&flow(0, Duration::ZERO, 1_000_000, 1));
        let fct = records(&mut world)[0].fct.expect("it ended");
        (world.link_stats(LinkId(0)).total().queueing_delay_max, fct)
    };
    let (at_once, fct_at_once) = alone(None);
    let (waited, fct) = alone(Some(3000));
    // 1 MB at 1 Gbit/s is 8 ms. The primary's first window is four packets.
    assert!(at_once > Duration::from_millis(7), "{at_once:?}");
    assert!(waited < Duration::from_micros(60), "{waited:?}");
    assert!(fct <= fct_at_once, "{fct:?}, at once {fct_at_once:?}");
}

/// Flows of several sizes at once, both ways.
fn crowd(crypto: Crypto) -> (Vec<FlowRecord>, Counts) {
    let mut world = world(config(crypto), Duration::from_millis(10));
    for id in 0..60 {
        let bytes = [1_000, 30_000, 400_000][id as usize % 3];
        world.start(&flow(id, Duration::from_millis(u64::from(id) * 3), bytes, (id % 2) as u16));
    }
    (records(&mut world), world.counts())
}

#[test]
fn a_world_with_one_seed_has_one_future() {
    assert_eq!(crowd(Crypto::None), crowd(Crypto::None));
}

#[test]
fn flows_take_as_long_with_cryptography_as_without() {
    let fcts = |crypto| {
        let mut records = crowd(crypto).0;
        records.sort_by_key(|record| record.flow);
        records.into_iter().map(|record| record.fct.expect("it ended")).collect::<Vec<_>>()
    };
    for (flow, (real, mock)) in fcts(Crypto::Tls).into_iter().zip(fcts(Crypto::None)).enumerate() {
        // Certificates and tickets are on the wire in one and not in the other.
        let apart = real.abs_diff(mock);
        assert!(apart < Duration::from_millis(1), "flow {flow}: {real:?} with, {mock:?} without");
    }
}
