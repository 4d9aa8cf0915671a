//! How often a kind of line is printed.

use std::time::{Duration, Instant};

/// Lets one line of a kind pass in a time, and counts the others.
#[derive(Debug)]
pub(crate) struct Sparse {
    every: Duration,
    passed: Option<Instant>,
    held_back: usize,
}

impl Sparse {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, passed: None, held_back: 0 }
    }

    /// If a line may be printed now: the number of those held back since the last one. Otherwise this one is held back.
    pub(crate) fn pass(&mut self, now: Instant) -> Option<usize> {
        if self.passed.is_some_and(|passed| now.saturating_duration_since(passed) < self.every) {
            self.held_back += 1;
            return None;
        }
        self.passed = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_second_passes_of_any_number() {
        let (second, start) = (Duration::from_secs(1), Instant::now());
        let mut sparse = Sparse::new(second);
        assert_eq!(sparse.pass(start), Some(0));
        assert!((0..1000).all(|_| sparse.pass(start).is_none()));
        assert_eq!(sparse.pass(start + second), Some(1000));
        assert_eq!(sparse.pass(start + 2 * second), Some(0));
    }
}
