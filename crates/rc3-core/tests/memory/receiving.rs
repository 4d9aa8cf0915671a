//! Senders that leave gaps.

use bytes::Bytes;
use rc3_core::{
    ConnectionHandle, Dir, VarInt,
    internals::{keys::RlpKeys, wire::DataHeader},
    units::Receipt,
};
use rc3_sim::Pair;

use crate::{
    resident::{MIB, Meter, isolated},
    support::{RTT, STREAM, connected, keys, seal, world, world_with},
};

/// Gaps in one stream, as many as the limit for one stream allows, and the number of datagrams for them.
const GAPS: u64 = 16 * 1024;
const GAPS_PER_DATAGRAM: u64 = 128;

/// Every stream that a client may use ahead of the primary with default settings, except its control stream.
fn streams() -> impl Iterator<Item = u64> {
    (0..99).flat_map(|nth| [STREAM + 4 * nth, 4 * nth]).chain([4 * 99])
}

/// One-byte pieces with one-byte gaps between them, many in one datagram.
fn gaps(keys: &mut RlpKeys, stream: u64, from: u64) -> Vec<u8> {
    seal(keys, |buf| {
        for nth in from..from + GAPS_PER_DATAGRAM {
            let header = DataHeader {
                stream,
                offset: 1 + 2 * nth,
                final_size: None,
                explicit_len: Some(1),
                receipt: Receipt(0),
            };
            header.emit(buf);
            buf.push(7);
        }
    })
}

/// Leaves gaps by RLP data in these streams; returns how many datagrams that took.
fn leave_gaps(pair: &mut Pair, client: ConnectionHandle, streams: impl IntoIterator<Item = u64>) -> u64 {
    let mut keys = keys(pair, client, true);
    let mut sent = 0;
    for stream in streams {
        for from in (0..GAPS).step_by(GAPS_PER_DATAGRAM as usize) {
            let datagram = gaps(&mut keys, stream, from);
            pair.server.inject(pair.client.address(), &datagram);
            sent += 1;
        }
    }
    sent
}

#[test]
fn gaps_by_rlp_in_every_stream_cost_a_connection_few_mebibytes() {
    isolated("receiving::gaps_by_rlp_in_every_stream_cost_a_connection_few_mebibytes", || {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let meter = Meter::start();
        let sent = leave_gaps(&mut pair, client, streams());
        let grown = meter.stop("gaps by RLP", sent);
        let connection = pair.server.connection(server).unwrap();
        assert!(connection.lost().is_none());
        let held = connection.stats().received.held_bytes;
        assert!(grown < 6 * MIB && held < 5 * MIB, "{held} bytes counted");
        assert!(grown < 2 * held && held < 2 * grown, "{held} bytes counted, {grown} taken");
    });
}

#[test]
fn pieces_of_long_datagrams_pin_none_of_the_rest() {
    const COUNT: u64 = 2000;
    const PIECE: usize = 1100;
    isolated("receiving::pieces_of_long_datagrams_pin_none_of_the_rest", || {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let mut keys = keys(&pair, client, true);
        let meter = Meter::start();
        for nth in 0..COUNT {
            let datagram = seal(&mut keys, |buf| {
                let offset = nth * PIECE as u64;
                let explicit_len = Some(PIECE as u64);
                DataHeader { stream: STREAM, offset, final_size: None, explicit_len, receipt: Receipt(0) }
                    .emit(buf);
                buf.extend([7; PIECE]);
                // PADDING frames.
                buf.resize(60_000, 0);
            });
            pair.server.inject(pair.client.address(), &datagram);
        }
        let grown = meter.stop("pieces of long datagrams", COUNT);
        let received = pair.server.connection(server).unwrap().stats().received;
        assert_eq!(received.buffered_bytes, COUNT * PIECE as u64);
        assert!(grown < 2 * received.held_bytes, "{} bytes counted", received.held_bytes);
    });
}

