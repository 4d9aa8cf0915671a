//! An estimate of the remaining time.

use std::{collections::HashMap, time::Duration};

use super::{
    outcome::MeasuredFlow,
    plan::{Amount, CheckPlan, FlowKind, PlannedFlow},
};

/// How long the rest of a plan takes.
#[derive(Debug)]
pub(super) struct RemainingTime {
    left: Vec<PlannedFlow>,
    took: HashMap<FlowKind, Duration>,
}

impl RemainingTime {
    /// At the start of a plan, if there is one.
    pub(super) fn new(plan: Option<&CheckPlan>) -> Self {
        let mut left: Vec<PlannedFlow> = plan.into_iter().flat_map(CheckPlan::flows).collect();
        left.reverse();
        Self { left, took: HashMap::new() }
    }

    /// Remaining flows.
    pub(super) fn flows(&self) -> usize {
        self.left.len()
    }

    /// The next flow is done.
    pub(super) fn done(&mut self, outcome: &MeasuredFlow) {
        self.left.pop();
        self.took.insert(outcome.flow.kind, outcome.took);
    }

    /// As long as flows of the same kind took last; `None` while there is one that was never measured.
    pub(super) fn left(&self) -> Option<Duration> {
        let of = |flow: &PlannedFlow| match flow.kind.amount {
            Amount::Seconds(seconds) => Some(Duration::from_secs(seconds.into())),
            Amount::Bytes(_) => self.took.get(&flow.kind).copied(),
        };
        self.left.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{comparison::tests::outcome, plan::tests::plan},
        *,
    };

    #[test]
    fn the_rest_takes_as_long_as_the_same_flows_took() {
        let plan = plan();
        let mut pace = RemainingTime::new(Some(&plan));
        let flows: Vec<PlannedFlow> = plan.flows().collect();
        for &flow in &flows[..7] {
            pace.done(&outcome(flow, 100));
            assert_eq!(pace.left(), None, "{flow:?}");
        }
        pace.done(&outcome(flows[7], 100));
        // Eight flows of the second run, and four bulk flows of a second.
        assert_eq!(pace.left(), Some(8 * Duration::from_millis(100) + Duration::from_secs(4)));
        flows[8..].iter().for_each(|&flow| pace.done(&outcome(flow, 100)));
        assert_eq!(pace.left(), Some(Duration::ZERO));
    }
}
