//! Statistics of flow completion times as the papers print them: means over flows and over bytes, reductions,
//! percentiles, sizes apart, each with its standard error.
//!
//! The error comes from parts that are nearly independent: repetitions with different seeds, or, of one
//! repetition, batches of consecutive flows (batch means). Two schemes that were offered the same flows are
//! compared part by part, so that what the parts have in common cancels.

/// Batches a single repetition is cut into.
const BATCHES: usize = 20;
/// The smallest batch, in flows.
const BATCH_FLOWS_MIN: usize = 20;
/// Sizes up to which each is a bucket of its own.
const SIZES_MAX: usize = 24;
/// Buckets per factor of ten of the size, where there are more sizes.
const BUCKETS_PER_DECADE: f64 = 3.0;

/// One flow that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Bytes of the application.
    pub bytes: u64,
    /// Completion time in seconds.
    pub fct: f64,
}

/// A figure and how far it may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure, from all observations together.
    pub value: f64,
    /// Its standard error; `None` from a single part.
    pub error: Option<f64>,
    /// Parts the error comes from.
    pub parts: usize,
}

impl Estimate {
    /// Standard deviation from part to part, which is what RC3's error bars show.
    pub fn deviation(&self) -> Option<f64> {
        self.error.map(|error| error * (self.parts as f64).sqrt())
    }
}

/// Which mean the papers take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Each flow counts once.
    Flows,
    /// Each flow counts as often as it has bytes.
    Bytes,
}

/// The mean completion time in seconds; `None` of no flow.
pub fn mean(flows: &[Observation], weight: Weight) -> Option<f64> {
    let weigh = |flow: &Observation| match weight {
        Weight::Flows => 1.0,
        Weight::Bytes => flow.bytes as f64,
    };
    let total: f64 = flows.iter().map(weigh).sum();
    let sum: f64 = flows.iter().map(|flow| flow.fct * weigh(flow)).sum();
    (total > 0.0).then(|| sum / total)
}

/// The smallest value that at least `share` of the values do not exceed (nearest rank); `None` of no value.
///
/// # Panics
/// When the values are not sorted, in debug builds.
pub fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    debug_assert!(sorted.is_sorted());
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// The flows of one scheme at one point of an experiment, in parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flows {
    /// One for each repetition, flows in order of arrival.
    repetitions: Vec<Vec<Observation>>,
}

impl Flows {
    /// From repetitions, each with its flows in order of arrival.
    pub fn new(repetitions: Vec<Vec<Observation>>) -> Self {
        Self { repetitions }
    }

    /// Adds one repetition's flows, in order of arrival.
    pub fn push(&mut self, flows: Vec<Observation>) {
        self.repetitions.push(flows);
    }

    /// All flows.
    pub fn iter(&self) -> impl Iterator<Item = &Observation> {
        self.repetitions.iter().flatten()
    }

    /// How many flows.
    pub fn len(&self) -> usize {
        self.repetitions.iter().map(Vec::len).sum()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all flows.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|flow| flow.bytes).sum()
    }

    /// Flows of `from..=to` bytes.
    pub fn of_size(&self, from: u64, to: u64) -> Self {
        let keep = |flows: &Vec<Observation>| {
            flows.iter().copied().filter(|flow| (from..=to).contains(&flow.bytes)).collect()
        };
        Self { repetitions: self.repetitions.iter().map(keep).collect() }
    }

    /// Completion times in ascending order, seconds.
    pub fn sorted(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.iter().map(|flow| flow.fct).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// A figure of these flows.
    pub fn estimate(&self, statistic: impl Fn(&[Observation]) -> Option<f64>) -> Option<Estimate> {
        let value = statistic(&self.pooled())?;
        let values: Vec<f64> = self.parts().into_iter().filter_map(statistic).collect();
        Some(Estimate { value, error: standard_error(&values), parts: values.len() })
    }

    /// The mean completion time.
    pub fn mean(&self, weight: Weight) -> Option<Estimate> {
        self.estimate(|flows| mean(flows, weight))
    }

    /// By how much of `self`'s mean the one of `other` is shorter: `1 - other / self`, RC3 §3.
    ///
    /// `other` was offered the same flows in as many repetitions.
    pub fn reduction(&self, other: &Self, weight: Weight) -> Option<Estimate> {
        let reduce = |base: &[Observation], other: &[Observation]| {
            let base = mean(base, weight).filter(|&mean| mean > 0.0)?;
            Some(1.0 - mean(other, weight)? / base)
        };
        let value = reduce(&self.pooled(), &other.pooled())?;
        let pairs = self.parts().into_iter().zip(other.parts());
        let values: Vec<f64> = pairs.filter_map(|(base, other)| reduce(base, other)).collect();
        Some(Estimate { value, error: standard_error(&values), parts: values.len() })
    }

    fn pooled(&self) -> Vec<Observation> {
        self.iter().copied().collect()
    }

    fn parts(&self) -> Vec<&[Observation]> {
        match self.repetitions.as_slice() {
            [] => Vec::new(),
            [only] => {
                let length = only.len().div_ceil(BATCHES).max(BATCH_FLOWS_MIN);
                // A last, shorter batch would count as much as the others.
                only.chunks_exact(length).collect()
            }
            many => many.iter().map(Vec::as_slice).collect(),
        }
    }
}

