//! Which streams go first: those that have written least of late.
//!
//! A stream's priority falls with the bytes that it has written recently, so a keystroke, a prompt or a short answer
//! overtakes a long transfer on the same connection. This is least attained service, as in PIAS (NSDI 2015), with
//! forgetting: it needs to know neither the protocol nor the length of what is carried, and a stream that becomes quiet
//! is interactive again. It depends on no rate, so it holds on slow links too.

use std::time::{Duration, Instant};

/// The priority of a stream that has written little.
pub const INTERACTIVE: i32 = 5;
/// Up to this many recent bytes a stream has the best priority; each step down has four times as many.
const INTERACTIVE_BYTES: f64 = 16_384.0;
/// Time after which written bytes count half.
const HALF_LIFE: Duration = Duration::from_secs(10);

/// The recent bytes of one direction of a stream.
#[derive(Debug, Clone, Copy)]
pub struct Attained {
    bytes: f64,
    at: Instant,
}

impl Attained {
    /// A stream that has written nothing.
    pub fn new(now: Instant) -> Self {
        Self { bytes: 0.0, at: now }
    }

    /// Counts bytes that are about to be written; returns the stream's priority from [`INTERACTIVE`] down to 0.
    pub fn on_bytes(&mut self, now: Instant, bytes: usize) -> i32 {
        let age = now.saturating_duration_since(self.at);
        self.at = now;
        self.bytes = self.bytes * (-age.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2() + bytes as f64;
        let steps = (self.bytes / INTERACTIVE_BYTES).log2() / 2.0;
        INTERACTIVE - steps.ceil().clamp(0.0, f64::from(INTERACTIVE)) as i32
    }

    /// The write has waited until now. Its bytes do not age meanwhile: a stream that waits is not quiet.
    pub fn on_written(&mut self, now: Instant) {
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn keystrokes_stay_interactive() {
        let mut now = Instant::now();
        let mut attained = Attained::new(now);
        for _ in 0..10_000 {
            now += 100 * MS;
            // An ssh packet with one byte.
            assert_eq!(attained.on_bytes(now, 36), INTERACTIVE);
        }
    }

    #[test]
    fn bulk_is_last_even_on_a_slow_link() {
        for (bytes_per_second, at_most) in [(8_000, 3), (100_000, 1), (10_000_000, 0)] {
            let mut now = Instant::now();
            let mut attained = Attained::new(now);
            let mut priority = INTERACTIVE;
            for _ in 0..1000 {
                now += 100 * MS;
                priority = attained.on_bytes(now, bytes_per_second / 10);
            }
            assert!(priority <= at_most, "{bytes_per_second}: {priority}");
        }
    }

    #[test]
    fn priority_falls_with_bytes_and_returns_with_time() {
        let start = Instant::now();
        let mut attained = Attained::new(start);
        let mut last = INTERACTIVE;
        for _ in 0..200 {
            let priority = attained.on_bytes(start, 32 << 10);
            assert!(priority <= last);
            last = priority;
        }
        assert_eq!(last, 0);
        assert_eq!(attained.on_bytes(start + 1000 * MS, 1), 0);
        assert_eq!(attained.on_bytes(start + 120_000 * MS, 1), INTERACTIVE);
    }

    #[test]
    fn a_stream_that_waits_does_not_become_interactive() {
        let start = Instant::now();
        let mut attained = Attained::new(start);
        attained.on_bytes(start, 8 << 20);
        let later = start + 600_000 * MS;
        attained.on_written(later);
        assert_eq!(attained.on_bytes(later, 1), 0);
    }
}
