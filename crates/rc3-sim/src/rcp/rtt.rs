//! Round trips measured and what follows from them: how long to wait for an answer (RFC 6298).

use std::time::Duration;

/// Least time without an answer after which packets count as lost, as Linux has it for TCP.
const RTO_MIN: Duration = Duration::from_millis(200);
/// Longest wait for an answer before backing off (RFC 6298 §2.4 allows a bound from 60 s on).
const RTO_MAX: Duration = Duration::from_secs(60);
/// Wait before a round trip is known (RFC 6298 §2.1).
pub(super) const RTO_INITIAL: Duration = Duration::from_secs(1);

/// The round trips of one flow.
#[derive(Debug)]
pub(super) struct RoundTrips {
    latest: Duration,
    min: Duration,
    smoothed: Duration,
    variation: Duration,
}

impl RoundTrips {
    /// With the first sample (RFC 6298 §2.2).
    pub(super) fn new(sample: Duration) -> Self {
        Self { latest: sample, min: sample, smoothed: sample, variation: sample / 2 }
    }

    /// A further sample (RFC 6298 §2.3).
    pub(super) fn on_sample(&mut self, sample: Duration) {
        self.latest = sample;
        self.min = self.min.min(sample);
        self.variation = (self.variation * 3 + self.smoothed.abs_diff(sample)) / 4;
        self.smoothed = (self.smoothed * 7 + sample) / 8;
    }

    /// The latest sample.
    pub(super) fn latest(&self) -> Duration {
        self.latest
    }

    /// The least sample.
    pub(super) fn min(&self) -> Duration {
        self.min
    }

    /// How long an answer may take (RFC 6298 §2.3).
    pub(super) fn rto(&self) -> Duration {
        (self.smoothed + self.variation * 4).clamp(RTO_MIN, RTO_MAX)
    }
}
