//! Which places below the seed of a world its draws have.

pub(crate) use rc3_link::random::{Random, derive, unit};

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
