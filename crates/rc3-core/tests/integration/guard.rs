//! Guard mode in simulated networks: verdicts about paths, and gains or losses of flows by the clock.

use std::time::Duration;

use rc3_core::{ConnectionHandle, ConnectionStats, RlpMode, Verdict, units::Rate};
use rc3_sim::{
    FlowReport, Impairments, LinkConfig, Pair, PairConfig,
    record::FlowRecord,
    scenario::{Run, Scenario},
    simulation::Simulation,
};

const LIMIT: Duration = Duration::from_secs(600);

struct World {
    mbits: u64,
    rtt_ms: u64,
    /// Buffer, in bandwidth-delay products.
    buffer: f64,
    load: f64,
    loss: f64,
    honours: bool,
}

impl World {
    fn pair(&self, rlp: RlpMode, seed: u64) -> Pair {
        let bits = self.mbits * 1_000_000;
        let link = LinkConfig {
            rate: Rate::from_bits_per_second(bits),
            delay: Duration::from_micros(self.rtt_ms * 500),
            impairments: Impairments::loss(self.loss),
            seed,
            ..LinkConfig::default()
        };
        let bdp = (bits / 8 * self.rtt_ms / 1000) as f64;
        let mut config = PairConfig::symmetric(link, ((bdp * self.buffer) as u64).max(15_000));
        config.priority = self.honours;
        config.batch = 10;
        for side in [&mut config.client, &mut config.server] {
            // A card ten times as fast as the link.
            side.rlp(rlp).nic_rate(Rate::from_bits_per_second(bits * 10));
        }
        let mut pair = Pair::new(config);
        if let Some(rate) = Rate::from_bits_per_second((self.load * bits as f64) as u64) {
            pair.set_background(rate, 1500, seed);
        }
        pair
    }
}

fn flow(pair: &mut Pair, bytes: u64) -> FlowReport {
    pair.flow(bytes, LIMIT).expect("it arrives")
}

fn verdict(report: &FlowReport) -> Verdict {
    report.sender.guard.expect("guard mode").verdict
}

/// How many long flows it takes until the path is known to ignore marks: each starts with one burst of RLP.
fn flows_until_ignored(pair: &mut Pair) -> usize {
    let ignored = (1..=20).find(|_| verdict(&flow(pair, 20_000_000)) == Verdict::Ignored);
    ignored.expect("it is detected")
}

const IGNORING: World = World { mbits: 100, rtt_ms: 40, buffer: 1.0, load: 0.3, loss: 0.0, honours: false };

#[test]
fn a_path_that_ignores_marks_is_found_out_and_next_connections_know() {
    for seed in 1..4 {
        let mut pair = IGNORING.pair(RlpMode::Guard, seed);
        let flows = flows_until_ignored(&mut pair);
        println!("known after {flows} flows");
        assert!(flows <= 5, "seed {seed}: {flows} flows");
        let report = flow(&mut pair, 30_000);
        let guard = report.sender.guard.expect("guard mode");
        assert!(guard.remembered && guard.verdict == Verdict::Ignored);
        let now = pair.now;
        let known: Vec<_> = pair.client.endpoint().verdicts(now).collect();
        assert_eq!(known.iter().map(|known| known.verdict).collect::<Vec<_>>(), [Verdict::Ignored]);
        let pace = known[0].pace.expect("a rate");
        let mbits = pace.rate.bits_per_second() as f64 / 1e6;
        assert!((50.0..101.0).contains(&mbits), "seed {seed}: {mbits} Mbit/s");
        assert!(pace.rtt_min.as_secs_f64() < 0.045);
    }
}

#[test]
fn repeated_short_flows_over_new_connections_are_found_out_as_well() {
    let mut pair = IGNORING.pair(RlpMode::Guard, 1);
    let verdicts: Vec<_> = (0..20)
        .map(|_| {
            let report = flow(&mut pair, 1_000_000);
            pair.drive_until(Duration::from_millis(300), |_| false);
            verdict(&report)
        })
        .collect();
    assert_eq!(verdicts.last(), Some(&Verdict::Ignored), "{verdicts:?}");
}

#[test]
fn a_verdict_that_is_too_old_is_forgotten() {
    let mut pair = IGNORING.pair(RlpMode::Guard, 1);
    flows_until_ignored(&mut pair);
    // Nothing happens any more in this world, so the test advances the time.
    pair.background = None;
    pair.drive();
    pair.now += Duration::from_secs(601);
    let report = flow(&mut pair, 1000);
    assert_eq!(verdict(&report), Verdict::Unproven);
    assert!(!report.sender.guard.expect("guard mode").remembered);
}

