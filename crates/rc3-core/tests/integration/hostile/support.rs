//! A world of two honest ends, and the means to play a third or a hostile one.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::BytesMut;
use rc3_core::{
    ConnectionHandle, Dir, ReadError, StreamId, TransportConfig,
    internals::{
        keys::{Aead, EXPORTER_CONTEXT_CLIENT, EXPORTER_CONTEXT_SERVER, EXPORTER_LABEL, RlpKeys},
        wire::DataHeader,
    },
    units::{Level, Rate, Receipt},
};
use rc3_sim::{LinkConfig, Pair, PairConfig, pattern};

pub(crate) const RTT: Duration = Duration::from_millis(40);

pub(crate) fn world() -> Pair {
    world_with(|_| ())
}

/// A link of 100 Mbit/s; `change` adapts the default configuration of both ends.
pub(crate) fn world_with(change: impl Fn(&mut TransportConfig)) -> Pair {
    let rate = Rate::from_bits_per_second(100_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 500_000);
    config.client.nic_rate(rate);
    change(&mut config.client);
    change(&mut config.server);
    Pair::new(config)
}

pub(crate) fn connected(pair: &mut Pair) -> (ConnectionHandle, ConnectionHandle) {
    let client = pair.connect();
    assert!(pair.drive_until(RTT * 100, |pair| {
        !pair.client.connection(client).unwrap().is_handshaking() && !pair.server.accepted.is_empty()
    }));
    let server = pair.server.accepted[0];
    pair.drive_until(RTT * 5, |_| false);
    (client, server)
}

/// The keys of a connection, as its own peer has them: for a hostile peer that follows the protocol.
pub(crate) fn keys(pair: &Pair, handle: ConnectionHandle, of_client: bool) -> RlpKeys {
    let node = if of_client { &pair.client } else { &pair.server };
    let connection = node.connection(handle).unwrap();
    let secret = |context| {
        let mut secret = [0; 32];
        connection.export_keying_material(&mut secret, EXPORTER_LABEL, context).unwrap();
        secret
    };
    let secrets = [&secret(EXPORTER_CONTEXT_CLIENT), &secret(EXPORTER_CONTEXT_SERVER)];
    RlpKeys::new(&Aead, secrets, of_client)
}

/// One RLP datagram with the given payload.
pub(crate) fn seal(keys: &mut RlpKeys, payload: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buf = Vec::new();
    let sealing = keys.seal.begin(Level::FIRST, &mut buf);
    payload(&mut buf);
    keys.seal.finish(sealing, &mut buf);
    buf
}

pub(crate) fn data(
    stream: u64,
    offset: u64,
    final_size: Option<u64>,
    bytes: &[u8],
) -> impl FnOnce(&mut Vec<u8>) {
    let bytes = bytes.to_vec();
    move |buf| {
        DataHeader { stream, offset, final_size, explicit_len: None, receipt: Receipt(0) }.emit(buf);
        buf.extend(bytes);
    }
}

/// Delivers a datagram made by the test's client to the server's connection.
pub(crate) fn deliver(pair: &mut Pair, server: ConnectionHandle, datagram: &[u8]) {
    let now = pair.now;
    pair.server.with(server, |c| c.handle_rlp(now, now, BytesMut::from(datagram)));
}

/// The first stream a test's client opens: the control stream is the one before.
pub(crate) const STREAM: u64 = 6;

/// Opens a stream from client to server with this many bytes of the pattern, finished.
pub(crate) fn send(pair: &mut Pair, client: ConnectionHandle, bytes: u64) -> StreamId {
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).expect("a stream");
    let data: Vec<u8> = (0..bytes).map(pattern).collect();
    pair.client.with(client, |c| c.set_send_window(256 << 20));
    assert_eq!(pair.client.with(client, |c| c.write(id, data.into())), Ok(bytes as usize));
    pair.client.with(client, |c| c.finish(id)).expect("an open stream");
    id
}

/// The server's application: accepts streams and checks them against the pattern.
#[derive(Default)]
pub(crate) struct Reader {
    streams: Vec<(StreamId, u64)>,
    /// Streams read to their end.
    pub(crate) ended: usize,
    /// Streams that ended with an error.
    pub(crate) failed: usize,
}

impl Reader {
    /// Reads what is available; returns how many bytes were read in total.
    pub(crate) fn pump(&mut self, pair: &mut Pair, server: ConnectionHandle) -> u64 {
        while let Some(id) = pair.server.with(server, |c| c.accept(Dir::Uni)) {
            self.streams.push((id, 0));
        }
        let Self { streams, ended, failed } = self;
        let mut total = 0;
        for (id, read) in streams {
            loop {
                match pair.server.with(server, |c| c.read(*id, usize::MAX, true)) {
                    Ok(Some(chunk)) => {
                        assert_eq!(chunk.offset, *read);
                        assert!(chunk.bytes.iter().zip(*read..).all(|(&byte, at)| byte == pattern(at)));
                        *read += chunk.bytes.len() as u64;
                    }
                    Ok(None) => {
                        *ended += 1;
                        break;
                    }
                    Err(ReadError::Reset(_)) => {
                        *failed += 1;
                        break;
                    }
                    Err(_) => break,
                }
            }
            total += *read;
        }
        total
    }
}

/// Everything a node has sent so far, with levels; can lose some of it.
#[derive(Clone, Default)]
pub(crate) struct Tap(Arc<Mutex<Tapped>>);

#[derive(Default)]
pub(crate) struct Tapped {
    pub(crate) seen: Vec<(Level, Vec<u8>)>,
    pub(crate) lose_low: bool,
    pub(crate) lose_all: bool,
}

impl Tap {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Tapped> {
        self.0.lock().unwrap()
    }

    /// For [`rc3_sim::Node::set_tamper`].
    pub(crate) fn tamper(&self) -> rc3_sim::Tamper {
        let tap = self.clone();
        Box::new(move |level, datagram| {
            let mut tapped = tap.lock();
            tapped.seen.push((level, datagram.contents.clone()));
            usize::from(!(tapped.lose_all || (tapped.lose_low && !level.is_primary())))
        })
    }
}
