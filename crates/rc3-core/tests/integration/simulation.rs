//! Connections without cryptography behave as those with it: the same datagrams at the same times.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rc3_core::{Congestion, Dir, RlpMode, units::Rate};
use rc3_sim::{Crypto, Impairments, LinkConfig, Pair, PairConfig};

const MTU: u16 = 1472;
const RTT: Duration = Duration::from_millis(40);

/// A datagram as an observer of the network sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// Since the flow began.
    at: Duration,
    from_client: bool,
    level: u8,
    bytes: usize,
}

fn config(rlp: RlpMode, crypto: Crypto) -> PairConfig {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp).nic_rate(rate).initial_mtu(MTU).mtu_discovery(false).paced(false);
        side.congestion(Congestion::NewReno).initial_window(Some(4 * u64::from(MTU) + 1));
    }
    config.crypto = crypto;
    config
}

/// The duration of a flow, and all datagrams until its last byte has arrived.
fn traced(config: PairConfig, bytes: u64) -> (Duration, Vec<Seen>) {
    let mut pair = Pair::new(config);
    let start = pair.now;
    let now = Arc::new(Mutex::new(start));
    let trace = Arc::new(Mutex::new(Vec::new()));
    for (node, from_client) in [(&mut pair.client, true), (&mut pair.server, false)] {
        let (now, trace) = (now.clone(), trace.clone());
        node.set_tamper(Box::new(move |level, datagram| {
            let at: Instant = *now.lock().unwrap();
            let bytes = datagram.contents.len();
            trace.lock().unwrap().push(Seen { at: at - start, from_client, level: level.get(), bytes });
            1
        }));
    }
    let watch = |pair: &Pair| *now.lock().unwrap() = pair.now;
    let fct = pair.flow_watched(bytes, Duration::from_secs(60), watch).expect("it arrives").fct;
    let trace = std::mem::take(&mut *trace.lock().unwrap());
    (fct, trace)
}

#[test]
fn flows_send_the_same_datagrams_at_the_same_times_as_with_tls() {
    for rlp in [RlpMode::Off, RlpMode::Trust, RlpMode::Guard] {
        for bytes in [1, 1_000, 10_000, 100_000, 1_000_000, 10_000_000] {
            let (tls, none) =
                (traced(config(rlp, Crypto::Tls), bytes), traced(config(rlp, Crypto::None), bytes));
            assert!(tls == none, "{rlp:?}, {bytes} bytes: {:?}, {:?}", tls.0, none.0);
        }
    }
}

#[test]
fn with_losses_too_a_run_is_the_same_as_another_and_as_with_tls() {
    let lossy = |crypto| {
        let mut config = config(RlpMode::Trust, crypto);
        config.forward.impairments = Impairments::loss(0.02);
        traced(config, 2_000_000)
    };
    let run = lossy(Crypto::None);
    assert!(run == lossy(Crypto::None));
    assert!(run == lossy(Crypto::Tls));
}

#[test]
fn keys_change_without_a_gap() {
    let mut pair = Pair::new(config(RlpMode::Trust, Crypto::None));
    let client = pair.connect();
    pair.drive();
    let server = pair.server.accepted[0];
    for round in 0..5 {
        pair.client.with(client, |c| c.force_key_update());
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
        pair.client.with(client, |c| c.write(id, vec![round; 100_000].into())).unwrap();
        pair.client.with(client, |c| c.finish(id)).unwrap();
        pair.drive();
        let id = pair.server.with(server, |c| c.accept(Dir::Uni)).unwrap();
        let mut read = 0;
        while let Ok(Some(chunk)) = pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
            read += chunk.bytes.len();
        }
        assert_eq!(read, 100_000);
    }
}

#[test]
fn both_ends_have_the_same_keying_material_and_other_connections_have_not() {
    let mut pair = Pair::new(config(RlpMode::Trust, Crypto::None));
    let clients = [pair.connect(), pair.connect()];
    pair.drive();
    let exported = |node: &rc3_sim::Node, handle, label: &[u8]| {
        let mut out = [0; 40];
        node.connection(handle).unwrap().export_keying_material(&mut out, label, b"context").unwrap();
        out
    };
    let of_clients = clients.map(|handle| exported(&pair.client, handle, b"label"));
    let of_servers = [0, 1].map(|nth| exported(&pair.server, pair.server.accepted[nth], b"label"));
    assert_eq!(of_clients, of_servers);
    assert_ne!(of_clients[0], of_clients[1]);
    assert_ne!(of_clients[0], exported(&pair.client, clients[0], b"another"));
}

#[test]
fn datagrams_of_others_are_refused_by_both_loops() {
    let mut pair = Pair::new(config(RlpMode::Trust, Crypto::None));
    pair.client.set_tamper(Box::new(|_, datagram| {
        // The last byte of the tag.
        *datagram.contents.last_mut().unwrap() ^= u8::from(datagram.contents.len() == usize::from(MTU));
        1
    }));
    let client = pair.connect();
    pair.drive();
    let accepted = pair.server.accepted[0];
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    pair.client.with(client, |c| c.write(id, vec![1; 20_000].into())).unwrap();
    pair.drive_until(RTT * 20, |_| false);
    let (sender, receiver) = (&pair.client.connection(client), &pair.server.connection(accepted));
    assert!(sender.unwrap().stats().path.lost_packets >= 4);
    assert!(receiver.unwrap().stats().received.rlp_discarded >= 4);
}
