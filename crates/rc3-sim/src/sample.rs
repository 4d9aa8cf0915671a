//! Samples of a link and its flows at regular intervals: rates, queues and modes over time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::agent::{FlowId, SchemeId};

/// One sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkSample {
    /// When, from the beginning of the world. Bytes count from the sample before.
    pub at: Duration,
    /// Bytes that wait in front of the link now.
    pub queue_bytes: u64,
    /// The flows whose packets came through the link, in the order in which they began.
    pub flows: Vec<FlowSample>,
}

/// One flow in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSample {
    /// The flow.
    pub flow: FlowId,
    /// The scheme that carries it.
    pub scheme: SchemeId,
    /// Bytes on the wire that have come through the link.
    pub bytes: u64,
    /// Whether its sender follows the rates of routers now; `None` if it never does.
    pub kickass: Option<bool>,
}
