//! Counters by table.

use metrics::{Label, Unit, counter, describe_counter};

/// Reads a value.
pub(super) type Value<T> = fn(&T) -> u64;

/// A counter: name, unit, meaning, and its value.
pub(super) type Counted<T> = (&'static str, Unit, &'static str, Value<T>);

pub(super) fn describe<T>(counters: &[Counted<T>]) {
    for &(name, unit, meaning, _) in counters {
        describe_counter!(name, unit, meaning);
    }
}

/// Reports what has been added since `before`. The kernel's count of drops wraps, and new sockets start at zero.
pub(super) fn report<T>(counters: &[Counted<T>], now: &T, before: Option<&T>, labels: &[Label]) {
    for &(name, _, _, value) in counters {
        let count = value(now).saturating_sub(before.map_or(0, value));
        add(count, |count| counter!(name, labels.to_vec()).increment(count));
    }
}

/// Zeros would only create empty series.
pub(super) fn add(count: u64, report: impl FnOnce(u64)) {
    if count > 0 {
        report(count);
    }
}
