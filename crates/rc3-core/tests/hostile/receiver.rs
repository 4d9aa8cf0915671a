//! Receivers that lie.

use bytes::BytesMut;
use rc3_core::{Dir, Event, VarInt, units::Span, wire::sack};

use super::support::*;

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
            pair.client.with(client, |c| c.handle_rlp(now, BytesMut::from(&datagram[..])));
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

#[test]
fn what_was_sacked_but_never_arrived_is_an_error_at_the_reader_and_no_silent_loss() {
    const BYTES: u64 = 400_000;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let mut lying = keys(&pair, server, false);
    let tap = Tap::default();
    tap.lock().lose_low = true;
    pair.client.set_tamper(tap.tamper());
    let id = send(&mut pair, client, BYTES);
    // The first flight leaves; all of RLP is lost, and is claimed to have come.
    pair.drive_until(RTT / 4, |_| false);
    let datagram = seal(&mut lying, |buf| {
        sack::emit(VarInt::from(id).into_inner(), [Span::new(0, BYTES)], 1000, buf);
    });
    let now = pair.now;
    pair.client.with(client, |c| c.handle_rlp(now, BytesMut::from(&datagram[..])));
    let delivered: u64 =
        pair.client.connection(client).unwrap().stats().sent.levels.iter().map(|l| l.delivered_bytes).sum();
    assert!(delivered > BYTES / 4, "only {delivered} bytes were claimed");
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 100, |pair| {
        reader.pump(pair, server);
        pair.server.connection(server).unwrap().lost().is_some()
    }));
    assert_eq!(reader.ended, 0, "a stream with a hole was read to its end");
    let lost = pair.server.connection(server).unwrap().lost().map(ToString::to_string).unwrap_or_default();
    assert!(lost.contains("skipped stream bytes"), "{lost}");
    let lost = |pair: &mut rc3_sim::Pair| {
        pair.client.events.iter().any(|(_, event)| matches!(event, Event::Lost(_)))
    };
    assert!(pair.drive_until(RTT * 3, lost), "the sender hears of it");
}

#[test]
fn sacks_of_every_other_byte_neither_stop_the_transfer_nor_pile_up() {
    const BYTES: u64 = 200_000;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let mut picky = keys(&pair, server, false);
    // Not a word from the honest receiver, so that the picky one is all there is.
    let tap = Tap::default();
    tap.lock().lose_low = true;
    pair.server.set_tamper(tap.tamper());
    let id = send(&mut pair, client, BYTES);
    // What is claimed has arrived.
    pair.drive_until(RTT, |_| false);
    let mut at = BYTES;
    while at > BYTES / 2 {
        let spans = (0..500).map(|nth| Span::new(at - 1000 + 2 * nth, at - 1000 + 2 * nth + 1));
        let datagram = seal(&mut picky, |buf| {
            sack::emit(VarInt::from(id).into_inner(), spans, 1400, buf);
        });
        let now = pair.now;
        pair.client.with(client, |c| c.handle_rlp(now, BytesMut::from(&datagram[..])));
        at -= 1000;
    }
    let mut reader = Reader::default();
    let done = pair.drive_until(RTT * 100, |pair| {
        reader.pump(pair, server);
        reader.ended == 1
    });
    assert!(done, "{:?}", pair.server.connection(server).unwrap().lost());
    let finished =
        |pair: &mut rc3_sim::Pair| pair.client.events.iter().any(|(_, e)| *e == Event::Finished(id));
    assert!(pair.drive_until(RTT * 100, finished), "the sender does not finish");
    let sent = pair.client.connection(client).unwrap().stats().sent;
    assert!(sent.skipped_bytes > 10_000, "{sent:?}");
}

#[test]
fn a_stream_stopped_while_rlp_is_at_work_is_left_alone() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let id = send(&mut pair, client, 5_000_000);
    pair.drive_until(RTT * 2, |_| false);
    let sent = |pair: &rc3_sim::Pair| -> u64 {
        let sent = pair.client.connection(client).unwrap().stats().sent;
        sent.levels.iter().map(|level| level.bytes).sum()
    };
    assert!(sent(&pair) < 2_000_000, "RLP was not at work any more");
    assert_eq!(pair.server.with(server, |c| c.accept(Dir::Uni)), Some(id));
    pair.server.with(server, |c| c.stop(id, VarInt::from_u32(3))).unwrap();
    pair.drive_until(RTT * 20, |_| false);
    assert!(sent(&pair) < 4_000_000, "RLP went on");
    assert!(
        pair.client
            .events
            .iter()
            .any(|(_, event)| matches!(event, Event::Stopped(stream, _) if *stream == id))
    );
    // The connection is as good as before.
    send(&mut pair, client, 10_000);
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 20, |pair| reader.pump(pair, server) == 10_000));
}

#[test]
fn a_sack_flood_for_streams_that_are_not_there_is_ignored() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let mut lying = keys(&pair, server, false);
    for stream in 0..2000 {
        let datagram = seal(&mut lying, |buf| {
            sack::emit(stream * 977, [Span::new(0, 1 << 40), Span::new(1 << 41, 1 << 42)], 1000, buf);
        });
        let now = pair.now;
        pair.client.with(client, |c| c.handle_rlp(now, BytesMut::from(&datagram[..])));
    }
    assert!(pair.client.connection(client).unwrap().lost().is_none());
    send(&mut pair, client, 50_000);
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 10, |pair| reader.pump(pair, server) == 50_000));
}

#[test]
fn a_peer_that_takes_no_control_frames_is_given_up() {
    const STREAMS: u32 = 200_000;
    let mut pair = world_with(|config| {
        config.max_concurrent_uni_streams(VarInt::from_u32(STREAMS));
    });
    let (_, server) = connected(&mut pair);
    let tap = Tap::default();
    tap.lock().lose_all = true;
    pair.server.set_tamper(tap.tamper());
    let mut report = |count: u32| {
        pair.server.with(server, |c| {
            for _ in 0..count {
                let id = c.open(Dir::Uni).unwrap();
                c.reset(id, VarInt::from_u32(1)).unwrap();
            }
        });
        pair.server.connection(server).unwrap().lost().map(ToString::to_string)
    };
    assert_eq!(report(STREAMS / 4), None);
    assert!(report(STREAMS / 2 + STREAMS / 5).is_some_and(|lost| lost.contains("control stream")));
}
