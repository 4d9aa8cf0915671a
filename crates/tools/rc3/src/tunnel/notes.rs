//! Lines about failed connections, on standard error: standard output may carry a stream.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{log, sparse::Sparse, transfer::progress::count};

/// Time between two lines about failed connections.
const FAILURE_EVERY: Duration = Duration::from_secs(1);

/// Lines about failed connections: at most one per second.
#[derive(Debug)]
pub(super) struct Failures(Mutex<Sparse>);

impl Failures {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Sparse::new(FAILURE_EVERY)))
    }

    /// Prints the line, or counts it if one was printed in the last second.
    pub(super) fn print_note(&self, text: &str) {
        match self.0.lock().unwrap_or_else(PoisonError::into_inner).pass(Instant::now()) {
            None => {}
            Some(0) => log::line(text),
            Some(more) => log::line(format_args!("{text}; {} failed before", count(more, "connection"))),
        }
    }
}
