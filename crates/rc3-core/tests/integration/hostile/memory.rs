//! Peers whose data nobody reads, and what the settings of a connection and of an endpoint let them cause.

use rc3_core::{ConnectionHandle, Dir, ReadError, StreamId, VarInt, WriteError};
use rc3_sim::Pair;

use super::support::{RTT, Reader, STREAM, connected, data, deliver, keys, seal, send, world, world_with};

const MIB: u64 = 1 << 20;
const CONNECTIONS: usize = 30;

const LIMIT: u64 = 8 * MIB;
/// The default.
const LARGE: u64 = 1 << 30;

/// What a connection may always cause, whatever the limit (`Endpoint::set_memory_max`).
const FLOOR: u64 = 64 << 10;

/// Clients of one server, none of which has sent anything; limits of the server and of the endpoint of the clients.
fn clients(server: u64, client: u64) -> (Pair, Vec<ConnectionHandle>) {
    let mut pair = world_with(|config| {
        config.max_idle_timeout(None);
    });
    pair.server.endpoint().set_memory_max(server);
    pair.client.endpoint().set_memory_max(client);
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| pair.connect()).collect();
    pair.drive_until(RTT * 20, |_| false);
    assert_eq!(pair.server.accepted.len(), CONNECTIONS);
    (pair, clients)
}

/// Reads one stream of each connection until all have ended.
fn read_all(pair: &mut Pair) {
    let servers: Vec<_> = pair.server.accepted.iter().copied().collect();
    let mut readers: Vec<_> = servers.iter().map(|_| Reader::default()).collect();
    let done = pair.drive_until(RTT * 2000, |pair| {
        let mut ended = 0;
        for (reader, &server) in readers.iter_mut().zip(&servers) {
            reader.pump(pair, server);
            ended += reader.ended;
        }
        ended == CONNECTIONS
    });
    assert!(done, "{} of {CONNECTIONS}", readers.iter().filter(|reader| reader.ended > 0).count());
}

#[test]
fn unread_data_of_many_connections_stays_within_the_limit_of_their_endpoint() {
    let (mut pair, clients) = clients(LIMIT, LARGE);
    for &client in &clients {
        send(&mut pair, client, 2 * MIB);
    }
    let mut most = 0;
    pair.drive_until(RTT * 200, |pair| {
        most = most.max(pair.server.endpoint().held_bytes());
        false
    });
    assert!(most <= LIMIT, "{most} bytes held");
    assert!(most > LIMIT / 4, "{most} bytes held: the limit is not used");
    // What memory had no room for arrives once there is room.
    read_all(&mut pair);
}

#[test]
fn connections_beyond_a_tiny_limit_have_their_floor_and_none_starves() {
    let (mut pair, clients) = clients(MIB, LARGE);
    for &client in &clients {
        send(&mut pair, client, MIB / 4);
    }
    let mut most = 0;
    pair.drive_until(RTT * 100, |pair| {
        most = most.max(pair.server.endpoint().held_bytes());
        false
    });
    assert!(most <= MIB + CONNECTIONS as u64 * FLOOR, "{most} bytes held");
    read_all(&mut pair);
}

/// An endpoint whose connections once used all memory gives newcomers their share again.
#[test]
fn memory_that_was_read_is_free_for_others() {
    let (mut pair, clients) = clients(LIMIT, LARGE);
    let (first, rest) = clients.split_first().expect("clients");
    for &client in rest {
        send(&mut pair, client, MIB);
    }
    pair.drive_until(RTT * 100, |_| false);
    let crowded = pair.server.endpoint().held_bytes();
    send(&mut pair, *first, MIB);
    read_all(&mut pair);
    let held = pair.server.endpoint().held_bytes();
    assert!(crowded > LIMIT / 4 && held == 0, "{crowded} bytes before, {held} after");
}

