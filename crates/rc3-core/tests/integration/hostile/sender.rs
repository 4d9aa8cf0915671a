//! Senders that break or exhaust the rules.

use std::time::Instant;

use proptest::prelude::*;
use rc3_core::{Dir, ReadError, Side, StreamId, VarInt, internals::wire::ControlFrame};
use rc3_sim::pattern;

use super::support::*;

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
    // Beyond the limit; a unidirectional stream of the receiver; the control stream.
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
fn spans_that_overlap_and_contradict_each_other_yield_each_byte_once() {
    const BYTES: u64 = 60_000;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let mut keys = keys(&pair, client, true);
    // The honest half of this client does not know the receipts of what the other half forges.
    let tap = Tap::default();
    tap.lock().lose_low = true;
    pair.server.set_tamper(tap.tamper());
    let id = send(&mut pair, client, BYTES);
    assert_eq!(VarInt::from(id).into_inner(), STREAM);
    // Other bytes at the same offsets, in spans that overlap each other and those of the honest loops.
    for nth in 0..3000_u64 {
        let offset = nth * 7919 % (BYTES - 600);
        let len = 1 + nth * 31 % 600;
        let other: Vec<u8> = (offset..offset + len).map(|at| pattern(at) ^ (nth as u8 | 1)).collect();
        let datagram = seal(&mut keys, data(STREAM, offset, (nth % 3 == 0).then_some(BYTES), &other));
        deliver(&mut pair, server, &datagram);
    }
    let mut read = 0;
    let done = pair.drive_until(RTT * 20, |pair| {
        let _ = pair.server.with(server, |c| c.accept(Dir::Uni));
        loop {
            match pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
                Ok(Some(chunk)) => {
                    assert_eq!(chunk.offset, read);
                    read += chunk.bytes.len() as u64;
                }
                Ok(None) => break true,
                Err(ReadError::Blocked | ReadError::ClosedStream) => break false,
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert!(done, "{:?}", pair.server.connection(server).unwrap().lost());
    assert_eq!(read, BYTES);
}

#[test]
fn data_ahead_of_every_stream_that_may_exist_stays_within_the_window() {
    let window = 2 << 20;
    let mut pair = world_with(|config| {
        config.rlp_window(window);
    });
    let (client, server) = connected(&mut pair);
    let mut keys = keys(&pair, client, true);
    for nth in 0..40_000_u64 {
        // Streams 2 to 100 of the client: none was opened by the primary.
        let stream = STREAM + 4 * (nth % 99);
        let datagram = seal(&mut keys, data(stream, nth / 99 * 1000, None, &[7; 1000]));
        deliver(&mut pair, server, &datagram);
    }
    let connection = pair.server.connection(server).unwrap();
    assert!(connection.lost().is_none(), "{:?}", connection.lost());
    let received = connection.stats().received;
    assert!(received.buffered_bytes <= window, "{} bytes held", received.buffered_bytes);
    assert_eq!(received.buffered_bytes + received.refused_bytes, 40_000_000);
}

/// Opens, uses and ends streams as fast as allowed, while the application accepts none; returns how many.
fn open_streams_without_end(end: impl Fn(&mut rc3_core::Connection, StreamId)) -> (u64, u64) {
    const ALLOWED: u32 = 20;
    let mut pair = world_with(|config| {
        config.max_concurrent_uni_streams(ALLOWED.into());
    });
    let (client, server) = connected(&mut pair);
    let mut opened = 0;
    for _ in 0..200 {
        while let Some(id) = pair.client.with(client, |c| c.open(Dir::Uni)) {
            opened += 1;
            pair.client.with(client, |c| {
                c.write(id, vec![1; 100].into()).unwrap();
                end(c, id);
            });
        }
        pair.drive_until(RTT, |_| false);
    }
    // Then the application accepts: it gets all streams, and the peer may continue.
    let mut accepted = 0;
    pair.drive_until(RTT * 20, |pair| {
        while let Some(id) = pair.server.with(server, |c| c.accept(Dir::Uni)) {
            accepted += 1;
            while let Ok(Some(_)) = pair.server.with(server, |c| c.read(id, 1000, true)) {}
        }
        false
    });
    assert!(pair.server.connection(server).unwrap().lost().is_none());
    assert!(opened <= 3 * u64::from(ALLOWED), "{opened} streams at an application that accepts none");
    assert!(pair.client.with(client, |c| c.open(Dir::Uni)).is_some(), "no stream was freed");
    (opened, accepted)
}

#[test]
fn finished_streams_that_nobody_accepts_use_up_the_limit() {
    let (opened, accepted) = open_streams_without_end(|c, id| c.finish(id).unwrap());
    assert_eq!(opened, accepted);
}

#[test]
fn reset_streams_that_nobody_accepts_use_up_the_limit() {
    open_streams_without_end(|c, id| c.reset(id, VarInt::from_u32(1)).unwrap());
}

#[test]
fn many_streams_that_nobody_reads_hold_the_sender_back_and_end_nothing() {
    let (streams, each) = (60, 300_000);
    let window = 1 << 20;
    let mut pair = world_with(|config| {
        config
            .max_concurrent_uni_streams(VarInt::from_u32(streams))
            .receive_window(VarInt::from_u32(window))
            .rlp_window(window.into());
        config.max_idle_timeout(None);
    });
    let (client, server) = connected(&mut pair);
    for _ in 0..streams {
        send(&mut pair, client, each);
    }
    let mut most = 0;
    pair.drive_until(RTT * 100, |pair| {
        most = most.max(pair.server.connection(server).unwrap().stats().received.buffered_bytes);
        false
    });
    assert!(pair.server.connection(server).unwrap().lost().is_none(), "{most} bytes held");
    assert!(most <= 4 * u64::from(window), "{most} bytes held");
    // Once the application reads, everything arrives.
    let mut reader = Reader::default();
    let done = pair.drive_until(RTT * 500, |pair| {
        reader.pump(pair, server);
        reader.ended == streams as usize
    });
    assert!(done, "{} of {streams}", reader.ended);
}

/// Sends control frames as fast as possible; returns how long the receiver takes for them.
fn control_flood(streams: u32) -> std::time::Duration {
    const FRAMES: u64 = 20_000;
    let mut pair = world_with(|config| {
        config.max_concurrent_uni_streams(VarInt::from_u32(streams)).max_idle_timeout(None);
    });
    let (client, server) = connected(&mut pair);
    // The server has many streams on which it could send.
    for _ in 0..streams {
        let id = pair.server.with(server, |c| c.open(Dir::Uni)).unwrap();
        pair.server.with(server, |c| c.write(id, vec![1].into())).unwrap();
    }
    pair.drive_until(RTT * 20, |_| false);
    let mut bytes = Vec::new();
    (0..FRAMES).for_each(|nth| ControlFrame::MaxRlpData((1 << 30) + nth).emit(&mut bytes));
    let control = StreamId::new(Side::Client, Dir::Uni, 0);
    pair.client.with(client, |c| c.write(control, bytes.into())).unwrap();
    #[expect(clippy::disallowed_methods, reason = "two runs are compared")]
    let begun = Instant::now();
    pair.drive_until(RTT * 20, |_| false);
    let credit = pair.server.connection(server).unwrap().stats().sent.credit_bytes;
    assert!(credit > 1 << 29, "the frames did not arrive");
    begun.elapsed()
}

#[test]
fn a_control_frame_costs_no_more_where_there_are_many_streams() {
    let (few, many) = (control_flood(1), control_flood(3000));
    assert!(many < few * 50, "{few:?} with one stream, {many:?} with 3000");
}

proptest! {
    /// Authentic random content: everything a peer with the keys can send.
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
