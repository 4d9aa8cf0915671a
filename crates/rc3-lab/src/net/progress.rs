//! How far a run is: lines on standard error.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// Lines appear so often at most.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Progress of a run.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    printed: Option<Instant>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { began: Instant::now(), printed: None }
    }
}

impl Progress {
    /// A part begins.
    pub fn begin(&mut self, what: &str) {
        if self.printed.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
            self.printed = Some(Instant::now());
            self.note(what);
        }
    }

    /// Something to know.
    pub fn note(&self, text: &str) {
        // Standard error may be closed.
        let _ = writeln!(io::stderr(), "{}: {text}", elapsed(self.began.elapsed()));
    }
}

fn elapsed(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_time_has_minutes_and_seconds() {
        assert_eq!(
            [9, 75, 3601].map(|seconds| elapsed(Duration::from_secs(seconds))),
            ["0:09", "1:15", "60:01"]
        );
    }
}
