//! How late packets left.

use std::time::Duration;

/// Microseconds of a bucket, and how many buckets there are: 64 ms.
const BUCKET: u64 = 16;
const BUCKETS: usize = 4096;

/// A histogram of times, exact to 16 us up to 65 ms.
#[derive(Debug, Clone)]
pub struct Lateness {
    buckets: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, max: Duration::ZERO }
    }
}

impl Lateness {
    /// Counts one packet.
    pub fn add(&mut self, late: Duration) {
        let bucket = late.as_micros() / u128::from(BUCKET);
        let last = self.buckets.len() - 1;
        self.buckets[usize::try_from(bucket).unwrap_or(last).min(last)] += 1;
        self.count += 1;
        self.max = self.max.max(late);
    }

    /// Counts what another histogram has counted.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Packets counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The latest.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The time that this share of the packets did not exceed.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        // The last bucket has all that is later.
        for (nth, packets) in (1..).zip(&self.buckets[..BUCKETS - 1]) {
            seen += packets;
            if seen >= rank {
                return Duration::from_micros(nth * BUCKET).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_packets() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.99), Duration::ZERO);
        for micros in 1..=1000 {
            lateness.add(Duration::from_micros(micros));
        }
        lateness.add(Duration::from_secs(3));
        assert_eq!((lateness.count(), lateness.max()), (1001, Duration::from_secs(3)));
        for (share, micros) in [(0.5, 501), (0.99, 991)] {
            let quantile = lateness.quantile(share).as_micros() as u64;
            assert!((micros..micros + 2 * BUCKET).contains(&quantile), "{quantile}");
        }
        assert_eq!(lateness.quantile(1.0), Duration::from_secs(3));
    }
}
