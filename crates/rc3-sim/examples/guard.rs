//! What guard mode saves others on a link that ignores marks, and what it costs on one that honours them.
//!
//! `cargo run --release -p rc3-sim --example guard` prints both tables; `-- full` takes the whole grid of the second.

use std::{fmt::Write as _, time::Duration};

use rc3_core::{RlpMode, Verdict, units::Rate};
use rc3_sim::{BackgroundConfig, Impairments, LinkConfig, Pair, PairConfig};

const MBIT: u64 = 1_000_000;
const LIMIT: Duration = Duration::from_secs(600);

/// A link with two hosts on it.
#[derive(Clone, Copy)]
struct World {
    mbits: u64,
    rtt_ms: u64,
    /// Of the queue, in products of rate and round trip.
    buffer: f64,
    /// Speed of the sender's card.
    nic_mbits: u64,
    /// Share of the rate that cross traffic takes.
    load: f64,
    loss: f64,
    honours: bool,
    seed: u64,
}

impl World {
    fn pair(&self, rlp: RlpMode) -> Pair {
        let rate = Rate::from_bits_per_second(self.mbits * MBIT);
        let link = LinkConfig {
            rate,
            delay: Duration::from_micros(self.rtt_ms * 500),
            impairments: Impairments::loss(self.loss),
            seed: self.seed,
            ..LinkConfig::default()
        };
        let bdp = self.mbits * MBIT / 8 * self.rtt_ms / 1000;
        let buffer = ((bdp as f64 * self.buffer) as u64).max(15_000);
        let mut config = PairConfig::symmetric(link, buffer);
        config.priority = self.honours;
        config.batch = 10;
        for side in [&mut config.client, &mut config.server] {
            side.rlp(rlp).nic_rate(Rate::from_bits_per_second(self.nic_mbits * MBIT));
        }
        let mut pair = Pair::new(config);
        if let Some(rate) = Rate::from_bits_per_second((self.load * (self.mbits * MBIT) as f64) as u64) {
            pair.set_background(BackgroundConfig { rate, size: 1500, seed: self.seed });
        }
        pair
    }
}

/// What happened to both sides of a run.
struct Run {
    fcts: Vec<f64>,
    loss: f64,
    mean_delay: f64,
    late_delay: f64,
    seconds: f64,
    verdict: Option<Verdict>,
}

fn run(world: World, rlp: RlpMode, sizes: &[u64], pause: Duration) -> Run {
    let mut pair = world.pair(rlp);
    pair.drive_until(Duration::from_millis(500), |_| false);
    if let Some(background) = &mut pair.background {
        background.reset();
    }
    let start = pair.now;
    let mut fcts = Vec::new();
    let mut verdict = None;
    for &bytes in sizes {
        let report = pair.flow(bytes, LIMIT).expect("it arrives");
        fcts.push(report.fct.as_secs_f64() * 1e3);
        verdict = report.sender.guard.map(|guard| guard.verdict);
        pair.drive_until(pause, |_| false);
    }
    let others = pair.background.as_ref();
    let ms = |delay: Duration| delay.as_secs_f64() * 1e3 - world.rtt_ms as f64 / 2.0;
    Run {
        fcts,
        loss: others.map_or(0.0, |others| others.loss()),
        mean_delay: others.map_or(0.0, |others| ms(others.mean_delay())),
        late_delay: others.map_or(0.0, |others| ms(others.delay_quantile(0.99))),
        seconds: (pair.now - start).as_secs_f64(),
        verdict,
    }
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn ignoring() {
    println!("A link that ignores marks: what the background traffic suffers\n");
    println!(
        "| link | load | workload | mode | loss % | queueing delay mean, p99 (ms) | median FCT (ms) | s | verdict |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let workloads: [(&str, Vec<u64>, u64); 3] = [
        ("20 x 100 kB, 100 ms apart", vec![100_000; 20], 100),
        ("20 x 1 MB, 300 ms apart", vec![1_000_000; 20], 300),
        ("1 x 20 MB", vec![20_000_000], 100),
    ];
    for (mbits, rtt_ms, buffer, load) in [
        (100, 40, 1.0, 0.3),
        (100, 40, 0.1, 0.3),
        (100, 40, 1.0, 0.7),
        (1000, 40, 0.5, 0.3),
        (20, 40, 1.0, 0.3),
    ] {
        for (name, sizes, pause) in &workloads {
            for (mode, rlp) in [("plain", RlpMode::Off), ("guard", RlpMode::Guard), ("trust", RlpMode::Trust)]
            {
                let world = World {
                    mbits,
                    rtt_ms,
                    buffer,
                    nic_mbits: mbits * 10,
                    load,
                    loss: 0.0,
                    honours: false,
                    seed: 1,
                };
                let run = run(world, rlp, sizes, Duration::from_millis(*pause));
                println!(
                    "| {mbits} Mbit/s, {rtt_ms} ms, {buffer} BDP | {load} | {name} | {mode} | {:.2} | {:.1}, {:.1} | {:.0} | {:.1} | {} |",
                    run.loss * 100.0,
                    run.mean_delay,
                    run.late_delay,
                    median(&run.fcts),
                    run.seconds,
                    run.verdict.map_or(String::new(), |verdict| format!("{verdict:?}")),
                );
            }
        }
    }
}

fn honouring(full: bool) {
    println!("\nA link that honours marks: FCT of guard over trust, by size of the flow\n");
    let sizes = [10_000, 100_000, 1_000_000, 5_000_000, 20_000_000];
    println!("| link | load | loss | 10 kB | 100 kB | 1 MB | 5 MB | 20 MB |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut ratios: Vec<f64> = Vec::new();
    let (mut withdrawn, mut flows) = (0, 0);
    let some = [(10, 40), (100, 5), (100, 40), (100, 200), (1000, 5), (1000, 40), (1000, 200)];
    let all =
        [(10, 5), (10, 40), (10, 200), (100, 5), (100, 40), (100, 200), (1000, 5), (1000, 40), (1000, 200)];
    for &(mbits, rtt_ms) in if full { &all[..] } else { &some[..] } {
        for buffer in [0.1, 1.0] {
            for (load, loss) in [(0.0, 0.0), (0.3, 0.001), (0.7, 0.0), (0.7, 0.001)] {
                if !full && (load, loss) == (0.7, 0.0) {
                    continue;
                }
                let mut line = format!("| {mbits} Mbit/s, {rtt_ms} ms, {buffer} BDP | {load} | {loss}");
                for bytes in sizes {
                    let world = World {
                        mbits,
                        rtt_ms,
                        buffer,
                        nic_mbits: (mbits * 10).min(10_000),
                        load,
                        loss,
                        honours: true,
                        seed: 7,
                    };
                    let guard = run(world, RlpMode::Guard, &[bytes], Duration::ZERO);
                    let trust = run(world, RlpMode::Trust, &[bytes], Duration::ZERO);
                    let ratio = guard.fcts[0] / trust.fcts[0];
                    ratios.push(ratio);
                    flows += 1;
                    let mark = match guard.verdict {
                        Some(Verdict::Ignored) => {
                            withdrawn += 1;
                            " WITHDRAWN"
                        }
                        _ => "",
                    };
                    let _ = write!(line, " | {ratio:.2}{mark}");
                }
                println!("{line} |");
            }
        }
    }
    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    println!(
        "\n{flows} flows: withdrawn {withdrawn}, geometric mean {:.3}, median {:.3}, worst {worst:.2}",
        mean.exp(),
        median(&ratios),
    );
}

fn main() {
    let full = std::env::args().any(|argument| argument == "full");
    ignoring();
    honouring(full);
}