fn standard_error(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (count - 1.0) / count).sqrt())
}

/// A range of sizes that is shown as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest size in bytes.
    pub from: u64,
    /// Largest size in bytes.
    pub to: u64,
}

/// Buckets for these sizes: each size its own, as in the bars of the papers, or a few per decade when there are
/// more than two dozen.
pub fn buckets(sizes: impl IntoIterator<Item = u64>) -> Vec<Bucket> {
    let distinct: std::collections::BTreeSet<u64> = sizes.into_iter().collect();
    if distinct.len() <= SIZES_MAX {
        return distinct.into_iter().map(|size| Bucket { from: size, to: size }).collect();
    }
    let step = |size: u64| ((size.max(1) as f64).log10() * BUCKETS_PER_DECADE).floor() as i64;
    let mut buckets: Vec<Bucket> = Vec::new();
    for size in distinct {
        match buckets.last_mut() {
            Some(last) if step(last.from) == step(size) => last.to = size,
            _ => buckets.push(Bucket { from: size, to: size }),
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(bytes: u64, fct: f64) -> Observation {
        Observation { bytes, fct }
    }

    #[test]
    fn means_weigh_flows_or_bytes() {
        let flows = [flow(1, 1.0), flow(3, 2.0)];
        assert_eq!(mean(&flows, Weight::Flows), Some(1.5));
        assert_eq!(mean(&flows, Weight::Bytes), Some(1.75));
        assert_eq!(mean(&[], Weight::Flows), None);
        assert_eq!(mean(&[flow(0, 1.0)], Weight::Bytes), None);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.01), Some(2.0));
        assert_eq!(percentile(&values, 0.5), Some(100.0));
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&values, 1.0), Some(200.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn error_of_repetitions_is_the_one_of_their_means() {
        let flows = Flows::new(vec![vec![flow(1, 1.0)], vec![flow(1, 2.0)], vec![flow(1, 3.0)]]);
        let estimate = flows.mean(Weight::Flows).unwrap();
        assert_eq!((estimate.value, estimate.parts), (2.0, 3));
        assert!((estimate.error.unwrap() - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((estimate.deviation().unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_repetition_is_cut_into_batches() {
        // 400 flows: 20 batches of 20, alternately 1 s and 3 s.
        let flows = (0..400).map(|index| flow(1, if index / 20 % 2 == 0 { 1.0 } else { 3.0 })).collect();
        let estimate = Flows::new(vec![flows]).mean(Weight::Flows).unwrap();
        assert_eq!((estimate.value, estimate.parts), (2.0, 20));
        assert!((estimate.error.unwrap() - (20.0f64 / 19.0 / 20.0).sqrt()).abs() < 1e-12);
        let few = Flows::new(vec![vec![flow(1, 1.0); 25]]).mean(Weight::Flows).unwrap();
        assert_eq!((few.error, few.parts), (None, 1));
    }

    #[test]
    fn what_two_schemes_have_in_common_cancels() {
        // Repetitions differ by a factor of ten, the reduction does not.
        let base = Flows::new(vec![vec![flow(1, 1.0)], vec![flow(1, 10.0)]]);
        let half = Flows::new(vec![vec![flow(1, 0.5)], vec![flow(1, 5.0)]]);
        let reduction = base.reduction(&half, Weight::Flows).unwrap();
        assert_eq!((reduction.value, reduction.error), (0.5, Some(0.0)));
        assert_eq!(base.reduction(&Flows::default(), Weight::Flows), None);
    }

    #[test]
    fn few_sizes_are_buckets_of_their_own_and_many_are_not() {
        assert_eq!(buckets([5, 1, 5]), [Bucket { from: 1, to: 1 }, Bucket { from: 5, to: 5 }]);
        let many = buckets(1..=1000);
        assert_eq!(many.len(), 10);
        assert_eq!((many[0], many[9]), (Bucket { from: 1, to: 2 }, Bucket { from: 1000, to: 1000 }));
    }

    proptest! {
        #[test]
        fn every_size_is_in_exactly_one_bucket(sizes in prop::collection::vec(0u64..10_000_000, 0..200)) {
            let buckets = buckets(sizes.iter().copied());
            for size in sizes {
                let inside = buckets.iter().filter(|b| (b.from..=b.to).contains(&size)).count();
                prop_assert_eq!(inside, 1);
            }
        }

        #[test]
        fn means_lie_between_the_extremes(
            flows in prop::collection::vec((1u64..1_000_000, 0.001f64..100.0), 1..100),
        ) {
            let flows: Vec<_> = flows.into_iter().map(|(bytes, fct)| flow(bytes, fct)).collect();
            let low = flows.iter().map(|flow| flow.fct).fold(f64::INFINITY, f64::min);
            let high = flows.iter().map(|flow| flow.fct).fold(0.0, f64::max);
            for weight in [Weight::Flows, Weight::Bytes] {
                let mean = mean(&flows, weight).unwrap();
                prop_assert!(low * 0.999_999 <= mean && mean <= high * 1.000_001);
            }
        }
    }
}