#[test]
fn rlp_stays_on_paths_that_honour_marks() {
    for (mbits, rtt_ms) in [(10, 40), (100, 5), (100, 40), (100, 200), (1000, 5)] {
        for buffer in [0.1, 1.0] {
            for (load, loss) in [(0.0, 0.0), (0.3, 0.001), (0.7, 0.001)] {
                let world = World { mbits, rtt_ms, buffer, load, loss, honours: true };
                // Without load and losses nothing is random.
                let seeds = if load > 0.0 { 1..3 } else { 1..2 };
                for seed in seeds {
                    let report = flow(&mut world.pair(RlpMode::Guard, seed), 5_000_000);
                    let guard = report.sender.guard.expect("guard mode");
                    assert_ne!(
                        guard.verdict,
                        Verdict::Ignored,
                        "{mbits} Mbit/s, {rtt_ms} ms, {buffer} BDP, load {load}, loss {loss}, seed {seed}: {guard:?}"
                    );
                }
            }
        }
    }
}

/// The order of a first burst decides: one flow of 100 kB is enough if that burst waits for a few milliseconds.
#[test]
fn one_small_flow_finds_out_which_kind_of_path_it_is() {
    for (mbits, rtt_ms) in [(20, 20), (20, 60), (20, 200), (50, 40), (100, 40)] {
        for (honours, load, seed) in [(true, 0.0, 1), (true, 0.3, 2), (false, 0.0, 1), (false, 0.3, 2)] {
            let world = World { mbits, rtt_ms, buffer: 4.0, load, loss: 0.0, honours };
            let mut pair = world.pair(RlpMode::Guard, seed);
            flow(&mut pair, 100_000);
            // The ORDER arrives with the last SACKs.
            let guard = flow(&mut pair, 1000).sender.guard.expect("guard mode");
            let found = guard.verdict;
            let right = match honours {
                true => found == Verdict::Honoured,
                // At 100 Mbit/s the burst has nearly drained when the probe arrives.
                false if mbits >= 50 => found != Verdict::Honoured,
                false => found == Verdict::Ignored,
            };
            assert!(right, "{mbits} Mbit/s, {rtt_ms} ms, honours {honours}, load {load}: {guard:?}");
        }
    }
}

/// Sixteen packets leave no queue on a fast path. Once the rate is known, a burst that does leaves at the start of a flow.
#[test]
fn the_second_flow_finds_out_which_kind_of_path_a_fast_one_is() {
    for (mbits, rtt_ms, bytes) in [(200, 80, 200_000), (200, 20, 300_000), (1000, 40, 1_000_000)] {
        for (honours, right) in [(true, Verdict::Honoured), (false, Verdict::Ignored)] {
            let world = World { mbits, rtt_ms, buffer: 1.0, load: 0.0, loss: 0.0, honours };
            let mut pair = world.pair(RlpMode::Guard, 1);
            flow(&mut pair, 10 * bytes);
            flow(&mut pair, bytes);
            // The ORDER may arrive with the last SACKs.
            let guard = flow(&mut pair, 1000).sender.guard.expect("guard mode");
            assert_eq!(guard.verdict, right, "{mbits} Mbit/s, {rtt_ms} ms: {guard:?}");
        }
    }
}

#[test]
fn a_known_path_costs_little_more_than_trust_where_marks_are_honoured() {
    for (mbits, rtt_ms, load) in [(100, 40, 0.0), (100, 40, 0.3), (1000, 40, 0.0), (1000, 5, 0.3)] {
        let world = World { mbits, rtt_ms, buffer: 1.0, load, loss: 0.0, honours: true };
        let mut guarded = world.pair(RlpMode::Guard, 1);
        flow(&mut guarded, 20_000_000);
        for bytes in [10_000, 100_000, 1_000_000, 3_000_000] {
            let guard = flow(&mut guarded, bytes).fct.as_secs_f64();
            let trust = flow(&mut world.pair(RlpMode::Trust, 1), bytes).fct.as_secs_f64();
            println!(
                "{mbits} Mbit/s x {rtt_ms} ms, load {load}, {bytes} bytes: {:.3} x trust",
                guard / trust
            );
            assert!(guard <= trust * 1.2, "{mbits} Mbit/s, {bytes} bytes: guard {guard} s, trust {trust} s");
        }
    }
}

#[test]
fn guard_has_nothing_to_say_in_trust() {
    let report = flow(&mut IGNORING.pair(RlpMode::Trust, 1), 1_000_000);
    assert_eq!(report.sender.guard, None);
}

