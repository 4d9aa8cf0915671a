//! Bytes that come through one link, flow by flow.

use rustc_hash::FxHashMap;

use super::LinkId;
use crate::agent::{FlowId, HostId, Parcel, SchemeId};

/// Counts what comes through a link.
#[derive(Debug)]
pub(super) struct Meter {
    pub(super) link: LinkId,
    flows: FxHashMap<FlowId, Metered>,
}

/// Bytes of one flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Metered {
    pub(super) from: HostId,
    pub(super) scheme: SchemeId,
    pub(super) bytes: u64,
}

impl Meter {
    pub(super) fn new(link: LinkId) -> Self {
        Self { link, flows: FxHashMap::default() }
    }

    pub(super) fn count(&mut self, parcel: &Parcel, bytes: usize) {
        let Parcel { flow, from, scheme, .. } = *parcel;
        let metered = self.flows.entry(flow).or_insert(Metered { from, scheme, bytes: 0 });
        metered.bytes += bytes as u64;
    }

    /// Bytes since the last call, in the order of the flows.
    pub(super) fn take(&mut self) -> Vec<(FlowId, Metered)> {
        let mut flows: Vec<_> = self.flows.drain().collect();
        flows.sort_unstable_by_key(|(flow, _)| *flow);
        flows
    }
}
