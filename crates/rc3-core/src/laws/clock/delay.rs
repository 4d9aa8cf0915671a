//! The queueing delay from one-way delays: the receiver's clock against the sender's. Their offset is unknown and
//! changes slowly.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::least::Least;
use crate::laws::constants::Law;

/// Samples stored, for a part of a round trip.
const SAMPLES_MAX: usize = 32;

/// Queueing delays, from delays in seconds relative to any epoch.
#[derive(Debug, Default)]
pub(super) struct Delay {
    least: Least,
    /// Times and values of samples, oldest first.
    recent: VecDeque<(Instant, f64)>,
}

impl Delay {
    /// A packet took `delay`; returns the recent minimum.
    pub(super) fn add(&mut self, law: &Law, now: Instant, delay: f64, rtt: Duration) -> f64 {
        while self.recent.front().is_some_and(|&(at, _)| at + rtt / law.recent_part < now)
            || self.recent.len() >= SAMPLES_MAX
        {
            self.recent.pop_front();
        }
        self.recent.push_back((now, delay));
        self.least.add(now, delay)
    }

    /// The recent minimum delay.
    pub(super) fn least(&self) -> Option<f64> {
        self.least.get()
    }

    /// When the newest packet came.
    pub(super) fn newest(&self) -> Option<Instant> {
        self.recent.back().map(|&(at, _)| at)
    }

    /// Delays of packets in the last part of a round trip, oldest first.
    pub(super) fn samples(&self) -> impl Iterator<Item = f64> {
        self.recent.iter().map(|&(_, delay)| delay)
    }

    /// Minimum delay in the last part of a round trip.
    pub(super) fn recent(&self) -> Option<f64> {
        self.samples().reduce(f64::min)
    }

    /// Minimum queueing delay in the last part of a round trip.
    pub(super) fn queue(&self) -> Duration {
        match (self.recent(), self.least.get()) {
            (Some(recent), Some(least)) => Duration::from_secs_f64((recent - least).max(0.0)),
            _ => Duration::ZERO,
        }
    }
}
