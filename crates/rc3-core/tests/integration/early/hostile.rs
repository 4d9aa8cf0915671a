//! Attackers that replay, forge and flood early data, and peers that break its rules.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use rc3_core::{
    ClientConfig, ConnectionHandle, Dir, ServerConfig, Side, StreamId, TransportConfig,
    internals::wire::{ControlFrame, DataHeader, EarlySecret},
    units::{Level, Receipt},
};
use rc3_sim::{
    Datagram, Pair,
    identity::{SERVER_NAME, tls},
};
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use super::support::*;

const BYTES: u64 = 200_000;

fn victim(nth: u8) -> SocketAddr {
    ([203, 0, 113, nth], 999).into()
}

/// Reusable sessions, like tickets that a server does not store.
#[derive(Debug)]
struct Reusable(Arc<ServerSessionMemoryCache>);

impl StoresServerSessions for Reusable {
    fn put(&self, key: Vec<u8>, session: Vec<u8>) -> bool {
        self.0.put(key, session)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Two ends with an earlier connection, and a server that can be made to accept the same early data twice.
fn replayable() -> (Pair, ClientConfig) {
    let (client, mut server) = tls(&["sim"]);
    server.session_storage = Arc::new(Reusable(ServerSessionMemoryCache::new(8)));
    let client = ClientConfig::new(Arc::new(client));
    let mut pair = world();
    let mut config = ServerConfig::with_crypto(Arc::new(server));
    // Longer than the test.
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_secs(600).try_into().unwrap()));
    config.transport_config(Arc::new(transport));
    pair.server.endpoint().set_server_config(Some(&config)).unwrap();
    let first = connect(&mut pair, &client);
    pair.drive_until(Duration::from_secs(1), |_| false);
    leave(&mut pair, first);
    (pair, client)
}

fn connect(pair: &mut Pair, client: &ClientConfig) -> ConnectionHandle {
    let (now, remote) = (pair.now, pair.server.address());
    pair.client.endpoint().connect(now, client, remote, SERVER_NAME).unwrap()
}

/// Checks what the server sends to the address in whose name a handshake was started.
fn assert_not_flooded(pair: &mut Pair, victim: SocketAddr) {
    pair.drive_until(Duration::from_secs(5), |_| false);
    let quic = pair.server.traffic.with(victim).received;
    assert!(pair.server.traffic.with(victim).sent <= 3 * quic);
    let mut any = false;
    while let Some((_, datagram)) = pair.strangers.take(victim) {
        assert!(!is_rlp(&datagram), "a SACK for an address that has sent nothing");
        any = true;
    }
    assert!(any, "the handshake was begun");
}

fn rlp_datagrams(pair: &Pair, server: ConnectionHandle) -> u64 {
    pair.server.connection(server).unwrap().stats().received.rlp_datagrams
}

#[test]
fn a_flight_that_is_repeated_floods_nobody_and_takes_nothing_from_its_client() {
    let (mut pair, config) = replayable();
    let tap = Tap::listen(&mut pair, false);
    let client = connect(&mut pair, &config);
    assert!(pair.client.with(client, |c| c.begin_early()));
    let id = write(&mut pair, client, BYTES);
    let server = accept(&mut pair, id);
    let flight = tap.lock().unwrap().sent.clone();
    assert!(flight.iter().filter(|datagram| is_rlp(datagram)).count() > 16);
    // As long as the client's connection exists, the datagrams belong to it.
    let came = rlp_datagrams(&pair, server);
    for _ in 0..2 {
        for datagram in &flight {
            pair.server.inject(victim(1), datagram);
        }
    }
    let opened = rlp_datagrams(&pair, server) - came;
    assert!(opened <= flight.len() as u64 - came, "{opened} more, though each opens once");
    assert_eq!(pair.server.accepted.len(), 1);
    read(&mut pair, server, id, BYTES);
    assert_eq!(pair.server.traffic.with(victim(1)).sent, 0);
    leave(&mut pair, client);

    // Afterwards the attacker can do what 0-RTT allows: deliver the same data once more, if the application allows
    // that.
    for datagram in &flight {
        pair.server.inject(victim(2), datagram);
    }
    let repeated = pair.server.accepted[0];
    assert!(rlp_datagrams(&pair, repeated) > 16);
    assert_eq!(pair.server.with(repeated, |c| c.accept(Dir::Uni)), Some(id));
    assert_not_flooded(&mut pair, victim(2));
    assert_eq!(pair.server.connection(repeated).unwrap().stats().received.sacks, 0);
}

