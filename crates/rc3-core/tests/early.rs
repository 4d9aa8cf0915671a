//! Claims about 0-RTT, in virtual time.

use std::time::Duration;

use bytes::Bytes;
use rc3_core::{ConnectionHandle, Dir, Event, ReadError, VarInt, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig, pattern};

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
