//! Statistics of flow completion times as the papers print them: means over flows and over bytes, reductions,
//! percentiles, sizes apart, each with its 95 % confidence interval.
//!
//! The interval comes from parts that are nearly independent: batches of consecutive flows of each repetition (batch
//! means). Flows that share queues are correlated, so batches grow until neighbours no longer are; a batch is a whole
//! repetition in the end. Two schemes that were offered the same flows are compared part by part, so that what the
//! parts have in common cancels.

/// Batches that a repetition is cut into, most first. Two would always seem independent.
const BATCHES: [usize; 4] = [20, 10, 5, 1];
/// Batches that a single repetition is cut into at least: fewer give no interval at all.
const BATCHES_OF_ONE: usize = 5;
/// Flows below which a batch says too little.
const BATCH_FLOWS_MIN: usize = 20;
/// Normal quantile of the one-sided test, at 5 %, that neighbouring batches are correlated.
const CORRELATED: f64 = 1.645;
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
    /// A figure without an interval.
    pub fn exact(value: f64) -> Self {
        Self { value, error: None, parts: 1 }
    }

    /// Half of the 95 % confidence interval, by Student's t with one degree of freedom less than parts.
    pub fn margin(&self) -> Option<f64> {
        self.error.map(|error| error * student(self.parts.saturating_sub(1)))
    }

    /// The 95 % confidence interval; of a figure without parts the figure itself.
    pub fn interval(&self) -> (f64, f64) {
        let margin = self.margin().unwrap_or(0.0);
        (self.value - margin, self.value + margin)
    }
}

/// 97.5 % quantile of Student's t.
fn student(freedom: usize) -> f64 {
    const QUANTILES: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    let freedom = freedom.max(1);
    // Beyond the table the first two terms of the expansion in 1 / freedom, exact to three digits.
    QUANTILES.get(freedom - 1).copied().unwrap_or(1.960 + 2.372 / freedom as f64)
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

    /// The mean completion time.
    pub fn mean(&self, weight: Weight) -> Option<Estimate> {
        self.compared(self, |flows, _| mean(flows, weight))
    }

    /// By how much of `self`'s mean the one of `other` is shorter: `1 - other / self`, RC3 §3.
    ///
    /// `other` was offered the same flows in as many repetitions.
    pub fn reduction(&self, other: &Self, weight: Weight) -> Option<Estimate> {
        self.compared(other, |base, other| {
            let base = mean(base, weight).filter(|&mean| mean > 0.0)?;
            Some(1.0 - mean(other, weight)? / base)
        })
    }

    /// A figure of these flows beside those of `other`, which was offered the same flows in as many repetitions.
    pub fn compared(
        &self,
        other: &Self,
        statistic: impl Fn(&[Observation], &[Observation]) -> Option<f64>,
    ) -> Option<Estimate> {
        let value = statistic(&self.pooled(), &other.pooled())?;
        let parts = |batches| {
            let pairs = self.repetitions.iter().zip(&other.repetitions);
            let of_one = |(base, other)| {
                let pairs = cut(base, batches).zip(cut(other, batches));
                pairs.filter_map(|(base, other)| statistic(base, other)).collect()
            };
            pairs.map(|(base, other)| of_one((base.as_slice(), other.as_slice()))).collect()
        };
        Some(independent(value, self.repetitions.len(), parts))
    }

    fn pooled(&self) -> Vec<Observation> {
        self.iter().copied().collect()
    }
}

/// Batches of equal length; a last, shorter one would count as much as the others.
fn cut(flows: &[Observation], batches: usize) -> impl Iterator<Item = &[Observation]> {
    let length = if batches == 1 { flows.len().max(1) } else { (flows.len() / batches).max(BATCH_FLOWS_MIN) };
    flows.chunks_exact(length)
}

/// The figure with the error that as many parts as possible give, of which neighbours are not correlated.
///
/// `parts` are the values of each repetition that is cut into so many batches.
fn independent(value: f64, repetitions: usize, parts: impl Fn(usize) -> Vec<Vec<f64>>) -> Estimate {
    let fewest = if repetitions == 1 { BATCHES_OF_ONE } else { 1 };
    let mut values = Vec::new();
    for batches in BATCHES.into_iter().filter(|&batches| batches >= fewest) {
        let of_each = parts(batches);
        let correlated = correlation(&of_each) > CORRELATED;
        values = of_each.concat();
        // Short repetitions have no batch of that many.
        if !correlated && values.len() >= repetitions.max(2) {
            break;
        }
    }
    Estimate { value, error: standard_error(&values), parts: values.len() }
}