#[test]
fn data_stored_for_sending_counts_against_the_limit_of_the_endpoint() {
    let (mut pair, clients) = clients(LARGE, LIMIT);
    let mut written = 0;
    for &client in &clients {
        written += pair.client.with(client, |connection| {
            let id = connection.open(Dir::Uni).expect("a stream");
            let mut written = 0;
            loop {
                match connection.write(id, vec![7; 100_000].into()) {
                    Ok(more) => written += more as u64,
                    Err(WriteError::Blocked) => break written,
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
    assert!(written <= LIMIT + CONNECTIONS as u64 * FLOOR, "{written} bytes stored");
    assert!(written > LIMIT / 2, "{written} bytes stored: the limit is not used");
}

/// A connection with quinn's settings only, and the windows they name.
fn ported(connection: u32, stream: u32) -> (Pair, ConnectionHandle, ConnectionHandle) {
    let mut pair = world_with(|config| {
        config
            .receive_window(VarInt::from_u32(connection))
            .stream_receive_window(VarInt::from_u32(stream))
            .max_idle_timeout(None);
    });
    let (client, server) = connected(&mut pair);
    (pair, client, server)
}

fn buffered(pair: &Pair, server: ConnectionHandle) -> u64 {
    pair.server.connection(server).expect("a connection").stats().received.buffered_bytes
}

#[test]
fn the_receive_window_bounds_both_loops_together() {
    const WINDOW: u32 = 300_000;
    let (mut pair, client, server) = ported(WINDOW, WINDOW / 3);
    send(&mut pair, client, 3_000_000);
    let mut most = 0;
    pair.drive_until(RTT * 50, |pair| {
        most = most.max(buffered(pair, server));
        false
    });
    assert!(most <= WINDOW.into(), "{most} bytes held");
    let mut reader = Reader::default();
    let done = pair.drive_until(RTT * 500, |pair| {
        reader.pump(pair, server);
        most = most.max(buffered(pair, server));
        reader.ended == 1
    });
    assert!(done && most <= WINDOW.into(), "{most} bytes held");
}

/// A peer may send a mebibyte by RLP before it knows the windows.
#[test]
fn rlp_data_beyond_the_receive_window_is_refused_and_no_fault() {
    const WINDOW: u32 = 300_000;
    let (mut pair, client, server) = ported(WINDOW, WINDOW / 3);
    let mut keys = keys(&pair, client, true);
    for nth in 0..1000 {
        // Ten streams; the first byte of each is missing.
        let (stream, offset) = (STREAM + 4 * (nth % 10), 1 + nth / 10 * 1000);
        deliver(&mut pair, server, &seal(&mut keys, data(stream, offset, None, &[7; 1000])));
    }
    let stats = pair.server.connection(server).expect("a connection").stats().received;
    assert!(pair.server.connection(server).expect("a connection").lost().is_none());
    assert!(stats.buffered_bytes <= WINDOW.into(), "{} bytes held", stats.buffered_bytes);
    assert_eq!(stats.buffered_bytes + stats.refused_bytes, 1_000_000);
}

#[test]
fn windows_of_streams_bound_a_connection_without_a_window_of_its_own() {
    const WINDOW: u64 = 50_000;
    let mut pair = world_with(|config| {
        config.stream_receive_window(VarInt::from_u32(WINDOW as u32)).max_idle_timeout(None);
    });
    let (client, server) = connected(&mut pair);
    for _ in 0..4 {
        send(&mut pair, client, 1_000_000);
    }
    let mut most = 0;
    pair.drive_until(RTT * 50, |pair| {
        most = most.max(buffered(pair, server));
        false
    });
    assert!(most <= 4 * 2 * WINDOW, "{most} bytes held");
}

/// RLP filled what the primary left of the window; the application reads only once the first byte is there.
#[test]
fn a_window_full_of_rlp_data_leaves_the_primary_room_to_fill_the_gap() {
    let (mut pair, client, server) = ported(200_000, 200_000);
    let id = StreamId::from(VarInt::from_u32(STREAM as u32));
    send(&mut pair, client, 5_000_000);
    let mut read = 0;
    let done = pair.drive_until(RTT * 500, |pair| {
        let _ = pair.server.with(server, |c| c.accept(Dir::Uni));
        match pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
            Ok(Some(chunk)) => read += chunk.bytes.len(),
            Ok(None) => return true,
            Err(ReadError::Blocked | ReadError::ClosedStream) => {}
            Err(error) => panic!("{error}"),
        }
        false
    });
    assert!(done, "{read} bytes read");
}

/// As a server does that admits a client: small windows first, larger ones later. Its reader takes one piece: nobody would
/// send more to one that has taken none.
#[test]
fn a_larger_receive_window_lets_both_loops_send_more() {
    let (mut pair, client, server) = ported(20_000, 1 << 30);
    send(&mut pair, client, 2_000_000);
    pair.drive_until(RTT * 20, |_| false);
    let small = buffered(&pair, server);
    pair.server.with(server, |c| c.set_receive_window(VarInt::from_u32(1_000_000)));
    let id = pair.server.with(server, |c| c.accept(Dir::Uni)).unwrap();
    assert!(pair.server.with(server, |c| c.read(id, 1, true)).is_ok());
    pair.drive_until(RTT * 100, |_| false);
    let large = buffered(&pair, server);
    assert!(small <= 20_000 && large > 400_000 && large <= 1_000_000, "{small}, then {large}");
}

#[test]
fn one_connection_may_use_half_of_the_limit() {
    let mut pair = world();
    pair.server.endpoint().set_memory_max(32 * MIB);
    let (client, _) = connected(&mut pair);
    send(&mut pair, client, 30 * MIB);
    pair.drive_until(RTT * 200, |_| false);
    let held = pair.server.endpoint().held_bytes();
    assert!(held > 6 * MIB && held <= 16 * MIB, "{held} bytes held");
}
