//! What both sides agree on: which flows go in which order, and so how many bytes and how long at most.

use std::time::Duration;

use clap::{Args, value_parser};
use rc3_text::units::parse_size;
use serde::{Deserialize, Serialize};

use crate::scheme::Scheme;

/// Most sizes of one plan.
pub const SIZES_MAX: usize = 32;
/// Largest size in bytes.
pub const SIZE_BYTES_MAX: u64 = 1_000_000_000;
/// Most runs of each size.
pub const RUNS_MAX: u32 = 100;
/// Longest bulk flow.
pub const SECONDS_MAX: u32 = 600;
/// Longest flow of a size.
const FLOW_TIME_MAX: Duration = Duration::from_secs(600);
/// Bytes per second of a bulk flow, at most: 400 Gbit/s.
const BULK_BYTES_PER_SECOND: u64 = 50_000_000_000;

/// The flows of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct CheckPlan {
    /// Sizes of the flows, separated by commas
    #[arg(long, default_value = "10k,100k,1M,5M,20M", value_delimiter = ',', value_parser = parse_size)]
    #[arg(conflicts_with = "listen")]
    pub sizes: Vec<u64>,
    /// Runs per size and scheme
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = value_parser!(u32).range(1..=100))]
    #[arg(conflicts_with = "listen")]
    pub runs: u32,
    /// Length of the bulk flows; 0 leaves them out
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = value_parser!(u32).range(0..=600))]
    #[arg(conflicts_with = "listen")]
    pub seconds: u32,
    /// Measure flows from the listener too
    #[arg(long, conflicts_with = "listen")]
    pub both: bool,
    /// Let each flow meet an unknown path; remembered paths are neither used nor stored
    #[arg(long, conflicts_with = "listen")]
    pub forget: bool,
}

/// The direction of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowDirection {
    /// To the listener.
    There,
    /// From the listener.
    Back,
}

impl FlowDirection {
    /// As a heading.
    pub fn words(self) -> &'static str {
        match self {
            Self::There => "to the listener",
            Self::Back => "from the listener",
        }
    }
}

/// How much a flow carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// As much as fits into this many seconds.
    Seconds(u32),
}

impl Amount {
    /// The bound on the bytes of the flow.
    pub(super) fn bytes_max(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Seconds(seconds) => BULK_BYTES_PER_SECOND * u64::from(seconds),
        }
    }

    /// The bound on the time of the flow, when a standstill may last for `patience`.
    pub(super) fn time_max(self, patience: Duration) -> Duration {
        match self {
            Self::Bytes(_) => FLOW_TIME_MAX,
            Self::Seconds(seconds) => Duration::from_secs(seconds.into()) + 2 * patience,
        }
    }
}

/// Flows that are comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKind {
    /// How much it carries.
    pub amount: Amount,
    /// Where to.
    pub direction: FlowDirection,
    /// By which scheme.
    pub scheme: Scheme,
}

/// One flow of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedFlow {
    /// What it is.
    pub kind: FlowKind,
    /// Its run, from 1.
    pub run: u32,
}

impl CheckPlan {
    /// Whether it is within the bounds of this module.
    pub fn is_bounded(&self) -> bool {
        (1..=SIZES_MAX).contains(&self.sizes.len())
            && self.sizes.iter().all(|bytes| (1..=SIZE_BYTES_MAX).contains(bytes))
            && (1..=RUNS_MAX).contains(&self.runs)
            && self.seconds <= SECONDS_MAX
    }

    /// The directions in use.
    pub fn directions(&self) -> &'static [FlowDirection] {
        if self.both { &[FlowDirection::There, FlowDirection::Back] } else { &[FlowDirection::There] }
    }

    /// All flows in order: run by run, size by size, the schemes in turn; bulk flows last.
    pub fn flows(&self) -> impl Iterator<Item = PlannedFlow> {
        let turns = move |amount, run| {
            self.directions().iter().flat_map(move |&direction| {
                Scheme::BOTH
                    .map(move |scheme| PlannedFlow { kind: FlowKind { amount, direction, scheme }, run })
            })
        };
        let sized = (1..=self.runs)
            .flat_map(move |run| self.sizes.iter().flat_map(move |&bytes| turns(Amount::Bytes(bytes), run)));
        let bulk = (self.seconds > 0).then(|| turns(Amount::Seconds(self.seconds), 1));
        sized.chain(bulk.into_iter().flatten())
    }

    /// What rc3 knows of the path before each flow.
    pub fn memory_text(&self) -> &'static str {
        if self.forget {
            "each flow meets an unknown path"
        } else {
            "rc3 remembers the path from earlier flows (--forget makes it unknown)"
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::check) fn plan() -> CheckPlan {
        CheckPlan { sizes: vec![10_000, 1_000_000], runs: 2, seconds: 1, both: true, forget: false }
    }

    #[test]
    fn schemes_take_turns_and_bulk_comes_last() {
        let flows: Vec<_> = plan().flows().collect();
        assert_eq!(flows.len(), 2 * 2 * 2 * 2 + 4);
        assert!(flows.chunks(2).all(|pair| {
            let [plain, rc3] = pair else { return false };
            let same = (plain.kind.amount, plain.kind.direction) == (rc3.kind.amount, rc3.kind.direction);
            same && [plain.kind.scheme, rc3.kind.scheme] == Scheme::BOTH
        }));
        assert!(flows[16..].iter().all(|flow| flow.kind.amount == Amount::Seconds(1)));
        assert_eq!((flows[0].run, flows[8].run), (1, 2));
        let there = CheckPlan { both: false, seconds: 0, ..plan() };
        assert_eq!(there.flows().count(), 8);
        assert!(there.flows().all(|flow| flow.kind.direction == FlowDirection::There));
    }

    #[test]
    fn plans_beyond_the_bounds_are_none() {
        assert!(plan().is_bounded());
        let wrong = [
            CheckPlan { sizes: Vec::new(), ..plan() },
            CheckPlan { sizes: vec![0], ..plan() },
            CheckPlan { sizes: vec![SIZE_BYTES_MAX + 1], ..plan() },
            CheckPlan { sizes: vec![1; SIZES_MAX + 1], ..plan() },
            CheckPlan { runs: 0, ..plan() },
            CheckPlan { runs: RUNS_MAX + 1, ..plan() },
            CheckPlan { seconds: SECONDS_MAX + 1, ..plan() },
        ];
        assert!(wrong.iter().all(|plan| !plan.is_bounded()), "{wrong:?}");
    }
}
