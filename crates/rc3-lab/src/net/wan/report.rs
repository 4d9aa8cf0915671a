//! What the WAN did since the report before, as a line of JSON.

use rc3_link::LevelStats;
use serde::{Deserialize, Serialize};

use super::lateness::Lateness;

/// Both directions together, where nothing else is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WanReport {
    /// Packets that left.
    pub packets: u64,
    /// How late the median packet left, in microseconds.
    pub late_median_us: u64,
    /// How late 99 % of them left at most.
    pub late_p99_us: u64,
    /// The latest.
    pub late_max_us: u64,
    /// Packets the devices did not take back.
    pub refused: u64,
    /// Packets towards the receiver that the queue dropped.
    pub dropped: u64,
    /// Packets towards the receiver that were lost behind the queue.
    pub lost: u64,
}

impl WanReport {
    /// A report of the time in which the totals of the link to the receiver went from `earlier` to `now`.
    pub(super) fn new(late: &Lateness, refused: u64, earlier: &LevelStats, now: &LevelStats) -> Self {
        let micros = |share| late.quantile(share).as_micros() as u64;
        Self {
            packets: late.count(),
            late_median_us: micros(0.5),
            late_p99_us: micros(0.99),
            late_max_us: late.max().as_micros() as u64,
            refused,
            dropped: now.dropped.packets - earlier.dropped.packets,
            lost: now.lost.packets - earlier.lost.packets,
        }
    }
}
