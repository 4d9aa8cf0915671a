//! The queue, from one-way delays: the receiver's clock against ours. Their difference is not known, but does not change.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Samples in memory, of the last quarter of a round trip.
const SAMPLES_MAX: usize = 32;

/// One-way delays of one path.
#[derive(Debug, Default)]
pub(super) struct Delay {
    /// Where our clock starts.
    epoch: Option<Instant>,
    /// The least, in microseconds, with the difference of the clocks in it.
    least: Option<i64>,
    /// When samples came and what they were, oldest first, each less than all before it.
    recent: VecDeque<(Instant, i64)>,
}

impl Delay {
    /// What left at `departed` came at `micros` of the receiver's clock. How much longer it took than at best.
    pub(super) fn on_arrival(
        &mut self,
        now: Instant,
        departed: Instant,
        micros: u64,
        rtt: Duration,
    ) -> Duration {
        let epoch = *self.epoch.get_or_insert(departed);
        let left = match departed.checked_duration_since(epoch) {
            Some(after) => after.as_micros() as i64,
            None => -(epoch.saturating_duration_since(departed).as_micros() as i64),
        };
        let Ok(came) = i64::try_from(micros) else { return Duration::ZERO };
        let delay = came - left;
        let least = self.least.map_or(delay, |least| least.min(delay));
        self.least = Some(least);
        while self.recent.front().is_some_and(|&(at, _)| at + rtt / 4 < now)
            || self.recent.len() >= SAMPLES_MAX
        {
            self.recent.pop_front();
        }
        self.recent.push_back((now, delay));
        Duration::from_micros((delay - least) as u64)
    }

    /// How long packets have waited at least, of late.
    pub(super) fn queue(&self) -> Duration {
        let (Some(least), Some(recent)) = (self.least, self.recent.iter().map(|&(_, delay)| delay).min())
        else {
            return Duration::ZERO;
        };
        Duration::from_micros(u64::try_from(recent - least).unwrap_or(0))
    }
}
