//! How long packets have waited, in buckets.

use std::time::Duration;

/// Upper ends of the buckets but the last, which has none, in seconds.
pub(crate) const BOUNDS: [f64; 13] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// Counts of times.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Histogram {
    /// Times above the bound before and at most at the one of the same place.
    pub(crate) counts: [u64; BOUNDS.len() + 1],
    /// Of all times, in seconds.
    pub(crate) sum: f64,
}

impl Histogram {
    pub(crate) fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.counts[BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
        self.sum += seconds;
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_at_or_below_their_bound() {
        let mut histogram = Histogram::default();
        for micros in [0, 100, 101, 1_000_000, 1_000_001] {
            histogram.add(Duration::from_micros(micros));
        }
        assert_eq!((histogram.counts[0], histogram.counts[1]), (2, 1));
        assert_eq!(histogram.counts[BOUNDS.len() - 1..], [1, 1]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum - 2.000_202).abs() < 1e-9);
    }
}
