//! Honest losses stay far below the bounds on memory for hostile peers.

use std::time::Duration;

use rc3_core::{ConnectionHandle, Dir, ReadError, ReceivedStats, RlpMode, StreamId, units::Rate};
use rc3_sim::{Impairments, LinkConfig, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(300);

/// A link of 400 Mbit/s that loses packets.
fn world(loss: f64) -> Pair {
    let rate = Rate::from_bits_per_second(400_000_000);
    let impairments = Impairments::loss(loss);
    let link = LinkConfig { rate, delay: RTT / 2, impairments, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 10_000_000);
    config.client.nic_rate(rate).rlp(RlpMode::Trust).max_idle_timeout(None);
    config.server.max_idle_timeout(None);
    config.batch = 10;
    Pair::new(config)
}

fn connected(pair: &mut Pair) -> (ConnectionHandle, ConnectionHandle) {
    let client = pair.connect();
    let up = pair.drive_until(PATIENCE, |pair| {
        !pair.client.connection(client).unwrap().is_handshaking() && !pair.server.accepted.is_empty()
    });
    assert!(up);
    (client, pair.server.accepted[0])
}

/// Sends streams of `len` bytes each, read as `ordered` says; returns the receiver's counters.
fn transfer(loss: f64, streams: usize, len: usize, ordered: bool) -> ReceivedStats {
    let mut pair = world(loss);
    let (client, server) = connected(&mut pair);
    for _ in 0..streams {
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
        pair.client.with(client, |c| c.set_send_window(1 << 30));
        assert_eq!(pair.client.with(client, |c| c.write(id, vec![7; len].into())), Ok(len));
        pair.client.with(client, |c| c.finish(id)).unwrap();
    }
    let (mut open, mut ended): (Vec<StreamId>, usize) = (Vec::new(), 0);
    let done = pair.drive_until(PATIENCE, |pair| {
        // Below this no SACK is ignored.
        let overhead = pair.client.connection(client).unwrap().stats().sent.overhead_bytes;
        assert!(overhead < 4 << 20, "{overhead} bytes of records at the sender");
        while let Some(id) = pair.server.with(server, |c| c.accept(Dir::Uni)) {
            open.push(id);
        }
        open.retain(|&id| {
            pair.server.with(server, |c| {
                loop {
                    match c.read(id, usize::MAX, ordered) {
                        Ok(Some(_)) => {}
                        Ok(None) => break false,
                        Err(ReadError::Blocked) => break true,
                        Err(error) => panic!("{error}"),
                    }
                }
            }) || {
                ended += 1;
                false
            }
        });
        ended == streams
    });
    assert!(done, "{ended} of {streams} streams");
    pair.server.connection(server).unwrap().stats().received
}

/// Whatever the streams and their readers.
fn refuses_nothing(loss: f64) {
    for (streams, len) in [(1, 20_000_000), (90, 200_000)] {
        for ordered in [true, false] {
            let received = transfer(loss, streams, len, ordered);
            let by_rlp: u64 = received.rlp_bytes.iter().sum();
            println!("{loss} {streams} {ordered}: {by_rlp} bytes by RLP");
            assert_eq!(received.refused_bytes, 0, "{loss} {streams} {ordered}");
            assert!(by_rlp > 5_000_000, "{by_rlp} bytes by RLP");
        }
    }
}

#[test]
fn no_rlp_data_nor_sack_is_refused_for_losses() {
    refuses_nothing(0.01);
}

#[test]
fn nor_for_many_losses() {
    refuses_nothing(0.1);
}
