//! Receivers that lie.

use std::time::Duration;

use bytes::BytesMut;
use rc3_core::{
    ConnectionHandle, Dir, Event, VarInt, Verdict,
    internals::{
        keys::RlpKeys,
        wire::{Arrival, Frame, Frames, Order, emit_complete, emit_probe, sack},
    },
    units::{Rate, Receipt, Span},
};
use rc3_sim::{LinkConfig, Pair, PairConfig};

use super::support::*;

/// The server's lie, and the result for the client's connection.
fn lie(
    pair: &mut Pair,
    client: ConnectionHandle,
    lying: &mut RlpKeys,
    stream: u64,
    spans: &[(Span, Receipt)],
) {
    let datagram = seal(lying, |buf| {
        sack::emit(stream, spans.iter().copied(), 1400, buf);
    });
    let now = pair.now;
    pair.client.with(client, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..])));
}

fn assert_closed(pair: &Pair, client: ConnectionHandle, what: &str) {
    let lost = pair.client.connection(client).unwrap().lost().map(ToString::to_string).unwrap_or_default();
    assert!(lost.contains("has not received"), "{what}: {lost:?}");
}

#[test]
fn sacks_without_receipts_end_the_connection() {
    const BYTES: u64 = 400_000;
    let every_other = (0..100).map(|nth| Span::new(BYTES - 400 + 2 * nth, BYTES - 399 + 2 * nth)).collect();
    let cases: [(&str, u64, Vec<Span>); 6] = [
        ("all of it", STREAM, vec![Span::new(0, BYTES)]),
        ("the last byte", STREAM, vec![Span::new(BYTES - 1, BYTES)]),
        ("what was never written", STREAM, vec![Span::new(BYTES, BYTES + 1)]),
        ("every other byte", STREAM, every_other),
        ("of a stream that is not there", 977 * 4, vec![Span::new(0, 1 << 40), Span::new(1 << 41, 1 << 42)]),
        ("of the control stream", 2, vec![Span::new(0, 1)]),
    ];
    for (what, stream, spans) in cases {
        // Before anything has left, and after all of it has been lost on the way.
        for wait in [Duration::ZERO, RTT / 4] {
            let mut pair = world();
            let (client, server) = connected(&mut pair);
            let mut lying = keys(&pair, server, false);
            let tap = Tap::default();
            tap.lock().lose_low = true;
            pair.client.set_tamper(tap.tamper());
            send(&mut pair, client, BYTES);
            pair.drive_until(wait, |_| false);
            let spans: Vec<_> = spans.iter().map(|&span| (span, Receipt(0x1234_5678))).collect();
            lie(&mut pair, client, &mut lying, stream, &spans);
            assert_closed(&pair, client, what);
        }
    }
}

#[test]
fn a_report_of_the_whole_stream_shows_no_byte() {
    const BYTES: u64 = 400_000;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let (mut lying, tap) = (keys(&pair, server, false), Tap::default());
    tap.lock().lose_low = true;
    pair.client.set_tamper(tap.tamper());
    let id = send(&mut pair, client, BYTES);
    pair.drive_until(RTT / 4, |_| false);
    let now = pair.now;
    for stream in [STREAM, STREAM, STREAM + 4] {
        let datagram = seal(&mut lying, |buf| emit_complete(stream, buf));
        pair.client.with(client, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..])));
    }
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 100, |pair| {
        reader.pump(pair, server);
        let finished = pair.client.events.contains(&(client, Event::Finished(id)));
        let sent = pair.client.connection(client).unwrap().stats().sent;
        assert!(!finished || sent.primary_bytes == BYTES, "only after the primary has all of it");
        finished
    }));
    let stats = pair.client.connection(client).unwrap().stats().sent;
    assert!(stats.levels.iter().all(|level| level.delivered_bytes == 0));
    // No harm: the primary delivers what it has.
    assert!(pair.drive_until(RTT * 100, |pair| reader.pump(pair, server) == BYTES && reader.ended > 0));
}

