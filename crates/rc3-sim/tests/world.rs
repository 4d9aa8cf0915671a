//! Worlds of hosts and links, with the real transport in them.

use std::{sync::Arc, time::Duration};

use rc3_core::{Congestion, RlpMode, TransportConfig, units::Rate};
use rc3_sim::{
    LinkConfig, StrictPriority,
    agent::{Flow, FlowId, HostId, SchemeId, Writes},
    host::{Host, HostConfig, Scheme},
    identity::identity,
    record::FlowRecord,
    world::{LinkId, World},
};

const MTU: u16 = 1472;

fn transport(rlp: RlpMode) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.rlp(rlp).congestion(Congestion::NewReno).initial_window(Some(4 * u64::from(MTU) + 1)).paced(false);
    config.initial_mtu(MTU).mtu_discovery(false);
    config
}

/// Two hosts at one router; scheme 0 is plain, scheme 1 rc3.
fn world(megabits: u64, one_way: Duration) -> World {
    let (client, mut server) = identity(&["sim"]);
    server.transport_config(Arc::new(transport(RlpMode::Trust)));
    let scheme = |rlp| {
        let mut client = client.clone();
        client.transport_config(Arc::new(transport(rlp)));
        Scheme { client, shift: 0 }
    };
    let schemes = vec![scheme(RlpMode::Off), scheme(RlpMode::Trust)];
    let config = Arc::new(HostConfig { schemes, server, uplink_backlog: u64::MAX, seed: 1 });
    let link = LinkConfig {
        rate: Rate::from_bits_per_second(megabits * 1_000_000),
        delay: one_way,
        ..LinkConfig::default()
    };
    let mut world =
        World::new(Box::new(|from: HostId, to: HostId| [LinkId(2 * from.0), LinkId(2 * to.0 + 1)].into()));
    for host in 0..2 {
        let uplink = world.add_link(link.clone(), Box::new(StrictPriority::new(u64::MAX)));
        world.add_link(LinkConfig::default(), Box::new(StrictPriority::new(u64::MAX)));
        world.add_host(Box::new(Host::new(HostId(host), config.clone())), uplink);
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
            let mut world = world(1000, Duration::from_millis(20));
            world.start(&flow(0, Duration::ZERO, bytes, scheme));
            let records = records(&mut world);
            let fct = records[0].fct.unwrap().as_secs_f64() * 1e3;
            let ideal = 60.0 + bytes as f64 * 8e-6;
            let expected = if scheme == 0 { plain_ms } else { ideal };
            println!("{bytes} {scheme}: {fct} {:?} {:?}", records[0], world.counts());
            assert!(fct > expected && fct < expected * 1.03, "{bytes} bytes, scheme {scheme}: {fct} ms");
        }
    }
}
