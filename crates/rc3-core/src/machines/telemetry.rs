//! What a connection counts and logs of itself.

use crate::{
    seams::qlog::Trace,
    stats::{ReceivedStats, SentStats},
};

/// Counters and events of one connection.
#[derive(Default)]
pub(crate) struct Telemetry {
    pub(crate) sent: SentStats,
    pub(crate) received: ReceivedStats,
    pub(crate) trace: Trace,
}
