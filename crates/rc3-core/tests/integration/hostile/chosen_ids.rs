//! Receiver ids that the receiver chooses: honest ends first, then peers that abuse them.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use rc3_core::{
    ClientConfig, ConnectionHandle, ConnectionId, ConnectionIdGenerator, CryptoError, DatagramMeta, Dir,
    Endpoint, EndpointConfig, HmacKey, RandomConnectionIdGenerator, RouteChange, ServerConfig, Side,
    StreamId, TransportConfig, WorkerHash,
    internals::{keys::receiver_id, wire::ControlFrame},
};
use rc3_sim::{
    Pair,
    identity::{SERVER_NAME, identity},
};

use super::support::*;

/// The first byte of all ids of the server, as a load balancer would look for.
const MARK: u8 = 0xb5;

/// Ids that begin with [`MARK`] and never repeat.
struct Marked(Arc<AtomicU64>);

impl ConnectionIdGenerator for Marked {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = (self.0.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8).to_be_bytes();
        id[0] = MARK;
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn marked() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    let count = Arc::new(AtomicU64::new(1));
    config.cid_generator(move || Box::new(Marked(count.clone())));
    config
}

/// Two connected ends, of which the server chooses its ids.
fn choosing(config: &EndpointConfig) -> (Pair, ConnectionHandle, ConnectionHandle) {
    let mut pair = world();
    let (client, server) = settings();
    *pair.server.endpoint() = Endpoint::with_config(config, Some(&server), true).unwrap();
    let (now, remote) = (pair.now, pair.server.address());
    let handle = pair.client.endpoint().connect(now, &client, remote, SERVER_NAME).unwrap();
    assert!(pair.drive_until(RTT * 100, |pair| {
        !pair.client.connection(handle).unwrap().is_handshaking() && !pair.server.accepted.is_empty()
    }));
    pair.drive_until(RTT * 5, |_| false);
    let accepted = pair.server.accepted[0];
    (pair, handle, accepted)
}

fn settings() -> (ClientConfig, ServerConfig) {
    let (mut client, mut server) = identity(&["sim"]);
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_secs(600).try_into().unwrap()));
    let transport = Arc::new(transport);
    client.transport_config(transport.clone());
    server.transport_config(transport);
    (client, server)
}

/// The receiver ids of a node's RLP datagrams, without repetitions.
fn used(tap: &Tap) -> Vec<[u8; 8]> {
    let mut ids: Vec<_> = tap.lock().seen.iter().filter_map(|(_, datagram)| receiver_id(datagram)).collect();
    ids.dedup();
    ids.into_iter().map(|id| id.0).collect()
}

/// Sends `bytes` from the client and checks them at the server.
fn deliver_all(pair: &mut Pair, client: ConnectionHandle, server: ConnectionHandle, bytes: u64) {
    send(pair, client, bytes);
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 500, |pair| reader.pump(pair, server) == bytes && reader.ended == 1));
    assert!(pair.client.connection(client).unwrap().lost().is_none());
}

/// Writes frames to the control stream of one end, as a peer that is hostile but follows the protocol.
fn write_control(pair: &mut Pair, handle: ConnectionHandle, side: Side, frames: &[ControlFrame]) {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.emit(&mut bytes));
    let control = StreamId::new(side, Dir::Uni, 0);
    let node = if side == Side::Client { &mut pair.client } else { &mut pair.server };
    let len = bytes.len();
    assert_eq!(node.with(handle, |c| c.write(control, bytes.into())), Ok(len));
}

#[test]
fn both_loops_carry_ids_of_the_server_s_choice_and_never_the_same() {
    let (mut pair, client, server) = choosing(&marked());
    let tap = Tap::default();
    pair.client.set_tamper(tap.tamper());
    deliver_all(&mut pair, client, server, 400_000);
    let low = used(&tap);
    assert_eq!(low.len(), 1, "one path: {low:x?}");
    let tapped = tap.lock();
    let quic = tapped.seen.iter().filter(|(_, datagram)| datagram[0] & 0xc0 == 0x40);
    let quic: Vec<_> = quic.map(|(_, datagram)| datagram[1..9].to_vec()).collect();
    assert!(!quic.is_empty() && low[0][0] == MARK);
    assert!(quic.iter().all(|id| id[0] == MARK && id[..] != low[0]));
}

