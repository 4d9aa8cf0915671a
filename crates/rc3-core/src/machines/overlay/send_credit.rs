//! How far RLP may send, as the peer has granted it.

use crate::wire::control::INITIAL_CREDIT;

/// Credit the peer has granted us.
#[derive(Debug)]
pub(crate) struct SendCredit {
    /// Sum over streams of the highest offset sent by either loop may reach this.
    connection: u64,
    /// Where a new stream starts.
    pub(crate) stream_initial: u64,
    /// That sum.
    usage: u64,
}

impl Default for SendCredit {
    /// Before the peer has said anything.
    fn default() -> Self {
        Self { connection: INITIAL_CREDIT, stream_initial: INITIAL_CREDIT, usage: 0 }
    }
}

impl SendCredit {
    /// A larger limit for the connection; smaller ones are old news. Whether there is credit now and was none: only
    /// then did a stream wait for it.
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
