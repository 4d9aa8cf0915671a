//! What connections leave in the memory of paths.

use std::{thread, time::Duration};

use rc3_core::{Dir, KnownPath, Pace, units::Rate};
use rc3_sim::{LinkConfig, Pair, PairConfig};

const LIMIT: Duration = Duration::from_secs(60);
/// The address of a pair's client.
const CLIENT: &str = "10.0.0.1";

/// 100 Mbit/s x 80 ms, a FIFO of one BDP, packets delayed at random by up to `jitter`.
fn pair(jitter: Duration, seed: u64) -> Pair {
    let rate = Rate::from_bits_per_second(100_000_000);
    let link = LinkConfig { rate, delay: Duration::from_millis(40), seed, ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 1_000_000);
    config.priority = false;
    config.forward.impairments.jitter.fill(jitter);
    Pair::new(config)
}

/// The remembered rate in Mbit/s.
fn remembered(pair: &mut Pair) -> f64 {
    let now = pair.now;
    let known: Vec<_> = pair.client.endpoint().verdicts(now).filter_map(|known| known.pace).collect();
    assert_eq!(known.len(), 1);
    known[0].rate.bits_per_second() as f64 * 1e-6
}

/// A connection that writes `message` bytes every `gap`, `count` times.
fn chat(pair: &mut Pair, message: usize, gap: Duration, count: u32) {
    let handle = pair.connect();
    assert!(pair.drive_until(LIMIT, |pair| !pair.client.connection(handle).unwrap().is_handshaking()));
    let stream = pair.client.with(handle, |c| c.open(Dir::Uni)).unwrap();
    for _ in 0..count {
        pair.client.with(handle, |c| c.write(stream, vec![0; message].into())).unwrap();
        pair.drive_until(gap, |_| false);
    }
    pair.client.with(handle, |c| c.finish(stream)).unwrap();
    pair.drive_until(LIMIT / 30, |_| false);
    pair.server.accepted.clear();
}

#[test]
fn a_connection_that_is_almost_idle_leaves_the_remembered_rate() {
    let leaves = |jitter, seed, (message, gap, count)| {
        let mut pair = pair(Duration::from_micros(jitter), seed);
        pair.flow(10_000_000, LIMIT).expect("it arrives");
        let before = remembered(&mut pair);
        assert!((66.0..150.0).contains(&before), "{before} Mbit/s");
        chat(&mut pair, message, Duration::from_millis(gap), count);
        let after = remembered(&mut pair);
        let kept = (after / before).max(before / after);
        assert!(kept < 1.5, "{message} bytes, {jitter} us: {before} before, {after} Mbit/s after");
    };
    thread::scope(|scope| {
        for (jitter, seed) in [(0, 1), (300, 1), (1000, 1), (1000, 4), (2000, 1), (2000, 2)] {
            let chats = [(3000, 5, 200), (8000, 20, 100), (20_000, 50, 40)];
            scope.spawn(move || chats.map(|chat| leaves(jitter, seed, chat)));
        }
    });
}

/// Jitter reorders packets, and no queue does that.
#[test]
fn jitter_is_neither_a_queue_nor_a_loss() {
    for seed in 1..=3 {
        for (jitter, known, most) in
            [(0, true, 235), (1000, true, 290), (2000, true, 290), (2000, false, 1700)]
        {
            let mut pair = pair(Duration::from_micros(jitter), seed);
            let first = pair.flow(10_000_000, LIMIT).expect("it arrives");
            let fct = if known { pair.flow(1_000_000, LIMIT).expect("it arrives").fct } else { first.fct };
            assert!(fct < Duration::from_millis(most), "{jitter} us, seed {seed}: {fct:?}");
        }
    }
}

/// What a laptop has learned at home is not about the path from elsewhere.
#[test]
fn a_process_that_moves_to_another_network_starts_without_memory() {
    let mut pair = pair(Duration::ZERO, 1);
    pair.flow(10_000_000, LIMIT).expect("it arrives");
    let remembers = |pair: &mut Pair| {
        let flow = pair.flow(1_000_000, LIMIT).expect("it arrives");
        flow.sender.clock.expect("guard mode").remembered
    };
    assert!(remembers(&mut pair));
    pair.client.set_address(([192, 0, 2, 77], 4433).into());
    assert!(!remembers(&mut pair));
    assert!(remembers(&mut pair));
}

