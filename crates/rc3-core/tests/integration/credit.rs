//! Memory for unread bytes: within the windows, whatever the sender does.

use std::time::Duration;

use rc3_core::{
    Connection, ConnectionHandle, Dir, ReadError, RlpMode, StreamId, VarInt, WriteError, units::Rate,
};
use rc3_sim::{LinkConfig, Pair, PairConfig, pattern};

const RLP_WINDOW: u64 = 2 << 20;
const STREAM_WINDOW: u64 = 1 << 20;
/// The initial send window, so that it does not grow.
const SEND_WINDOW: u64 = 4 << 20;
/// Bytes that the primary may have ready besides.
const READY: u64 = 1 << 20;

fn world() -> Pair {
    let rate = Rate::from_bits_per_second(200_000_000);
    let link = LinkConfig { rate, delay: Duration::from_millis(10), ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 1_000_000);
    config.client.nic_rate(rate).max_idle_timeout(None).send_window(SEND_WINDOW);
    config.server.rlp_window(RLP_WINDOW).rlp_stream_window(STREAM_WINDOW).max_idle_timeout(None);
    Pair::new(config)
}

fn connected(pair: &mut Pair) -> (ConnectionHandle, ConnectionHandle) {
    let client = pair.connect();
    let up = pair.drive_until(Duration::from_secs(1), |pair| {
        !pair.client.connection(client).unwrap().is_handshaking() && !pair.server.accepted.is_empty()
    });
    assert!(up);
    (client, pair.server.accepted[0])
}

/// Opens a stream and writes `bytes` of the pattern, within the window.
fn send(pair: &mut Pair, client: ConnectionHandle, bytes: u64) -> StreamId {
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    let data: Vec<u8> = (0..bytes).map(pattern).collect();
    assert_eq!(pair.client.with(client, |c| c.write(id, data.into())), Ok(bytes as usize));
    id
}

#[test]
fn unread_bytes_stay_within_the_windows() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let streams: Vec<_> = (0..4).map(|_| send(&mut pair, client, 1_000_000)).collect();
    let mut most = 0;
    pair.drive_until(Duration::from_secs(3), |pair| {
        let received = pair.server.connection(server).unwrap().stats().received;
        most = most.max(received.buffered_bytes);
        false
    });
    let stats = pair.server.connection(server).unwrap().stats();
    assert!(most <= RLP_WINDOW + streams.len() as u64 * READY * 2, "{most} bytes held");
    assert!(stats.received.rlp_bytes.iter().sum::<u64>() > RLP_WINDOW / 2, "RLP hardly ran");
    let sent = pair.client.connection(client).unwrap().stats().sent;
    let by_rlp: u64 = sent.levels.iter().map(|level| level.bytes).sum();
    assert!(by_rlp <= RLP_WINDOW, "{by_rlp} bytes sent on a credit of {RLP_WINDOW}");

    // Once it is read, credit flows and the rest arrives.
    for &id in &streams {
        pair.client.with(client, |c| c.finish(id)).unwrap();
    }
    let mut read = [0; 4];
    let mut ids = Vec::new();
    let done = pair.drive_until(Duration::from_secs(30), |pair| {
        ids.extend(std::iter::from_fn(|| pair.server.with(server, |c| c.accept(Dir::Uni))));
        let mut ended = 0;
        for (&id, read) in ids.iter().zip(&mut read) {
            ended += usize::from(loop {
                match pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
                    Ok(Some(chunk)) => *read += chunk.bytes.len() as u64,
                    Err(ReadError::Blocked) => break false,
                    Ok(None) | Err(_) => break true,
                }
            });
        }
        ended == streams.len()
    });
    assert!(done);
    assert_eq!(read, [1_000_000; 4]);
}

#[test]
fn credit_of_streams_that_were_reset_comes_back() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let mut ids = Vec::new();
    // Far more in total than the window; every stream is abandoned half way.
    for round in 0..40 {
        let id = send(&mut pair, client, 300_000);
        pair.drive_until(Duration::from_millis(15), |_| false);
        pair.client.with(client, |c| c.reset(id, VarInt::from_u32(1))).unwrap();
        pair.drive_until(Duration::from_millis(60), |pair| {
            while let Some(id) = pair.server.with(server, |c| c.accept(Dir::Uni)) {
                ids.push(id);
            }
            for &id in &ids {
                while let Ok(Some(_)) = pair.server.with(server, |c| c.read(id, 1000, true)) {}
            }
            false
        });
        let left = pair.client.connection(client).unwrap().stats().sent.credit_bytes;
        assert!(left >= RLP_WINDOW / 2, "round {round}: {left} bytes of credit left");
    }
}

#[test]
fn finished_streams_that_nobody_reads_cost_neither_credit_nor_the_connection() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    // More streams than unreported ends are remembered, and far more bytes than the window.
    for round in 0..30 {
        for _ in 0..50 {
            let id = send(&mut pair, client, 20_000);
            pair.client.with(client, |c| c.finish(id)).unwrap();
        }
        pair.drive_until(Duration::from_millis(100), |_| false);
        while let Some(id) = pair.server.with(server, |c| c.accept(Dir::Uni)) {
            pair.server.with(server, |c| c.stop(id, VarInt::from_u32(0))).unwrap();
        }
        pair.drive_until(Duration::from_millis(50), |_| false);
        assert!(pair.server.connection(server).unwrap().lost().is_none(), "round {round}");
        let left = pair.client.connection(client).unwrap().stats().sent.credit_bytes;
        assert!(left >= RLP_WINDOW / 2, "round {round}: {left} bytes of credit left");
    }
}

