//! Queueing delays in buckets.

use std::time::Duration;

use hdrhistogram::Histogram as Recorded;
use serde::{Serialize, Serializer};

/// Upper bounds in seconds of the metrics' buckets, except the last, which has none.
pub(crate) const BOUNDS: [f64; 13] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// Upper bound of the fine buckets in microseconds, an hour; longer times are in the last bucket.
const LONGEST: u64 = 3_600_000_000;
/// Decimal digits of resolution: buckets are 1 us or at most 1 % wide.
const DIGITS: u8 = 2;

/// A histogram of times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Histogram {
    /// In microseconds, rounded up.
    fine: Recorded<u64>,
    /// By [`BOUNDS`], which do not coincide with the ends of the fine buckets.
    coarse: [u64; BOUNDS.len() + 1],
    /// Sum of all times, in seconds.
    pub(crate) sum: f64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            fine: Recorded::new_with_max(LONGEST, DIGITS).expect("an hour in two digits"),
            coarse: [0; BOUNDS.len() + 1],
            sum: 0.0,
            longest: Duration::ZERO,
        }
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
        self.fine.saturating_record(micros);
        let seconds = time.as_secs_f64();
        self.coarse[BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
        self.sum += seconds;
        self.longest = self.longest.max(time);
    }

    pub(crate) fn count(&self) -> u64 {
        self.fine.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fine.is_empty()
    }

    /// Counts between the [`BOUNDS`], and above the last.
    pub(crate) fn coarse(&self) -> [u64; BOUNDS.len() + 1] {
        self.coarse
    }

    /// The quantile in seconds, rounded up to the end of its bucket.
    fn quantile(&self, part: f64) -> f64 {
        self.end(self.fine.value_at_quantile(part))
    }

    /// Non-empty buckets: their upper ends in seconds, and counts.
    fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.fine.iter_recorded().map(|bucket| {
            let end = self.fine.highest_equivalent(bucket.value_iterated_to());
            (self.end(end), bucket.count_at_value())
        })
    }

    /// The upper end of a bucket in seconds, at most the longest time.
    fn end(&self, micros: u64) -> f64 {
        if micros >= LONGEST {
            return self.longest.as_secs_f64();
        }
        (micros as f64 / 1e6).min(self.longest.as_secs_f64())
    }
}

/// The histogram in JSON.
#[derive(Serialize)]
struct Summary {
    packets: u64,
    mean_s: f64,
    p50_s: f64,
    p90_s: f64,
    p99_s: f64,
    p999_s: f64,
    max_s: f64,
    buckets: Vec<(f64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let packets = self.count();
        let summary = Summary {
            packets,
            mean_s: self.sum / packets.max(1) as f64,
            p50_s: self.quantile(0.5),
            p90_s: self.quantile(0.9),
            p99_s: self.quantile(0.99),
            p999_s: self.quantile(0.999),
            max_s: self.longest.as_secs_f64(),
            buckets: self.buckets().collect(),
        };
        summary.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        micros.iter().for_each(|micros| histogram.add(Duration::from_micros(*micros)));
        histogram
    }

    #[test]
    fn times_fall_at_or_below_their_bound() {
        let bounds = BOUNDS.map(|bound| (1e6 * bound) as u64);
        let mut histogram = of(&bounds);
        assert_eq!(histogram.coarse()[..BOUNDS.len()], [1; BOUNDS.len()]);
        bounds.iter().for_each(|micros| histogram.add(Duration::from_nanos(1000 * micros + 1)));
        assert_eq!((histogram.coarse()[0], histogram.coarse()[BOUNDS.len()]), (1, 1));
        assert_eq!(histogram.coarse()[1..BOUNDS.len()], [2; BOUNDS.len() - 1]);
        assert_eq!(histogram.count(), 2 * BOUNDS.len() as u64);
        assert!((histogram.sum - 2.0 * BOUNDS.iter().sum::<f64>()).abs() < 1e-6);
    }

    #[test]
    fn buckets_hold_what_was_added_and_are_narrow() {
        for micros in (0..31).map(|power| (1_u64 << power) + (1 << power) / 3) {
            // A longer time too, so that the bucket and not the longest time limits the result.
            let histogram = of(&[micros, 3 * micros]);
            let (end, count) = histogram.buckets().next().unwrap();
            let exact = micros as f64 / 1e6;
            assert!((exact..=1.01 * exact).contains(&end) && count == 1, "{micros}: {end}");
        }
    }

    #[test]
    fn quantiles_are_exact_to_the_width_of_a_bucket() {
        let mut micros: Vec<u64> = (1..=1000).map(|n| n * 100).collect();
        let histogram = of(&micros);
        for (part, exact) in [(0.5, 0.05), (0.9, 0.09), (0.99, 0.099), (1.0, 0.1)] {
            let quantile = histogram.quantile(part);
            assert!((exact..=1.01 * exact).contains(&quantile), "{part}: {quantile}");
        }
        // Zero is reported exactly, and times beyond the last bound as the longest time.
        micros.extend([0; 1001]);
        micros.push(20_000_000_000);
        let json = serde_json::to_value(of(&micros)).unwrap();
        assert_eq!((&json["p50_s"], &json["max_s"]), (&0.0.into(), &20_000.0.into()));
        assert_eq!(json["buckets"][0], serde_json::json!([0.0, 1001]));
        assert_eq!(json["buckets"].as_array().unwrap().last(), Some(&serde_json::json!([20_000.0, 1])));
        assert_eq!(of(&[]).quantile(0.5), 0.0);
    }
}
