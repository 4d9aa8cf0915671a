//! Lines for the user, on standard error: standard output may carry a stream.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{log, transfer::progress::count};

/// Time between two lines about failed connections.
const FAILURE_EVERY: Duration = Duration::from_secs(1);

/// Prints one line.
pub(super) fn print_note(text: &str) {
    log::line(text);
}

/// Lines about failed connections: at most one per second.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Unprinted>);

#[derive(Debug, Default)]
struct Unprinted {
    printed: Option<Instant>,
    more: usize,
}

impl Failures {
    /// Prints the line, or counts it if one was printed in the last second.
    pub(super) fn print_note(&self, text: &str) {
        if let Some(text) = self.0.lock().unwrap_or_else(PoisonError::into_inner).add(Instant::now(), text) {
            print_note(&text);
        }
    }
}

impl Unprinted {
    fn add(&mut self, now: Instant, text: &str) -> Option<String> {
        if self.printed.is_some_and(|printed| now.saturating_duration_since(printed) < FAILURE_EVERY) {
            self.more += 1;
            return None;
        }
        self.printed = Some(now);
        Some(match std::mem::take(&mut self.more) {
            0 => text.to_owned(),
            more => format!("{text}; {} failed before", count(more, "connection")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_second_is_printed_about_any_number_of_failures() {
        let (mut unprinted, start) = (Unprinted::default(), Instant::now());
        assert_eq!(unprinted.add(start, "a").as_deref(), Some("a"));
        assert!((0..1000).all(|_| unprinted.add(start, "b").is_none()));
        let later = unprinted.add(start + FAILURE_EVERY, "c");
        assert_eq!(later.as_deref(), Some("c; 1000 connections failed before"));
    }
}
