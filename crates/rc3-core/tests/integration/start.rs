//! How much an initial window delivers in half a round trip with the settings of applications: pacing, and path MTU
//! discovery from the start of the connection.

use std::time::Duration;

use rc3_core::{Dir, RlpMode, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(40);
/// Stream bytes of a packet of 1200 bytes, rounded down.
const PAYLOAD: usize = 1160;
/// A stream of several windows.
const BYTES: usize = 500_000;

#[derive(Debug, Clone, Copy)]
struct Case {
    rlp: RlpMode,
    /// Packets in the initial window; `None`: the default, ten.
    window: Option<u32>,
    paced: bool,
    discovery: bool,
    packets: usize,
    /// Datagrams above 1200 bytes do not get through.
    short_path: bool,
    /// How long after the handshake the application writes.
    later: Duration,
}

/// Round trips from the write to the end at the reader, minus the transmission time on the link.
fn round_trips(case: Case) -> f64 {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    config.batch = 10;
    for side in [&mut config.client, &mut config.server] {
        side.rlp(case.rlp).nic_rate(rate).paced(case.paced).mtu_discovery(case.discovery);
        if let Some(packets) = case.window {
            side.initial_window(Some(u64::from(packets) * 1200 + 1));
        }
    }
    let mut pair = Pair::new(config);
    if case.short_path {
        pair.client.set_tamper(Box::new(|_, datagram| usize::from(datagram.contents.len() <= 1200)));
    }
    let client = pair.connect();
    let connected = |pair: &mut Pair| !pair.client.connection(client).unwrap().is_handshaking();
    assert!(pair.drive_until(RTT * 4, connected));
    pair.drive_until(case.later, |_| false);
    let (written, server) = (pair.now, pair.server.accepted[0]);
    let bytes = case.packets * PAYLOAD;
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    assert_eq!(pair.client.with(client, |c| c.write(id, vec![1; bytes].into())), Ok(bytes));
    pair.client.with(client, |c| c.finish(id)).unwrap();
    let mut accepted = false;
    let read = pair.drive_until(RTT * 100, |pair| {
        accepted |= !accepted && pair.server.with(server, |c| c.accept(Dir::Uni)).is_some();
        accepted
            && std::iter::from_fn(|| Some(pair.server.with(server, |c| c.read(id, usize::MAX, true))))
                .find(|read| !matches!(read, Ok(Some(_))))
                .is_some_and(|end| end == Ok(None))
    });
    assert!(read);
    let wire = Duration::from_secs_f64(bytes as f64 * 8.0 / 1e9);
    (pair.now - written - wire).as_secs_f64() / RTT.as_secs_f64()
}

/// Half a round trip and what the packets take, in round trips.
const HALF: f64 = 0.51;

#[test]
fn an_initial_window_of_whole_packets_takes_half_a_round_trip() {
    for (window, whole) in [(Some(4), 4), (Some(8), 8), (None, 9)] {
        for (paced, discovery, short_path) in [
            (false, false, false),
            (false, true, false),
            (true, false, false),
            (true, true, false),
            (true, true, true),
        ] {
            // As soon as it is connected, and with a probe in flight.
            for later in [Duration::ZERO, Duration::from_millis(1)] {
                let case = |packets| Case {
                    rlp: RlpMode::Off,
                    window,
                    paced,
                    discovery,
                    packets,
                    short_path,
                    later,
                };
                let (whole, more) = (case(whole), case(whole + 2));
                assert!(round_trips(whole) < HALF, "{whole:?}: {}", round_trips(whole));
                assert!(round_trips(more) > 1.4, "{more:?}: {}", round_trips(more));
            }
        }
    }
}

#[test]
fn pacing_and_discovery_cost_no_round_trip() {
    for later in [Duration::ZERO, Duration::from_millis(1)] {
        for window in [Some(4), None] {
            for packets in [1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14, 20, 30, 40] {
                let trips = |rlp, paced, discovery| {
                    round_trips(Case { rlp, window, paced, discovery, packets, short_path: false, later })
                };
                let bare = trips(RlpMode::Off, false, false);
                let settings = [(false, true), (true, false), (true, true)];
                let plain = settings.map(|(paced, discovery)| trips(RlpMode::Off, paced, discovery));
                let rc3 = settings.map(|(paced, discovery)| trips(RlpMode::Trust, paced, discovery));
                println!(
                    "{packets:>3} packets, window {window:?}: bare {bare:.2}, {plain:.2?}, rc3 {rc3:.2?}"
                );
                assert!(
                    plain.iter().all(|&trips| trips < bare + 0.02),
                    "{packets} {window:?}: {plain:.2?}, {bare}"
                );
                assert!(rc3.iter().all(|&trips| trips < HALF), "{packets} {window:?}: {rc3:.2?}");
            }
        }
    }
}

/// Packets that leave at once on an older connection with plenty to send, and their longest length.
fn flight(window: Option<u64>, discovery: bool, short_path: bool) -> (u64, u64) {
    let link = LinkConfig { delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    config.batch = 10;
    for side in [&mut config.client, &mut config.server] {
        side.rlp(RlpMode::Off).mtu_discovery(discovery).initial_window(window);
    }
    let mut pair = Pair::new(config);
    if short_path {
        pair.client.set_tamper(Box::new(|_, datagram| usize::from(datagram.contents.len() <= 1200)));
    }
    let client = pair.connect();
    // Few packets are in flight, so that lost probes are detected.
    for _ in 0..40 {
        pair.drive_until(RTT * 3, |_| false);
        pair.client.with(client, |c| {
            let id = c.open(Dir::Uni).unwrap();
            c.write(id, vec![1].into()).unwrap();
            c.finish(id).unwrap();
        });
    }
    pair.drive_until(RTT * 3, |_| false);
    let mtu = pair.client.connection(client).unwrap().stats().path.current_mtu;
    let before = pair.forward.stats().total().offered.packets;
    let id = pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
    pair.client.with(client, |c| c.write(id, vec![1; 1_000_000].into())).unwrap();
    pair.step();
    (pair.forward.stats().total().offered.packets - before, mtu.into())
}

#[test]
fn a_window_is_kept_in_a_batch_and_has_no_room_for_probes_that_are_lost() {
    assert_eq!(flight(Some(4801), false, false), (4, 1200));
    assert_eq!(flight(Some(4801), true, true), (4, 1200));
    assert_eq!(flight(Some(4801), true, false), (3, 1452));
    // RFC 9002 §7.2: ten packets, 14,720 bytes at most.
    assert_eq!(flight(None, false, false), (10, 1200));
    assert_eq!(flight(None, true, true), (10, 1200));
    assert_eq!(flight(None, true, false), (10, 1452));
}

/// A server may write before its client's address is validated, when it may send little more than its certificate. The
/// rest waits where RLP finds it, not with the primary.
#[test]
fn what_a_server_writes_during_the_handshake_is_open_to_rlp() {
    for mode in [RlpMode::Trust, RlpMode::Guard] {
        let link = LinkConfig { delay: RTT / 2, ..LinkConfig::default() };
        let mut config = PairConfig::symmetric(link, 5_000_000);
        config.client.rlp(mode);
        config.server.rlp(mode);
        let mut pair = Pair::new(config);
        pair.connect();
        assert!(pair.drive_until(RTT, |pair| !pair.server.accepted.is_empty()));
        let server = pair.server.accepted[0];
        let id = pair.server.with(server, |c| c.open(Dir::Uni)).unwrap();
        pair.server.with(server, |c| c.write(id, vec![1; BYTES].into())).unwrap();
        assert!(pair.server.connection(server).unwrap().is_handshaking());
        pair.drive_until(RTT * 4, |_| false);
        let sent = pair.server.connection(server).unwrap().stats().sent;
        let by_rlp: u64 = sent.levels.iter().map(|level| level.bytes).sum();
        assert!(by_rlp > BYTES as u64 / 4, "{mode:?}: {by_rlp} bytes by RLP");
    }
}
