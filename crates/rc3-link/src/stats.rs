//! What a link did, level by level.

use std::time::Duration;

use rc3_core::units::Level;
use rc3_queue::Tally;

/// What a link did to the packets of one level.
///
/// Once the link is empty, `offered + duplicated = dropped + lost + delivered` of packets, and of bytes where the queue
/// fragments none: a fragmented packet leaves with one more header than it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelStats {
    /// Handed to the link.
    pub offered: Tally,
    /// Dropped by the queue, on arrival or by push-out.
    pub dropped: Tally,
    /// Lost after the queue.
    pub lost: Tally,
    /// Copies made on the way.
    pub duplicated: Tally,
    /// Taken off the far end, copies included.
    pub delivered: Tally,
    /// Longest time from being handed in to the start of service.
    pub queueing_delay_max: Duration,
}

/// What a link did, level by level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkStats {
    levels: [LevelStats; Level::COUNT],
    /// Longest queue in bytes, without the packet in service.
    pub queue_bytes_max: u64,
}

impl LinkStats {
    /// The packets of one level.
    pub fn level(&self, level: Level) -> &LevelStats {
        &self.levels[level.index()]
    }

    /// All levels together.
    pub fn total(&self) -> LevelStats {
        let mut total = LevelStats::default();
        for level in &self.levels {
            total.offered += level.offered;
            total.dropped += level.dropped;
            total.lost += level.lost;
            total.duplicated += level.duplicated;
            total.delivered += level.delivered;
            total.queueing_delay_max = total.queueing_delay_max.max(level.queueing_delay_max);
        }
        total
    }

    pub(crate) fn at(&mut self, level: Level) -> &mut LevelStats {
        &mut self.levels[level.index()]
    }
}
