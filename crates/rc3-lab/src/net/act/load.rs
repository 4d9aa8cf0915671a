//! The load of an experiment: flows of random sizes at random times, a connection each.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_link::random::Random;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::net::transport::{Result, Setup, Target, Timed, Transport};

/// Payload of a packet of the loads of Kick-Ass, in bytes.
pub const PACKET: u64 = 1460;

/// A line about a flow that did not arrive begins so.
pub const FAILED: &str = "failed: ";

/// Sizes and times of flows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// NU-EECS-16-09 §4.1: each sender is silent for half a second on average, and then sends 100 packets on average, at most
    /// 2000.
    Light,
    /// The same with 8 s and 1 MB. The paper does not say how long flows may be: 20 means, as under light load.
    Heavy,
    /// Poisson arrivals of flows between 10 kB and 3 MB, with this mean rate of all of them together in bits per second.
    Poisson(f64),
}

/// Shapes of Pareto distributions: of Kick-Ass (NU-EECS-16-09 §3.3.2), and of others on the path.
const SHAPE: f64 = 1.8;
const POISSON_SHAPE: f64 = 1.2;
const LONGEST_IN_MEANS: f64 = 20.0;
/// Sizes of others on the path, in bytes.
const SMALLEST: f64 = 10_000.0;
const LARGEST: f64 = 3_000_000.0;

/// What all senders draw.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Traffic {
    /// Which load.
    pub load: Load,
    /// Bytes of every flow, instead of the load's sizes.
    pub size: Option<u64>,
    /// Senders.
    pub senders: u32,
    /// No flow begins later; without, they go on until the process is ended.
    pub time: Option<Duration>,
    /// Repeats sizes and gaps.
    pub seed: u64,
}

impl Traffic {
    /// Of so many senders, without end.
    pub fn of(load: Load, senders: u32) -> Self {
        Self { load, size: None, senders, time: None, seed: 1 }
    }
}

/// A flow that has arrived, as a line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arrived {
    /// Whose flow it is.
    pub sender: u32,
    /// Counts the flows of a sender.
    pub number: u32,
    /// What carried it.
    pub scheme: String,
    /// Bytes of the application.
    pub bytes: u64,
    /// How long it took.
    pub timed: Timed,
}

/// The gaps and flows of one sender: the same for each scheme.
#[derive(Debug)]
struct Draws {
    traffic: Traffic,
    random: Random,
}

