//! The size of a flow-control window: large enough never to limit a flow, and no larger.
//!
//! A window used up within one round trip limits the flow. That must not happen, least of all in slow start, which
//! doubles per round trip. So a window doubles when half of it has moved within two round trips. It settles between
//! four and eight products of rate and round-trip time, or at its bound, without knowing either. If the application
//! does not keep up, little moves and no window grows.
//!
//! Unit: bytes.

use std::time::{Duration, Instant};

/// A window is large enough when half of it takes longer than this many round trips.
const ROUND_TRIPS: u32 = 2;

/// A path faster than this is not expected; unit: bytes per second (40 Gbit/s).
const RATE_MAX: f64 = 5e9;
/// Products of [`RATE_MAX`] and round-trip time that are worth storing: as many as a window settles at.
const STORED_PRODUCTS: f64 = 4.0;
/// Always worth storing: an application has time to write again, and the bytes stay in the caches of a core.
const STORED_MIN: u64 = 2 << 20;

/// How many bytes are worth storing before one of the loops sends them, on a path with this least round-trip time.
///
/// On a short path the queue of a fast sender's own packets makes most of the round trip, so its window grows although
/// the primary has more than it can send. What waits there is read from memory instead of a cache. A path of more than
/// seven milliseconds is not limited.
pub(crate) fn worth_storing(min_rtt: Duration) -> u64 {
    ((min_rtt.as_secs_f64() * RATE_MAX * STORED_PRODUCTS) as u64).max(STORED_MIN)
}

/// A window that follows the traffic through it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowTuner {
    /// The current window.
    pub(crate) window: u64,
    max: u64,
    /// When counting began, and the count at that time.
    counted_from: Option<(Instant, u64)>,
    /// The count at the last call; most calls see no movement.
    moved: Option<u64>,
}

impl WindowTuner {
    /// A window of `initial` bytes that grows up to `max`, and is never larger.
    pub(crate) fn new(initial: u64, max: u64) -> Self {
        Self { window: initial.min(max), max, counted_from: None, moved: None }
    }

    /// Makes it at least `window` bytes, within its bound.
    pub(crate) fn raise(&mut self, window: u64) {
        self.window = self.window.max(window.min(self.max));
    }

    /// In total `moved` bytes went through by `now`, on a path with this round-trip time. Returns whether the window
    /// has grown.
    ///
    /// `moved` and `now` never go backwards.
    pub(crate) fn on_moved(&mut self, now: Instant, moved: u64, rtt: Duration) -> bool {
        if self.moved.replace(moved) == Some(moved) {
            return false;
        }
        let (began, from) = *self.counted_from.get_or_insert((now, moved));
        let within = now.saturating_duration_since(began) <= rtt * ROUND_TRIPS;
        let half = moved.saturating_sub(from) >= (self.window / 2).max(1);
        if half || !within {
            self.counted_from = Some((now, moved));
        }
        let grows = half && within && self.window < self.max;
        if grows {
            self.window = self.window.saturating_mul(2).min(self.max);
        }
        grows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const STEP: Duration = Duration::from_millis(1);

    /// The window after 10 s of a steady `rate` (bytes per second), in steps of a millisecond.
    fn settled(rate: u64, rtt: Duration, initial: u64, max: u64) -> u64 {
        let mut tuner = WindowTuner::new(initial, max);
        let epoch = Instant::now();
        for step in 0..10_000u32 {
            tuner.on_moved(epoch + STEP * step, rate * u64::from(step) / 1000, rtt);
        }
        tuner.window
    }

    #[test]
    fn a_steady_flow_gets_four_to_eight_products_of_rate_and_round_trip() {
        for (mbits, millis) in [(10, 40), (100, 100), (1_000, 5), (1_000, 100), (1_000, 400), (10_000, 20)] {
            let (rate, rtt) = (mbits * 125_000, Duration::from_millis(millis));
            let product = rate * millis / 1000;
            let window = settled(rate, rtt, 1460, u64::MAX);
            assert!(window >= 4 * product * 9 / 10, "{mbits} Mbit/s x {millis} ms: {window}");
            assert!(window < 8 * product * 11 / 10, "{mbits} Mbit/s x {millis} ms: {window}");
        }
    }

    #[test]
    fn a_flow_that_needs_no_more_keeps_what_it_has() {
        assert_eq!(settled(1_000_000, Duration::from_millis(100), MIB, 64 * MIB), MIB);
        assert_eq!(settled(0, Duration::from_millis(100), MIB, 64 * MIB), MIB);
    }

    #[test]
    fn the_bound_is_kept_from_the_start() {
        assert_eq!(settled(125_000_000, Duration::from_millis(400), 4 * MIB, 10 * MIB), 10 * MIB);
        assert_eq!(WindowTuner::new(4 * MIB, MIB).window, MIB);
        assert_eq!(settled(125_000_000, Duration::from_millis(400), 4 * MIB, u64::MAX), 256 * MIB);
        // A zero window stays zero without a panic.
        assert_eq!(settled(125_000_000, Duration::from_millis(400), 0, 0), 0);
    }

    #[test]
    fn slow_start_never_fills_the_window() {
        // Each round trip brings twice as much as the last, spread over it, up to 1 Gbit/s x 400 ms.
        let rtt = Duration::from_millis(400);
        let mut tuner = WindowTuner::new(MIB, 256 * MIB);
        let epoch = Instant::now();
        let (mut moved, mut at) = (0, epoch);
        let mut flight = 14_720;
        while flight < 50_000_000 {
            for _ in 0..100 {
                moved += flight / 100;
                at += rtt / 100;
                tuner.on_moved(at, moved, rtt);
            }
            flight *= 2;
            assert!(tuner.window >= flight.min(50_000_000), "{} for {flight}", tuner.window);
        }
    }

    #[test]
    fn a_short_path_needs_few_stored_bytes_and_a_long_one_as_many_as_the_window() {
        assert_eq!(worth_storing(Duration::ZERO), 2 * MIB);
        assert_eq!(worth_storing(Duration::from_micros(60)), 2 * MIB);
        // A product of 10 Gbit/s is 1.25 MB.
        assert_eq!(worth_storing(Duration::from_millis(1)), 20_000_000);
        assert!(worth_storing(Duration::from_millis(7)) > 128 * MIB);
        assert_eq!(worth_storing(Duration::MAX), u64::MAX);
    }

    #[test]
    fn one_look_per_round_trip_is_enough() {
        let rtt = Duration::from_millis(100);
        let mut tuner = WindowTuner::new(MIB, 64 * MIB);
        let epoch = Instant::now();
        assert!(!tuner.on_moved(epoch, 0, rtt));
        assert!(tuner.on_moved(epoch + rtt, MIB, rtt));
        assert!(!tuner.on_moved(epoch + 4 * rtt, 9 * MIB, rtt), "took three round trips");
        assert!(tuner.on_moved(epoch + 6 * rtt, 10 * MIB, rtt));
        assert_eq!(tuner.window, 4 * MIB);
    }
}