#[test]
fn tickets_that_a_server_keeps_are_used_once() {
    let mut pair = world();
    meet(&mut pair);
    let tap = Tap::listen(&mut pair, false);
    let (_, _, client) = transfer(&mut pair, BYTES, true);
    let flight = tap.lock().unwrap().sent.clone();
    leave(&mut pair, client);
    for datagram in &flight {
        pair.server.inject(victim(1), datagram);
    }
    let repeated = pair.server.accepted[0];
    let received = pair.server.connection(repeated).unwrap().stats().received;
    assert_eq!((received.rlp_datagrams, received.primary_bytes), (0, 0));
    assert_not_flooded(&mut pair, victim(1));
}

#[test]
fn early_data_in_somebody_else_s_name_floods_him_not() {
    let mut pair = world();
    meet(&mut pair);
    pair.client.set_tamper(Box::new(|_, datagram: &mut Datagram| {
        datagram.meta.remote = victim(1);
        1
    }));
    let client = resume(&mut pair);
    let id = write(&mut pair, client, BYTES);
    pair.drive_until(DELAY * 2, |_| false);
    let server = pair.server.accepted[0];
    assert!(rlp_datagrams(&pair, server) > 16, "early data was accepted");
    assert_eq!(pair.server.with(server, |c| c.accept(Dir::Uni)), Some(id));
    assert_not_flooded(&mut pair, victim(1));
    assert_eq!(pair.server.connection(server).unwrap().stats().received.sacks, 0);
}

#[test]
fn junk_before_the_secret_costs_no_more_than_time() {
    let mut pair = world();
    meet(&mut pair);
    let tap = Tap::listen(&mut pair, true);
    let client = resume(&mut pair);
    let id = write(&mut pair, client, BYTES);
    let from = pair.client.address();
    pair.drive_until(Duration::from_secs(1), |pair| !pair.server.accepted.is_empty());
    let mut junk = [0; 1200];
    for nth in 0..10_000_u64 {
        junk[1..9].copy_from_slice(&nth.to_be_bytes());
        pair.server.inject(from, &junk);
    }
    pair.drive_until(DELAY, |_| false);
    let secret = tap.lock().unwrap().secret.clone().unwrap();
    pair.server.inject(from, &secret);
    let server = accept(&mut pair, id);
    assert_eq!(rlp_datagrams(&pair, server), 0, "junk from its own address has displaced it");
    read(&mut pair, server, id, BYTES);
    let received = pair.server.connection(server).unwrap().stats().received;
    assert_eq!(received.rlp_discarded, 0, "none of it was tried");
}

/// A hostile client that follows the protocol: it has sent this secret on its control stream.
fn with_secret(secret: EarlySecret) -> (Pair, ConnectionHandle, ConnectionHandle) {
    let mut pair = world();
    let client = pair.connect();
    pair.drive_until(Duration::from_secs(1), |_| false);
    tell(&mut pair, client, secret);
    let server = pair.server.accepted[0];
    (pair, client, server)
}

fn tell(pair: &mut Pair, client: ConnectionHandle, secret: EarlySecret) {
    let mut frame = Vec::new();
    ControlFrame::Early(secret).emit(&mut frame);
    let control = StreamId::new(Side::Client, Dir::Uni, 0);
    pair.client.with(client, |c| c.write(control, frame.into())).unwrap();
    pair.drive_until(DELAY * 2, |_| false);
}

