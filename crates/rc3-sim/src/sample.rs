//! What a link and the flows on it are doing, looked at from time to time: rates, queues and modes over time.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::{
    agent::{FlowId, HostId, Parcel, SchemeId},
    world::LinkId,
};

/// One look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When, from the beginning of the world. It tells of the time since the look before.
    pub at: Duration,
    /// Bytes that wait in front of the link now.
    pub queue_bytes: u64,
    /// The flows whose packets have come through the link, in the order in which they began.
    pub flows: Vec<FlowSample>,
}

/// What a look tells of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSample {
    /// Which flow.
    pub flow: FlowId,
    /// What carries it.
    pub scheme: SchemeId,
    /// Bytes on the wire that have come through the link.
    pub bytes: u64,
    /// Whether its sender follows the rates of routers now; `None` if it never does.
    pub kickass: Option<bool>,
}

/// Counts what comes through a link.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) link: LinkId,
    flows: FxHashMap<FlowId, Metered>,
}

/// What came of one flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metered {
    pub(crate) from: HostId,
    pub(crate) scheme: SchemeId,
    pub(crate) bytes: u64,
}

impl Meter {
    pub(crate) fn new(link: LinkId) -> Self {
        Self { link, flows: FxHashMap::default() }
    }

    pub(crate) fn count(&mut self, parcel: &Parcel, bytes: usize) {
        let Parcel { flow, from, scheme, .. } = *parcel;
        let metered = self.flows.entry(flow).or_insert(Metered { from, scheme, bytes: 0 });
        metered.bytes += bytes as u64;
    }

    /// What has come since this was last asked, in the order of the flows.
    pub(crate) fn take(&mut self) -> Vec<(FlowId, Metered)> {
        let mut flows: Vec<_> = self.flows.drain().collect();
        flows.sort_unstable_by_key(|(flow, _)| *flow);
        flows
    }
}
