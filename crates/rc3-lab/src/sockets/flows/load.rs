//! How long flows are and how long senders are silent between them: NU-EECS-16-09 §3.3.2 and §4.1.

use std::time::Duration;

use clap::ValueEnum;
use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};

/// Payload of a packet, in bytes.
pub(crate) const PACKET: u64 = 1460;

/// Two loads of the paper's testbed. Sizes are Pareto with shape 1.8, silences exponential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// 100 packets on average, at most 2000, and half a second between.
    Light,
    /// 1 MB on average and 8 s between. The paper does not say how long they may be: 20 means, as under light load.
    Heavy,
}

const SHAPE: f64 = 1.8;
const LONGEST_IN_MEANS: f64 = 20.0;

impl Load {
    fn mean_packets(self) -> f64 {
        match self {
            Self::Light => 100.0,
            Self::Heavy => 1e6 / PACKET as f64,
        }
    }

    fn mean_gap(self) -> Duration {
        match self {
            Self::Light => Duration::from_millis(500),
            Self::Heavy => Duration::from_secs(8),
        }
    }
}

/// What one sender draws from.
pub(crate) fn seed_of(seed: u64, sender: u32) -> u64 {
    seed ^ u64::from(sender + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What all senders draw.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) load: Load,
    /// Bytes of every flow, instead of the load's sizes.
    pub(crate) size: Option<u64>,
    /// Repeats sizes and silences.
    pub(crate) seed: u64,
}

/// The silences and flows of one sender: the same for each scheme.
#[derive(Debug)]
pub(crate) struct Draws {
    traffic: Traffic,
    random: Pcg64,
}

impl Draws {
    pub(crate) fn new(traffic: Traffic, sender: u32) -> Self {
        Self { traffic, random: Pcg64::seed_from_u64(seed_of(traffic.seed, sender)) }
    }

    /// Above 0, at most 1, so that its logarithm is finite.
    fn share(&mut self) -> f64 {
        ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A silence, and the bytes of the flow after it.
    pub(crate) fn next(&mut self) -> (Duration, u64) {
        let gap = self.traffic.load.mean_gap().mul_f64(-self.share().ln());
        let mean = self.traffic.load.mean_packets();
        let smallest = mean * (SHAPE - 1.0) / SHAPE;
        let packets = smallest * self.share().powf(-1.0 / SHAPE);
        let drawn = packets.min(mean * LONGEST_IN_MEANS) as u64 * PACKET;
        (gap, self.traffic.size.unwrap_or(drawn))
    }
}
