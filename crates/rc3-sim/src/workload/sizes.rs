//! Flow sizes in packets of 1460 bytes.

use serde::Deserialize;
use thiserror::Error;

use crate::{
    random::Random,
    table::{self, TableError},
};

/// Flows above 14.6 GB are refused: means are sums over all sizes.
const PACKETS_MAX: u64 = 10_000_000;

/// A distribution of flow sizes, in whole packets of 1460 bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Sizes(SizeDistribution);

/// Why there is no such distribution.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SizesError {
    /// The file cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A flow without packets, or with more than ten million.
    #[error("sizes are 1 to {max} packets, not {0}", max = PACKETS_MAX)]
    Range(u64),
    /// The bounds are in the wrong order.
    #[error("the smallest size, {0}, is above the largest, {1}")]
    Order(u64, u64),
    /// Without a finite mean there is no load.
    #[error("a Pareto law needs a shape above 1 and a mean above 0")]
    Shape,
}

#[derive(Debug, Clone, PartialEq)]
enum SizeDistribution {
    /// Each size with the probability of it or a smaller one; the last has 1.
    Table(Vec<(u64, f64)>),
    /// Each size is equally likely.
    Uniform { min: u64, max: u64 },
    /// A Pareto law, cut off at both ends.
    Pareto { scale: f64, shape: f64, min: u64, max: u64 },
}

#[derive(Deserialize)]
struct CdfPoint {
    packets: u64,
    cumulative: f64,
}

impl Sizes {
    /// The distribution of RC3's evaluation (its reference 6, Allman 2013), as far as it is public: eleven sizes
    /// of 1 to 2107 packets, the mean is 184.5.
    ///
    /// The listed sizes are drawn, nothing between them: with textbook slow start that predicts the differences
    /// between the papers' FCTs of TCP and RC3, which interpolation does not (see the tests).
    pub fn allman2013() -> Self {
        Self::embedded(include_str!("../../data/sizes/allman2013.csv"))
    }

    /// A stand-in for the workload of 2000 in RC3's Table 1, whose data (a campus, Univ. of Wisconsin) are no
    /// longer there: P(more than n packets) falls as n^-0.9, up to 1800 packets; the mean is 9.63.
    ///
    /// The two numbers are those with which textbook slow start gives the printed differences of FCT between TCP
    /// and RC3, 16.7 ms over flows and 159 ms over bytes: a fit to the row it stands in. [`Self::agh2015`] is chosen
    /// without that row.
    pub fn campus2000() -> Self {
        const LARGEST: u32 = 1800;
        let not_above = |n: u32| 1.0 - f64::from(n + 1).powf(-0.9);
        let all = not_above(LARGEST);
        Self(SizeDistribution::Table((1..=LARGEST).map(|n| (u64::from(n), not_above(n) / all)).collect()))
    }

    /// TCP flows of a campus in 2015, by the mixture that the flow-models project (Jurkiewicz and others, 2021) fitted
    /// to them, cut off at 1 MB: 1 to 685 packets, the mean is 7.5. A stand-in for the workload of 2000 in RC3's
    /// Table 1 that knows nothing of the row's figures.
    pub fn agh2015() -> Self {
        Self::embedded(include_str!("../../data/sizes/agh2015.csv"))
    }

    /// A data centre's distribution with a heavy tail ("data mining"): 1 to 666,667 packets.
    pub fn datamining() -> Self {
        Self::embedded(include_str!("../../data/sizes/datamining.csv"))
    }

    /// A data centre's distribution ("web search", DCTCP): 6 to 20,000 packets.
    pub fn dctcp() -> Self {
        Self::embedded(include_str!("../../data/sizes/dctcp.csv"))
    }

    /// All flows alike.
    ///
    /// # Errors
    /// If `packets` is zero or too large.
    pub fn fixed(packets: u64) -> Result<Self, SizesError> {
        if (1..=PACKETS_MAX).contains(&packets) {
            Ok(Self(SizeDistribution::Table(vec![(packets, 1.0)])))
        } else {
            Err(SizesError::Range(packets))
        }
    }

    /// Every size from `min` to `max` equally likely.
    ///
    /// # Errors
    /// If there is no such size.
    pub fn uniform(min: u64, max: u64) -> Result<Self, SizesError> {
        check_range(min, max)?;
        Ok(Self(SizeDistribution::Uniform { min, max }))
    }

    /// A Pareto law of this mean and shape, rounded down to whole packets and brought within `min` and `max`,
    /// which makes the mean smaller.
    ///
    /// # Errors
    /// If `shape` is not above 1, or the bounds are invalid.
    pub fn pareto(mean: f64, shape: f64, min: u64, max: u64) -> Result<Self, SizesError> {
        check_range(min, max)?;
        let good = |x: f64| x.is_finite() && x > 0.0;
        if !good(mean) || !good(shape) || shape <= 1.0 {
            return Err(SizesError::Shape);
        }
        Ok(Self(SizeDistribution::Pareto { scale: mean * (shape - 1.0) / shape, shape, min, max }))
    }

