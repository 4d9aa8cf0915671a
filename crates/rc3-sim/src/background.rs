//! Cross traffic on the link: packets of normal priority at random times. Units: bytes on the wire.

use std::time::{Duration, Instant};

use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};
use rc3_core::units::Rate;

/// Packets of one size with exponentially distributed gaps (a Poisson process).
#[derive(Debug, Clone, PartialEq)]
pub struct BackgroundConfig {
    /// Mean rate.
    pub rate: Rate,
    /// Bytes of each packet on the wire.
    pub size: usize,
    /// Seed of the gaps.
    pub seed: u64,
}

/// The traffic.
#[derive(Debug)]
pub struct Background {
    config: BackgroundConfig,
    random: Pcg64,
    pub(crate) next: Instant,
}

impl Background {
    pub(crate) fn new(now: Instant, config: BackgroundConfig) -> Self {
        let random = Pcg64::seed_from_u64(config.seed);
        let mut background = Self { config, random, next: now };
        background.next = now + background.gap();
        background
    }

    /// The size of the packet that is due at `now`, if one is.
    pub(crate) fn due(&mut self, now: Instant) -> Option<usize> {
        if self.next > now {
            return None;
        }
        let gap = self.gap();
        self.next += gap;
        Some(self.config.size)
    }

    fn gap(&mut self) -> Duration {
        // In (0, 1], so that the logarithm is finite.
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        self.config.rate.time_for(self.config.size as u64).mul_f64(-uniform.ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_rate_is_met_within_four_standard_deviations() {
        let start = Instant::now();
        let rate = Rate::from_bits_per_second(12_000_000).unwrap();
        let mut background = Background::new(start, BackgroundConfig { rate, size: 1500, seed: 1 });
        // A packet per millisecond: 10,000 in ten seconds, give or take 100.
        let mut packets: i64 = 0;
        while background.due(start + Duration::from_secs(10)).is_some() {
            packets += 1;
        }
        assert!((packets - 10_000).abs() < 400, "{packets}");
    }
}
