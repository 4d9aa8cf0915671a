//! Cross traffic: packets at random times.

use std::time::{Duration, Instant};

use crate::random::Random;

/// A Poisson process: events with exponentially distributed gaps.
#[derive(Debug)]
pub struct PoissonProcess {
    next: Instant,
    mean_gap: Duration,
    random: Random,
}

impl PoissonProcess {
    /// The first event comes a gap after `start`.
    pub fn new(start: Instant, mean_gap: Duration, seed: u64) -> Self {
        let mut process = Self { next: start, mean_gap, random: Random::new(seed) };
        process.step();
        process
    }

    /// When [`Self::poll`] returns an event.
    pub fn poll_timeout(&self) -> Instant {
        self.next
    }

    /// The time of the next event, if that is not after `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Instant> {
        let at = self.next;
        (at <= now).then(|| {
            self.step();
            at
        })
    }

    fn step(&mut self) {
        // Uniform in (0, 1], so that its logarithm is finite.
        let uniform = self.random.unit() + f64::EPSILON / 2.0;
        self.next += self.mean_gap.mul_f64(-uniform.ln());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_rate_is_met_within_four_standard_deviations() {
        let start = Instant::now();
        let mut process = PoissonProcess::new(start, Duration::from_millis(1), 1);
        // 10,000 in ten seconds, give or take 100.
        let events = std::iter::from_fn(|| process.poll(start + Duration::from_secs(10))).count();
        assert!(events.abs_diff(10_000) < 400, "{events}");
        assert!(process.poll_timeout() > start + Duration::from_secs(10));
    }

    #[test]
    fn gaps_are_exponential() {
        let start = Instant::now();
        let mut process = PoissonProcess::new(start, Duration::from_millis(2), 9);
        let far = start + Duration::from_secs(10_000);
        let mut last = start;
        let gaps: Vec<Duration> = (0..20_000)
            .map(|_| {
                let at = process.poll(far).unwrap();
                at - std::mem::replace(&mut last, at)
            })
            .collect();
        // A gap exceeds the mean with probability 1/e and three times the mean with 1/e^3.
        let share = |bound| gaps.iter().filter(|gap| **gap > Duration::from_millis(bound)).count();
        assert!((7080..=7640).contains(&share(2)), "{}", share(2));
        assert!((870..=1120).contains(&share(6)), "{}", share(6));
    }
}
