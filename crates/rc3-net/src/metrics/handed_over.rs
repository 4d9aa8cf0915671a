//! Datagrams between the workers of an endpoint, and between the processes that have its port one after the other.

use metrics::{Unit, counter, describe_counter};

use super::counter::add;
use crate::handed_over::{Detours, HandedOver};

const HANDED_OVER: &str = "rc3_handed_over_datagrams";
const DROPPED: &str = "rc3_handed_over_dropped_datagrams";
const DETOURED: &str = "rc3_detoured_datagrams";
const DETOURS_DROPPED: &str = "rc3_detoured_dropped_datagrams";

pub(super) fn describe() {
    describe_counter!(HANDED_OVER, Unit::Count, "datagrams that arrived at another worker");
    describe_counter!(DROPPED, Unit::Count, "of these, dropped because a worker did not take them in time");
    describe_counter!(DETOURED, Unit::Count, "datagrams between old and new process after a restart");
    describe_counter!(DETOURS_DROPPED, Unit::Count, "those that the old process did not take in time");
}

/// Reports what was handed over since the last report of any worker.
pub(crate) fn report_handed_over(since: HandedOver) {
    for (name, count) in [("primary", since.primary), ("rlp", since.rlp)] {
        add(count, |count| counter!(HANDED_OVER, "loop" => name).increment(count));
    }
    add(since.dropped, |count| counter!(DROPPED).increment(count));
}

/// Reports what has been added since `last`, which becomes `now`.
pub(super) fn report_detours(now: Detours, last: &mut Detours) {
    let sent = now.to_predecessor.since(last.to_predecessor);
    let received = now.from_successor.since(last.from_successor);
    for (direction, since) in [("to_predecessor", sent), ("from_successor", received)] {
        for (name, count) in [("primary", since.primary), ("rlp", since.rlp)] {
            add(count, |count| counter!(DETOURED, "loop" => name, "direction" => direction).increment(count));
        }
    }
    add(sent.dropped, |count| counter!(DETOURS_DROPPED).increment(count));
    *last = now;
}
