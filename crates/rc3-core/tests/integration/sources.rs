//! Streams read from a source and written to a sink on the fly: neither end stores them.

use std::time::Duration;

use bytes::Bytes;
use rc3_core::{
    Connection, ConnectionHandle, Dir, Event, ReadError, RlpMode, SourceRead, StreamId, VarInt, WriteError,
    units::Rate,
};
use rc3_sim::{Impairments, LinkConfig, Pair, PairConfig, pattern};

/// Bound of a connection's sources and sinks, and a stream's guaranteed piece.
const SOURCES_MAX: u64 = (16 << 20) + (256 << 10);
/// Bound of out-of-order bytes at a sink, plus the bytes that the primary may have ready.
const SINK_MAX: u64 = (8 << 20) + (5 << 20);

const LEN: u64 = 40_000_000;

fn world(rlp: RlpMode, loss: f64) -> Pair {
    Pair::new(config(rlp, loss))
}

fn config(rlp: RlpMode, loss: f64) -> PairConfig {
    let rate = Rate::from_bits_per_second(400_000_000);
    let link = LinkConfig {
        rate,
        delay: Duration::from_millis(10),
        impairments: Impairments::loss(loss),
        ..LinkConfig::default()
    };
    let mut config = PairConfig::symmetric(link, 1_000_000);
    config.client.nic_rate(rate).max_idle_timeout(None).rlp(rlp);
    config.server.max_idle_timeout(None);
    config
}

fn connected(pair: &mut Pair) -> (ConnectionHandle, ConnectionHandle) {
    let client = pair.connect();
    let up = pair.drive_until(Duration::from_secs(1), |pair| {
        !pair.client.connection(client).unwrap().is_handshaking() && !pair.server.accepted.is_empty()
    });
    assert!(up);
    (client, pair.server.accepted[0])
}

