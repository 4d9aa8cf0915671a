//! Handshakes that wait for the application, and counters of those that it has answered or begun.

use std::collections::VecDeque;

use rc3_core::Incoming;

/// The handshakes of one endpoint.
#[derive(Default)]
pub(crate) struct Handshakes {
    /// Those of peers that wait for an answer.
    pub(crate) waiting: VecDeque<Incoming>,
    pub(crate) accepted: u64,
    pub(crate) outgoing: u64,
    pub(crate) ignored: u64,
}
