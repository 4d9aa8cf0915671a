//! When the transmitter of a link is through with a packet.

use std::time::{Duration, Instant};

use rc3_core::units::Rate;

/// A time without a pause of the transmitter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BusyPeriod {
    /// When it began, put off by what packets took beyond the time for their bytes.
    pub(crate) since: Instant,
    /// Bytes sent in it, the packet in service included.
    pub(crate) bytes: u64,
    /// End of the present service: `since` plus the time for `bytes`.
    pub(crate) until: Instant,
}

impl BusyPeriod {
    pub(crate) fn transmit(&mut self, size: usize, rate: Option<Rate>) {
        self.bytes += size as u64;
        self.until = self.since + rate.map_or(Duration::ZERO, |rate| rate.time_for(self.bytes));
    }

    /// Ends so much later.
    pub(crate) fn linger(&mut self, time: Duration) {
        self.since += time;
        self.until += time;
    }
}
