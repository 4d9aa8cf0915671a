//! Statistics of a link per level.

use std::time::Duration;

use rc3_queue::Tally;
use rc3_units::Level;

/// Statistics of a link for the packets of one level.
///
/// Once the link is empty, `offered + duplicated = dropped + lost + delivered` holds for packets. It holds for bytes if
/// the queue fragments no packets: fragmentation adds a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelStats {
    /// Passed to the link.
    pub offered: Tally,
    /// Dropped by the queue, on arrival or by push-out.
    pub dropped: Tally,
    /// Lost after the queue.
    pub lost: Tally,
    /// Duplicates made behind the queue.
    pub duplicated: Tally,
    /// Arrived at the far end, duplicates included.
    pub delivered: Tally,
    /// Longest time from arrival at the link to the start of service.
    pub queueing_delay_max: Duration,
}

/// Statistics of a link per level.
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
