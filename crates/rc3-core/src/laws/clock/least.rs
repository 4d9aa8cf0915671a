//! A recent minimum.

use std::time::{Duration, Instant};

/// How long a value counts; at most twice that. Clocks of two hosts drift apart by half a millisecond in that time, and
/// routes change. BBR uses the same time.
const WINDOW: Duration = Duration::from_secs(10);

/// The minimum of the values of the last ten to twenty seconds.
#[derive(Debug, Default)]
pub(super) struct Least {
    /// Of the previous and the current window.
    values: [Option<f64>; 2],
    began: Option<Instant>,
}

impl Least {
    /// Adds a value; returns the minimum.
    pub(super) fn add(&mut self, now: Instant, value: f64) -> f64 {
        if self.began.is_none_or(|began| now >= began + WINDOW) {
            self.began = Some(now);
            self.values = [self.values[1], None];
        }
        self.values[1] = Some(self.values[1].map_or(value, |least| least.min(value)));
        self.get().unwrap_or(value)
    }

    pub(super) fn get(&self) -> Option<f64> {
        let [before, now] = self.values;
        [before, now].into_iter().flatten().reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_past_is_forgotten() {
        let start = Instant::now();
        let mut least = Least::default();
        let mut add = |seconds, value| least.add(start + Duration::from_secs(seconds), value);
        assert_eq!((add(0, 3.0), add(5, 4.0), add(12, 5.0)), (3.0, 3.0, 3.0));
        assert_eq!((add(23, 6.0), add(34, 7.0)), (5.0, 6.0));
    }
}
