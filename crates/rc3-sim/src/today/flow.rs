//! One flow over a path.

use std::time::Duration;

use rc3_core::Verdict;

use super::{Cell, Scheme};
use crate::agent::{Flow, HostId};

/// A flow that takes longer, in virtual time, never ends.
const LIMIT: Duration = Duration::from_secs(600);

/// What became of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// From connect to the last byte at the receiver; `None` if it never came.
    pub fct: Option<Duration>,
    /// What the guard decided; `None` without one.
    pub verdict: Option<Verdict>,
    /// Packets of the primary sent.
    pub primary_packets: u64,
    /// Packets of the primary declared lost.
    pub primary_lost: u64,
    /// Packets of RLP sent.
    pub rlp_packets: u64,
    /// Packets that the bottleneck dropped, towards the receiver.
    pub dropped: u64,
}

/// Runs the flow of a cell over a new world.
pub fn flow(cell: &Cell, scheme: Scheme, seed: u64) -> Outcome {
    let mut world = cell.path.world(scheme, seed);
    world.start(&Flow::new(HostId(0), HostId(1), cell.bytes));
    world.run_to_end(LIMIT);
    let dropped = world.link_stats(crate::world::LinkId(0)).total().dropped.packets;
    let Some(record) = world.poll_record() else { return Outcome { dropped, ..Outcome::default() } };
    Outcome {
        fct: record.fct,
        verdict: record.sent.guard.map(|guard| guard.verdict),
        primary_packets: record.sent.primary_packets,
        primary_lost: record.sent.lost_packets,
        rlp_packets: record.sent.rlp_packets,
        dropped,
    }
}