#[test]
fn the_first_datagrams_after_the_handshake_carry_chosen_ids() {
    let tap = Tap::default();
    let mut pair = world();
    pair.client.set_tamper(tap.tamper());
    let (client_config, server_config) = settings();
    *pair.server.endpoint() = Endpoint::with_config(&marked(), Some(&server_config), true).unwrap();
    let (now, remote) = (pair.now, pair.server.address());
    let client = pair.client.endpoint().connect(now, &client_config, remote, SERVER_NAME).unwrap();
    assert!(pair.drive_until(RTT * 2, |pair| !pair.client.connection(client).unwrap().is_handshaking()));
    // The server has no keys yet: what overtakes the end of the handshake waits for them there.
    send(&mut pair, client, 400_000);
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 100, |pair| {
        pair.server.accepted.front().copied().is_some_and(|server| reader.pump(pair, server) == 400_000)
    }));
    let ids = used(&tap);
    assert!(ids.len() == 1 && ids[0][0] == MARK, "{ids:x?}");
    let received = pair.server.connection(pair.server.accepted[0]).unwrap().stats().received;
    assert_eq!(received.rlp_discarded, 0);
}

#[test]
fn an_endpoint_without_a_generator_sends_no_ids() {
    let (mut pair, client, server) = choosing(&EndpointConfig::default());
    let (tap, mut keys) = (Tap::default(), keys(&pair, client, true));
    pair.client.set_tamper(tap.tamper());
    deliver_all(&mut pair, client, server, 400_000);
    let derived = receiver_id(&seal(&mut keys, |_| ())).unwrap().0;
    assert_eq!(used(&tap), [derived]);
}

#[test]
fn each_path_has_another_id_of_the_server_s_choice() {
    let (mut pair, client, server) = choosing(&marked());
    let tap = Tap::default();
    pair.client.set_tamper(tap.tamper());
    for nth in 1..=10_u8 {
        let now = pair.now;
        pair.client.set_address(SocketAddr::from(([10, 1, 0, nth], 4433)));
        pair.client.endpoint().handle_local_address_change(now);
        deliver_all(&mut pair, client, server, 200_000);
        pair.drive_until(RTT * 3, |_| false);
    }
    let mut ids = used(&tap);
    assert!(ids.iter().all(|id| id[0] == MARK), "{ids:x?}");
    let paths = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert!(paths == ids.len() && paths >= 10, "no id is on two paths: {paths} paths, {} ids", ids.len());
}

#[test]
fn ids_of_every_worker_lead_to_it() {
    for config in EndpointConfig::default().for_workers(3).unwrap() {
        let hash = config.worker_hash().unwrap();
        let (mut pair, client, server) = choosing(&config);
        let tap = Tap::default();
        pair.client.set_tamper(tap.tamper());
        deliver_all(&mut pair, client, server, 400_000);
        let tapped = tap.lock();
        let workers: Vec<_> = tapped.seen.iter().map(|(_, datagram)| hash.worker_of(datagram)).collect();
        assert!(workers.iter().all(|&worker| worker.is_some() && worker == workers[0]), "{workers:?}");
        assert!(tapped.seen.iter().any(|(level, _)| !level.is_primary()));
    }
}

#[test]
fn workers_are_one_to_sixty_four() {
    let config = EndpointConfig::default();
    assert!(config.for_workers(0).is_err() && config.for_workers(WorkerHash::WORKERS_MAX + 1).is_err());
    let one = config.for_workers(1).unwrap();
    assert!(one.len() == 1 && one[0].worker_hash().is_none());
    assert_eq!(config.for_workers(WorkerHash::WORKERS_MAX).unwrap().len(), WorkerHash::WORKERS_MAX);
}

#[test]
fn derived_ids_of_a_worker_are_reported_until_its_connection_ends() {
    let config = &EndpointConfig::default().for_workers(2).unwrap()[0];
    let (mut pair, client, _) = choosing(config);
    let (mut ids, mut hosts) = (Vec::new(), Vec::new());
    let mut take = |pair: &mut Pair| {
        while let Some(change) = pair.server.endpoint().poll_route_change() {
            match change {
                RouteChange::Issued(id) => ids.push(id),
                RouteChange::Retired(id) => ids.retain(|&issued| issued != id),
                RouteChange::Begun(host) => hosts.push(host),
                RouteChange::Ended(host) => hosts.retain(|&begun| begun != host),
            }
        }
        (ids.len(), hosts.len())
    };
    assert_eq!(take(&mut pair), (4, 0), "those of the first path and three further ones");
    let (now, idle) = (pair.now, Duration::from_secs(10));
    pair.client.with(client, |c| c.close(now, 0_u32.into(), b"".as_slice().into()));
    pair.drive_until(idle, |_| false);
    assert_eq!(take(&mut pair), (0, 0));
}