fn sealed(secret: &EarlySecret, payload: &[u8]) -> Vec<u8> {
    let (mut sealer, mut buf) = (secret.sealer(), Vec::new());
    let sealing = sealer.begin(Level::FIRST, &mut buf);
    buf.extend_from_slice(payload);
    sealer.finish(sealing, &mut buf);
    buf
}

fn lost(pair: &Pair, server: ConnectionHandle) -> Option<String> {
    pair.server.connection(server).unwrap().lost().map(ToString::to_string)
}

#[test]
fn early_datagrams_carry_data_and_padding_and_nothing_else() {
    let secret = EarlySecret([7; 32].into());
    let mut data = Vec::new();
    DataHeader { stream: 6, offset: 0, final_size: None, explicit_len: None, receipt: Receipt(0) }
        .emit(&mut data);
    // Nothing; PADDING; DATA of no bytes. A SACK; SOLICIT; COMPLETE; ARRIVAL.
    let allowed = [vec![], vec![0, 0], data];
    let faults = [vec![2, 6, 1, 0, 1, 0, 0, 0, 0], vec![3], vec![4, 6], vec![5, 0, 1, 1, 1]];
    for (payload, fault) in
        allowed.iter().map(|payload| (payload, false)).chain(faults.iter().map(|payload| (payload, true)))
    {
        let (mut pair, _, server) = with_secret(secret.clone());
        let now = pair.now;
        let datagram = sealed(&secret, payload);
        assert!(pair.server.with(server, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..]))));
        assert_eq!(lost(&pair, server).is_some(), fault, "{payload:x?}: {:?}", lost(&pair, server));
    }
}

#[test]
fn a_second_secret_and_one_of_the_server_end_the_connection() {
    let (mut pair, client, server) = with_secret(EarlySecret([7; 32].into()));
    assert_eq!(lost(&pair, server), None);
    tell(&mut pair, client, EarlySecret([8; 32].into()));
    assert!(lost(&pair, server).is_some());

    let mut pair = world();
    let client = pair.connect();
    pair.drive_until(Duration::from_secs(1), |_| false);
    let server = pair.server.accepted[0];
    let mut frame = Vec::new();
    ControlFrame::Early(EarlySecret([7; 32].into())).emit(&mut frame);
    let control = StreamId::new(Side::Server, Dir::Uni, 0);
    pair.server.with(server, |c| c.write(control, frame.into())).unwrap();
    pair.drive_until(DELAY * 2, |_| false);
    assert!(pair.client.connection(client).unwrap().lost().is_some());
}

#[test]
fn early_keys_are_dropped_when_the_handshake_is_over() {
    let secret = EarlySecret([7; 32].into());
    let (mut pair, client, server) = with_secret(secret.clone());
    let from = pair.client.address();
    pair.server.inject(from, &sealed(&secret, &[]));
    assert_eq!(rlp_datagrams(&pair, server), 1);
    pair.drive_until(Duration::from_secs(4), |_| false);
    write(&mut pair, client, 1);
    pair.drive_until(Duration::from_secs(1), |_| false);
    let (before, discarded) = (
        rlp_datagrams(&pair, server),
        pair.server.connection(server).unwrap().stats().received.rlp_discarded,
    );
    let mut sealer = secret.sealer();
    let mut datagram = Vec::new();
    for _ in 0..2 {
        datagram.clear();
        let sealing = sealer.begin(Level::FIRST, &mut datagram);
        sealer.finish(sealing, &mut datagram);
    }
    pair.server.inject(from, &datagram);
    assert_eq!(rlp_datagrams(&pair, server), before);
    let after = pair.server.connection(server).unwrap().stats().received.rlp_discarded;
    assert_eq!(after, discarded, "it belongs to no connection");
}
