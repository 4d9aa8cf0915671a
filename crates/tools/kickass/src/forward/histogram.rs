//! How long packets have waited, in buckets.

use std::{iter, time::Duration};

use serde::{Serialize, Serializer};

/// Upper ends of the buckets of metrics but the last, which has none, in seconds. Each is the end of one of the fine
/// buckets, too.
pub(crate) const BOUNDS: [f64; 13] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// No time at all, 5 us each up to 100 us, and 70 for each power of ten up to 10 s.
const FINE: usize = 1 + 20 + 5 * 70;
/// Upper ends of the fine buckets in microseconds; the last bucket has none.
const ENDS: [u64; FINE] = ends();

/// Widths are 2 to 5 % of what is in a bucket above 100 us.
const fn ends() -> [u64; FINE] {
    // How many steps of how many parts of a hundred of the power of ten.
    const STEPS: [(usize, u64); 3] = [(20, 5), (30, 10), (20, 25)];
    let mut ends = [0; FINE];
    let mut at = 1;
    while at <= 20 {
        ends[at] = ends[at - 1] + 5;
        at += 1;
    }
    let mut decade = 100;
    while at < FINE {
        let mut kind = 0;
        while kind < STEPS.len() {
            let mut step = 0;
            while step < STEPS[kind].0 {
                ends[at] = ends[at - 1] + decade * STEPS[kind].1 / 100;
                at += 1;
                step += 1;
            }
            kind += 1;
        }
        decade *= 10;
    }
    ends
}

/// Counts of times.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Histogram {
    /// Times above the end before and at most at the one of the same place.
    counts: [u64; FINE + 1],
    /// Of all times, in seconds.
    pub(crate) sum: f64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; FINE + 1], sum: 0.0, longest: Duration::ZERO }
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, time: Duration) {
        let micros = time.as_nanos().div_ceil(1000);
        self.counts[ENDS.partition_point(|end| u128::from(*end) < micros)] += 1;
        self.sum += time.as_secs_f64();
        self.longest = self.longest.max(time);
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Counts between the [`BOUNDS`], and above the last.
    pub(crate) fn coarse(&self) -> [u64; BOUNDS.len() + 1] {
        let mut coarse = [0; BOUNDS.len() + 1];
        for (end, count) in self.buckets() {
            coarse[BOUNDS.partition_point(|bound| *bound < end)] += count;
        }
        coarse
    }

    /// At most so long waited this part of all, to the width of a bucket. Nothing is above the longest time.
    fn quantile(&self, part: f64) -> f64 {
        let rank = (part * self.count() as f64).ceil() as u64;
        let mut below = 0;
        let found = self.buckets().find(|(_, count)| {
            below += count;
            below >= rank
        });
        found.map_or(0.0, |(end, _)| end.min(self.longest.as_secs_f64()))
    }

    /// Buckets that are not empty: their upper ends in seconds, and counts.
    fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let longest = self.longest.as_secs_f64();
        let ends = ENDS.iter().map(|micros| *micros as f64 / 1e6).chain(iter::once(longest));
        ends.zip(self.counts).filter(|(_, count)| *count > 0)
    }
}

/// As JSON has it.
#[derive(Serialize)]
struct Told {
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
        let told = Told {
            packets,
            mean_s: self.sum / packets.max(1) as f64,
            p50_s: self.quantile(0.5),
            p90_s: self.quantile(0.9),
            p99_s: self.quantile(0.99),
            p999_s: self.quantile(0.999),
            max_s: self.longest.as_secs_f64(),
            buckets: self.buckets().collect(),
        };
        told.serialize(to)
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
        let histogram = of(&[0, 100, 101, 1_000_000, 1_000_001]);
        let coarse = histogram.coarse();
        assert_eq!((coarse[0], coarse[1]), (2, 1));
        assert_eq!(coarse[BOUNDS.len() - 1..], [1, 1]);
        assert_eq!(histogram.count(), 5);
        assert!((histogram.sum - 2.000_202).abs() < 1e-9);
    }

    #[test]
    fn fine_buckets_are_narrow_and_end_where_the_coarse_ones_do() {
        assert!(ENDS[20..].windows(2).all(|pair| pair[1] > pair[0] && 20 * (pair[1] - pair[0]) <= pair[1]));
        assert_eq!(ENDS.last(), Some(&10_000_000));
        for bound in BOUNDS {
            assert!(ENDS.iter().any(|end| *end as f64 / 1e6 == bound), "{bound}");
        }
    }

    #[test]
    fn quantiles_are_told_to_the_width_of_a_bucket() {
        let mut micros: Vec<u64> = (1..=1000).map(|n| n * 100).collect();
        let histogram = of(&micros);
        for (part, exact) in [(0.5, 0.05), (0.9, 0.09), (0.99, 0.099), (1.0, 0.1)] {
            let told = histogram.quantile(part);
            assert!((exact..=1.05 * exact).contains(&told), "{part}: {told}");
        }
        // No time at all is told as such, and what is beyond the last bound by the longest.
        micros.extend([0; 1001]);
        micros.push(20_000_000);
        let json = serde_json::to_value(of(&micros)).unwrap();
        assert_eq!((&json["p50_s"], &json["max_s"]), (&0.0.into(), &20.0.into()));
        assert_eq!(json["buckets"][0], serde_json::json!([0.0, 1001]));
        assert_eq!(json["buckets"].as_array().unwrap().last(), Some(&serde_json::json!([20.0, 1])));
        assert_eq!(of(&[]).quantile(0.5), 0.0);
    }
}