#[test]
fn a_full_send_window_blocks_writers_and_wakes_them() {
    let mut pair = world();
    let (client, _) = connected(&mut pair);
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    let chunk = bytes::Bytes::from(vec![0; 8 << 20]);
    let mut written = 0;
    while let Ok(taken) = pair.client.with(client, |c| c.write(id, chunk.clone())) {
        written += taken;
    }
    // The settings may be waiting in the window too.
    assert!(written as u64 <= SEND_WINDOW && written as u64 > SEND_WINDOW - 100, "{written}");
    assert_eq!(pair.client.with(client, |c| c.write(id, chunk.clone())), Err(WriteError::Blocked));
    let woken = pair.drive_until(Duration::from_secs(10), |pair| {
        pair.client.events.iter().any(|(_, event)| *event == rc3_core::Event::Writable(id))
    });
    assert!(woken);
    assert!(pair.client.with(client, |c| c.write(id, chunk)).is_ok());
}

#[test]
fn a_full_send_window_does_not_block_a_higher_priority() {
    let mut pair = world();
    let (client, _) = connected(&mut pair);
    let chunk = bytes::Bytes::from(vec![0; 8 << 20]);
    let fill = |pair: &mut Pair, priority: i32| {
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
        pair.client.with(client, |c| c.set_priority(id, priority)).unwrap();
        let mut written = 0;
        while let Ok(taken) = pair.client.with(client, |c| c.write(id, chunk.clone())) {
            written += taken as u64;
        }
        written
    };
    assert!(fill(&mut pair, 0) <= SEND_WINDOW);
    assert_eq!(fill(&mut pair, 0), 0);
    assert_eq!(fill(&mut pair, -1), 0);
    // Each step has room of its own, and no more: the memory stays bounded.
    assert_eq!(fill(&mut pair, 1), 64 << 10);
    assert_eq!(fill(&mut pair, 1), 0);
    assert_eq!(fill(&mut pair, 3), 2 * (64 << 10));
    assert_eq!(fill(&mut pair, i32::MAX), 5 * (64 << 10));
    assert_eq!(fill(&mut pair, i32::MAX), 0);
}

#[test]
fn a_prioritized_writer_is_woken_while_the_window_is_full() {
    let mut pair = world();
    let (client, _) = connected(&mut pair);
    let open = |pair: &mut Pair| pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    let (bulk, urgent) = (open(&mut pair), open(&mut pair));
    let chunk = bytes::Bytes::from(vec![0; 8 << 20]);
    let fill =
        |pair: &mut Pair, id| while pair.client.with(client, |c| c.write(id, chunk.clone())).is_ok() {};
    fill(&mut pair, bulk);
    pair.client.with(client, |c| c.set_priority(urgent, 1)).unwrap();
    fill(&mut pair, urgent);
    // Bulk is always ahead with its writes: the window itself never has room.
    let woken = pair.drive_until(Duration::from_secs(2), |pair| {
        fill(pair, bulk);
        pair.client.events.iter().any(|(_, event)| *event == rc3_core::Event::Writable(urgent))
    });
    assert!(woken);
}

#[test]
fn a_stream_that_nobody_reads_leaves_room_for_others() {
    let mut config = PairConfig::symmetric(LinkConfig::default(), 1_000_000);
    config.client.send_window(SEND_WINDOW).stream_send_window(STREAM_WINDOW).max_idle_timeout(None);
    config.server.stream_receive_window((64u32 << 10).into()).rlp_window(64 << 10).max_idle_timeout(None);
    let mut pair = Pair::new(config);
    let (client, _) = connected(&mut pair);
    let chunk = bytes::Bytes::from(vec![0; 8 << 20]);
    let write = |pair: &mut Pair, id| pair.client.with(client, |c| c.write(id, chunk.clone()));
    let stalled = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    for _ in 0..100 {
        if let Ok(taken) = write(&mut pair, stalled) {
            assert!(taken as u64 <= STREAM_WINDOW);
        }
        pair.drive_until(Duration::from_millis(20), |_| false);
    }
    assert_eq!(write(&mut pair, stalled), Err(WriteError::Blocked));
    let other = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    assert_eq!(write(&mut pair, other), Ok(STREAM_WINDOW as usize));
}

/// As a driver does that services a connection after a read only if that changed something.
#[test]
fn a_reader_that_pauses_after_each_piece_gets_all_of_them() {
    const BYTES: u64 = 1_000_000;
    const WINDOW: u32 = 100_000;
    for rlp in [RlpMode::Off, RlpMode::Trust] {
        let mut config = PairConfig::symmetric(LinkConfig::default(), BYTES);
        config.client.rlp(rlp).max_idle_timeout(None);
        config.server.rlp(rlp).max_idle_timeout(None);
        config.server.receive_window(WINDOW.into()).stream_receive_window(WINDOW.into());
        let mut pair = Pair::new(config);
        let (client, server) = connected(&mut pair);
        send(&mut pair, client, BYTES);
        pair.drive();
        let id = pair.server.with(server, |c| c.accept(Dir::Uni)).expect("a stream");
        let mut read = 0;
        while read < BYTES {
            let now = pair.now;
            let next = |connection: &mut Connection| connection.read(id, usize::MAX, true);
            let piece = pair.server.endpoint().with_reader(|| now, server, next).expect("a connection");
            match piece {
                Ok(Some(piece)) => read += piece.bytes.len() as u64,
                end => panic!("{rlp:?}: {end:?} after {read} bytes"),
            }
            // Acknowledgments arrive and timers end: only the next read can raise the peer's credit.
            pair.drive();
        }
    }
}