#[test]
fn gaps_on_a_hundred_connections_cost_what_their_endpoint_allows() {
    const CONNECTIONS: u64 = 100;
    isolated("receiving::gaps_on_a_hundred_connections_cost_what_their_endpoint_allows", || {
        let mut pair = world();
        pair.server.endpoint().set_memory_max(128 * MIB);
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| pair.connect()).collect();
        pair.drive();
        let meter = Meter::start();
        let sent = clients.iter().map(|&client| leave_gaps(&mut pair, client, streams().take(3))).sum();
        let grown = meter.stop("gaps on 100 connections", sent);
        let held = pair.server.endpoint().held_bytes();
        assert!(held <= 128 * MIB && grown < 140 * MIB, "{held} bytes counted");
        // The last ones have their share all the same.
        let last = *pair.server.accepted.back().unwrap();
        let held = pair.server.connection(last).unwrap().stats().received.held_bytes;
        assert!(held > MIB / 2, "{held} bytes");
    });
}

/// Each client writes on several streams as much as it may, and the server reads nothing.
#[test]
fn unread_data_of_sixty_connections_costs_what_their_endpoint_allows() {
    const CONNECTIONS: usize = 60;
    const LIMIT: u64 = 64 * MIB;
    isolated("receiving::unread_data_of_sixty_connections_costs_what_their_endpoint_allows", || {
        let mut pair = world_with(|config| {
            config.max_idle_timeout(None);
        });
        pair.server.endpoint().set_memory_max(LIMIT);
        let clients: Vec<_> = (0..CONNECTIONS).map(|_| pair.connect()).collect();
        pair.drive_until(RTT * 20, |_| false);
        // What clients store is the same memory for all of them.
        let data = Bytes::from(vec![7; 2 * MIB as usize]);
        let meter = Meter::start();
        for &client in &clients {
            for _ in 0..2 {
                pair.client.with(client, |connection| {
                    let id = connection.open(Dir::Uni).expect("a stream");
                    connection.write(id, data.clone()).expect("room for it");
                });
            }
        }
        pair.drive_until(RTT * 300, |_| false);
        let grown = meter.stop("unread data on 60 connections", CONNECTIONS as u64);
        let held = pair.server.endpoint().held_bytes();
        println!("{held} bytes counted");
        assert!(held > 16 * MIB && held <= LIMIT && grown < LIMIT + 16 * MIB, "{held} bytes counted");
    });
}

/// Packets of the client, each with one byte of each of many streams; every other one is lost.
fn every_other_packet(pair: &mut Pair, client: ConnectionHandle, streams: u32, gaps: u64) -> Vec<Vec<u8>> {
    let ids: Vec<_> = (0..streams).map(|_| pair.client.with(client, |c| c.open(Dir::Uni)).unwrap()).collect();
    let now = pair.now;
    let mut packets = Vec::new();
    for nth in 0..2 * gaps {
        for &id in &ids {
            pair.client.with(client, |c| c.write(id, vec![7].into())).unwrap();
        }
        let mut buf = Vec::new();
        while pair.client.endpoint().poll_primary(now, 1, &mut buf).is_some() {
            if nth % 2 == 1 {
                packets.push(std::mem::take(&mut buf));
            }
            buf.clear();
        }
    }
    packets
}

#[test]
fn gaps_by_the_primary_in_many_streams_end_the_connection() {
    isolated("receiving::gaps_by_the_primary_in_many_streams_end_the_connection", || {
        let mut pair = world_with(|config| {
            // Nothing limits the sender, and no one acknowledges.
            config.initial_window(Some(1 << 40)).paced(false);
            config.max_concurrent_uni_streams(VarInt::from_u32(100));
        });
        let (client, server) = connected(&mut pair);
        let packets = every_other_packet(&mut pair, client, 100, 400);
        let (now, mut answer) = (pair.now, Vec::new());
        let meter = Meter::start();
        let sent = packets.len() as u64;
        for packet in &packets {
            pair.server.inject(pair.client.address(), packet);
            while pair.server.endpoint().poll_primary(now, 1, &mut answer).is_some() {
                answer.clear();
            }
        }
        let grown = meter.stop("gaps by the primary", sent);
        assert!(grown < 16 * MIB);
        let connection = pair.server.connection(server).unwrap();
        assert_eq!(connection.stats().received.held_bytes, 0);
        let lost = connection.lost().map(ToString::to_string);
        assert!(lost.is_some_and(|lost| lost.contains("out of order")));
    });
}
