//! Datagrams between the workers of an endpoint.

use metrics::{Unit, counter, describe_counter};

use super::counter::add;
use crate::workers::HandedOver;

const HANDED_OVER: &str = "rc3_handed_over_datagrams";
const DROPPED: &str = "rc3_handed_over_dropped_datagrams";

pub(super) fn describe() {
    describe_counter!(HANDED_OVER, Unit::Count, "datagrams that arrived at another worker");
    describe_counter!(DROPPED, Unit::Count, "of these, dropped because a worker did not take them in time");
}

/// Reports what was handed over since the last report of any worker.
pub(crate) fn report_handed_over(since: HandedOver) {
    for (name, count) in [("primary", since.primary), ("rlp", since.rlp)] {
        add(count, |count| counter!(HANDED_OVER, "loop" => name).increment(count));
    }
    add(since.dropped, |count| counter!(DROPPED).increment(count));
}
