//! Connections that follow the rates that routers signal by the lengths of fragments (Kick-Ass §2.3), in simulated
//! time. The router is a function behind the sender that sees each datagram.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use kickass::{code::Code, endpoint::Mode};
use rc3_core::{
    Congestion, ConnectionHandle, Dir, KickAssStats, ReadError, RlpMode, StreamId, TransportConfig,
    units::{self, Level},
};
use rc3_sim::{Datagram, DropTail, LinkConfig, Pair, PairConfig};

const RTT: Duration = Duration::from_millis(40);
/// IPv4 and UDP headers in bytes.
const HEADERS: usize = 28;
const UDP_HEADER: usize = 8;
const MTU: usize = 1471;
/// In the ECN field (RFC 3168 §5).
const CONGESTION_EXPERIENCED: u8 = 3;

/// The router's behaviour.
#[derive(Debug, Clone, Copy, Default)]
struct Router {
    /// The signalled rate, if any.
    code: Option<Code>,
    /// Only for packets that begin with a short header.
    after_handshake: bool,
    /// Drops packets that it would have to fragment.
    drops_fragments: bool,
    /// Drops long packets, fragmentable or not.
    drops_long: bool,
    /// Longer datagrams do not pass, if above 0.
    longest: usize,
    /// Marks long packets: congestion experienced.
    marks_long: bool,
    /// Only for packets of this connection, by the id after the first byte.
    only: Option<[u8; 8]>,
}

/// A datagram that has passed the router.
#[derive(Debug, Clone, Copy)]
struct Passed {
    at: Instant,
    first_byte: u8,
    len: usize,
    level: Level,
    dont_fragment: bool,
    /// The connection id, if the header is a short one.
    id: [u8; 8],
    dropped: bool,
}

/// A world with a router behind the client.
struct World {
    pair: Pair,
    router: Arc<Mutex<Router>>,
    fresh: Arc<Mutex<Vec<Passed>>>,
    passed: Vec<Passed>,
    /// Streams that [`Self::flow`] reads.
    reading: Vec<StreamId>,
}

