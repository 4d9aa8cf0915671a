//! How far RLP may send, by the peer's credit.

use crate::wire::control::INITIAL_CREDIT;

/// Credit granted by the peer.
#[derive(Debug)]
pub(crate) struct SendCredit {
    /// Upper bound of the sum over streams of the highest offset sent by either loop.
    connection: u64,
    /// The initial limit of a new stream.
    pub(crate) stream_initial: u64,
    /// That sum.
    usage: u64,
}

impl Default for SendCredit {
    /// Before the peer's SETTINGS.
    fn default() -> Self {
        Self { connection: INITIAL_CREDIT, stream_initial: INITIAL_CREDIT, usage: 0 }
    }
}

impl SendCredit {
    /// The peer's SETTINGS: its first limits, which may be lower than those before.
    pub(crate) fn on_settings(&mut self, connection: u64, stream: u64) {
        self.connection = connection;
        self.stream_initial = stream;
    }

    /// A larger limit for the connection; smaller ones are outdated. Returns whether there is credit now and was none
    /// before: only then did a stream wait for it.
    pub(crate) fn raise(&mut self, connection: u64) -> bool {
        let used_up = self.left() == 0;
        self.connection = self.connection.max(connection);
        used_up && self.left() > 0
    }

    pub(crate) fn on_usage(&mut self, more: u64) {
        self.usage += more;
    }

    /// How far the highest offsets may still grow.
    pub(crate) fn left(&self) -> u64 {
        self.connection.saturating_sub(self.usage)
    }
}
