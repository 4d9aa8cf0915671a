//! Writes whose service is left to the next poll.

use std::time::Duration;

use rc3_core::{Connection, ConnectionHandle, ConnectionStats, Dir, StreamId, VarInt, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(40);
/// Several windows of the primary, so that RLP has a part of them.
const BYTES: usize = 300_000;

/// How the application reaches a connection.
type Access = fn(&mut Pair, ConnectionHandle, &mut dyn FnMut(&mut Connection));

fn serviced(pair: &mut Pair, client: ConnectionHandle, write: &mut dyn FnMut(&mut Connection)) {
    pair.client.with(client, write);
}

fn left_to_the_poll(pair: &mut Pair, client: ConnectionHandle, write: &mut dyn FnMut(&mut Connection)) {
    pair.client.endpoint().with_writer(client, write).expect("a connection");
}

/// What a client did that opened, wrote, finished and stopped streams, and when.
fn world(access: Access) -> (ConnectionStats, Vec<Duration>) {
    let link =
        LinkConfig { rate: Rate::from_bits_per_second(50_000_000), delay: RTT / 2, ..LinkConfig::default() };
    let mut pair = Pair::new(PairConfig::symmetric(link, 1_000_000));
    let client = pair.connect();
    let up = pair.drive_until(RTT * 5, |pair| {
        !pair.client.connection(client).unwrap().is_handshaking() && !pair.server.accepted.is_empty()
    });
    assert!(up);
    let server = pair.server.accepted[0];
    let start = pair.now;
    let mut reached = Vec::new();
    for round in 0..3 {
        let mut id: Option<StreamId> = None;
        access(&mut pair, client, &mut |c| id = c.open(Dir::Bi));
        let id = id.expect("a stream");
        access(&mut pair, client, &mut |c| {
            assert_eq!(c.write(id, vec![round; BYTES].into()), Ok(BYTES));
        });
        access(&mut pair, client, &mut |c| c.stop(id, VarInt::from_u32(7)).unwrap());
        access(&mut pair, client, &mut |c| c.finish(id).unwrap());
        let came = pair.drive_until(RTT * 20, |pair| {
            let received = pair.server.connection(server).unwrap().stats().received;
            received.buffered_bytes >= (BYTES * (usize::from(round) + 1)) as u64
        });
        assert!(came, "round {round}");
        reached.push(pair.now - start);
    }
    pair.drive();
    (pair.client.connection(client).unwrap().stats(), reached)
}

#[test]
fn what_is_left_to_the_poll_leaves_as_if_it_had_been_serviced() {
    let (one, other) = (world(serviced), world(left_to_the_poll));
    assert_eq!(one.1, other.1);
    assert_eq!(format!("{:?}", one.0.sent), format!("{:?}", other.0.sent));
    assert!(one.0.sent.levels.iter().map(|level| level.bytes).sum::<u64>() > BYTES as u64 / 4);
}

#[test]
fn a_connection_that_is_gone_is_not_written_to() {
    let mut pair = Pair::new(PairConfig::symmetric(LinkConfig::default(), 1_000_000));
    let client = pair.connect();
    pair.drive_until(RTT * 3, |pair| !pair.server.accepted.is_empty());
    let now = pair.now;
    pair.client.with(client, |c| c.close(now, VarInt::from_u32(0), "".into()));
    pair.drive();
    assert!(pair.client.connection(client).is_none());
    assert!(pair.client.endpoint().with_writer(client, |_| ()).is_none());
}
