//! What a link and the flows on it are doing, looked at from time to time: rates, queues and modes over time.

use std::time::Duration;

use crate::agent::{FlowId, SchemeId};

/// One look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// When, from the beginning of the world. It tells of the time since the look before.
    pub at: Duration,
    /// Bytes that wait in front of the link now.
    pub queue_bytes: u64,
    /// The flows whose packets have come through the link, in the order in which they began.
    pub flows: Vec<FlowSample>,
}

/// What a look tells of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSample {
    /// Which flow.
    pub flow: FlowId,
    /// What carries it.
    pub scheme: SchemeId,
    /// Bytes on the wire that have come through the link.
    pub bytes: u64,
    /// Whether its sender follows the rates of routers now; `None` if it never does.
    pub kickass: Option<bool>,
}
