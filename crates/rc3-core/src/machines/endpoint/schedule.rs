//! Which connection of an endpoint is next.
//!
//! Invariant: a connection that was touched is in `primary` until its primary has nothing to send, and in `rlp` while
//! its RLP side may have something; its deadline is in `timers`.

use std::{collections::VecDeque, mem};

use crate::{quic::ConnectionHandle, structures::timers::Timers};

/// The queues of an endpoint's connections.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) timers: Timers,
    pub(super) primary: ServiceQueue,
    pub(super) rlp: ServiceQueue,
    /// Connections with input that were not served since; empty between calls.
    pub(super) changed: ServiceQueue,
}

impl Schedule {
    /// A connection has ended.
    pub(super) fn forget(&mut self, handle: ConnectionHandle) {
        self.timers.set(handle, None);
        self.primary.remove(handle);
        self.rlp.remove(handle);
    }
}

/// Connections in the order in which they came, each once.
#[derive(Debug, Default)]
pub(super) struct ServiceQueue {
    row: VecDeque<ConnectionHandle>,
    /// By handle: whether the connection is in the row.
    queued: Vec<bool>,
}

impl ServiceQueue {
    /// Appends a connection, unless it waits already.
    pub(super) fn push(&mut self, handle: ConnectionHandle) {
        if self.queued.len() <= handle.0 {
            self.queued.resize(handle.0 + 1, false);
        }
        if !mem::replace(&mut self.queued[handle.0], true) {
            self.row.push_back(handle);
        }
    }

    pub(super) fn pop(&mut self) -> Option<ConnectionHandle> {
        let handle = self.row.pop_front()?;
        self.queued[handle.0] = false;
        Some(handle)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.row.is_empty()
    }

    fn remove(&mut self, handle: ConnectionHandle) {
        if self.queued.get(handle.0) == Some(&true) {
            self.queued[handle.0] = false;
            self.row.retain(|&queued| queued != handle);
        }
    }
}
