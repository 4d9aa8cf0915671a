//! Closed-loop sources: each starts its next flow a think time after its last one has ended.

use std::{sync::Arc, time::Duration};

use super::{
    PACKET, Sizes,
    ends::{Ends, Pairs},
};
use crate::{
    agent::{Flow, FlowId, Writes},
    random::{Random, derive},
    topology::Topology,
};

/// Sources that wait for the end of a flow before they start the next one. Source `n` sends from the `n`-th sending host, in
/// turn; each flow goes to a random host at another router.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedLoop {
    /// Number of sources, above zero.
    pub sources: u32,
    /// Mean of the think times, which are exponential.
    pub think: Duration,
    /// Sizes of the flows.
    pub sizes: Sizes,
    /// Senders and receivers.
    pub ends: Ends,
}

impl ClosedLoop {
    /// The sources, each with draws of its own: its `k`-th flow is the same whatever the other sources do. None if no flow
    /// is possible.
    pub(crate) fn start(&self, topology: &Topology, writes: Writes, seed: u64) -> Vec<LoopSource> {
        let Some(pairs) = self.ends.pairs(topology) else { return Vec::new() };
        let common = Arc::new(Common { config: self.clone(), pairs, writes });
        let source = |number| LoopSource {
            number,
            count: 0,
            random: Random::new(derive(seed, u64::from(number))),
            common: common.clone(),
        };
        (0..self.sources).map(source).collect()
    }
}

/// What all sources of a workload have in common.
#[derive(Debug)]
struct Common {
    config: ClosedLoop,
    pairs: Pairs,
    writes: Writes,
}

/// One source.
#[derive(Debug, Clone)]
pub(crate) struct LoopSource {
    number: u32,
    /// Flows so far.
    count: u32,
    random: Random,
    common: Arc<Common>,
}

impl LoopSource {
    /// When its first flow starts: within a first think time.
    pub(crate) fn first(&mut self) -> Duration {
        let share = self.random.unit();
        self.draw_think_time().mul_f64(share)
    }

    /// The time from the end of a flow to the start of the next.
    pub(crate) fn draw_think_time(&mut self) -> Duration {
        self.random.exponential(self.common.config.think)
    }

    /// Its next flow, starting at `at`. Its number is a draw, the same in all runs of a seed.
    pub(crate) fn flow(&mut self, at: Duration) -> Flow {
        let draw = derive(u64::from(self.number), u64::from(self.count));
        self.count = self.count.wrapping_add(1);
        let Common { config, pairs, writes } = &*self.common;
        let bytes = config.sizes.draw(&mut self.random) * PACKET;
        let (from, to) = pairs.draw_from(self.number as usize, &mut self.random);
        Flow { id: FlowId(draw as u32), at, writes: *writes, ..Flow::new(from, to, bytes) }
    }
}