#[test]
fn what_a_connection_has_measured_does_not_count_in_another_network() {
    let forgets_at = |address: &str| {
        let mut pair = pair(Duration::ZERO, 1);
        let handle = pair.connect();
        assert!(pair.drive_until(LIMIT, |pair| !pair.client.connection(handle).unwrap().is_handshaking()));
        let stream = pair.client.with(handle, |c| c.open(Dir::Uni)).unwrap();
        let taken = pair.client.with(handle, |c| c.write(stream, vec![0; 4_000_000].into())).unwrap();
        assert!(taken > 2_000_000, "{taken}");
        let knows =
            |pair: &mut Pair| pair.client.connection(handle).unwrap().stats().clock.unwrap().rate.is_some();
        assert!(pair.drive_until(Duration::from_millis(150), knows));
        pair.client.set_address(address.parse().unwrap());
        pair.drive_until(Duration::from_millis(200), |pair| !knows(pair))
    };
    assert!(!forgets_at("10.0.0.1:4444"), "another port");
    assert!(forgets_at("192.0.2.77:4433"));
}

/// A path from the client's network, or another one, to a host that the client never meets here.
fn import_elsewhere(pair: &mut Pair, megabits: u64, rtt: Duration, network: &str) {
    let rate = Rate::from_bits_per_second(megabits * 1_000_000).expect("not zero");
    let pace = Some(Pace { rate, rtt_min: rtt, measured: 1 << 20 });
    let known = KnownPath {
        score: 0,
        pace,
        network: Some(network.parse().expect("an address")),
        age: Duration::ZERO,
    };
    let now = pair.now;
    pair.client.endpoint().import_path(now, ([198, 51, 100, 7], 1).into(), known, Duration::from_secs(600));
}

#[test]
fn a_destination_never_met_starts_with_the_rate_of_the_network() {
    let rtt = Duration::from_millis(60);
    let fct = |elsewhere: Option<(u64, Duration, &str)>| {
        let mut pair = pair(Duration::ZERO, 1);
        if let Some((megabits, rtt, network)) = elsewhere {
            import_elsewhere(&mut pair, megabits, rtt, network);
        }
        pair.flow(500_000, LIMIT).expect("it arrives").fct
    };
    let (here, unknown) = (CLIENT, fct(None));
    // Ideal is 160 ms.
    assert!(fct(Some((95, rtt, here))) < Duration::from_millis(175));
    assert!(unknown > Duration::from_millis(200), "{unknown:?}");
    assert_eq!(fct(Some((95, rtt, "203.0.113.1"))), unknown, "another network");
    assert_eq!(fct(Some((5, rtt, here))), unknown, "less than an unknown path gets");
    assert_eq!(fct(Some((1000, Duration::from_millis(1), here))), unknown, "the next room");
    // Four times too fast or too slow is no worse than nothing.
    for megabits in [24, 400] {
        assert!(fct(Some((megabits, rtt, here))) <= unknown, "{megabits} Mbit/s");
    }
}

/// Only what was measured on a path is remembered of it.
#[test]
fn the_rate_of_the_network_is_not_remembered_as_that_of_a_path() {
    let mut pair = pair(Duration::ZERO, 1);
    import_elsewhere(&mut pair, 95, Duration::from_millis(60), CLIENT);
    pair.flow(3000, LIMIT).expect("it arrives");
    let now = pair.now;
    let paces = pair.client.endpoint().verdicts(now).filter_map(|known| known.pace);
    assert_eq!(paces.count(), 1, "the one that was imported");
}

/// No flow is long enough to find the limit of such a link, and each one tries more.
#[test]
fn bursts_over_a_link_faster_than_hosts_read_come_near_the_ideal() {
    const BURST: u64 = 154_000;
    for rtt in [0.05, 0.15, 0.25] {
        let rate = Rate::from_bits_per_second(1_000_000_000);
        let link = LinkConfig { rate, delay: Duration::from_secs_f64(rtt / 2.0), ..LinkConfig::default() };
        let mut config = PairConfig::symmetric(link, 1_000_000);
        config.priority = false;
        let mut pair = Pair::new(config);
        let ideal = 1.5 * rtt + BURST as f64 * 8.0 / 1e9;
        let ratios = [(); 4].map(|()| pair.flow(BURST, LIMIT).expect("it arrives").fct.as_secs_f64() / ideal);
        println!("{rtt} s: {ratios:.2?}");
        assert!(ratios[0] > 1.25 && ratios[3] < 1.07, "{rtt} s: {ratios:?}");
        assert!(ratios.is_sorted_by(|earlier, later| later <= earlier), "{rtt} s: {ratios:?}");
    }
}