fn seed_of(seed: u64, sender: u32) -> u64 {
    seed ^ u64::from(sender + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Draws {
    fn new(traffic: Traffic, sender: u32) -> Self {
        Self { traffic, random: Random::new(seed_of(traffic.seed, sender)) }
    }

    /// The time until a flow begins, and its bytes.
    fn next(&mut self) -> (Duration, u64) {
        let gap = self.random.exponential(self.mean_gap());
        // Whole packets: Pareto with this mean, cut off.
        let mut bytes = |mean: f64| {
            let packets = self.random.pareto(mean * (SHAPE - 1.0) / SHAPE, SHAPE);
            packets.min(mean * LONGEST_IN_MEANS) as u64 * PACKET
        };
        let drawn = match self.traffic.load {
            Load::Light => bytes(100.0),
            Load::Heavy => bytes(1e6 / PACKET as f64),
            Load::Poisson(_) => {
                // The inverse of the bounded Pareto distribution.
                let size = 1.0 - self.random.unit();
                let least = (SMALLEST / LARGEST).powf(POISSON_SHAPE);
                (SMALLEST / (least + size * (1.0 - least)).powf(1.0 / POISSON_SHAPE)) as u64
            }
        };
        (gap, self.traffic.size.unwrap_or(drawn))
    }

    fn mean_gap(&self) -> Duration {
        match self.traffic.load {
            Load::Light => Duration::from_millis(500),
            Load::Heavy => Duration::from_secs(8),
            Load::Poisson(rate) => Duration::from_secs_f64(bounded_mean() * 8.0 / rate),
        }
    }
}

/// Mean bytes of the bounded Pareto distribution.
fn bounded_mean() -> f64 {
    let least = (SMALLEST / LARGEST).powf(POISSON_SHAPE);
    let spread = SMALLEST.powf(1.0 - POISSON_SHAPE) - LARGEST.powf(1.0 - POISSON_SHAPE);
    SMALLEST.powf(POISSON_SHAPE) / (1.0 - least) * POISSON_SHAPE / (POISSON_SHAPE - 1.0) * spread
}

/// Plays all senders, which take the schemes in turn, until their last flows have arrived. Prints a line when it begins,
/// and for each flow an [`Arrived`], or why it failed after [`FAILED`].
pub(super) async fn run(target: &Target, transports: &[Transport], traffic: Traffic) -> Result<()> {
    println!("ready");
    let until = traffic.time.map(|time| Instant::now() + time);
    let mut playing = JoinSet::new();
    for sender in 0..traffic.senders {
        let transport = transports[sender as usize % transports.len()];
        let setup = Setup { seed: seed_of(traffic.seed, sender), ..Setup::new(transport) };
        // A socket of its own, as another host would have.
        let client = Arc::new(Target { setup, ..target.clone() }.client()?);
        let scheme = transport.name();
        let mut draws = Draws::new(traffic, sender);
        playing.spawn(async move {
            let mut due = Instant::now();
            let mut flows = JoinSet::new();
            for number in 0.. {
                let (gap, bytes) = draws.next();
                if !matches!(traffic.load, Load::Poisson(_)) {
                    // The gap begins when the flow before has arrived.
                    flows.join_next().await;
                    due = Instant::now();
                }
                due += gap;
                if until.is_some_and(|until| due > until) {
                    break;
                }
                tokio::time::sleep_until(due.into()).await;
                let (client, scheme) = (client.clone(), scheme.clone());
                flows.spawn(async move {
                    let arrived = client.flow(bytes).await.and_then(|timed| {
                        Ok(serde_json::to_string(&Arrived { sender, number, scheme, bytes, timed })?)
                    });
                    match arrived {
                        Ok(line) => println!("{line}"),
                        Err(error) => println!("{FAILED}flow {number} of sender {sender}: {error}"),
                    }
                });
            }
            flows.join_all().await;
        });
    }
    playing.join_all().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(load: Load, count: usize) -> Vec<(f64, f64)> {
        let traffic = Traffic { seed: 7, ..Traffic::of(load, 1) };
        let mut draws = Draws::new(traffic, 0);
        let next = |_| {
            let (gap, bytes) = draws.next();
            (gap.as_secs_f64(), bytes as f64)
        };
        (0..count).map(next).collect()
    }

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        let values: Vec<f64> = values.collect();
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn a_poisson_load_has_the_rate_and_the_sizes_asked_for() {
        let drawn = draws(Load::Poisson(30e6), 200_000);
        let rate =
            8.0 * mean(drawn.iter().map(|(_, bytes)| *bytes)) / mean(drawn.iter().map(|(gap, _)| *gap));
        assert!((rate / 30e6 - 1.0).abs() < 0.03, "{rate}");
        assert!(drawn.iter().all(|(_, bytes)| (SMALLEST - 1.0..=LARGEST).contains(bytes)));
    }

    #[test]
    fn loads_of_the_paper_have_its_means_and_their_longest_flows() {
        for (load, gap, packets) in [(Load::Light, 0.5, 100.0), (Load::Heavy, 8.0, 1e6 / PACKET as f64)] {
            let drawn = draws(load, 200_000);
            let gaps = mean(drawn.iter().map(|(gap, _)| *gap));
            assert!((gaps / gap - 1.0).abs() < 0.02, "{gaps}");
            let sizes: Vec<f64> = drawn.iter().map(|(_, bytes)| bytes / PACKET as f64).collect();
            // Cut off, the mean is smaller.
            let size = mean(sizes.iter().copied());
            assert!((0.85 * packets..packets).contains(&size), "{size}");
            assert!(sizes.iter().all(|size| *size <= packets * LONGEST_IN_MEANS));
            let smallest = sizes.iter().copied().fold(f64::INFINITY, f64::min);
            assert!((smallest - (packets * 0.8 / 1.8).floor()).abs() <= 1.0, "{smallest}");
        }
    }

    #[test]
    fn a_seed_repeats_and_senders_differ() {
        let traffic = Traffic { seed: 3, ..Traffic::of(Load::Light, 2) };
        let first = |sender| Draws::new(traffic, sender).next();
        assert_eq!(first(0), first(0));
        assert_ne!(first(0), first(1));
        let fixed = Traffic { size: Some(5_000_000), ..traffic };
        assert_eq!(Draws::new(fixed, 0).next(), (first(0).0, 5_000_000));
    }
}