#[test]
fn the_whole_of_a_stream_without_an_end_cannot_be_held() {
    for stream in [STREAM, 2] {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let mut lying = keys(&pair, server, false);
        let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
        assert_eq!(pair.client.with(client, |c| c.write(id, vec![1; 10].into())), Ok(10));
        let (now, datagram) = (pair.now, seal(&mut lying, |buf| emit_complete(stream, buf)));
        pair.client.with(client, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..])));
        assert_closed(&pair, client, "an unfinished stream");
    }
}

/// The spans of the client's DATA with their receipts, as the server could read them.
fn received(tap: &Tap, keys: &mut RlpKeys) -> Vec<(Span, Receipt)> {
    let mut received = Vec::new();
    for (level, datagram) in &tap.lock().seen {
        let mut datagram = datagram.clone();
        let Ok(opened) = keys.open.open(&mut datagram) else { continue };
        assert!(!level.is_primary());
        for frame in Frames::new(&datagram[opened.payload]) {
            if let Ok(Frame::Data(data)) = frame {
                received.push((data.span(), data.receipt));
            }
        }
    }
    received.sort_unstable_by_key(|(span, _)| span.start);
    received
}

/// Datagrams that adjoin, as one span.
fn joined(datagrams: &[(Span, Receipt)]) -> (Span, Receipt) {
    let receipt = datagrams.iter().fold(Receipt(0), |all, &(_, receipt)| all ^ receipt);
    (Span::new(datagrams[0].0.start, datagrams[datagrams.len() - 1].0.end), receipt)
}

/// SACKs prove data that the reader never got: the sender skips it, and the reader refuses that.
#[test]
fn a_skip_over_bytes_that_never_arrived_is_an_error_at_the_reader_and_no_silent_loss() {
    const BYTES: u64 = 400_000;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let (mut lying, tap) = (keys(&pair, server, false), Tap::default());
    tap.lock().lose_low = true;
    pair.client.set_tamper(tap.tamper());
    send(&mut pair, client, BYTES);
    pair.drive_until(RTT / 4, |_| false);
    let lost = joined(&received(&tap, &mut lying));
    assert!(lost.0.len() > BYTES / 4);
    lie(&mut pair, client, &mut lying, STREAM, &[lost]);
    let mut reader = Reader::default();
    assert!(pair.drive_until(RTT * 100, |pair| {
        reader.pump(pair, server);
        pair.server.connection(server).unwrap().lost().is_some()
    }));
    assert_eq!(reader.ended, 0, "a stream with a hole was read to its end");
    let lost = pair.server.connection(server).unwrap().lost().map(ToString::to_string).unwrap_or_default();
    assert!(lost.contains("skipped stream bytes"), "{lost}");
    let lost = |pair: &mut Pair| pair.client.events.iter().any(|(_, event)| matches!(event, Event::Lost(_)));
    assert!(pair.drive_until(RTT * 3, lost), "the sender is informed");
}

