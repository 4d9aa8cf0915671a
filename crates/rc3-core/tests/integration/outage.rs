//! A link that goes away for a while.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use rc3_core::{ConnectionHandle, Dir, Event, StreamId, VarInt, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(80);
const HOUR: Duration = Duration::from_secs(3600);
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// A pair whose links lose everything while the flag is set.
fn pair() -> (Pair, Arc<AtomicBool>) {
    let rate = Rate::from_bits_per_second(20_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 200_000);
    for transport in [&mut config.client, &mut config.server] {
        let hour = VarInt::from_u32(HOUR.as_millis() as u32);
        transport.max_idle_timeout(Some(hour.into())).keep_alive_interval(Some(KEEP_ALIVE));
    }
    let mut pair = Pair::new(config);
    let dark = Arc::new(AtomicBool::new(false));
    for node in [&mut pair.client, &mut pair.server] {
        let dark = Arc::clone(&dark);
        node.set_tamper(Box::new(move |_, _| usize::from(!dark.load(Relaxed))));
    }
    (pair, dark)
}

/// A stream that is always written and read.
struct Bulk {
    /// The connection at the client and at the server.
    at: [ConnectionHandle; 2],
    uploads: bool,
    from: StreamId,
    to: Option<StreamId>,
}

impl Bulk {
    /// Writes and reads what is possible; returns how many bytes have arrived, in order or not.
    fn pump(&mut self, pair: &mut Pair) -> u64 {
        let ([client, server], chunk) = (self.at, Bytes::from_static(&[7; 1 << 18]));
        let (from, to) = match self.uploads {
            true => ((&mut pair.client, client), (&mut pair.server, server)),
            false => ((&mut pair.server, server), (&mut pair.client, client)),
        };
        while from.0.with(from.1, |c| c.write(self.from, chunk.clone())).is_ok() {}
        self.to = self.to.or_else(|| to.0.with(to.1, |c| c.accept(Dir::Uni)));
        while let Some(id) = self.to
            && let Ok(Some(_)) = to.0.with(to.1, |c| c.read(id, usize::MAX, true))
        {}
        let stats = to.0.connection(to.1).expect("it is alive").stats().received;
        stats.primary_bytes + stats.rlp_bytes.iter().sum::<u64>()
    }
}

/// Connects, and opens the stream.
fn bulk(pair: &mut Pair, uploads: bool) -> Bulk {
    let client = pair.connect();
    assert!(pair.drive_until(RTT * 10, |pair| !pair.server.accepted.is_empty()));
    let at = [client, pair.server.accepted[0]];
    pair.drive_until(RTT * 2, |_| false);
    let (node, handle) = if uploads { (&mut pair.client, at[0]) } else { (&mut pair.server, at[1]) };
    let from = node.with(handle, |c| c.open(Dir::Uni)).unwrap();
    Bulk { at, uploads, from, to: None }
}

/// Time from the return of the path to the first byte, without that until a client at a new address that waits for nothing
/// sends its next keep-alive; and the datagrams that left during the outage from either side.
fn first_byte(outage: Duration, uploads: bool, moves: bool) -> (Duration, [u64; 2]) {
    let (mut pair, dark) = pair();
    let mut bulk = bulk(&mut pair, uploads);
    let at = bulk.at;
    let sent = |pair: &Pair| {
        [(&pair.client, at[0]), (&pair.server, at[1])]
            .map(|(node, handle)| node.connection(handle).expect("it is alive").stats().udp_tx.datagrams)
    };
    pair.drive_until(Duration::from_secs(3), |pair| bulk.pump(pair) == u64::MAX);
    assert!(bulk.pump(&mut pair) > 1_000_000);
    dark.store(true, Relaxed);
    // What is in the queue arrives still.
    pair.drive_until(Duration::from_secs(1), |pair| bulk.pump(pair) == u64::MAX);
    let (before, begun) = (bulk.pump(&mut pair), sent(&pair));
    pair.drive_until(outage.saturating_sub(Duration::from_secs(1)), |pair| bulk.pump(pair) > before);
    if moves {
        pair.client.set_address(([192, 0, 2, 77], 4433).into());
    }
    let asked = sent(&pair);
    assert_eq!(bulk.pump(&mut pair), before);
    dark.store(false, Relaxed);
    // The server cannot know the new address before.
    let waits_for_nothing = |pair: &Pair| {
        pair.client.connection(at[0]).expect("it is alive").stats().in_flight == 0
            && sent(pair)[0] == asked[0]
    };
    if moves && waits_for_nothing(&pair) {
        assert!(pair.drive_until(KEEP_ALIVE, |pair| !waits_for_nothing(pair)));
    }
    let back = pair.now;
    assert!(pair.drive_until(HOUR, |pair| bulk.pump(pair) > before), "nothing arrives any more");
    let first = pair.now - back;
    // It is in use as before, and not only with its probes.
    let lasts = pair.drive_until(Duration::from_secs(6), |pair| bulk.pump(pair) > before + 8_000_000);
    assert!(lasts, "{outage:?}: {} bytes", bulk.pump(&mut pair) - before);
    (first, [asked[0] - begun[0], asked[1] - begun[1]])
}

