//! When the transmitter of a link has sent a packet.

use std::time::{Duration, Instant};

use rc3_units::Rate;

/// A busy period of the transmitter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BusyPeriod {
    /// Its start, delayed by the time that packets took beyond that for their bytes.
    pub(crate) since: Instant,
    /// Bytes sent in it, including the packet in service.
    pub(crate) bytes: u64,
    /// End of the current service: `since` plus the time for `bytes`.
    pub(crate) until: Instant,
}

impl BusyPeriod {
    pub(crate) fn transmit(&mut self, size: usize, rate: Option<Rate>) {
        self.bytes += size as u64;
        self.until = self.since + rate.map_or(Duration::ZERO, |rate| rate.time_for(self.bytes));
    }

    /// Delays the end by this much.
    pub(crate) fn linger(&mut self, time: Duration) {
        self.since += time;
        self.until += time;
    }
}