/// A key for stateless resets; a test needs no secret.
struct ResetKey;

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (index, out) in signature_out.chunks_mut(8).enumerate() {
            let mut hasher = DefaultHasher::new();
            (index, data).hash(&mut hasher);
            out.copy_from_slice(&hasher.finish().to_be_bytes()[..out.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), CryptoError> {
        Err(CryptoError)
    }
}

#[test]
fn a_reset_that_another_worker_received_ends_the_connection_and_junk_does_not() {
    let workers = EndpointConfig::default().for_workers(2).unwrap();
    let mut client_config = EndpointConfig::new(Arc::new(ResetKey));
    client_config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(8)));
    let client_endpoint = || Endpoint::with_config(&client_config, None, true).unwrap();
    let mut pair = world();
    let (config, server_config) = settings();
    *pair.client.endpoint() = client_endpoint();
    *pair.server.endpoint() = Endpoint::with_config(&workers[0], Some(&server_config), true).unwrap();
    let (now, remote) = (pair.now, pair.server.address());
    pair.client.endpoint().connect(now, &config, remote, SERVER_NAME).unwrap();
    pair.drive_until(RTT * 5, |_| false);
    let server = pair.server.accepted[0];

    // The client's process starts anew and does not know the connection; its answer goes to the other worker.
    *pair.client.endpoint() = client_endpoint();
    let tap = Tap::default();
    tap.lock().lose_all = true;
    pair.client.set_tamper(tap.tamper());
    let stream = pair.server.with(server, |c| c.open(Dir::Uni)).unwrap();
    pair.server.with(server, |c| c.write(stream, vec![1; 100].into())).unwrap();
    pair.drive_until(RTT * 2, |_| false);
    let reset = tap.lock().seen[0].1.clone();
    let mut other = Endpoint::with_config(&workers[1], Some(&server_config), true).unwrap();
    let (now, remote) = (pair.now, pair.client.address());
    let meta = DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None };
    let mut junk = reset.clone();
    *junk.last_mut().unwrap() ^= 1;
    for (datagram, ends) in [(junk, false), (reset, true)] {
        other.handle_datagram(now, meta, datagram[..].into());
        let (meta, token) = other.poll_reset().expect("it may be a reset");
        assert!(other.poll_reset().is_none());
        pair.server.endpoint().handle_reset(now, meta, token);
        let lost = pair.server.connection(server).is_none_or(|connection| connection.lost().is_some());
        assert_eq!(lost, ends);
        assert!(pair.server.endpoint().poll_reset().is_none(), "it is passed on once");
    }
}

#[test]
fn a_flood_of_junk_at_a_worker_is_bounded() {
    let config = &EndpointConfig::default().for_workers(2).unwrap()[0];
    let (mut pair, _, _) = choosing(config);
    let now = pair.now;
    let meta = |nth: u8| {
        let remote = ([203, 0, 113, nth], 9).into();
        DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None }
    };
    let flood = |first: u8| {
        (0..20_000_u32)
            .map(move |nth| (meta(nth as u8), [&[first][..], &[nth as u8; 100]].concat()[..].into()))
    };
    let server = pair.server.endpoint();
    server.handle_datagrams(now, flood(0x07));
    server.handle_datagrams(now, flood(0x47));
    let strays = std::iter::from_fn(|| server.poll_stray()).count();
    let resets = std::iter::from_fn(|| server.poll_reset()).count();
    assert_eq!((strays, resets), (1024, 64));
    // What another worker passes on comes back as neither.
    server.handle_handed_over(now, flood(0x07).take(10));
    assert!(server.poll_stray().is_none());
}

#[test]
fn thousands_of_ids_from_a_hostile_peer_cost_no_byte_and_no_memory() {
    let (mut pair, client, server) = choosing(&EndpointConfig::default());
    let id = |nth: u64| receiver_id(&[&[1][..], &nth.to_be_bytes(), &[0; 40]].concat()).unwrap();
    // The same number, the same id, numbers far ahead.
    let same_number = (0..10_000).map(|nth| ControlFrame::ReceiverId { number: 1, id: id(nth) });
    let same_id = (0..10_000).map(|number| ControlFrame::ReceiverId { number, id: id(1 << 40) });
    let ahead = (0..10_000).map(|nth| ControlFrame::ReceiverId { number: (1 << 61) + nth, id: id(nth) });
    let frames: Vec<_> = same_number.chain(same_id).chain(ahead).collect();
    let before = pair.client.endpoint().held_bytes();
    write_control(&mut pair, server, Side::Server, &frames);
    pair.drive_until(RTT * 50, |_| false);
    assert!(pair.client.endpoint().held_bytes() <= before + 10_000);
    let tap = Tap::default();
    pair.client.set_tamper(tap.tamper());
    // The server does not know the id that it has given, so RLP is lost, and the primary brings all of it.
    deliver_all(&mut pair, client, server, 300_000);
    assert_eq!(used(&tap), [id(1 << 40).0], "its choice for number 0");
}

