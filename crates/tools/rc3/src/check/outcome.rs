//! The measurement of one flow.

use std::time::Duration;

use super::{
    message::ReceiverCount,
    plan::{Amount, PlannedFlow},
};
use crate::figures::PathFigures;

/// One flow of a plan, measured.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredFlow {
    /// The flow.
    pub flow: PlannedFlow,
    /// From `connect()` to the last byte at its receiver. For flows to the listener: to its reply, less half of the
    /// smallest round trip.
    pub fct: Duration,
    /// What the receiver counted.
    pub arrived: ReceiverCount,
    /// What the sender measured of its path.
    pub path: PathFigures,
    /// The smallest round trip of its connection.
    pub rtt: Duration,
    /// The visitor's whole time for the flow, with the pause after it.
    pub took: Duration,
}

impl MeasuredFlow {
    /// The rate at the receiver in bits per second, of a flow that has a time.
    pub fn rate(&self) -> Option<f64> {
        let timed = matches!(self.flow.kind.amount, Amount::Seconds(_));
        timed.then(|| self.arrived.bytes as f64 * 8.0 / self.arrived.seconds.max(1e-9))
    }
}

/// FCT of a flow to the listener, from the time until its reply.
pub(super) fn without_reply(until_reply: Duration, rtt_min: Duration) -> Duration {
    until_reply.saturating_sub(rtt_min / 2)
}