/// Idle, first in first out, and a card much faster than the link: today's worst networks for RLP as in the papers,
/// which sends each byte once and loses what exceeds the buffer. No long flow may take more than `most` times as long as
/// with plain QUIC.
fn long_flows_through_an_idle_fifo(mbits: u64, rtt_ms: u64, most: f64) {
    for buffer in [0.5, 1.0, 4.0] {
        for bytes in [5_000_000, 30_000_000] {
            let world = World { mbits, rtt_ms, buffer, load: 0.0, loss: 0.0, honours: false };
            let fct = |mode| flow(&mut world.pair(mode, 1), bytes).fct.as_secs_f64();
            let ratio = fct(RlpMode::Guard) / fct(RlpMode::Off);
            let cell = format!("{mbits} Mbit/s x {rtt_ms} ms, {buffer} BDP, {bytes} bytes");
            println!("{cell}: {ratio:.3} x plain");
            assert!(ratio <= most, "{cell}: {ratio:.3} x plain");
        }
    }
}

/// On a slow link little can be gained, and losses that RLP causes at the primary are not undone.
#[test]
fn long_flows_on_a_slow_link_take_little_longer_than_plain_quic() {
    long_flows_through_an_idle_fifo(20, 20, 1.1);
}

#[test]
fn long_flows_take_less_time_than_plain_quic() {
    long_flows_through_an_idle_fifo(100, 40, 0.97);
}

#[test]
fn long_flows_take_less_time_than_plain_quic_on_a_long_path() {
    long_flows_through_an_idle_fifo(100, 150, 0.95);
}

#[test]
fn long_flows_take_less_time_than_plain_quic_on_a_fast_link() {
    long_flows_through_an_idle_fifo(1000, 20, 0.95);
}

/// RLP uses only idle capacity: on a link that traffic of normal priority fills, it cannot make a flow faster, and guard
/// mode must not make it slower than trust mode, which sends all at once.
#[test]
fn on_a_full_link_with_priorities_guard_is_as_fast_as_trust() {
    for (mbits, rtt_ms) in [(20, 20), (100, 40)] {
        let world = World { mbits, rtt_ms, buffer: 4.0, load: 1.0, loss: 0.0, honours: true };
        let [off, guard, trust] = [RlpMode::Off, RlpMode::Guard, RlpMode::Trust].map(|mode| {
            let mut pair = world.pair(mode, 1);
            // The queue of the others is there first.
            pair.drive_until(Duration::from_secs(1), |_| false);
            flow(&mut pair, 100_000).fct.as_secs_f64()
        });
        println!("{mbits} Mbit/s, {rtt_ms} ms: off {off:.4} s, guard {guard:.4} s, trust {trust:.4} s");
        assert!(guard <= 1.02 * off.min(trust), "{mbits} Mbit/s: {guard} s, off {off} s, trust {trust} s");
        assert!(trust >= 0.9 * off, "the link is not full: trust {trust} s, off {off} s");
    }
}

/// The worlds of a scenario of one flow with these keys and this sweep, with plain QUIC and guard mode in turn.
fn worlds(keys: &str, sweep: &str) -> Vec<Run> {
    let file = format!("name = 'cell'\nbase = 'today'\n{keys}[sweep]\n{sweep}");
    Scenario::parse(&file, "cell.toml").expect("it parses").expand().expect("it makes sense")
}

/// The flow of a world.
fn only(run: &Run) -> FlowRecord {
    Simulation::run(run).expect("it runs").0.expect("it ends")
}

fn fct(run: &Run) -> f64 {
    only(run).fct.expect("it ends").as_secs_f64()
}

/// FCT / ideal of 1 MB over 400 Mbit/s x 20 ms with a receiver that reads so late.
fn late_reader(scheme: &str, reads: &str, stamps: bool) -> f64 {
    let keys = format!(
        "queue.discipline = 'priority'\ntopology = {{ card = 100, reads = '{reads}', stamps = {stamps} }}\n\
         run = [{{ name = 'late', scheme = '{scheme}' }}]\n"
    );
    let sweep = "topology.rate = ['400mbit']\ntopology.rtt = ['20ms']\nqueue.buffer = ['1bdp']\nworkload.size = ['1M']\n";
    let run = &worlds(&keys, sweep)[0];
    fct(run) / run.ideal().expect("one flow").as_secs_f64()
}

/// The clock measures the path, not when the peer's process runs.
#[test]
fn a_receiver_that_reads_late_slows_guard_only_without_stamps() {
    let at_once = late_reader("guard", "0ms", false);
    for (reads, milliseconds) in [("500us", 0.5), ("1ms", 1.0), ("2ms", 2.0), ("5ms", 5.0)] {
        let [without, stamped] = [false, true].map(|stamps| late_reader("guard", reads, stamps));
        let trust = [false, true].map(|stamps| late_reader("trust", reads, stamps));
        println!("{reads}: at once {at_once:.2}, {without:.2}, stamped {stamped:.2}, trust {trust:.2?}");
        assert_eq!(trust[0], trust[1], "trust mode has no clock");
        assert!(stamped <= without);
        // The ideal is 51 ms. Each of the flow's round trips, of which it has three, may wait for a read.
        assert!(stamped <= at_once + 3.0 * milliseconds / 51.0, "{reads}: {stamped}, at once {at_once}");
        if milliseconds >= 1.0 {
            assert!(without > 1.5 * at_once, "{reads}: reading late matters: {without}, at once {at_once}");
        }
    }
}