    /// The sizes of a CSV with the columns `packets` and `cumulative`, whose last row has 1. As above, only
    /// listed sizes are drawn.
    ///
    /// # Errors
    /// If the file cannot be read, a column does not rise, or the end is not 1.
    pub fn from_csv(text: &str, file: &str) -> Result<Self, SizesError> {
        let rows: Vec<(u64, CdfPoint)> = table::rows(text, file, &["packets", "cumulative"])?;
        let error = |line, message: String| TableError { file: file.to_owned(), line, message };
        let mut sizes: Vec<(u64, f64)> = Vec::with_capacity(rows.len());
        let mut last_line = 1;
        for (line, CdfPoint { packets, cumulative }) in rows {
            if !(1..=PACKETS_MAX).contains(&packets) {
                return Err(error(line, format!("a flow of {packets} packets")).into());
            }
            let (before, below) = sizes.last().copied().unwrap_or((0, 0.0));
            if packets <= before || !(below..=1.0).contains(&cumulative) {
                return Err(error(line, "both columns must rise, the second up to 1".to_owned()).into());
            }
            sizes.push((packets, cumulative));
            last_line = line;
        }
        match sizes.last() {
            Some((_, 1.0)) => Ok(Self(SizeDistribution::Table(sizes))),
            _ => Err(error(last_line, "the last `cumulative` is not 1".to_owned()).into()),
        }
    }

    fn embedded(text: &str) -> Self {
        Self::from_csv(text, "sizes compiled in").expect("embedded data")
    }

    /// The mean in packets.
    pub fn mean(&self) -> f64 {
        match &self.0 {
            SizeDistribution::Table(sizes) => {
                let mut below = 0.0;
                let mut mean = 0.0;
                for (packets, cumulative) in sizes {
                    mean += *packets as f64 * (cumulative - below);
                    below = *cumulative;
                }
                mean
            }
            SizeDistribution::Uniform { min, max } => (min + max) as f64 / 2.0,
            // The sum of P(at least n) over all n above 0.
            SizeDistribution::Pareto { scale, shape, min, max } => {
                let at_least = |n: u64| (scale / n as f64).min(1.0).powf(*shape);
                *min as f64 + (min + 1..=*max).map(at_least).sum::<f64>()
            }
        }
    }

    /// A size in packets, from one random number.
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match &self.0 {
            SizeDistribution::Table(sizes) => {
                let uniform = random.unit();
                let at = sizes.partition_point(|(_, cumulative)| *cumulative <= uniform);
                sizes[at.min(sizes.len() - 1)].0
            }
            SizeDistribution::Uniform { min, max } => min + random.below((max - min + 1) as usize) as u64,
            SizeDistribution::Pareto { scale, shape, min, max } => {
                (random.pareto(*scale, *shape) as u64).clamp(*min, *max)
            }
        }
    }
}

