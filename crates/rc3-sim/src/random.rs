//! Draws that cost one number of the generator each, so that two runs of a seed stay in step even if they
//! use the numbers differently.

use std::time::Duration;

use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};
pub(crate) use rc3_link::random::{derive, unit};

/// Places below the seed of a world with one flow, which draws nothing else: the two directions of its bottleneck, the flows
/// beside it, and how long those are alone.
pub(crate) const BESIDE: u64 = 2;
pub(crate) const ALONE: u64 = 3;

/// Places below a world's seed, for [`derive()`]: core rates, routers without priorities, flows with the second
/// scheme, topologies from outside the crate, and from here on one for each workload, for each core link and for
/// each uplink.
pub(crate) const CORE_RATES: u64 = 1;
pub(crate) const WITHOUT_PRIORITIES: u64 = 2;
pub(crate) const MIX: u64 = 3;
pub(crate) const TOPOLOGY: u64 = 5;
pub(crate) const WORKLOADS: u64 = 16;
pub(crate) const LINKS: u64 = 1 << 20;
pub(crate) const UPLINKS: u64 = 1 << 40;

/// A generator with the draws that worlds need.
#[derive(Debug, Clone)]
pub(crate) struct Random(Pcg64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// Uniform in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        unit(self.0.next_u64())
    }

    /// Uniform in `0..n`; `n` is not zero. What multiplication is biased by cannot be seen below 2^32.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0);
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// Exponentially distributed.
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        // In (0, 1], so that the logarithm is finite.
        mean.mul_f64(-(1.0 - self.unit()).ln())
    }

    /// Pareto distributed: at least `scale`, with a tail of this exponent.
    pub(crate) fn pareto(&mut self, scale: f64, shape: f64) -> f64 {
        scale * (1.0 - self.unit()).powf(-1.0 / shape)
    }
}