/// FCT / FCT of plain QUIC of the only cell of a scenario with these keys and this sweep.
fn ratio_to_plain(keys: &str, sweep: &str) -> f64 {
    let [plain, guard] = &worlds(keys, sweep)[..] else { panic!("more than one cell") };
    fct(guard) / fct(plain)
}

/// Once a policer's bucket is empty, the clock goes on measuring, so that the first rate does not come back.
#[test]
fn a_long_flow_through_a_large_bucket_is_no_slower_than_plain_quic() {
    let sweep = "topology.rate = ['100mbit']\ntopology.rtt = ['20ms']\nqueue.buffer = ['4bdp']\nworkload.size = ['10M']\n";
    let ratio = ratio_to_plain("queue.discipline = 'policer'\n", sweep);
    assert!(ratio < 1.0, "{ratio}");
}

/// Beyond the rate it knows, RLP keeps a little more in flight, which shows a path that has become faster.
#[test]
fn a_path_that_becomes_faster_is_found() {
    let sweep = "topology.rate = ['20mbit']\ntopology.rtt = ['20ms']\nqueue.buffer = ['1bdp']\nworkload.size = ['3M']\n";
    let ratio = ratio_to_plain("workload.rate-change = 2.0\n", sweep);
    assert!(ratio < 0.95, "{ratio}");
}

/// What the clock saw while the primary filled the queue does not hold for the rest of the flow, though the primary takes
/// RLP's part of the rate.
#[test]
fn rlp_measures_again_after_the_primary_has_filled_the_queue() {
    let world = World { mbits: 50, rtt_ms: 40, buffer: 0.1, load: 0.4, loss: 0.0, honours: false };
    let mut pair = world.pair(RlpMode::Guard, 1);
    let (start, mut after_a_second) = (pair.now, None);
    let rlp_bytes = |stats: &ConnectionStats| stats.sent.levels.iter().map(|level| level.bytes).sum::<u64>();
    let report = pair.flow_watched(6_000_000, LIMIT, |pair| {
        let connection = pair.client.connection(ConnectionHandle(0));
        if let Some(connection) = connection.filter(|_| pair.now > start + Duration::from_secs(1)) {
            after_a_second.get_or_insert_with(|| rlp_bytes(&connection.stats()));
        }
    });
    let all = rlp_bytes(&report.expect("it arrives").sender);
    assert!(all > after_a_second.expect("it takes longer"), "{all} bytes");
}

/// A policer drops RLP and spares most of the primary, and knows no priorities all the same.
#[test]
fn a_policer_does_not_look_as_if_it_honoured_priorities() {
    let sizes = "workload.size = ['300k', '1M', '3M']\n";
    let runs = worlds("queue.discipline = 'policer'\nrun = [{ name = 'guard', scheme = 'guard' }]\n", sizes);
    let jobs = std::thread::available_parallelism().expect("some").get();
    let honoured = |run: &&Run| only(run).sent.guard.expect("it has one").verdict == Verdict::Honoured;
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let parts = (0..jobs).map(|part| runs.iter().skip(part).step_by(jobs));
        let parts: Vec<_> =
            parts.map(|runs| scope.spawn(|| runs.filter(honoured).collect::<Vec<_>>())).collect();
        let wrong = parts.into_iter().flat_map(|part| part.join().expect("it ends"));
        wrong.map(|run| run.label.to_string()).collect()
    });
    assert!(wrong.len() * 50 <= runs.len(), "{} of {}: {wrong:#?}", wrong.len(), runs.len());
}

/// Packets that a receiver gets together do not make the path look faster.
#[test]
fn a_receiver_that_batches_slows_no_flow() {
    let sweep = "topology.rate = ['20mbit']\ntopology.rtt = ['60ms']\nqueue.buffer = ['0.5bdp']\nworkload.size = ['3M']\n";
    let ratio = ratio_to_plain("queue.aggregation.there = '5ms'\n", sweep);
    assert!(ratio < 1.0, "{ratio}");
}

/// A memory that is too low ends without a burst, and RLP does not take the error of its own model for other traffic.
#[test]
fn a_memory_of_a_slower_path_slows_no_flow() {
    for (mbits, size, most) in [(20, "1M", 1.0), (100, "30M", 1.02)] {
        let sweep = format!(
            "topology.rate = ['{mbits}mbit']\ntopology.rtt = ['20ms']\nqueue.buffer = ['0.1bdp']\nworkload.size = ['{size}']\n"
        );
        let ratio = ratio_to_plain("workload.taught-at = 0.25\n", &sweep);
        assert!(ratio < most, "{mbits} Mbit/s, {size}: {ratio}");
    }
}
