//! Cross traffic on the link: packets of normal priority at random times, whose delay and loss are recorded.
//!
//! Units: bytes on the wire; one-way delays from the moment a packet is handed to the link.

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

/// The traffic, with its delays and losses.
#[derive(Debug)]
pub struct Background {
    config: BackgroundConfig,
    random: Pcg64,
    pub(crate) next: Instant,
    sent: u64,
    delays: Vec<Duration>,
}

impl Background {
    pub(crate) fn new(now: Instant, config: BackgroundConfig) -> Self {
        let random = Pcg64::seed_from_u64(config.seed);
        let mut background = Self { config, random, next: now, sent: 0, delays: Vec::new() };
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
        self.sent += 1;
        Some(self.config.size)
    }

    pub(crate) fn on_arrival(&mut self, delay: Duration) {
        self.delays.push(delay);
    }

    fn gap(&mut self) -> Duration {
        // In (0, 1], so that the logarithm is finite.
        let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        self.config.rate.time_for(self.config.size as u64).mul_f64(-uniform.ln())
    }

    /// Forgets what was recorded; packets under way will count as never sent.
    pub fn reset(&mut self) {
        self.sent = 0;
        self.delays.clear();
    }

    /// Packets sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Share of the packets that did not arrive, 0 to 1. Those under way count as lost.
    pub fn loss(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { 1.0 - (self.delays.len() as f64 / self.sent as f64).min(1.0) }
    }

    /// Mean delay; zero before the first arrival.
    pub fn mean_delay(&self) -> Duration {
        let total: Duration = self.delays.iter().sum();
        total.checked_div(u32::try_from(self.delays.len()).unwrap_or(u32::MAX)).unwrap_or_default()
    }

    /// The delay that a share of the arrivals, 0 to 1, did not exceed; zero before the first arrival.
    pub fn delay_quantile(&self, share: f64) -> Duration {
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        let at = (share * delays.len() as f64) as usize;
        delays.get(at.min(delays.len().saturating_sub(1))).copied().unwrap_or_default()
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