/// The lag-1 autocorrelation within the repetitions, in standard deviations of that of independent values; 0 of
/// values without variance.
fn correlation(of_each: &[Vec<f64>]) -> f64 {
    let (mut shared, mut all, mut pairs) = (0.0, 0.0, 0);
    let values: Vec<f64> = of_each.concat();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    for repetition in of_each {
        shared += repetition.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        all += repetition.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        pairs += repetition.len().saturating_sub(1);
    }
    let scaled =
        shared / all * values.len() as f64 / f64::from(u32::try_from(pairs).unwrap_or(u32::MAX)).sqrt();
    if scaled.is_finite() { scaled } else { 0.0 }
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
    fn error_of_short_repetitions_is_the_one_of_their_means() {
        let flows = Flows { repetitions: vec![vec![flow(1, 1.0)], vec![flow(1, 2.0)], vec![flow(1, 3.0)]] };
        let estimate = flows.mean(Weight::Flows).unwrap();
        assert_eq!((estimate.value, estimate.parts), (2.0, 3));
        assert!((estimate.error.unwrap() - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let (low, high) = estimate.interval();
        assert!((high - low - 2.0 * 4.303 * (1.0f64 / 3.0).sqrt()).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn repetitions_are_cut_into_batches() {
        // 400 flows: 20 batches of 20, alternately 1 s and 3 s.
        let flows: Vec<_> = (0..400_usize)
            .map(|index| flow(1, if (index / 20).is_multiple_of(2) { 1.0 } else { 3.0 }))
            .collect();
        let estimate = Flows { repetitions: vec![flows.clone()] }.mean(Weight::Flows).unwrap();
        assert_eq!((estimate.value, estimate.parts), (2.0, 20));
        assert!((estimate.error.unwrap() - (20.0f64 / 19.0 / 20.0).sqrt()).abs() < 1e-12);
        assert_eq!(Flows { repetitions: vec![flows.clone(), flows] }.mean(Weight::Flows).unwrap().parts, 40);
        let few = Flows { repetitions: vec![vec![flow(1, 1.0); 25]] }.mean(Weight::Flows).unwrap();
        assert_eq!((few.error, few.parts), (None, 1));
    }

    #[test]
    fn batches_grow_until_neighbours_are_not_correlated() {
        // Queues fill and drain over 800 flows: neighbouring batches of 100 are alike.
        let wave = |index: usize| flow(1, if (index / 400).is_multiple_of(2) { 1.0 } else { 3.0 });
        let slow = Flows { repetitions: vec![(0..2000).map(wave).collect(); 4] };
        let estimate = slow.mean(Weight::Flows).unwrap();
        assert!(estimate.parts < 80, "{}", estimate.parts);
        // With a trend in each of them only whole repetitions are independent.
        let trend = Flows { repetitions: vec![(0..2000).map(|index| flow(1, index as f64)).collect(); 4] };
        assert_eq!(trend.mean(Weight::Flows).unwrap().parts, 4);
    }

    #[test]
    fn intervals_hold_the_mean_in_nineteen_cases_of_twenty() {
        // An autoregressive series, whose errors batches that are too short would call a third of what they are.
        let mut state = 1_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31) - 0.5
        };
        let mut repetition = || {
            let mut value = 0.0;
            let mut next = || {
                value = 0.98 * value + random();
                flow(1, 10.0 + value)
            };
            (0..4000).map(|_| next()).collect::<Vec<_>>()
        };
        let cases = 200;
        let holds = |_: &u32| {
            let flows = Flows { repetitions: vec![repetition(), repetition(), repetition()] };
            let (low, high) = flows.mean(Weight::Flows).unwrap().interval();
            (low..=high).contains(&10.0)
        };
        let held = (0..cases).filter(holds).count();
        assert!((175..=200).contains(&held), "{held} of {cases}");
    }

    #[test]
    fn what_two_schemes_have_in_common_cancels() {
        // Repetitions differ by a factor of ten, the reduction does not.
        let base = Flows { repetitions: vec![vec![flow(1, 1.0)], vec![flow(1, 10.0)]] };
        let half = Flows { repetitions: vec![vec![flow(1, 0.5)], vec![flow(1, 5.0)]] };
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