fn check_range(min: u64, max: u64) -> Result<(), SizesError> {
    if min > max {
        return Err(SizesError::Order(min, max));
    }
    match [min, max].into_iter().find(|packets| !(1..=PACKETS_MAX).contains(packets)) {
        Some(packets) => Err(SizesError::Range(packets)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean round trip of the papers' Internet-2 in milliseconds (`topology::map`).
    const RTT: f64 = 39.556;

    fn table(sizes: &Sizes) -> Vec<(u64, f64)> {
        let SizeDistribution::Table(sizes) = &sizes.0 else { panic!("no table") };
        let below = std::iter::once(0.0).chain(sizes.iter().map(|(_, cumulative)| *cumulative));
        sizes.iter().zip(below).map(|((packets, cumulative), below)| (*packets, cumulative - below)).collect()
    }

    /// Round trips that slow start with an initial window of 4 takes beyond the first (RC3 §3).
    fn extra_rounds(packets: u64) -> f64 {
        let (mut window, mut sent, mut rounds) = (4, 4, 0.0);
        while sent < packets {
            window *= 2;
            sent += window;
            rounds += 1.0;
        }
        rounds
    }

    /// What slow start costs, in milliseconds: mean over flows, mean over bytes. RC3 sends it all at once, so
    /// this is also the difference between TCP's FCT and its.
    fn cost_of_slow_start(sizes: &[(u64, f64)]) -> (f64, f64) {
        let mean: f64 = sizes.iter().map(|(n, p)| *n as f64 * p).sum();
        let over_flows: f64 = sizes.iter().map(|(n, p)| p * extra_rounds(*n)).sum();
        let over_bytes: f64 = sizes.iter().map(|(n, p)| *n as f64 * p * extra_rounds(*n)).sum();
        (RTT * over_flows, RTT * over_bytes / mean)
    }

    #[test]
    fn listed_sizes_predict_what_the_papers_measured() {
        let sizes = Sizes::allman2013();
        assert!((sizes.mean() - 184.475).abs() < 1e-9);
        let (flows, bytes) = cost_of_slow_start(&table(&sizes));
        assert!((flows - 57.85).abs() < 0.01, "{flows}");
        assert!((bytes - 327.18).abs() < 0.01, "{bytes}");
        // RC3 Fig. 8, loads of 10 and 30 %: TCP less RC3, in milliseconds.
        for (flows_printed, bytes_printed) in [(125.0 - 68.0, 423.0 - 91.0), (135.0 - 76.0, 443.0 - 114.0)] {
            assert!((flows / flows_printed - 1.0_f64).abs() < 0.02, "{flows} {flows_printed}");
            assert!((bytes / bytes_printed - 1.0_f64).abs() < 0.02, "{bytes} {bytes_printed}");
        }
    }

    #[test]
    fn interpolated_sizes_would_not() {
        let mut below = (0, 0.0);
        let mut between = Vec::new();
        for (packets, probability) in table(&Sizes::allman2013()) {
            let width = packets - below.0;
            between.extend((below.0 + 1..=packets).map(|n| (n, probability / width as f64)));
            below = (packets, probability);
        }
        let (flows, _) = cost_of_slow_start(&between);
        assert!((flows / 58.0 - 1.0).abs() > 0.05, "{flows}");
    }

    #[test]
    fn the_stand_in_for_2000_meets_both_differences_of_table_1() {
        let sizes = Sizes::campus2000();
        let (flows, bytes) = cost_of_slow_start(&table(&sizes));
        assert!((flows / (87.1 - 70.4) - 1.0).abs() < 0.01, "{flows}");
        assert!((bytes / (238.0 - 79.0) - 1.0).abs() < 0.01, "{bytes}");
        assert!((sizes.mean() - 9.63).abs() < 0.01, "{}", sizes.mean());
    }

    #[test]
    fn draws_have_the_mean_that_is_claimed() {
        for (sizes, tolerance) in [
            (Sizes::allman2013(), 0.02),
            (Sizes::campus2000(), 0.05),
            (Sizes::agh2015(), 0.05),
            (Sizes::dctcp(), 0.02),
            (Sizes::fixed(66).unwrap(), 0.0),
            (Sizes::uniform(10, 20).unwrap(), 0.01),
            // Kick-Ass Fig. 3.
            (Sizes::pareto(100.0, 1.8, 1, 2000).unwrap(), 0.02),
        ] {
            let mut random = Random::new(5);
            let total: u64 = (0..200_000).map(|_| sizes.draw(&mut random)).sum();
            let mean = total as f64 / 200_000.0;
            assert!((mean / sizes.mean() - 1.0).abs() <= tolerance, "{mean}, not {}", sizes.mean());
        }
    }

    #[test]
    fn draws_stay_within_bounds_and_reach_them() {
        for (sizes, min, max) in [
            (Sizes::uniform(3, 5).unwrap(), 3, 5),
            (Sizes::pareto(10.0, 1.1, 2, 50).unwrap(), 2, 50),
            (Sizes::datamining(), 1, 666_667),
        ] {
            let mut random = Random::new(1);
            let drawn: Vec<u64> = (0..10_000).map(|_| sizes.draw(&mut random)).collect();
            assert_eq!((*drawn.iter().min().unwrap(), *drawn.iter().max().unwrap()), (min, max));
        }
    }

    #[test]
    fn impossible_laws_are_refused() {
        assert_eq!(Sizes::fixed(0), Err(SizesError::Range(0)));
        assert_eq!(Sizes::uniform(0, 5), Err(SizesError::Range(0)));
        assert_eq!(Sizes::uniform(6, 5), Err(SizesError::Order(6, 5)));
        assert_eq!(Sizes::uniform(1, u64::MAX), Err(SizesError::Range(u64::MAX)));
        assert_eq!(Sizes::pareto(10.0, 1.0, 1, 5), Err(SizesError::Shape));
        assert_eq!(Sizes::pareto(f64::NAN, 2.0, 1, 5), Err(SizesError::Shape));
    }

    #[test]
    fn sizes_of_a_file_are_checked_line_by_line() {
        let read = |rows: &str| {
            let text = format!("packets,cumulative\n{rows}");
            Sizes::from_csv(&text, "s.csv").map_err(|error| error.to_string())
        };
        assert!(read("1,0.5\n10,1\n").is_ok());
        let error = |rows| read(rows).unwrap_err();
        assert_eq!(error("1,0.5\n10,0.9\n"), "s.csv:3: the last `cumulative` is not 1");
        assert_eq!(error("1,0.5\n1,1\n"), "s.csv:3: both columns must rise, the second up to 1");
        assert_eq!(error("1,0.5\n2,0.4\n"), "s.csv:3: both columns must rise, the second up to 1");
        assert_eq!(error("1,1.5\n"), "s.csv:2: both columns must rise, the second up to 1");
        assert_eq!(error("0,1\n"), "s.csv:2: a flow of 0 packets");
        assert!(error("1,nan\n").contains("rise"));
    }
}
