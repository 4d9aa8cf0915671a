//! Counters by table.

use metrics::{Unit, describe_counter};

/// Reads a value.
pub(super) type Value<T> = fn(&T) -> u64;

/// A counter: name, unit, meaning, and its value.
pub(super) type Counted<T> = (&'static str, Unit, &'static str, Value<T>);

pub(super) fn describe<T>(counters: &[Counted<T>]) {
    for &(name, unit, meaning, _) in counters {
        describe_counter!(name, unit, meaning);
    }
}

/// Zeros would only create empty series.
pub(super) fn add(count: u64, report: impl FnOnce(u64)) {
    if count > 0 {
        report(count);
    }
}
