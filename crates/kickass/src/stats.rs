//! What a router has done so far.

pub use rc3_queue::Tally;

use crate::signal::Withheld;

/// Statistics of a [`Router`](crate::router::Router). They only ever grow, but for `waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets that came, without malformed ones.
    pub arrived: Tally,
    /// Packets that left; of one that was fragmented both parts.
    pub departed: Tally,
    /// Packets that wait now.
    pub waiting: Tally,
    /// Bytes handed in that are no packet.
    pub malformed: u64,
    /// RTT indicators among the arrivals.
    pub indicators: u64,
    /// Whole packets that were made to carry a signal.
    pub signalled: u64,
    /// Leading fragments that were shortened, as their signal was higher.
    pub lowered: u64,
    /// Bytes of headers that fragmentation has added.
    pub overhead: u64,
    /// Packets marked instead of dropped.
    pub marked: u64,
    /// By [`Withheld`], in the order of [`Withheld::ALL`].
    pub(crate) withheld: [u64; Withheld::ALL.len()],
}

impl Stats {
    /// Packets dropped by the queue: all that came and neither left nor wait.
    pub fn dropped(&self) -> Tally {
        let Self { arrived, departed, waiting, signalled, lowered, overhead, .. } = self;
        Tally {
            packets: arrived.packets + signalled + lowered - departed.packets - waiting.packets,
            bytes: arrived.bytes + overhead - departed.bytes - waiting.bytes,
        }
    }

    /// Packets that left without a new signal, for this reason.
    pub fn withheld(&self, reason: Withheld) -> u64 {
        self.withheld[reason as usize]
    }
}
