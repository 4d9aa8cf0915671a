//! Claims about 0-RTT, in virtual time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rc3_core::{
    ClientConfig, ConnectionError, ConnectionHandle, Dir, Event, ReadError, RlpMode, ServerConfig,
    TransportConfig, TransportErrorCode, VarInt, units::Rate,
};
use rc3_sim::{
    LinkConfig, Pair, PairConfig,
    identity::{SERVER_NAME, tls},
    pattern,
};
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

const DELAY: Duration = Duration::from_millis(50);

fn world() -> Pair {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: DELAY, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 20_000_000);
    // A pacer would hold the last of the first window back, for a flow this short longer than a round trip saves.
    config.client.nic_rate(rate).paced(false);
    config.server.nic_rate(rate);
    Pair::new(config)
}

/// A first connection that leaves something to resume.
fn meet(pair: &mut Pair) {
    let first = pair.connect();
    assert!(!pair.client.with(first, |c| c.begin_early()), "nothing to resume yet");
    assert!(pair.client.with(first, |c| c.open(Dir::Uni)).is_none());
    let done = pair.drive_until(Duration::from_secs(1), |_| false);
    assert!(!done && !pair.client.connection(first).unwrap().is_handshaking());
    let now = pair.now;
    pair.client.with(first, |c| c.close(now, VarInt::from_u32(0), Bytes::new()));
    pair.drive();
    pair.server.accepted.clear();
    pair.server.events.clear();
}

/// Sends `bytes` of the pattern on a new connection, early if that is wanted; when the server had the first and
/// when the last of them.
fn transfer(pair: &mut Pair, bytes: u64, early: bool) -> (Duration, Duration, ConnectionHandle) {
    let start = pair.now;
    let client = pair.connect();
    if early {
        assert!(pair.client.with(client, |c| c.begin_early()), "something to resume");
        assert!(pair.client.connection(client).unwrap().is_rc3());
    } else {
        let up = pair.drive_until(Duration::from_secs(1), |pair| {
            !pair.client.connection(client).unwrap().is_handshaking()
        });
        assert!(up);
    }
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    let data: Vec<u8> = (0..bytes).map(pattern).collect();
    assert_eq!(pair.client.with(client, |c| c.write(id, data.into())), Ok(bytes as usize));
    pair.client.with(client, |c| c.finish(id)).unwrap();
    let opened = pair.drive_until(Duration::from_secs(1), |pair| {
        pair.server.events.iter().any(|(_, event)| *event == Event::Opened(Dir::Uni))
    });
    assert!(opened);
    let first = pair.now - start;
    let server = pair.server.accepted[0];
    assert_eq!(pair.server.with(server, |c| c.accept(Dir::Uni)), Some(id));
    let mut read = 0;
    let whole = pair.drive_until(Duration::from_secs(10), |pair| {
        loop {
            match pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
                Ok(Some(chunk)) => {
                    assert!(chunk.bytes.iter().zip(read..).all(|(&byte, at)| byte == pattern(at)));
                    read += chunk.bytes.len() as u64;
                }
                Ok(None) => return true,
                Err(ReadError::Blocked) => return false,
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(whole && read == bytes);
    (first, pair.now - start, client)
}

#[test]
fn early_bytes_arrive_half_a_round_trip_after_the_start() {
    let mut pair = world();
    meet(&mut pair);
    let (first, last, _) = transfer(&mut pair, 5_000, true);
    assert!(first < DELAY + Duration::from_millis(1), "{first:?}");
    assert!(last < DELAY + Duration::from_millis(1), "{last:?}");
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

/// Sessions that spoke `rc3/1+sim` come back as if they had spoken `sim`.
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
