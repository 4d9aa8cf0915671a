//! Which connection of an endpoint is next.
//!
//! Invariant: a connection that was touched is in `primary` until its primary has nothing to send, and in `rlp` while
//! its RLP side may have something; its deadline is in `timers`.

use std::{collections::VecDeque, mem, time::Instant};

use crate::{machines::connection::Connection, quic::ConnectionHandle, structures::timers::Timers};

/// The queues of an endpoint's connections. A connection knows in which it is, so that it is in each once.
#[derive(Debug)]
pub(super) struct Schedule {
    timers: Timers,
    primary: VecDeque<ConnectionHandle>,
    rlp: VecDeque<ConnectionHandle>,
    /// Connections with input that were not served since; empty between calls.
    changed: Vec<ConnectionHandle>,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self { timers: Timers::new(), primary: VecDeque::new(), rlp: VecDeque::new(), changed: Vec::new() }
    }

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

    /// The connection whose primary is next; it stays in the queue.
    pub(super) fn first_primary(&self) -> Option<ConnectionHandle> {
        self.primary.front().copied()
    }

    /// The first primary has sent, and may again once the others have.
    pub(super) fn rotate_primary(&mut self) {
        if !self.primary.is_empty() {
            self.primary.rotate_left(1);
        }
    }

    /// The first primary has nothing to send.
    pub(super) fn end_primary(&mut self) {
        self.primary.pop_front();
    }

    /// Takes the connection whose RLP side is next. It is still marked as queued.
    pub(super) fn take_rlp(&mut self) -> Option<ConnectionHandle> {
        self.rlp.pop_front()
    }

    /// It has sent, and may again once the others have.
    pub(super) fn return_rlp(&mut self, handle: ConnectionHandle) {
        self.rlp.push_back(handle);
    }

    pub(super) fn has_primary(&self) -> bool {
        !self.primary.is_empty()
    }

    pub(super) fn has_rlp(&self) -> bool {
        !self.rlp.is_empty()
    }

    /// Something arrived for a connection.
    pub(super) fn add_changed(&mut self, handle: ConnectionHandle, connection: &mut Connection) {
        if connection.set_changed(true) {
            self.changed.push(handle);
        }
    }

    /// Takes the connections with input; give the buffer back.
    pub(super) fn take_changed(&mut self) -> Vec<ConnectionHandle> {
        mem::take(&mut self.changed)
    }

    /// Takes the emptied buffer of [`Self::take_changed`].
    pub(super) fn return_changed(&mut self, mut buffer: Vec<ConnectionHandle>) {
        buffer.clear();
        self.changed = buffer;
    }

    /// Sets the timer of a connection.
    pub(super) fn arm(&mut self, handle: ConnectionHandle, connection: &mut Connection) {
        self.timers.set(handle, connection.poll_timeout());
    }

    /// When the next timer ends.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timers.first()
    }

    /// A connection whose timer has ended.
    pub(super) fn pop_timer(&mut self, now: Instant) -> Option<ConnectionHandle> {
        self.timers.pop(now)
    }

    /// A connection has ended.
    pub(super) fn forget(&mut self, handle: ConnectionHandle) {
        self.timers.set(handle, None);
        self.primary.retain(|&queued| queued != handle);
        self.rlp.retain(|&queued| queued != handle);
    }
}
