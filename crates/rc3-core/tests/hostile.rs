//! Datagrams and peers that mean harm.

use std::time::Duration;

use bytes::BytesMut;
use proptest::prelude::*;
use rc3_core::{
    ConnectionHandle, Dir,
    rlp::keys::{EXPORTER_CONTEXT_CLIENT, EXPORTER_CONTEXT_SERVER, EXPORTER_LABEL, RlpKeys},
    units::{Level, Rate, Span},
    wire::{frame::DataHeader, sack},
};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(40);

fn world() -> Pair {
    let rate = Rate::from_bits_per_second(100_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 500_000);
    config.client.nic_rate(rate);
    Pair::new(config)
}

fn connected(pair: &mut Pair) -> (ConnectionHandle, ConnectionHandle) {
    let client = pair.connect();
    assert!(pair.drive_until(RTT * 5, |pair| {
        !pair.client.connection(client).unwrap().is_handshaking() && !pair.server.accepted.is_empty()
    }));
    let server = pair.server.accepted[0];
    pair.drive_until(RTT * 5, |_| false);
    (client, server)
}

/// The keys of a connection, as its own peer has them: what a peer that speaks the protocol but means harm needs.
fn keys(pair: &Pair, handle: ConnectionHandle, of_client: bool) -> RlpKeys {
    let node = if of_client { &pair.client } else { &pair.server };
    let connection = node.connection(handle).unwrap();
    let secret = |context| {
        let mut secret = [0; 32];
        connection.export_keying_material(&mut secret, EXPORTER_LABEL, context).unwrap();
        secret
    };
    RlpKeys::new(&secret(EXPORTER_CONTEXT_CLIENT), &secret(EXPORTER_CONTEXT_SERVER), of_client)
}

/// One RLP datagram with the given payload.
fn seal(keys: &mut RlpKeys, payload: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buf = Vec::new();
    let sealing = keys.seal.begin(Level::FIRST, &mut buf);
    payload(&mut buf);
    keys.seal.finish(sealing, &mut buf);
    buf
}

fn data(stream: u64, offset: u64, final_size: Option<u64>, bytes: &[u8]) -> impl FnOnce(&mut Vec<u8>) {
    let bytes = bytes.to_vec();
    move |buf| {
        DataHeader { stream, offset, final_size, explicit_len: None }.emit(buf);
        buf.extend(bytes);
    }
}

/// Delivers a datagram of the client's making to the server's connection.
fn deliver(pair: &mut Pair, server: ConnectionHandle, datagram: &[u8]) {
    let now = pair.now;
    pair.server.with(server, |c| {
        c.handle_rlp(now, BytesMut::from(datagram));
        c.settle(now);
    });
}

/// The client's second unidirectional stream: the first is the control stream.
const STREAM: u64 = 6;

#[test]
fn a_replayed_datagram_is_discarded() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let datagram = seal(&mut keys(&pair, client, true), data(STREAM, 0, None, b"once"));
    deliver(&mut pair, server, &datagram);
    deliver(&mut pair, server, &datagram);
    let received = pair.server.connection(server).unwrap().stats().received;
    assert_eq!((received.rlp_datagrams, received.rlp_discarded, received.rlp_bytes[1]), (1, 1, 4));
}

#[test]
fn data_beyond_the_credit_ends_the_connection() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let datagram = seal(&mut keys(&pair, client, true), data(STREAM, 1 << 40, None, b"far"));
    deliver(&mut pair, server, &datagram);
    assert!(pair.server.connection(server).unwrap().lost().is_some());
}

#[test]
fn contradicting_final_sizes_end_the_connection() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let mut keys = keys(&pair, client, true);
    let first = seal(&mut keys, data(STREAM, 10, Some(20), b"tail"));
    let second = seal(&mut keys, data(STREAM, 14, Some(30), b"tail"));
    deliver(&mut pair, server, &first);
    assert!(pair.server.connection(server).unwrap().lost().is_none());
    deliver(&mut pair, server, &second);
    assert!(pair.server.connection(server).unwrap().lost().is_some());
}

#[test]
fn streams_that_cannot_exist_end_the_connection() {
    // Past the limit; our own unidirectional stream; the control stream.
    for stream in [4 * 100_000 + 2, 3, 2] {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let datagram = seal(&mut keys(&pair, client, true), data(stream, 0, None, b"x"));
        deliver(&mut pair, server, &datagram);
        assert!(pair.server.connection(server).unwrap().lost().is_some(), "stream {stream}");
    }
}

#[test]
fn thousands_of_one_byte_gaps_cost_bounded_memory() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let mut keys = keys(&pair, client, true);
    for nth in 0..40_000_u64 {
        let datagram = seal(&mut keys, data(STREAM, 1 + nth * 2, None, b"x"));
        deliver(&mut pair, server, &datagram);
    }
    let received = pair.server.connection(server).unwrap().stats().received;
    assert!(received.buffered_bytes <= 16 * 1024, "{} gaps kept", received.buffered_bytes);
    assert_eq!(received.buffered_bytes + received.refused_bytes, 40_000);
}

#[test]
fn optimistic_sacks_neither_speed_the_sender_up_nor_lose_data() {
    let bytes = 1_000_000;
    let run = |lie: bool| {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
        pair.client.with(client, |c| c.write(id, vec![1; bytes].into())).unwrap();
        if lie {
            // Before anything was sent: "I have all of it".
            let mut keys = keys(&pair, server, false);
            let everything = [Span::new(0, bytes as u64)];
            let datagram = seal(&mut keys, |buf| {
                sack::emit(STREAM, everything, 1000, buf);
            });
            let now = pair.now;
            pair.client.with(client, |c| {
                c.handle_rlp(now, BytesMut::from(&datagram[..]));
                c.settle(now);
            });
            let sent = pair.client.connection(client).unwrap().stats().sent;
            assert_eq!(sent.sacked_unsent_bytes, bytes as u64);
        }
        pair.client.with(client, |c| c.finish(id)).unwrap();
        let start = pair.now;
        let mut stream = None;
        let mut read = 0;
        assert!(pair.drive_until(RTT * 100, |pair| {
            stream = stream.or_else(|| pair.server.with(server, |c| c.accept(Dir::Uni)));
            let Some(id) = stream else { return false };
            loop {
                match pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
                    Ok(Some(chunk)) => read += chunk.bytes.len(),
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
        }));
        assert_eq!(read, bytes);
        let cwnd = pair.client.connection(client).unwrap().stats().path.cwnd;
        (pair.now - start, cwnd)
    };
    let (honest, lying) = (run(false), run(true));
    assert!(lying.0 >= honest.0 && lying.1 <= honest.1, "{honest:?} {lying:?}");
}

proptest! {
    #[test]
    fn garbage_at_an_endpoint_does_no_harm(
        datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..1500), 0..50),
    ) {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let remote = pair.client.address();
        for datagram in &datagrams {
            pair.server.inject(remote, datagram);
        }
        prop_assert!(pair.server.connection(server).unwrap().lost().is_none());
        prop_assert!(pair.client.connection(client).unwrap().lost().is_none());
    }

    /// Authentic but senseless: everything a peer with the keys can say.
    #[test]
    fn sealed_garbage_never_panics_nor_hangs(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20),
    ) {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let mut keys = keys(&pair, client, true);
        for payload in payloads {
            let datagram = seal(&mut keys, |buf| buf.extend(payload));
            deliver(&mut pair, server, &datagram);
        }
        pair.drive_until(RTT * 2, |_| false);
    }
}
