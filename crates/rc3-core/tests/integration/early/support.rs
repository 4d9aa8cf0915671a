//! A world of two honest ends with an earlier connection.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use rc3_core::{ConnectionHandle, Dir, Event, ReadError, StreamId, VarInt, units::Rate};
use rc3_sim::{Datagram, LinkConfig, Pair, PairConfig, pattern};

pub(crate) const DELAY: Duration = Duration::from_millis(50);

pub(crate) fn world() -> Pair {
    world_of(1_000_000_000, |_| {})
}

/// A link of `rate` bits per second each way.
pub(crate) fn world_of(rate: u64, change: impl FnOnce(&mut PairConfig)) -> Pair {
    let rate = Rate::from_bits_per_second(rate);
    let link = LinkConfig { rate, delay: DELAY, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 20_000_000);
    // A pacer would delay the end of the first window; for a flow this short by more than a round trip saves.
    config.client.nic_rate(rate).paced(false);
    config.server.nic_rate(rate);
    change(&mut config);
    Pair::new(config)
}

/// A first connection that leaves something to resume.
pub(crate) fn meet(pair: &mut Pair) {
    let first = pair.connect();
    assert!(!pair.client.with(first, |c| c.begin_early()), "nothing to resume yet");
    assert!(pair.client.with(first, |c| c.open(Dir::Uni)).is_none());
    let done = pair.drive_until(Duration::from_secs(1), |_| false);
    assert!(!done && !pair.client.connection(first).unwrap().is_handshaking());
    leave(pair, first);
}

/// Ends a connection; later ones have only the endpoints' memory of it.
pub(crate) fn leave(pair: &mut Pair, first: ConnectionHandle) {
    let now = pair.now;
    pair.client.with(first, |c| c.close(now, VarInt::from_u32(0), Bytes::new()));
    pair.drive();
    pair.server.accepted.clear();
    pair.server.events.clear();
}

/// A connection with something to resume, before its handshake.
pub(crate) fn resume(pair: &mut Pair) -> ConnectionHandle {
    let client = pair.connect();
    assert!(pair.client.with(client, |c| c.begin_early()), "something to resume");
    assert!(pair.client.connection(client).unwrap().is_rc3());
    client
}

/// Writes a stream with `bytes` of the pattern.
pub(crate) fn write(pair: &mut Pair, client: ConnectionHandle, bytes: u64) -> StreamId {
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    let data: Vec<u8> = (0..bytes).map(pattern).collect();
    assert_eq!(pair.client.with(client, |c| c.write(id, data.into())), Ok(bytes as usize));
    pair.client.with(client, |c| c.finish(id)).unwrap();
    id
}

/// Drives until the server has the beginning of a stream.
pub(crate) fn accept(pair: &mut Pair, id: StreamId) -> ConnectionHandle {
    let opened = pair.drive_until(Duration::from_secs(20), |pair| {
        pair.server.events.iter().any(|(_, event)| *event == Event::Opened(Dir::Uni))
    });
    assert!(opened);
    let server = pair.server.accepted[0];
    assert_eq!(pair.server.with(server, |c| c.accept(Dir::Uni)), Some(id));
    server
}

/// Drives until the server has all `bytes` of an accepted stream.
pub(crate) fn read(pair: &mut Pair, server: ConnectionHandle, id: StreamId, bytes: u64) {
    let mut read = 0;
    let whole = pair.drive_until(Duration::from_secs(20), |pair| {
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
    assert!(whole && read == bytes, "{read} of {bytes}");
}

/// Sends `bytes` of the pattern on a new connection, early if requested; returns when the server had the first and the
/// last of them.
pub(crate) fn transfer(pair: &mut Pair, bytes: u64, early: bool) -> (Duration, Duration, ConnectionHandle) {
    let start = pair.now;
    let client = if early {
        resume(pair)
    } else {
        let client = pair.connect();
        let up = pair.drive_until(Duration::from_secs(1), |pair| {
            !pair.client.connection(client).unwrap().is_handshaking()
        });
        assert!(up);
        client
    };
    let id = write(pair, client, bytes);
    let server = accept(pair, id);
    let first = pair.now - start;
    read(pair, server, id, bytes);
    (first, pair.now - start, client)
}

/// Whether it is RLP's.
pub(crate) fn is_rlp(datagram: &[u8]) -> bool {
    datagram[0] & 0xc0 == 0
}

/// Whether it begins with a QUIC Initial packet.
pub(crate) fn is_initial(datagram: &[u8]) -> bool {
    datagram[0] & 0xf0 == 0xc0
}

/// The rest of a datagram after its Initial packet (RFC 9000 §17.2.2).
fn behind_initial(datagram: &[u8]) -> usize {
    let varint = |at: usize| {
        let len = 1 << (datagram[at] >> 6);
        let value = datagram[at..at + len].iter().fold(0_u64, |value, &byte| value << 8 | u64::from(byte));
        (value & ((1 << (8 * len - 2)) - 1), at + len)
    };
    let source_len = 6 + usize::from(datagram[5]);
    let (token_len, token) = varint(source_len + 1 + usize::from(datagram[source_len]));
    let (len, packet) = varint(token + token_len as usize);
    packet + len as usize
}

/// The fate of a client's datagrams.
#[derive(Default)]
pub(crate) struct Tap {
    /// All arrive, in order.
    pub(crate) sent: Vec<Vec<u8>>,
    /// The 0-RTT packet in its first datagram, which has the secret, is withheld and stored here.
    pub(crate) secret: Option<Vec<u8>>,
}

impl Tap {
    /// Observes, and with `withhold` holds the secret back.
    pub(crate) fn listen(pair: &mut Pair, withhold: bool) -> Arc<Mutex<Self>> {
        let tap = Arc::new(Mutex::new(Self::default()));
        let ours = tap.clone();
        pair.client.set_tamper(Box::new(move |_, datagram: &mut Datagram| {
            let mut tap = ours.lock().unwrap();
            tap.sent.push(datagram.contents.clone());
            if withhold && tap.secret.is_none() && is_initial(&datagram.contents) {
                let behind = behind_initial(&datagram.contents);
                tap.secret = Some(datagram.contents[behind..].to_vec());
                *datagram.contents.last_mut().unwrap() ^= 1;
            }
            1
        }));
        tap
    }
}
