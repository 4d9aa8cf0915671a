//! When the next packet may leave: a link of a given rate, in virtual time.

use std::time::{Duration, Instant};

use rc3_units::Rate;

/// Longest transmission time of one packet, however low the rate of the link.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// The output of a router.
#[derive(Debug)]
pub(crate) struct LinkClock {
    /// `None` if the caller paces the packets.
    rate: Option<Rate>,
    /// Most missed transmission time that a late caller may catch up on.
    catch_up: Duration,
    /// When the packet sent last has left.
    pub(crate) free: Instant,
}

impl LinkClock {
    pub(crate) fn new(rate: Option<Rate>, catch_up: Duration, now: Instant) -> Self {
        Self { rate, catch_up, free: now }
    }

    /// Sets the rate for packets that leave from now on.
    pub(crate) fn reconfigure(&mut self, rate: Option<Rate>, catch_up: Duration) {
        self.rate = rate;
        self.catch_up = catch_up;
    }

    /// Nothing could be sent until now, so no transmission time was missed.
    pub(crate) fn on_idle(&mut self, now: Instant) {
        self.free = self.free.max(now);
    }

    /// A packet leaves.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let seconds = bytes as f64 / rate.bytes_per_second();
        let time = Duration::try_from_secs_f64(seconds).map_or(TIME_MAX, |time| time.min(TIME_MAX));
        let since = now.checked_sub(self.catch_up).map_or(self.free, |earliest| self.free.max(earliest));
        self.free = since + time;
    }
}
