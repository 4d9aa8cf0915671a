//! Medians, intervals and ranks.

use rc3_sim::summary::percentile;

/// Half-width of a 95 % interval of a normal distribution, in standard deviations.
pub(crate) const Z_95: f64 = 1.96;

/// A median and an interval that holds the true one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// How many values there were.
    pub count: usize,
    /// The median of the values.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// How surely the interval of an [`MedianInterval`] holds the true median, if there are enough values.
const CONFIDENCE: f64 = 0.95;

impl MedianInterval {
    /// The estimate of these values; `None` if there are none.
    ///
    /// The interval is between order statistics, so it assumes nothing about the distribution: the narrowest symmetric one
    /// that holds the true median with 95 %. Below six values there is none, and it is from the smallest to the largest.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = |rank: usize| sorted[rank.min(count - 1)];
        let median = (middle((count - 1) / 2) + middle(count / 2)) / 2.0;
        let skipped = skipped(count);
        let (low, high) =
            if skipped == 0 { (low, high) } else { (sorted[skipped], sorted[count - 1 - skipped]) };
        Some(Self { count, median, low, high })
    }
}

/// From so many values on the binomial distribution is as good as normal, and powers of a half get too small for numbers.
const NORMAL: usize = 1000;

/// How many values may be left out at each end: the probability that the true median is below the value of that rank is a
/// sum of binomial coefficients.
fn skipped(count: usize) -> usize {
    if count >= NORMAL {
        return ((count as f64 - 1.0 - Z_95 * (count as f64).sqrt()) / 2.0) as usize;
    }
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let mut below = 0.0;
    let mut skipped = 0;
    for rank in 0..count / 2 {
        below += term;
        if 2.0 * below > 1.0 - CONFIDENCE {
            break;
        }
        skipped = rank;
        term *= (count - rank) as f64 / (rank + 1) as f64;
    }
    skipped
}

/// An estimate among others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// It.
    pub estimate: MedianInterval,
    /// 1 has the smallest median.
    pub place: usize,
    /// Whether its interval overlaps that of the first, so that it may be as good.
    pub as_good: bool,
}

/// Ranks estimates. Those that are missing have no rank.
pub fn ranks(estimates: &[Option<MedianInterval>]) -> Vec<Option<Ranked>> {
    let best = estimates.iter().flatten().min_by(|a, b| a.median.total_cmp(&b.median));
    let rank = |estimate: &Option<MedianInterval>| {
        let (estimate, best) = ((*estimate)?, best?);
        let better = estimates.iter().flatten().filter(|other| other.median < estimate.median).count();
        let as_good = estimate.low <= best.high && best.low <= estimate.high;
        Some(Ranked { estimate, place: better + 1, as_good })
    };
    estimates.iter().map(rank).collect()
}

/// The geometric mean; `None` if there are no values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

/// Values in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample(Vec<f64>);

impl FromIterator<f64> for Sample {
    fn from_iter<T: IntoIterator<Item = f64>>(values: T) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
}

impl Sample {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Not a number if there are none.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Of the mean, if the values are independent.
    pub fn standard_error(&self) -> f64 {
        let (n, mean) = (self.0.len() as f64, self.mean());
        (self.0.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n * (n - 1.0))).sqrt()
    }

    /// See [`percentile`]; not a number if there are none.
    pub fn quantile(&self, share: f64) -> f64 {
        self.percentile(share).unwrap_or(f64::NAN)
    }

    /// See [`percentile`].
    pub fn percentile(&self, share: f64) -> Option<f64> {
        percentile(&self.0, share)
    }

    /// Each value with the share of values that are not above it.
    pub fn distribution(&self) -> impl Iterator<Item = (f64, f64)> {
        let n = self.0.len() as f64;
        self.0.iter().enumerate().map(move |(index, value)| (*value, (index + 1) as f64 / n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(values: impl IntoIterator<Item = u32>) -> MedianInterval {
        MedianInterval::of(&values.into_iter().map(f64::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn intervals_are_those_of_the_sign_test() {
        // Tables of the sign test: of 6 values 1st to 6th, of 10 2nd to 9th, of 20 6th to 15th, of 100 40th to 61st. The
        // last ones are sums of exact binomial coefficients.
        let large = [(999, 469, 531), (1000, 469, 532), (1200, 566, 635), (5000, 2431, 2570)];
        let small = [(3, 1, 3), (5, 1, 5), (6, 1, 6), (10, 2, 9), (20, 6, 15), (100, 40, 61)];
        for (count, low, high) in small.into_iter().chain(large) {
            let estimate = estimate((1..=count).rev());
            assert_eq!((estimate.low, estimate.high), (f64::from(low), f64::from(high)), "{count}");
            assert_eq!(estimate.median, f64::from(count + 1) / 2.0);
        }
        assert_eq!(MedianInterval::of(&[]), None);
    }

    #[test]
    fn ranks_name_those_that_may_be_as_good_as_the_first() {
        let (a, b, c) = (estimate([10, 11, 12]), estimate([11, 12, 13]), estimate([20, 21, 22]));
        let ranked = ranks(&[Some(c), Some(a), None, Some(b)]);
        let places: Vec<_> = ranked.iter().map(|ranked| ranked.map(|it| (it.place, it.as_good))).collect();
        assert_eq!(places, [Some((3, false)), Some((1, true)), None, Some((2, true))]);
        assert_eq!(ranks(&[None]), [None]);
    }

    #[test]
    fn means_and_quantiles() {
        assert!((geometric_mean(&[1.0, 4.0, 16.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
        let sample: Sample = (1..=100).rev().map(f64::from).collect();
        assert_eq!((sample.quantile(0.0), sample.quantile(0.5), sample.quantile(0.99)), (1.0, 50.0, 99.0));
        assert_eq!((sample.mean(), sample.len()), (50.5, 100));
        // The variance of 1 to n is n (n + 1) / 12.
        assert!((sample.standard_error() - (101.0_f64 / 12.0).sqrt()).abs() < 1e-12);
        assert_eq!(sample.distribution().nth(9), Some((10.0, 0.1)));
        assert!(Sample::from_iter([]).quantile(0.5).is_nan());
    }
}
