//! The queue, from one-way delays: the receiver's clock against ours. Their difference is not known, and changes slowly.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::least::Least;

/// Samples in memory, of the last quarter of a round trip.
const SAMPLES_MAX: usize = 32;

/// How long packets wait, by delays in seconds from an epoch that does not matter.
#[derive(Debug, Default)]
pub(super) struct Delay {
    least: Least,
    /// When samples came and what they were, oldest first.
    recent: VecDeque<(Instant, f64)>,
}

impl Delay {
    /// A packet took `delay`; the least of late.
    pub(super) fn add(&mut self, now: Instant, delay: f64, rtt: Duration) -> f64 {
        while self.recent.front().is_some_and(|&(at, _)| at + rtt / 4 < now)
            || self.recent.len() >= SAMPLES_MAX
        {
            self.recent.pop_front();
        }
        self.recent.push_back((now, delay));
        self.least.add(now, delay)
    }

    /// The least delay of late.
    pub(super) fn least(&self) -> Option<f64> {
        self.least.get()
    }

    /// How long packets have waited at least, in the last quarter of a round trip.
    pub(super) fn queue(&self) -> Duration {
        let recent = self.recent.iter().map(|&(_, delay)| delay).reduce(f64::min);
        match (recent, self.least.get()) {
            (Some(recent), Some(least)) => Duration::from_secs_f64((recent - least).max(0.0)),
            _ => Duration::ZERO,
        }
    }
}
