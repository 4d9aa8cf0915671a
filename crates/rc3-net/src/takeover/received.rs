//! What arrives on a [`Link`](super::Link).

use rc3_core::{Detour, FromPredecessor};

/// A message of the other process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Datagrams for the predecessor.
    Datagrams(Vec<Detour>),
    /// The successor has handed the port on to its own successor, or has it again.
    HandedOn(bool),
    /// For the successor.
    Report(FromPredecessor),
}

/// What has arrived.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message.
    Message(Message),
    /// Bytes of no meaning.
    Malformed,
    /// The other process has closed its end, or has ended.
    Closed,
}
