//! One flow over a bottleneck, and what others send beside it.

use std::{iter, time::Duration};

use crate::{
    agent::{Flow, FlowId, HostId, SchemeId, Writes},
    random::Random,
    topology::Nominal,
};

/// A flow that takes longer, in virtual time, never ends; nor do flows without end go on for longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// The sender under test; its receiver is the next host. Both ends of other flows follow.
const SENDER: HostId = HostId(0);

/// Flows of others have numbers from here on.
const OTHERS: u32 = 1000;

/// Sizes of short flows, in bytes.
const SHORT: [u64; 3] = [10_000, 30_000, 100_000];

/// The flow that is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct One {
    /// Bytes of the application.
    pub bytes: u64,
    /// An earlier flow has taught the sender, when the bottleneck had so many times its rate.
    pub taught_at: Option<f64>,
    /// That flow went to another host behind the same bottleneck.
    pub taught_elsewhere: bool,
    /// Half way the rate of the bottleneck becomes so many times its first value.
    pub rate_change: Option<f64>,
}

impl One {
    /// The first flow of the two hosts, at the beginning of the world.
    pub(crate) fn flow(bytes: u64, scheme: SchemeId, writes: Writes) -> Flow {
        Flow { scheme, writes, ..Flow::new(SENDER, HostId(SENDER.0 + 1), bytes) }
    }

    /// The receiver of the earlier flow.
    pub(crate) fn teacher(&self) -> HostId {
        HostId(SENDER.0 + if self.taught_elsewhere { 3 } else { 1 })
    }

    /// The same flow of others, with a number that says so.
    pub(crate) fn other(flow: Flow) -> Flow {
        Flow { id: FlowId(flow.id.0.saturating_add(OTHERS)), ..flow }
    }

    /// Whether a flow is of others.
    pub(crate) fn is_other(flow: FlowId) -> bool {
        flow.0 >= OTHERS
    }
}

/// The flow of others between the hosts of a pair.
fn between(pair: u32, at: Duration, bytes: u64, writes: Writes) -> Flow {
    let from = HostId(SENDER.0 + 2 + 2 * pair);
    Flow { at, writes, ..Flow::new(from, HostId(from.0 + 1), bytes) }
}

/// So many flows that take what they get; spread over some round trips, so that they do not go up and down together.
pub(super) fn long(count: u32, nominal: Nominal, seed: u64) -> impl Iterator<Item = Flow> {
    let mut random = Random::new(seed);
    let mut at: Vec<_> = (0..count).map(|_| nominal.rtt.mul_f64(10.0 * random.unit())).collect();
    at.sort_unstable();
    (0..).zip(at).map(|(pair, at)| between(pair, at, u64::MAX >> 8, Writes::Until(LIMIT)))
}

/// Short flows that make up this share of the bottleneck's rate.
pub(super) fn short(load: f64, nominal: Nominal, seed: u64) -> impl Iterator<Item = Flow> {
    let mut random = Random::new(seed);
    let mean = SHORT.iter().sum::<u64>() as f64 / SHORT.len() as f64;
    let bytes_per_second = nominal.rate.bits_per_second() as f64 / 8.0 * load;
    let gap = Duration::try_from_secs_f64(mean / bytes_per_second).ok();
    let mut at = Duration::ZERO;
    let next = move || {
        at += random.exponential(gap?).max(Duration::from_nanos(1));
        Some((at, SHORT[random.below(SHORT.len())]))
    };
    let flows = iter::from_fn(next).take_while(|(at, _)| *at < LIMIT);
    flows.map(|(at, bytes)| between(0, at, bytes, Writes::AtOnce))
}
