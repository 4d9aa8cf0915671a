//! Statistics of a router.

pub use rc3_queue::Tally;

use crate::signal::Withheld;

/// Statistics of a [`Router`](crate::router::Router). All are counters, except `waiting`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets that arrived, without malformed ones.
    pub arrived: Tally,
    /// Packets that left; both parts of a fragmented one.
    pub departed: Tally,
    /// Packets queued now.
    pub waiting: Tally,
    /// Inputs that are not valid packets.
    pub malformed: u64,
    /// RTT indicators among the arrivals.
    pub indicators: u64,
    /// Whole packets fragmented to carry a signal.
    pub signalled: u64,
    /// Leading fragments shortened to lower their signal.
    pub lowered: u64,
    /// Bytes of headers added by fragmentation.
    pub overhead: u64,
    /// Packets marked instead of dropped.
    pub marked: u64,
    /// By [`Withheld`], in the order of [`Withheld::ALL`].
    pub(crate) withheld: [u64; Withheld::ALL.len()],
}

impl Stats {
    /// Packets dropped by the queue: all arrivals that neither left nor are queued.
    pub fn dropped(&self) -> Tally {
        let Self { arrived, departed, waiting, signalled, lowered, overhead, .. } = self;
        Tally {
            packets: arrived.packets + signalled + lowered - departed.packets - waiting.packets,
            bytes: arrived.bytes + overhead - departed.bytes - waiting.bytes,
        }
    }

    /// Packets that left without a new signal for this reason.
    pub fn withheld(&self, reason: Withheld) -> u64 {
        self.withheld[reason as usize]
    }
}