#[test]
fn paths_that_a_hostile_peer_makes_up_cost_a_bounded_answer() {
    let (mut pair, client, server) = choosing(&marked());
    let numbers: Vec<u64> = (1..=5_000).map(|nth| nth * 10).collect();
    let frames: Vec<_> = numbers.iter().map(|&number| ControlFrame::Path(number)).collect();
    let before = pair.server.traffic.with(pair.client.address());
    write_control(&mut pair, client, Side::Client, &frames);
    pair.drive_until(RTT * 100, |_| false);
    let after = pair.server.traffic.with(pair.client.address());
    let (sent, received) = (after.sent - before.sent, after.received - before.received);
    // Each frame of 4 bytes makes the window of five numbers advance by that many: five frames of 14 bytes at most.
    assert!(sent < received * 20, "{sent} bytes for {received}");
    let lost = pair.server.connection(server).unwrap().lost();
    assert!(lost.is_none(), "{lost:?}");
    assert!(pair.server.endpoint().held_bytes() < 1 << 20);
    // The client itself never used these paths; its datagrams carry number 0, which the server has given up.
    deliver_all(&mut pair, client, server, 200_000);
}

#[test]
fn an_id_that_would_link_two_paths_is_ignored() {
    let (mut pair, client, server) = choosing(&EndpointConfig::default());
    let derived = receiver_id(&seal(&mut keys(&pair, client, true), |_| ())).unwrap();
    write_control(&mut pair, server, Side::Server, &[ControlFrame::ReceiverId { number: 1, id: derived }]);
    pair.drive_until(RTT * 3, |_| false);
    let tap = Tap::default();
    pair.client.set_tamper(tap.tamper());
    deliver_all(&mut pair, client, server, 100_000);
    let now = pair.now;
    pair.client.set_address(SocketAddr::from(([10, 1, 0, 9], 4433)));
    pair.client.endpoint().handle_local_address_change(now);
    deliver_all(&mut pair, client, server, 100_000);
    pair.drive_until(RTT * 3, |_| false);
    let ids = used(&tap);
    assert!(ids.len() >= 2 && ids[0] == derived.0);
    assert!(ids[1..].iter().all(|&id| id != derived.0), "the id of the first path is on no other: {ids:x?}");
}

#[test]
fn a_peer_that_names_an_id_of_another_connection_takes_nothing_from_it() {
    let mut pair = world();
    let (config, server_config) = settings();
    *pair.server.endpoint() = Endpoint::with_config(&marked(), Some(&server_config), true).unwrap();
    let (now, remote) = (pair.now, pair.server.address());
    let clients: Vec<_> =
        (0..2).map(|_| pair.client.endpoint().connect(now, &config, remote, SERVER_NAME).unwrap()).collect();
    pair.drive_until(RTT * 10, |_| false);
    let servers = pair.server.accepted.clone();
    let victim = {
        let mut keys = keys(&pair, clients[0], true);
        while keys.seal.change_path() < 4 {}
        receiver_id(&seal(&mut keys, |_| ())).unwrap()
    };
    // The server names the id that the victim will use on its fourth path for that of the other connection.
    let frame = ControlFrame::ReceiverId { number: 4, id: victim };
    write_control(&mut pair, servers[1], Side::Server, &[frame]);
    pair.drive_until(RTT * 3, |_| false);
    for nth in 1..=4 {
        let now = pair.now;
        pair.client.set_address(SocketAddr::from(([10, 1, 0, nth], 4433)));
        pair.client.endpoint().handle_local_address_change(now);
        pair.drive_until(RTT * 10, |_| false);
    }
    let discarded = |pair: &Pair, nth: usize| {
        pair.server.connection(servers[nth]).unwrap().stats().received.rlp_discarded
    };
    let before = discarded(&pair, 0);
    deliver_all(&mut pair, clients[1], servers[1], 200_000);
    assert!(discarded(&pair, 0) > before, "datagrams with the victim's id do not authenticate there");
    deliver_all(&mut pair, clients[0], servers[0], 200_000);
}
