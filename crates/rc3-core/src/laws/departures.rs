//! When packets leave at a signalled rate: one full packet's time apart, never in bursts.
//!
//! Pure law: times, rates and lengths go in, times come out. Rates may change between packets; the last packet's time
//! is then computed at the new rate.

use std::time::{Duration, Instant};

/// Most lateness that a sender may catch up on: timers of user space are late by about a millisecond.
const LATENESS_MAX: Duration = Duration::from_millis(2);

/// Pacing rate in bytes per second: finite and above zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DepartureRate(f64);

impl DepartureRate {
    /// `None` unless it is finite and above zero.
    pub(crate) fn from_bytes_per_second(bytes: f64) -> Option<Self> {
        (bytes.is_finite() && bytes > 0.0).then_some(Self(bytes))
    }

    pub(crate) fn bytes_per_second(self) -> f64 {
        self.0
    }
}

/// The times of one sender.
#[derive(Debug, Clone)]
pub(crate) struct PacedDepartures {
    /// When the last packet was due.
    last: Instant,
    /// Its length, and that of packets sent outside the pace.
    bytes: u64,
    /// Whether a packet was waiting for its time at the last check. Only then is lateness the timer's fault, and caught up
    /// on.
    pub(crate) backlogged: bool,
}

impl PacedDepartures {
    /// No packet has left yet.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, bytes: 0, backlogged: false }
    }

    /// When the next packet may leave.
    pub(crate) fn next(&self, rate: DepartureRate) -> Instant {
        self.last + Duration::from_secs_f64(self.bytes as f64 / rate.bytes_per_second())
    }

    /// A packet of `bytes` has left.
    pub(crate) fn on_sent(&mut self, now: Instant, rate: DepartureRate, bytes: u64) {
        let next = self.next(rate);
        if next > now {
            // Outside the pace: the next one waits for both.
            self.bytes += bytes;
            return;
        }
        let earliest = if self.backlogged { now.checked_sub(LATENESS_MAX).unwrap_or(now) } else { now };
        self.last = next.max(earliest);
        self.bytes = bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// 1500 bytes per millisecond.
    fn rate() -> DepartureRate {
        DepartureRate::from_bytes_per_second(1.5e6).unwrap()
    }

    #[test]
    fn packets_leave_exactly_their_time_apart() {
        let start = Instant::now();
        let mut departures = PacedDepartures::new(start);
        departures.backlogged = true;
        for nth in 0..1000 {
            assert_eq!(departures.next(rate()), start + nth * MS);
            departures.on_sent(start + nth * MS, rate(), 1500);
        }
    }

    #[test]
    fn a_late_timer_is_made_up_for_and_idleness_is_not() {
        let start = Instant::now();
        let mut departures = PacedDepartures::new(start);
        departures.on_sent(start, rate(), 1500);
        departures.backlogged = true;
        departures.on_sent(start + 2 * MS, rate(), 1500);
        assert_eq!(departures.next(rate()), start + 2 * MS, "due at 1 ms, so one more may leave at once");
        departures.on_sent(start + 100 * MS, rate(), 1500);
        assert_eq!(departures.next(rate()), start + 99 * MS, "two milliseconds and no more");
        departures.backlogged = false;
        departures.on_sent(start + 200 * MS, rate(), 1500);
        assert_eq!(departures.next(rate()), start + 201 * MS);
    }

    #[test]
    fn a_new_rate_holds_for_what_was_sent_last() {
        let start = Instant::now();
        let mut departures = PacedDepartures::new(start);
        departures.on_sent(start, rate(), 1500);
        let half = DepartureRate::from_bytes_per_second(0.75e6).unwrap();
        assert_eq!(departures.next(half), start + 2 * MS);
        // A packet that cannot wait, such as a loss probe: the next one pays for it.
        departures.on_sent(start, rate(), 1500);
        assert_eq!(departures.next(rate()), start + 2 * MS);
    }
}