/// Reads whatever the stream requests of the pattern; returns the bytes read, and whether it requests no more.
fn serve(connection: &mut Connection, id: StreamId) -> (u64, bool) {
    let mut read = 0;
    loop {
        match connection.next_read(id) {
            Ok(SourceRead::Span(span)) => {
                let bytes: Bytes = (span.start..span.end).map(pattern).collect();
                connection.supply(id, span.start, bytes);
                read += span.len();
            }
            Ok(SourceRead::Wait) => return (read, false),
            Ok(SourceRead::Done) | Err(WriteError::ClosedStream) => return (read, true),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A sink for the pattern.
#[derive(Default)]
struct Sink {
    id: Option<StreamId>,
    written: u64,
    ended: bool,
    /// Whether the last byte of the stream has arrived, and how many arrived before it.
    before_last: Option<u64>,
}

impl Sink {
    fn open(&mut self, connection: &mut Connection) {
        if self.id.is_none()
            && let Some(id) = connection.accept(Dir::Uni)
        {
            connection.read_out_of_order(id).unwrap();
            self.id = Some(id);
        }
    }

    fn drain(&mut self, connection: &mut Connection) {
        self.open(connection);
        let Some(id) = self.id.filter(|_| !self.ended) else { return };
        loop {
            match connection.read(id, usize::MAX, false) {
                Ok(Some(chunk)) => {
                    let end = chunk.offset + chunk.bytes.len() as u64;
                    assert!((chunk.offset..end).map(pattern).eq(chunk.bytes.iter().copied()));
                    if end == LEN {
                        self.before_last = Some(self.written);
                    }
                    self.written += chunk.bytes.len() as u64;
                }
                Ok(None) => {
                    self.ended = true;
                    return;
                }
                Err(ReadError::Blocked) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Sends `LEN` bytes from a source to a sink that is always ready.
fn transfer(pair: &mut Pair) -> (Sink, u64) {
    let (client, server) = connected(pair);
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    pair.client.with(client, |c| c.attach_source(id, LEN)).unwrap();
    let (mut sink, mut read) = (Sink::default(), 0);
    let done = pair.drive_until(Duration::from_secs(60), |pair| {
        // A reader checks when it is notified.
        let told = pair.client.events.drain(..).any(|(_, event)| event == Event::Writable(id));
        if told {
            read += pair.client.with(client, |c| serve(c, id)).0;
        }
        assert!(pair.client.connection(client).unwrap().source_bytes() <= SOURCES_MAX);
        pair.server.with(server, |c| sink.drain(c));
        let held = pair.server.connection(server).unwrap().stats().received.buffered_bytes;
        assert!(held <= SINK_MAX, "{held} bytes held");
        sink.ended
    });
    assert!(done, "{} of {LEN} bytes", sink.written);
    assert_eq!(sink.written, LEN);
    pair.drive_until(Duration::from_secs(1), |_| false);
    assert!(pair.client.with(client, |c| serve(c, id)).1, "nothing is left to read");
    assert_eq!(pair.client.connection(client).unwrap().source_bytes(), 0);
    (sink, read)
}

#[test]
fn rlp_begins_at_the_true_end_of_a_stream_that_nobody_holds() {
    let mut pair = world(RlpMode::Trust, 0.0);
    let (sink, read) = transfer(&mut pair);
    // Credit for all of it takes one round trip; what RLP sends meanwhile is far below.
    let before = sink.before_last.expect("it has come");
    assert!(before < LEN / 10, "{before} bytes came before the last one");
    let stats = pair.server.connection(pair.server.accepted[0]).unwrap().stats().received;
    let by_rlp: u64 = stats.rlp_bytes.iter().sum();
    // As much as slow start leaves of the card.
    assert!(by_rlp > LEN / 20, "{by_rlp} bytes by RLP");
    // Bytes that RLP lost are read twice, and those of both loops near their meeting.
    assert!(read < LEN + LEN / 4, "{read} bytes read");
}

#[test]
fn losses_are_read_again() {
    let mut pair = world(RlpMode::Trust, 0.01);
    let (_, read) = transfer(&mut pair);
    assert!(read > LEN, "{read} bytes read");
}

#[test]
fn plain_quic_sends_from_a_source_too() {
    let mut pair = world(RlpMode::Off, 0.0);
    let (sink, read) = transfer(&mut pair);
    assert!(sink.before_last.expect("it has come") > LEN / 2);
    assert_eq!(read, LEN, "each byte is read once");
}

#[test]
fn a_sink_that_does_not_keep_up_bounds_what_waits_for_it() {
    let mut pair = world(RlpMode::Trust, 0.0);
    let (client, server) = connected(&mut pair);
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    pair.client.with(client, |c| c.attach_source(id, LEN)).unwrap();
    let (mut sink, mut most) = (Sink::default(), 0);
    let round = |pair: &mut Pair, sink: &mut Sink, most: &mut u64| {
        pair.client.with(client, |c| serve(c, id));
        pair.server.with(server, |c| sink.open(c));
        let received = pair.server.connection(server).unwrap().stats().received;
        *most = (*most).max(received.buffered_bytes);
    };
    pair.drive_until(Duration::from_secs(3), |pair| {
        round(pair, &mut sink, &mut most);
        false
    });
    assert!(most > 4 << 20 && most <= SINK_MAX, "{most} bytes held");
    let received = pair.server.connection(server).unwrap().stats().received;
    assert!(received.refused_bytes > 0, "{received:?}");
    // Refused data was not acknowledged, so it arrives again.
    let done = pair.drive_until(Duration::from_secs(60), |pair| {
        round(pair, &mut sink, &mut most);
        pair.server.with(server, |c| sink.drain(c));
        sink.ended
    });
    assert!(done && sink.written == LEN && most <= SINK_MAX, "{} bytes, {most} held", sink.written);
}

#[test]
fn streams_granted_whole_and_reset_leave_the_credit_as_it_was() {
    let mut config = config(RlpMode::Trust, 0.0);
    // One that does not grow.
    config.server.rlp_window(32 << 20);
    let mut pair = Pair::new(config);
    let (client, server) = connected(&mut pair);
    pair.drive_until(Duration::from_millis(100), |_| false);
    let credit = |pair: &Pair| pair.client.connection(client).unwrap().stats().sent.credit_bytes;
    let before = credit(&pair);
    for round in 0..5 {
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
        pair.client.with(client, |c| c.attach_source(id, 10 * LEN)).unwrap();
        let mut sink = Sink::default();
        pair.drive_until(Duration::from_millis(200), |pair| {
            pair.client.with(client, |c| serve(c, id));
            pair.server.with(server, |c| sink.drain(c));
            false
        });
        assert!(credit(&pair) < before + LEN, "all but a little of the grant is in use");
        pair.client.with(client, |c| c.reset(id, VarInt::from_u32(1))).unwrap();
        pair.drive_until(Duration::from_millis(100), |pair| {
            if let Some(id) = sink.id {
                let _ = pair.server.with(server, |c| c.read(id, 1, false));
            }
            false
        });
        assert_eq!(pair.client.connection(client).unwrap().source_bytes(), 0);
        // The next stream has the same limit as the first.
        let left = credit(&pair);
        assert!(left >= before / 2, "round {round}: {left} bytes left of {before}");
    }
}

#[test]
fn a_source_that_the_peer_stops_is_not_read_any_more() {
    let mut pair = world(RlpMode::Trust, 0.0);
    let (client, server) = connected(&mut pair);
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    pair.client.with(client, |c| c.attach_source(id, LEN)).unwrap();
    let mut sink = Sink::default();
    pair.drive_until(Duration::from_millis(100), |pair| {
        pair.client.with(client, |c| serve(c, id));
        pair.server.with(server, |c| sink.drain(c));
        false
    });
    let code = VarInt::from_u32(7);
    let stopped = sink.id.expect("it has come");
    pair.server.with(server, |c| c.stop(stopped, code)).unwrap();
    pair.drive_until(Duration::from_millis(100), |_| false);
    assert_eq!(pair.client.with(client, |c| c.next_read(id)), Err(WriteError::Stopped(code)));
    assert_eq!(pair.client.connection(client).unwrap().source_bytes(), 0);
    assert!(pair.server.connection(server).unwrap().lost().is_none());
}

#[test]
fn rlp_sends_little_more_than_arrives() {
    let mut config = config(RlpMode::Trust, 0.0);
    // The sender's card is infinitely fast: everything that RLP sends beyond the link's rate is lost.
    config.client.nic_rate(None);
    let mut pair = Pair::new(config);
    let (client, server) = connected(&mut pair);
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    pair.client.with(client, |c| c.attach_source(id, 4 * LEN)).unwrap();
    let mut accepted = None;
    // A slow reader refuses RLP data, and takes the primary's bit by bit.
    pair.drive_until(Duration::from_secs(1), |pair| {
        pair.client.with(client, |c| serve(c, id));
        pair.server.with(server, |c| {
            if let Some(id) = c.accept(Dir::Uni) {
                c.read_out_of_order(id).unwrap();
                accepted = Some(id);
            }
            if let Some(id) = accepted {
                let _ = c.read(id, 1000, false);
            }
        });
        false
    });
    let sent = pair.client.connection(client).unwrap().stats().sent;
    let by_rlp: u64 = sent.levels.iter().map(|level| level.bytes).sum();
    let delivered: u64 = sent.levels.iter().map(|level| level.delivered_bytes).sum();
    // Without the bound it would be the whole stream at once.
    let most = (32 << 20) + 2 * delivered + sent.primary_bytes / 8;
    assert!(
        by_rlp > 16 << 20 && by_rlp <= most,
        "{by_rlp} bytes sent, {delivered} delivered, at most {most}"
    );
}

#[test]
fn many_sources_share_the_room_and_all_arrive() {
    let mut pair = world(RlpMode::Trust, 0.0);
    let (client, server) = connected(&mut pair);
    let len = 3_000_000;
    let ids: Vec<_> = (0..20)
        .map(|_| {
            let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
            pair.client.with(client, |c| c.attach_source(id, len)).unwrap();
            id
        })
        .collect();
    let mut read = std::collections::HashMap::new();
    let done = pair.drive_until(Duration::from_secs(60), |pair| {
        let told: Vec<_> = pair.client.events.drain(..).map(|(_, event)| event).collect();
        for &id in ids.iter().filter(|&&id| told.contains(&Event::Writable(id))) {
            pair.client.with(client, |c| serve(c, id));
        }
        let held = pair.client.connection(client).unwrap().source_bytes();
        assert!(held <= SOURCES_MAX + ids.len() as u64 * (256 << 10), "{held} bytes held");
        pair.server.with(server, |c| {
            while let Some(id) = c.accept(Dir::Uni) {
                c.read_out_of_order(id).unwrap();
                read.insert(id, 0);
            }
            for (&id, read) in &mut read {
                while let Ok(Some(chunk)) = c.read(id, usize::MAX, false) {
                    *read += chunk.bytes.len() as u64;
                }
            }
        });
        read.len() == ids.len() && read.values().all(|&bytes| bytes == len)
    });
    assert!(done, "{read:?}");
}

#[test]
fn an_empty_source_is_an_end() {
    let mut pair = world(RlpMode::Trust, 0.0);
    let (client, server) = connected(&mut pair);
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    pair.client.with(client, |c| c.write(id, Bytes::from_static(b"head"))).unwrap();
    pair.client.with(client, |c| c.attach_source(id, 0)).unwrap();
    assert_eq!(pair.client.with(client, |c| c.write(id, Bytes::new())), Err(WriteError::ClosedStream));
    pair.drive_until(Duration::from_millis(100), |_| false);
    assert!(pair.client.with(client, |c| serve(c, id)).1);
    let read = pair.server.with(server, |c| {
        let id = c.accept(Dir::Uni).unwrap();
        let first = c.read(id, 100, true).unwrap().unwrap();
        (first.bytes, c.read(id, 100, true))
    });
    assert_eq!(read, (Bytes::from_static(b"head"), Ok(None)));
}
