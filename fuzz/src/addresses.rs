//! A client whose datagrams name addresses chosen by the fuzzer: somebody else's, its own, another port of its own.
//!
//! Claims: no address that the client has not got is sent more than three times what came from there, but for another port
//! of its own with plain QUIC, which gets one datagram more in ten seconds; and once the client is honest again, its download arrives
//! whole, unless quinn-proto has ended the connection, which it does to a peer whose connection ids run out by that.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use rc3_core::{Dir, RlpMode, Side, StreamId, units::Rate};
use rc3_sim::{Crypto, Datagram, LinkConfig, Node, Pair, PairConfig};

/// Bytes of the download: enough to send more than three times what a client that forges sends.
const BYTES: usize = 20_000;

/// Virtual time for which addresses are forged.
const FORGED: Duration = Duration::from_secs(9);

/// Virtual time in which the rest must arrive then.
const PATIENCE: Duration = Duration::from_secs(900);

/// Of plain QUIC: one answer in three seconds (docs/HARDENING.md), for as long as datagrams are forged.
const GRANTED: u64 = 4 * 1500;

/// Runs one input: a byte of settings, then one for each datagram of the client. Without cryptography, because nobody
/// forges anything else.
pub fn addresses(input: &[u8]) {
    run(input, Crypto::None, BYTES);
}

/// The same with real cryptography and fifteen times as much to download: too slow to search by.
pub fn addresses_in_full(input: &[u8]) {
    run(input, Crypto::Tls, 15 * BYTES);
}

fn run(input: &[u8], crypto: Crypto, bytes: usize) {
    let Some((&settings, sources)) = input.split_first() else { return };
    let mode = [RlpMode::Guard, RlpMode::Trust, RlpMode::Off][usize::from(settings % 3)];
    let link = LinkConfig {
        rate: Rate::from_bits_per_second(20_000_000),
        delay: Duration::from_millis(u64::from(settings / 8) + 1),
        ..LinkConfig::default()
    };
    let mut config = PairConfig { crypto, ..PairConfig::symmetric(link, 100_000) };
    for side in [&mut config.client, &mut config.server] {
        side.rlp(mode).max_idle_timeout(None).keep_alive_interval(Some(Duration::from_secs(2)));
    }
    let mut pair = Pair::new(config);
    let client = pair.connect();
    let up = pair.drive_until(Duration::from_secs(60), |pair| {
        let handshaking = pair.client.connection(client).is_none_or(|client| client.is_handshaking());
        !handshaking && !pair.server.accepted.is_empty()
    });
    assert!(up, "no connection");
    let server = pair.server.accepted[0];
    pair.drive_until(Duration::from_millis(500), |_| false);

    let own = pair.client.address();
    let others: Vec<SocketAddr> = (1..=6_u8)
        .map(|nth| ([203, 0, 113, nth], 999).into())
        .chain([SocketAddr::new(own.ip(), own.port() + 1)])
        .collect();
    let script = Arc::new(Mutex::new(sources.iter().copied().collect::<VecDeque<u8>>()));
    let (theirs, claimed) = (script.clone(), others.clone());
    pair.client.set_tamper(Box::new(move |_, datagram: &mut Datagram| {
        match theirs.lock().unwrap().pop_front() {
            Some(source @ 128..) => match claimed.get(usize::from(source % 8)) {
                Some(&other) => datagram.meta.remote = other,
                None => return 0,
            },
            _ => datagram.meta.remote = own,
        }
        1
    }));
    let stream = pair.server.with(server, |c| c.open(Dir::Uni)).expect("a stream");
    assert_eq!(pair.server.with(server, |c| c.write(stream, vec![7; bytes].into())), Ok(bytes));
    pair.server.with(server, |c| c.finish(stream)).expect("an open stream");
    let id = StreamId::new(Side::Server, Dir::Uni, stream.index());
    let over = |pair: &Pair| {
        let lost = |node: &Node, handle| {
            node.connection(handle).is_none_or(|connection| connection.lost().is_some())
        };
        lost(&pair.client, client) || lost(&pair.server, server)
    };
    let mut read = 0;
    let mut download = |pair: &mut Pair| {
        if over(pair) {
            return true;
        }
        // Only an event makes more readable.
        if !pair.client.events.is_empty() {
            pair.client.events.clear();
            let _ = pair.client.with(client, |c| c.accept(Dir::Uni));
            while let Ok(Some(chunk)) = pair.client.with(client, |c| c.read(id, usize::MAX, true)) {
                read += chunk.bytes.len();
            }
        }
        read == bytes
    };
    pair.drive_until(FORGED, |pair| {
        download(pair);
        script.lock().unwrap().is_empty()
    });
    script.lock().unwrap().clear();
    let check = |pair: &Pair| {
        for &other in &others {
            let with = pair.server.traffic.with(other);
            let granted = if mode == RlpMode::Off && other.ip() == own.ip() { GRANTED } else { 0 };
            assert!(with.sent <= 3 * with.received + granted, "{mode:?}: {other} {with:?}");
        }
    };
    check(&pair);
    assert!(pair.drive_until(PATIENCE, |pair| download(pair)), "{mode:?}: the download does not arrive");
}