#[test]
fn who_lacks_one_datagram_of_a_run_cannot_claim_it() {
    const BYTES: u64 = 400_000;
    type Make = fn(&[(Span, Receipt)]) -> Vec<(Span, Receipt)>;
    let claim = |name: &str, make: Make, honest: bool| {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let (mut lying, tap) = (keys(&pair, server, false), Tap::default());
        tap.lock().lose_low = true;
        pair.client.set_tamper(tap.tamper());
        send(&mut pair, client, BYTES);
        pair.drive_until(RTT / 4, |_| false);
        let received = received(&tap, &mut lying);
        assert!(received.len() > 50);
        lie(&mut pair, client, &mut lying, STREAM, &make(&received));
        match honest {
            true => assert!(pair.client.connection(client).unwrap().lost().is_none(), "{name}"),
            false => assert_closed(&pair, client, name),
        }
    };
    // Received data is accepted, in whatever pieces.
    claim("one", |all| vec![all[3]], true);
    claim("two apart", |all| vec![all[3], all[5]], true);
    claim("a run", |all| vec![joined(&all[3..30])], true);
    // One datagram is missing, at an end or within; one byte too many or too few; another's receipt.
    claim("without the first", |all| vec![(joined(&all[3..30]).0, joined(&all[4..30]).1)], false);
    claim("without the last", |all| vec![(joined(&all[3..30]).0, joined(&all[3..29]).1)], false);
    claim(
        "with a hole",
        |all| {
            let (ends, hole) = (joined(&all[3..30]), all[10].1);
            vec![(ends.0, ends.1 ^ hole)]
        },
        false,
    );
    claim("a byte more", |all| vec![(Span::new(all[3].0.start - 1, all[3].0.end), all[3].1)], false);
    claim("a byte less", |all| vec![(Span::new(all[3].0.start, all[3].0.end - 1), all[3].1)], false);
    claim("its neighbour", |all| vec![(all[3].0, all[4].1)], false);
}

/// On a slow path that ignores marks a receiver claims everything as soon as it may have been sent.
#[test]
fn a_receiver_that_claims_everything_gets_no_more_than_an_honest_one() {
    const BYTES: u64 = 30_000_000;
    let sent = |lies: bool| {
        let rate = Rate::from_bits_per_second(20_000_000);
        let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
        let mut pair = Pair::new(PairConfig { priority: false, ..PairConfig::symmetric(link, 100_000) });
        let (client, server) = connected(&mut pair);
        let mut lying = keys(&pair, server, false);
        send(&mut pair, client, BYTES);
        for nth in 0..25 {
            pair.drive_until(RTT, |_| false);
            if lies && pair.client.connection(client).is_some_and(|connection| connection.lost().is_none()) {
                let end = BYTES - nth * 1_000_000;
                lie(&mut pair, client, &mut lying, STREAM, &[(Span::new(end - 1_000_000, end), Receipt(1))]);
            }
        }
        let sent = pair.client.traffic.with(pair.server.address()).sent;
        (sent, pair.client.connection(client).is_none_or(|connection| connection.lost().is_some()))
    };
    let ((honest, ended), (lying, closed)) = (sent(false), sent(true));
    assert!(!ended && closed);
    assert!(lying <= honest, "{lying} bytes to a liar, {honest} to an honest receiver");
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

/// The receiver forges ARRIVAL: its clock runs a thousand times too slowly, or it claims a thousand times as many
/// bytes. Without receipts it gets what any silent receiver gets: the first flight, and some packets in each round trip.
#[test]
fn arrivals_that_a_receiver_makes_up_gain_it_nothing() {
    let silent = rlp_sent_to_a_liar(|_, _| None);
    let hasty = rlp_sent_to_a_liar(|round, newest| Some((newest * 1200, round + newest / 10)));
    let boastful = rlp_sent_to_a_liar(|round, newest| Some((newest * 1_200_000, round * 4000)));
    assert!(
        silent > 100_000 && hasty <= silent && boastful <= silent,
        "{silent}, {hasty} and {boastful} bytes"
    );
}

/// How much RLP goes to a receiver that has received nothing and reports, each tenth of a round trip, the bytes and
/// microseconds that `lie` returns, if any, for the number of the report and of the last sent packet.
fn rlp_sent_to_a_liar(lie: impl Fn(u64, u64) -> Option<(u64, u64)>) -> u64 {
    const BYTES: u64 = 40_000_000;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let (mut lying, tap) = (keys(&pair, server, false), Tap::default());
    tap.lock().lose_low = true;
    pair.client.set_tamper(tap.tamper());
    send(&mut pair, client, BYTES);
    for round in 1..200_u64 {
        pair.drive_until(RTT / 10, |_| false);
        let newest = tap.lock().seen.iter().filter(|(level, _)| !level.is_primary()).count() as u64 - 1;
        let Some((bytes, micros)) = lie(round, newest) else { continue };
        let report = Arrival { packet_number: newest, datagrams: newest + 1, bytes, micros };
        let datagram = seal(&mut lying, |buf| report.emit(buf));
        let now = pair.now;
        pair.client.with(client, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..])));
    }
    let stats = pair.client.connection(client).unwrap().stats();
    stats.sent.levels.iter().map(|level| level.bytes).sum()
}

