//! Which connection of an endpoint is next.
//!
//! Invariant: a connection that was touched is in `primary` until its primary has nothing to send, and in `rlp` while
//! its RLP side may have something; its deadline is in `timers`.

use std::collections::VecDeque;

use crate::{machines::connection::Connection, quic::ConnectionHandle, structures::timers::Timers};

/// The queues of an endpoint's connections. A connection knows in which it is, so that it is in each once.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) timers: Timers,
    pub(super) primary: VecDeque<ConnectionHandle>,
    pub(super) rlp: VecDeque<ConnectionHandle>,
    /// Connections with input that were not served since; empty between calls.
    pub(super) changed: Vec<ConnectionHandle>,
}

impl Schedule {
    /// Lets the primary of a connection send.
    pub(super) fn queue_primary(&mut self, handle: ConnectionHandle, connection: &mut Connection) {
        if connection.set_queued_for_primary(true) {
            self.primary.push_back(handle);
        }
    }

    /// Lets the RLP side of a connection send.
    pub(super) fn queue_rlp(&mut self, handle: ConnectionHandle, connection: &mut Connection) {
        if connection.set_queued_for_rlp(true) {
            self.rlp.push_back(handle);
        }
    }

    /// Something arrived for a connection.
    pub(super) fn add_changed(&mut self, handle: ConnectionHandle, connection: &mut Connection) {
        if connection.set_changed(true) {
            self.changed.push(handle);
        }
    }

    /// Sets the timer of a connection.
    pub(super) fn arm(&mut self, handle: ConnectionHandle, connection: &mut Connection) {
        self.timers.set(handle, connection.poll_timeout());
    }

    /// A connection has ended.
    pub(super) fn forget(&mut self, handle: ConnectionHandle) {
        self.timers.set(handle, None);
        self.primary.retain(|&queued| queued != handle);
        self.rlp.retain(|&queued| queued != handle);
    }
}