impl World {
    fn new(rlp: RlpMode, router: Router, change: impl FnOnce(&mut TransportConfig)) -> Self {
        let rate = units::Rate::from_bits_per_second(1_000_000_000);
        let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
        let mut config = PairConfig::symmetric(link, 5_000_000);
        config.batch = 10;
        config.client.rlp(rlp).nic_rate(rate).initial_mtu(1472).congestion(Congestion::KickAss);
        config.server.rlp(RlpMode::Trust);
        change(&mut config.client);
        let mut pair = Pair::new(config);
        let (router, fresh) = (Arc::new(Mutex::new(router)), Arc::<Mutex<Vec<Passed>>>::default());
        let (decide, log, start) = (router.clone(), fresh.clone(), pair.now);
        pair.client.set_tamper(Box::new(move |level, datagram: &mut Datagram| {
            let len = datagram.contents.len();
            let dont_fragment = datagram.dont_fragment;
            let first_byte = datagram.contents[0];
            let id = datagram.contents.get(1..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
            let mut router = *decide.lock().unwrap();
            if router.only.is_some_and(|only| only != id) {
                router = Router::default();
            }
            let signalled = router.code.filter(|_| !router.after_handshake || first_byte & 0x80 == 0);
            let cut = signalled
                .filter(|code| !dont_fragment && level.is_primary() && code.payload_len() < len + UDP_HEADER);
            datagram.meta.leading_len = cut.map(|code| code.payload_len() as u16);
            let long = len > 700;
            if router.marks_long && long && datagram.meta.ecn != 0 {
                datagram.meta.ecn = CONGESTION_EXPERIENCED;
            }
            let dropped = (router.drops_fragments && cut.is_some())
                || (router.drops_long && long)
                || (router.longest > 0 && len > router.longest);
            log.lock().unwrap().push(Passed {
                at: start,
                first_byte,
                len,
                level,
                dont_fragment,
                id,
                dropped,
            });
            usize::from(!dropped)
        }));
        Self { pair, router, fresh, passed: Vec::new(), reading: Vec::new() }
    }

    fn set(&self, change: impl FnOnce(&mut Router)) {
        change(&mut self.router.lock().unwrap());
    }

    /// Steps until `done` or for `limit`; returns whether it was done.
    fn run(&mut self, limit: Duration, mut done: impl FnMut(&mut Pair) -> bool) -> bool {
        let end = self.pair.now + limit;
        while self.pair.now < end {
            if done(&mut self.pair) {
                return true;
            }
            let at = self.pair.now;
            let more = self.pair.step();
            self.passed.extend(self.fresh.lock().unwrap().drain(..).map(|passed| Passed { at, ..passed }));
            if !more {
                return done(&mut self.pair);
            }
        }
        done(&mut self.pair)
    }

    /// Runs for this time while the newest connection of the server reads.
    fn flow(&mut self, time: Duration) {
        let mut reading = std::mem::take(&mut self.reading);
        self.run(time, |pair| {
            if let Some(&server) = pair.server.accepted.back() {
                reading.extend(std::iter::from_fn(|| pair.server.with(server, |c| c.accept(Dir::Uni))));
                for &id in &reading {
                    while let Ok(Some(_)) = pair.server.with(server, |c| c.read(id, usize::MAX, true)) {}
                }
            }
            false
        });
        self.reading = reading;
    }

    fn connect(&mut self) -> ConnectionHandle {
        let client = self.pair.connect();
        let up = self.run(Duration::from_secs(20), |pair| {
            pair.client.connection(client).is_some_and(|c| !c.is_handshaking())
        });
        assert!(up);
        client
    }

    fn write(&mut self, client: ConnectionHandle, bytes: usize) {
        let id = self.pair.client.with(client, |c| c.open(Dir::Uni)).unwrap();
        assert_eq!(self.pair.client.with(client, |c| c.write(id, vec![1; bytes].into())), Ok(bytes));
        self.pair.client.with(client, |c| c.finish(id)).unwrap();
    }

    /// Runs until the newest connection of the server has read a stream to its end.
    fn deliver(&mut self, limit: Duration) -> bool {
        let mut ids: HashMap<ConnectionHandle, Vec<StreamId>> = HashMap::new();
        self.run(limit, |pair| {
            let Some(&server) = pair.server.accepted.back() else { return false };
            let ids = ids.entry(server).or_default();
            ids.extend(std::iter::from_fn(|| pair.server.with(server, |c| c.accept(Dir::Uni))));
            ids.iter().any(|&id| {
                loop {
                    match pair.server.with(server, |c| c.read(id, usize::MAX, true)) {
                        Ok(Some(_)) => {}
                        Err(ReadError::Blocked) => break false,
                        Ok(None) => break true,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
    }

    fn stats(&self, client: ConnectionHandle) -> KickAssStats {
        self.pair.client.connection(client).unwrap().stats().kickass.unwrap()
    }
}

fn code(megabits: f64) -> Code {
    Code::nearest(units::Rate::nearest(megabits * 1e6).unwrap()).unwrap()
}

fn signalling(megabits: f64) -> Router {
    Router { code: Some(code(megabits)), ..Router::default() }
}

#[test]
fn the_first_packet_of_the_handshake_brings_the_rate_a_round_trip_before_the_first_data_could() {
    // Links are fast: sending takes microseconds.
    let serialisation = Duration::from_millis(1);
    let signalled_after = |rlp, megabits| {
        let mut world = World::new(rlp, signalling(megabits), |_| ());
        let start = world.pair.now;
        let client = world.pair.connect();
        let signalled = world.run(RTT * 10, |pair| {
            let stats = pair.client.connection(client).unwrap().stats().kickass.unwrap();
            stats.mode == Mode::KickAss
        });
        assert!(signalled && world.pair.now - start < RTT + serialisation, "{:?}", world.pair.now - start);
        assert_eq!(world.stats(client).rate, Some(code(megabits).rate()));
    };
    for rlp in [RlpMode::Off, RlpMode::Trust] {
        // Packets of 1200 bytes carry at most 1.25 Gbit/s.
        for megabits in [20.0, 1000.0, 2000.0, 10_000.0] {
            signalled_after(rlp, megabits);
        }

        // A TCP cannot have a signal before it has sent data, which it does after a round trip.
        let mut world = World::new(rlp, Router { after_handshake: true, ..signalling(20.0) }, |_| ());
        let start = world.pair.now;
        let client = world.connect();
        world.write(client, 10_000);
        let signalled = world.run(RTT * 10, |pair| {
            let stats = pair.client.connection(client).unwrap().stats().kickass.unwrap();
            stats.mode == Mode::KickAss
        });
        let took = world.pair.now - start;
        assert!(signalled && took >= 2 * RTT && took < 2 * RTT + serialisation, "{took:?}");
    }
}

#[test]
fn packets_leave_exactly_their_time_at_the_rate_apart() {
    // As long as 4 MB take.
    for (megabits, round_trips) in [(1.0, 10), (20.0, 10), (200.0, 3)] {
        let mut world = World::new(RlpMode::Off, signalling(megabits), |_| ());
        let client = world.connect();
        let start = world.pair.now;
        world.write(client, 4_000_000);
        world.run(RTT * round_trips, |_| false);
        assert_eq!(world.stats(client).mode, Mode::KickAss);
        let signalled = code(megabits).rate().bytes_per_second();
        // Acknowledgments, which may leave in between, are not charged; indicators are.
        let paced: Vec<_> = world
            .passed
            .iter()
            .filter(|p| p.at >= start && p.len > 500 && p.first_byte & 0x80 == 0)
            .collect();
        let time = |p: &Passed| Duration::from_secs_f64((p.len + HEADERS) as f64 / signalled);
        let rounding = Duration::from_nanos(50);
        let mut exact = 0;
        for pair in paced.windows(2) {
            let gap = pair[1].at - pair[0].at;
            // Indicators are not paced, but packets behind them are.
            exact += usize::from(gap.abs_diff(time(pair[0])) < rounding);
        }
        assert!(exact + 12 > paced.len(), "{megabits}: {exact} of {}", paced.len());
        let bytes: usize = paced.iter().map(|p| p.len + HEADERS).sum();
        let expected = signalled * (RTT * round_trips).as_secs_f64();
        assert!((bytes as f64 - expected).abs() < 3000.0, "{megabits}: {bytes} of {expected}");
    }
}

#[test]
fn what_may_be_fragmented_has_a_length_that_receivers_can_read_signals_from() {
    let mut world = World::new(RlpMode::Trust, signalling(20.0), |_| ());
    let client = world.connect();
    world.write(client, 4_000_000);
    world.run(RTT * 5, |_| false);
    let mut full = 0;
    for passed in &world.passed {
        if passed.first_byte & 0xc0 == 0 {
            assert!(passed.dont_fragment, "{passed:?}");
        } else {
            assert!(!passed.dont_fragment, "{passed:?}");
            assert!(passed.len <= MTU);
            // Handshake packets are padded, to 1201 at least.
            if passed.first_byte & 0x80 != 0 || passed.len == MTU {
                assert_ne!((passed.len + UDP_HEADER) % 8, 0, "{passed:?}");
                full += 1;
            }
        }
    }
    assert!(full > 20, "{full}");
}

#[test]
fn indicators_leave_every_100_ms_at_the_best_level_and_the_peer_passes_over_them() {
    let mut world = World::new(RlpMode::Off, signalling(20.0), |_| ());
    let client = world.connect();
    world.write(client, 4_000_000);
    world.flow(Duration::from_millis(1050));
    let indicators: Vec<_> = world.passed.iter().filter(|passed| passed.dont_fragment).collect();
    // 32 to 63 ms is bucket 5.
    assert!(indicators.iter().all(|passed| passed.len + HEADERS == 605 && passed.level.is_primary()));
    assert!((10..=11).contains(&indicators.len()), "{}", indicators.len());
    for pair in indicators.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= Duration::from_millis(100) && gap < Duration::from_millis(103), "{gap:?}");
    }
    let server = world.pair.server.accepted[0];
    let received = world.pair.server.connection(server).unwrap().stats().received;
    assert_eq!((received.rlp_datagrams, received.rlp_discarded), (indicators.len() as u64, 0));
}

#[test]
fn silence_and_loss_are_tcp_mode_and_signals_end_it() {
    let mut world = World::new(RlpMode::Off, signalling(10.0), |_| ());
    let client = world.connect();
    world.write(client, 4_000_000);
    world.flow(RTT * 5);
    assert_eq!(world.stats(client).mode, Mode::KickAss);
    let window = world.pair.client.connection(client).unwrap().stats().path.cwnd;
    world.set(|router| router.code = None);
    world.flow(RTT * 3);
    let stats = world.stats(client);
    assert_eq!((stats.switches.by_silence, stats.switches.by_congestion), (1, 0));
    assert!(matches!(stats.mode, Mode::Tcp(_)));
    let now = world.pair.client.connection(client).unwrap().stats().path.cwnd;
    assert!(now > window / 2, "it continues from its value: {now} of {window}");
    world.set(|router| router.code = Some(code(10.0)));
    world.flow(RTT * 2);
    assert_eq!(world.stats(client).mode, Mode::KickAss);
    assert_eq!(world.stats(client).switches.to_kickass, 2);

    world.set(|router| router.drops_long = true);
    world.flow(Duration::from_millis(2));
    world.set(|router| router.drops_long = false);
    world.flow(RTT * 2);
    assert_eq!(world.stats(client).switches.by_congestion, 1);
    // Half of 50 kB in packets of 1.5 kB, one each round trip.
    world.flow(RTT * 25);
    let stats = world.stats(client);
    assert_eq!((stats.mode, stats.switches.by_congestion), (Mode::KickAss, 1), "{stats:?}");
    assert!(stats.fragments);
    let total = stats.steered_until(world.pair.now);
    assert!(total > RTT * 6 && total < RTT * 30, "{total:?}");
}

#[test]
fn with_rlp_the_first_round_trip_is_not_wasted_and_the_primary_keeps_to_the_rate() {
    let deliver = |rlp| {
        let mut world = World::new(rlp, signalling(20.0), |_| ());
        let client = world.connect();
        let start = world.pair.now;
        world.write(client, 1_000_000);
        assert!(world.deliver(Duration::from_secs(10)));
        assert_eq!(world.stats(client).mode, Mode::KickAss);
        let primary = world.passed.iter().filter(|p| p.first_byte & 0x40 != 0 && p.at >= start);
        (world.pair.now - start, primary.map(|p| p.len + HEADERS).sum::<usize>())
    };
    let (alone, _) = deliver(RlpMode::Off);
    let (both, primary) = deliver(RlpMode::Trust);
    // 1 MB at 20 Mbit/s, or at the 1 Gbit/s of the link.
    assert!(alone > Duration::from_millis(350), "{alone:?}");
    assert!(both < RTT, "{both:?}");
    let rate = code(20.0).rate().bytes_per_second();
    // Two packets more: the first at once, and the last whole.
    assert!((primary as f64) < rate * (both + RTT).as_secs_f64() + 2.0 * 1500.0, "{primary}");
}

#[test]
fn a_path_that_drops_fragments_is_noticed_remembered_and_carries_packets_that_may_not_be_fragmented() {
    for rlp in [RlpMode::Off, RlpMode::Trust] {
        let mut world = World::new(rlp, Router { drops_fragments: true, ..signalling(20.0) }, |_| ());
        let start = world.pair.now;
        let client = world.connect();
        // RFC 9002: probes after 1 s and 3 s; the second may not be fragmented.
        let took = world.pair.now - start;
        assert!(took > Duration::from_secs(2) && took < Duration::from_millis(3100), "{took:?}");
        world.write(client, 100_000);
        assert!(world.deliver(Duration::from_secs(5)));
        let stats = world.stats(client);
        assert!(!stats.fragments && matches!(stats.mode, Mode::Tcp(_)), "{stats:?}");

        let start = world.pair.now;
        world.passed.clear();
        let client = world.connect();
        assert!(world.pair.now - start < RTT * 3 / 2, "{:?}", world.pair.now - start);
        world.write(client, 100_000);
        assert!(world.deliver(Duration::from_secs(5)));
        assert!(world.passed.iter().all(|passed| passed.dont_fragment));
    }
}

#[test]
fn a_verdict_on_fragments_is_tried_again_which_costs_a_packet_and_no_window() {
    let router = Router { drops_fragments: true, ..signalling(20.0) };
    let alive = |config: &mut TransportConfig| {
        config.keep_alive_interval(Some(Duration::from_millis(100)));
    };
    let mut world = World::new(RlpMode::Off, router, alive);
    let client = world.connect();
    // Little by little, so that nothing else is ever lost.
    let write_for = |world: &mut World, time: Duration| {
        let end = world.pair.now + time;
        let mut windows = Vec::new();
        while world.pair.now < end {
            world.write(client, 20_000);
            assert!(world.deliver(Duration::from_secs(1)));
            world.run(Duration::from_millis(200), |_| false);
            windows.push(world.pair.client.connection(client).unwrap().stats().path.cwnd);
        }
        windows
    };
    let windows = write_for(&mut world, Duration::from_secs(20));
    let tried = world.passed.iter().filter(|passed| !passed.dont_fragment && passed.len > 1000).count();
    let lost = world.passed.iter().filter(|passed| passed.dropped).count();
    // Four packets of the handshake, and one each after 2, 6 and 14 s.
    assert_eq!((tried, lost), (7, 7));
    assert!(!world.stats(client).fragments);
    assert!(windows.is_sorted(), "{windows:?}");

    world.set(|router| router.drops_fragments = false);
    write_for(&mut world, Duration::from_secs(15));
    assert!(world.stats(client).fragments && world.stats(client).signals > 10, "{:?}", world.stats(client));
    let other = world.connect();
    assert!(world.stats(other).fragments, "the destination is cleared");
}

#[test]
fn a_path_that_begins_to_drop_fragments_later_is_noticed_too() {
    let quiet = Router { drops_fragments: true, ..Router::default() };
    let mut world = World::new(RlpMode::Off, quiet, |_| ());
    let client = world.connect();
    world.write(client, 2_000_000);
    world.run(RTT * 3, |_| false);
    world.set(|router| router.code = Some(code(20.0)));
    assert!(world.deliver(Duration::from_secs(20)));
    assert!(!world.stats(client).fragments);
}

#[test]
fn an_outage_on_a_path_of_known_signals_is_not_held_against_fragments() {
    let mut world = World::new(RlpMode::Off, signalling(20.0), |_| ());
    let client = world.connect();
    world.write(client, 2_000_000);
    world.run(RTT * 3, |_| false);
    world.set(|router| router.drops_long = true);
    world.run(Duration::from_secs(3), |_| false);
    world.set(|router| router.drops_long = false);
    assert!(world.deliver(Duration::from_secs(20)));
    assert!(world.stats(client).fragments);
}

/// The attack on all long packets.
fn attackers() -> [(&'static str, Router); 3] {
    [
        ("shortens", Router { code: Some(Code::MIN), ..Router::default() }),
        ("marks", Router { marks_long: true, ..Router::default() }),
        ("drops", Router { drops_long: true, ..Router::default() }),
    ]
}

#[test]
fn shortened_fragments_leave_a_packet_in_a_round_trip() {
    let packets = attackers().map(|(name, attacker)| {
        let mut world = World::new(RlpMode::Off, Router::default(), |_| ());
        let client = world.connect();
        world.write(client, 4_000_000);
        world.run(RTT * 2, |_| false);
        world.set(|router| *router = attacker);
        // Packets in flight have had their effect.
        world.run(RTT * 10, |_| false);
        let start = world.passed.len();
        world.run(RTT * 100, |_| false);
        let long = world.passed[start..].iter().filter(|passed| passed.len > 700 && !passed.dropped);
        println!("{name}: {} long packets in 100 round trips", long.clone().count());
        long.count()
    });
    let [shortened, marked, dropped] = packets;
    // 120 kbit/s would be 40.
    // Indicators, which are paced with them, take the time of a sixth.
    assert!(shortened >= 85, "{shortened}");
    // The sender notices neither loss nor delay there, and it needs no fragments: two packets are NewReno's smallest
    // window.
    assert!(shortened * 5 / 2 > marked && marked > 0, "{shortened} {marked}");
    assert_eq!(dropped, 0);
}

#[test]
fn shortened_fragments_cost_as_much_as_a_timeout_without_signalling_routers() {
    // The windows before an attack of this many round trips and ten of them later, and the bytes that left in these.
    let recovered = |attacker: Router, round_trips: u32| {
        let mut world = World::new(RlpMode::Off, Router::default(), |_| ());
        let client = world.connect();
        world.write(client, 4_000_000);
        world.run(RTT * 3, |_| false);
        let cwnd = |world: &World| world.pair.client.connection(client).unwrap().stats().path.cwnd;
        let before = cwnd(&world);
        world.set(|router| *router = attacker);
        world.run(RTT * round_trips, |_| false);
        world.set(|router| *router = Router::default());
        let start = world.passed.len();
        world.run(RTT * 10, |_| false);
        let bytes = world.passed[start..].iter().map(|passed| passed.len + HEADERS).sum::<usize>();
        (before, cwnd(&world), bytes)
    };
    for round_trips in [1, 2, 3, 5, 10, 20, 40] {
        let after = attackers().map(|(_, attacker)| recovered(attacker, round_trips));
        println!("{round_trips}: {after:?}");
        let [(before, shortened, bytes), (_, marked, bytes_marked), (_, dropped, bytes_dropped)] = after;
        // Congestion avoidance alone would take it from two packets to ten.
        assert!(shortened >= before / 2 && shortened > 20 * MTU as u64, "{round_trips}: {after:?}");
        // Attacks of several round trips: losses of fewer packets halve the window, and nothing times out.
        if round_trips >= 3 {
            assert!(shortened > dropped && 10 * bytes > 9 * bytes_dropped, "{round_trips}: {after:?}");
            assert!(shortened > marked && bytes > bytes_marked, "{round_trips}: {after:?}");
        }
    }
}

#[test]
fn signalled_rates_hold_again_two_round_trips_after_the_last_shortened_fragment() {
    for round_trips in [1, 5, 40] {
        let mut world = World::new(RlpMode::Off, signalling(10.0), |_| ());
        let client = world.connect();
        world.write(client, 4_000_000);
        world.run(RTT * 3, |_| false);
        world.set(|router| router.code = Some(Code::MIN));
        world.run(RTT * round_trips, |_| false);
        assert!(world.stats(client).rate.is_some_and(|rate| rate.bits_per_second() < 125_000));
        world.set(|router| *router = signalling(10.0));
        let honest = |pair: &mut Pair| {
            let stats = pair.client.connection(client).unwrap().stats().kickass.unwrap();
            stats.mode == Mode::KickAss && stats.rate.is_some_and(|rate| rate.bits_per_second() > 9_000_000)
        };
        let since = world.pair.now;
        // The next packet leaves within a round trip, and its signal returns after another.
        assert!(world.run(RTT * 3, honest) && world.pair.now - since < RTT * 5 / 2, "{round_trips}");
    }
}

#[test]
fn shortened_fragments_of_one_connection_slow_no_other() {
    let rate = units::Rate::from_bits_per_second(20_000_000);
    let beside = |attacked: bool| {
        let mut world = World::new(RlpMode::Off, Router::default(), |_| ());
        let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
        world.pair.set_forward_queue(link, Box::new(DropTail::new(100_000)));
        let victim = world.connect();
        world.write(victim, 4_000_000);
        world.run(RTT * 3, |_| false);
        let id = world.passed.iter().rfind(|passed| passed.first_byte & 0xc0 == 0x40).unwrap().id;
        if attacked {
            world.set(|router| {
                *router = Router { code: Some(Code::MIN), only: Some(id), ..Router::default() }
            });
        }
        let other = world.connect();
        world.write(other, 2_000_000);
        let start = world.pair.now;
        assert!(world.deliver(Duration::from_secs(20)));
        if attacked {
            assert_eq!(world.stats(victim).mode, Mode::KickAss);
        }
        assert_eq!(world.stats(other).signals, 0, "it is not attacked");
        world.pair.now - start
    };
    let (alone, attacked) = (beside(false), beside(true));
    println!("beside a connection that is not attacked {alone:?}, that is attacked {attacked:?}");
    assert!(attacked <= alone, "{attacked:?} {alone:?}");
}

/// RFC 9000 §14.1: the first flight is as long as the path is assumed to permit, a repetition is not.
#[test]
fn a_first_flight_too_long_for_the_path_costs_one_probe_timeout() {
    let mut world = World::new(RlpMode::Off, Router { longest: 1300, ..signalling(20.0) }, |_| ());
    let start = world.pair.now;
    let client = world.connect();
    let took = world.pair.now - start;
    // RFC 9002 §6.2.2: the first probe leaves after a second.
    assert!(took > Duration::from_millis(900) && took < Duration::from_millis(1100) + RTT, "{took:?}");
    let lens: Vec<_> =
        world.passed.iter().filter(|passed| passed.first_byte & 0xf0 == 0xc0).map(|p| p.len).collect();
    assert!(lens[0] == MTU && lens[1..].iter().all(|len| *len == 1201), "{lens:?}");
    assert!(world.stats(client).fragments);
}

/// A pair of hosts between which each packet of the server that may be fragmented carries this rate.
fn with_steered_server(client: Congestion, signalled: Code) -> Pair {
    let rate = units::Rate::from_bits_per_second(1_000_000_000);
    let link = LinkConfig { rate, delay: RTT / 2, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 5_000_000);
    config.client.congestion(client);
    config.server.initial_mtu(1472).congestion(Congestion::KickAss);
    if client == Congestion::KickAss {
        config.client.initial_mtu(1472);
    }
    let mut pair = Pair::new(config);
    pair.server.set_tamper(Box::new(move |_, datagram: &mut Datagram| {
        let cut = !datagram.dont_fragment && signalled.payload_len() < datagram.contents.len() + UDP_HEADER;
        datagram.meta.leading_len = cut.then(|| signalled.payload_len() as u16);
        1
    }));
    pair
}

#[test]
fn a_server_knows_the_rate_once_the_client_has_answered_its_handshake() {
    for (client, megabits) in
        [(Congestion::Cubic, 20.0), (Congestion::KickAss, 20.0), (Congestion::KickAss, 10_000.0)]
    {
        let mut pair = with_steered_server(client, code(megabits));
        let start = pair.now;
        pair.connect();
        let signalled = pair.drive_until(RTT * 10, |pair| {
            let server = pair.server.accepted.front().and_then(|&server| pair.server.connection(server));
            server.is_some_and(|server| server.stats().kickass.unwrap().mode == Mode::KickAss)
        });
        // Its first flight leaves after half a round trip.
        let took = pair.now - start;
        assert!(signalled && took < RTT * 3 / 2 + Duration::from_millis(1), "{took:?}");
    }
}

/// RFC 9000 §8.1.
#[test]
fn an_address_that_is_not_validated_gets_no_more_from_a_steered_server_than_three_times_what_it_sent() {
    for client in [Congestion::Cubic, Congestion::KickAss] {
        let mut pair = with_steered_server(client, code(20.0));
        let mut sent = 0;
        pair.client.set_tamper(Box::new(move |_, _: &mut Datagram| {
            sent += 1;
            usize::from(sent == 1)
        }));
        pair.connect();
        pair.drive_until(Duration::from_secs(10), |_| false);
        let exchanged = pair.server.traffic.with(pair.client.address());
        println!("{client:?}: {} bytes for {}", exchanged.sent, exchanged.received);
        // Three datagrams, each a byte longer than the client's if that has a length that hides signals.
        assert!(
            exchanged.sent > 0 && exchanged.sent <= 3 * (exchanged.received + 1),
            "{client:?}: {}",
            exchanged.sent
        );
    }
}