#[test]
fn reports_of_what_was_never_sent_end_the_connection() {
    let arrival = Arrival { packet_number: 1 << 40, datagrams: 1, bytes: 1200, micros: 1 };
    let order = Order { packet_number: 1 << 40, came: 0, overtaken: 16 };
    let (mut arrivals, mut orders) = (Vec::new(), Vec::new());
    arrival.emit(&mut arrivals);
    order.emit(&mut orders);
    for (lie, fault) in [(arrivals, "rlp arrival"), (orders, "rlp order")] {
        let mut pair = world();
        let (client, server) = connected(&mut pair);
        let mut lying = keys(&pair, server, false);
        send(&mut pair, client, 400_000);
        pair.drive_until(RTT / 4, |_| false);
        let datagram = seal(&mut lying, |buf| buf.extend(lie));
        let now = pair.now;
        pair.client.with(client, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..])));
        let lost =
            pair.client.connection(client).unwrap().lost().map(ToString::to_string).unwrap_or_default();
        assert!(lost.contains(fault), "{lost:?}");
    }
}

/// A receiver that has received nothing reports of each datagram that it overtook all others: that priorities are
/// honoured. The sender accepts it, but the receiver gains no byte beyond a liar about times.
#[test]
fn an_order_that_a_receiver_makes_up_gains_it_nothing_more() {
    const UNPROVEN: u64 = 4 << 20;
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let (mut lying, tap) = (keys(&pair, server, false), Tap::default());
    tap.lock().lose_low = true;
    pair.client.set_tamper(tap.tamper());
    send(&mut pair, client, 40_000_000);
    for round in 1..200_u64 {
        pair.drive_until(RTT / 10, |_| false);
        let newest = tap.lock().seen.iter().filter(|(level, _)| !level.is_primary()).count() as u64 - 1;
        let report =
            Arrival { packet_number: newest, datagrams: newest, bytes: newest * 1200, micros: round };
        let datagram = seal(&mut lying, |buf| {
            report.emit(buf);
            for packet_number in 0..newest {
                Order { packet_number, came: 0, overtaken: 16 }.emit(buf);
            }
        });
        let now = pair.now;
        pair.client.with(client, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..])));
    }
    let stats = pair.client.connection(client).unwrap().stats();
    assert_eq!(stats.guard.unwrap().verdict, Verdict::Honoured, "the lie was not accepted");
    let sent: u64 = stats.sent.levels.iter().map(|level| level.bytes).sum();
    assert!(sent <= UNPROVEN, "{sent} bytes of RLP");
}

/// A sender that asks with each datagram what it has overtaken gets one answer for all of them.
#[test]
fn questions_about_the_order_cost_a_receiver_nothing() {
    let mut pair = world();
    let (client, server) = connected(&mut pair);
    let (mut asking, tap) = (keys(&pair, client, true), Tap::default());
    pair.server.set_tamper(tap.tamper());
    let before = tap.lock().seen.len();
    for _ in 0..1000 {
        let datagram = seal(&mut asking, emit_probe);
        let now = pair.now;
        pair.server.with(server, |c| c.handle_rlp(now, now, BytesMut::from(&datagram[..])));
    }
    pair.drive_until(RTT * 4, |_| false);
    assert!(tap.lock().seen.len() <= before + 2, "{} datagrams in answer", tap.lock().seen.len() - before);
    assert_eq!(pair.server.connection(server).unwrap().lost(), None);
}
