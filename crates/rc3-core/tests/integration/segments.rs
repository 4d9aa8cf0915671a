//! Slow start packet by packet, as in textbooks and the papers' simulations of TCP: four packets first, and two more
//! for each acknowledged one (RFC 5681 §3.1, RC3 §4).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rc3_core::{
    AckFrequencyConfig, Congestion, ConnectionHandle, ConnectionStats, Dir, RlpMode, VarInt, units::Rate,
};
use rc3_sim::{Crypto, LinkConfig, Node, Pair, PairConfig};

const SEGMENT: u16 = 1460;
const WINDOW: u32 = 4;
const RTT: Duration = Duration::from_millis(40);

/// So fast that the packets of a round trip leave and arrive as one.
fn world(rlp: RlpMode) -> Pair {
    let rate = Rate::from_bits_per_second(10_000_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 50_000_000);
    let mut every_packet = AckFrequencyConfig::default();
    every_packet.ack_eliciting_threshold(VarInt::from_u32(0));
    for side in [&mut config.client, &mut config.server] {
        side.rlp(rlp).nic_rate(rate).segment_size(Some(SEGMENT)).initial_packets(Some(WINDOW)).paced(false);
        side.congestion(Congestion::NewReno).ack_frequency_config(Some(every_packet.clone()));
    }
    config.crypto = Crypto::None;
    Pair::new(config)
}

fn connected(pair: &mut Pair) -> (ConnectionHandle, ConnectionHandle) {
    let client = pair.connect();
    let is_up = |node: &Node, handle| node.connection(handle).is_some_and(|c| !c.is_handshaking());
    assert!(pair.drive_until(RTT * 2, |pair| is_up(&pair.client, client)));
    // The last datagram of the handshake leaves before there is anything to send.
    pair.step();
    (client, pair.server.accepted[0])
}

/// Results of one flow of whole segments.
struct Run {
    /// From writing to the last byte.
    time: Duration,
    /// Datagrams with more than half a segment that the client sent in each round trip.
    rounds: Vec<usize>,
    /// Datagrams the server sent.
    answers: usize,
    sender: ConnectionStats,
}

fn flow(rlp: RlpMode, segments: u64) -> Run {
    let mut pair = world(rlp);
    let (client, server) = connected(&mut pair);
    let start = pair.now;
    let sent = Arc::new(Mutex::new((start, Vec::new())));
    let log = sent.clone();
    pair.client.set_tamper(Box::new(move |level, datagram| {
        let (now, sent) = &mut *log.lock().unwrap();
        let round = ((*now - start).as_secs_f64() / RTT.as_secs_f64()) as usize;
        if level.is_primary() && datagram.contents.len() > usize::from(SEGMENT / 2) {
            sent.resize(sent.len().max(round + 1), 0);
            sent[round] += 1;
        }
        1
    }));
    let before = pair.backward.stats().total().offered.packets;
    let bytes = segments * u64::from(SEGMENT);
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    assert_eq!(pair.client.with(client, |c| c.write(id, vec![0; bytes as usize].into())), Ok(bytes as usize));
    pair.client.with(client, |c| c.finish(id)).unwrap();
    let (mut stream, mut read) = (None, 0);
    assert!(pair.drive_until(RTT * 20, |pair| {
        sent.lock().unwrap().0 = pair.now;
        stream = stream.or_else(|| pair.server.with(server, |c| c.accept(Dir::Uni)));
        let Some(id) = stream else { return false };
        while let Ok(Some(chunk)) = pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
            read += chunk.bytes.len() as u64;
        }
        read == bytes
    }));
    let time = pair.now - start;
    pair.drive_until(RTT, |_| false);
    let rounds = std::mem::take(&mut sent.lock().unwrap().1);
    Run {
        time,
        rounds,
        answers: (pair.backward.stats().total().offered.packets - before) as usize,
        sender: pair.client.connection(client).unwrap().stats(),
    }
}

#[test]
fn a_flow_takes_the_round_trips_of_the_textbook() {
    for segments in (1..=64).chain([123, 124, 125, 251, 252, 253]) {
        let (mut rounds, mut sent, mut window) = (0, 0, u64::from(WINDOW));
        while sent < segments {
            sent += window;
            window *= 2;
            rounds += 1;
        }
        let run = flow(RlpMode::Off, segments);
        let expected = RTT * (rounds - 1) + RTT / 2;
        let queued = Duration::from_millis(2);
        assert!(
            run.time > expected && run.time < expected + queued,
            "{segments} segments: {:?}, {rounds} rounds: {:?}",
            run.time,
            run.rounds
        );
    }
}

#[test]
fn four_packets_leave_first_and_two_for_each_acknowledged_one() {
    let run = flow(RlpMode::Off, 4 + 8 + 16 + 32 + 64);
    assert_eq!(run.rounds, [4, 8, 16, 32, 64]);
}

#[test]
fn every_packet_is_acknowledged() {
    let run = flow(RlpMode::Off, 4 + 8 + 16);
    // The handshake has answers too: its end, and the acknowledgment of that.
    assert!((28..=32).contains(&run.answers), "{}", run.answers);
}

#[test]
fn rlp_packets_carry_a_segment_each() {
    let run = flow(RlpMode::Trust, 400);
    let levels = run.sender.sent.levels;
    for level in &levels[1..3] {
        assert!(level.packets >= 40);
        let bytes = level.packets * u64::from(SEGMENT);
        // One may be short where the loops meet; near the beginning of a stream offsets are shorter.
        let (min, max) = (bytes - u64::from(SEGMENT), bytes + 100);
        assert!((min..=max).contains(&level.bytes), "{} in {}", level.bytes, level.packets);
    }
    assert!(run.time < RTT, "{:?}", run.time);
}
