//! 0-RTT, in virtual time.

mod hostile;
mod long_hello;
mod rlp;
mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use rc3_core::{
    ClientConfig, ConnectionError, Dir, Event, RlpMode, ServerConfig, TransportConfig, TransportErrorCode,
};
use rc3_sim::{
    Pair,
    identity::{SERVER_NAME, tls},
};
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use support::*;

#[test]
fn early_bytes_arrive_half_a_round_trip_after_the_start() {
    let mut pair = world();
    meet(&mut pair);
    let (first, last, _) = transfer(&mut pair, 5_000, true);
    assert!(first < DELAY + Duration::from_millis(1), "{first:?}");
    assert!(last < DELAY + Duration::from_millis(1), "{last:?}");
}

/// Its transport parameters stay as the client remembers them (RFC 9000 §7.4.1).
#[test]
fn a_server_whose_memory_is_used_up_meanwhile_still_takes_early_data() {
    let mut pair = world();
    meet(&mut pair);
    pair.server.endpoint().set_memory_max(1 << 20);
    let client = resume(&mut pair);
    let id = write(&mut pair, client, 5_000);
    accept(&mut pair, id);
    pair.drive();
    let connection = pair.client.connection(client).unwrap();
    assert!(connection.is_early_accepted() && connection.lost().is_none(), "{:?}", connection.lost());
}

#[test]
fn rlp_takes_over_when_the_handshake_is_complete() {
    let mut pair = world();
    meet(&mut pair);
    let (_, early, client) = transfer(&mut pair, 4_000_000, true);
    let stats = pair.client.connection(client).unwrap().stats();
    assert!(stats.sent.levels.iter().map(|level| level.bytes).sum::<u64>() > 3_000_000, "{stats:?}");

    let mut pair = world();
    meet(&mut pair);
    let (first, late, _) = transfer(&mut pair, 4_000_000, false);
    assert!(first > 3 * DELAY);
    // Both send nearly all of it in one flight after the handshake.
    assert!(early <= late, "{early:?} against {late:?}");
}

/// Sessions that used `rc3/1+sim` return as if they had used `sim`.
#[derive(Debug)]
struct Falsified(Arc<ServerSessionMemoryCache>);

impl StoresServerSessions for Falsified {
    fn put(&self, key: Vec<u8>, mut session: Vec<u8>) -> bool {
        // The name with its length before it, as in the ALPN extension (RFC 7301 §3.1).
        let spoken = b"\x09rc3/1+sim";
        let at = session.windows(spoken.len()).position(|window| window == spoken).expect("it is in there");
        session.splice(at..at + spoken.len(), *b"\x03sim");
        self.0.put(key, session)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.take(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[test]
fn a_server_that_takes_early_records_for_plain_bytes_is_left() {
    let (client, mut server) = tls(&["sim"]);
    server.session_storage = Arc::new(Falsified(ServerSessionMemoryCache::new(8)));
    let (client, server) = (ClientConfig::new(Arc::new(client)), Arc::new(server));
    let mut pair = world();
    let connect = |pair: &mut Pair, rlp| {
        let mut config = ServerConfig::with_crypto(server.clone());
        let mut transport = TransportConfig::default();
        transport.rlp(rlp);
        config.transport_config(Arc::new(transport));
        pair.server.endpoint().set_server_config(Some(&config)).unwrap();
        let (now, remote) = (pair.now, pair.server.address());
        pair.client.endpoint().connect(now, &client, remote, SERVER_NAME).unwrap()
    };

    let first = connect(&mut pair, RlpMode::Guard);
    pair.drive_until(Duration::from_secs(1), |_| false);
    assert!(pair.client.connection(first).unwrap().is_rc3());
    pair.client.events.clear();
    pair.server.events.clear();

    let second = connect(&mut pair, RlpMode::Off);
    assert!(pair.client.with(second, |c| c.begin_early() && c.is_rc3()));
    let id = pair.client.with(second, |c| c.open(Dir::Uni)).unwrap();
    pair.client.with(second, |c| c.write(id, Bytes::from_static(b"early"))).unwrap();
    pair.drive_until(Duration::from_secs(1), |_| false);
    let lost = |(_, event): &(_, Event)| match event {
        Event::Lost(error) => Some(error.clone()),
        _ => None,
    };
    let said: Vec<_> = pair.client.events.iter().filter_map(lost).collect();
    let [ConnectionError::TransportError(error)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(error.reason, "accepted early data and changed the protocol");
    // The server has no keys yet for the packet with the close code (RFC 9000 §10.2.3).
    let heard: Vec<_> = pair.server.events.iter().filter_map(lost).collect();
    let [ConnectionError::ConnectionClosed(close)] = &heard[..] else { panic!("{heard:?}") };
    assert_eq!(close.error_code, TransportErrorCode::APPLICATION_ERROR);
}