#[test]
fn the_first_byte_comes_within_two_round_trips_of_the_paths_return() {
    // Which side asks first after the return depends on the moment.
    let outages = [(2, 37), (2, 787), (60, 37), (60, 433), (600, 37), (3500, 37)];
    let ways = [(true, false), (false, false), (true, true), (false, true)];
    let check = |seconds: u64, millis, uploads, moves| {
        let outage = Duration::from_millis(1000 * seconds + millis);
        let (first, asked) = first_byte(outage, uploads, moves);
        let which = format!("{seconds}.{millis:03} s, upload {uploads}, address changes {moves}");
        // A new address is validated first (RFC 9000 §8.2), and a PING allows the server few bytes before.
        let most = if moves { 4 * RTT } else { 2 * RTT } + RTT * (seconds as u32 / 300);
        println!("{which}: {first:?}, {asked:?} datagrams");
        assert!(first <= most, "{which}: {first:?}");
        let most = 1000 * seconds / 25 + 50;
        assert!(asked.iter().all(|&asked| asked < most), "{which}: {asked:?} datagrams");
    };
    thread::scope(|scope| {
        for (seconds, millis) in outages {
            scope.spawn(move || ways.map(|(uploads, moves)| check(seconds, millis, uploads, moves)));
        }
    });
}

/// From its end on, the primary is paced, and what is due must wait for an answer all the same.
#[test]
fn an_outage_right_after_another_ends_like_the_first() {
    for uploads in [true, false] {
        let (mut pair, dark) = pair();
        let mut bulk = bulk(&mut pair, uploads);
        pair.drive_until(Duration::from_secs(3), |pair| bulk.pump(pair) == u64::MAX);
        for _ in 0..5 {
            dark.store(true, Relaxed);
            pair.drive_until(Duration::from_secs(5), |pair| bulk.pump(pair) == u64::MAX);
            let before = bulk.pump(&mut pair);
            dark.store(false, Relaxed);
            assert!(pair.drive_until(2 * RTT, |pair| bulk.pump(pair) > before), "upload {uploads}");
        }
    }
}

/// A wait for an answer begins with what can be asked for one: PINGs that a handshake cannot send must not be made up for.
#[test]
fn a_slow_handshake_is_no_outage() {
    let (mut pair, dark) = pair();
    pair.connect();
    pair.drive_until(RTT, |_| false);
    // The server's flight is acknowledged late only.
    dark.store(true, Relaxed);
    pair.drive_until(RTT * 20, |_| false);
    dark.store(false, Relaxed);
    let connected = |pair: &mut Pair| pair.server.events.iter().any(|(_, event)| *event == Event::Connected);
    assert!(pair.drive_until(RTT * 100, connected));
    dark.store(true, Relaxed);
    let server = pair.server.events.back().expect("the handshake's end").0;
    let sent = |pair: &Pair| pair.server.connection(server).expect("it is alive").stats().udp_tx.datagrams;
    let before = sent(&pair);
    pair.drive_until(Duration::from_millis(900), |_| false);
    // Probes alone (RFC 9002 §6.2.1), each twice as late as the one before.
    let probes = sent(&pair) - before;
    assert!((1..=8).contains(&probes), "{probes}");
}
