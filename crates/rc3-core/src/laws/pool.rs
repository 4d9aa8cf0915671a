//! What the workers on one port use together: memory, and handshakes that wait.
//!
//! Each worker adds its own part. So that they do not all write one cache line for each packet, [`super::shares`] adds
//! changes of memory only when they matter.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Sums over the workers. Relaxed: no other memory is ordered by them.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    claimed: AtomicU64,
    connections: AtomicU64,
    waiting: AtomicUsize,
}

impl Pool {
    /// A worker whose connections claimed `before` bytes now claim `after`.
    pub(crate) fn on_claimed(&self, before: u64, after: u64) {
        // Sums of differences, so a wrapped one is right.
        self.claimed.fetch_add(after.wrapping_sub(before), Relaxed);
    }

    /// Claims that the workers have reported, in bytes.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed.load(Relaxed)
    }

    pub(crate) fn add_connection(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn remove_connection(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    /// A handshake begins to wait; returns how many waited before.
    pub(crate) fn add_waiting(&self) -> usize {
        self.waiting.fetch_add(1, Relaxed)
    }

    pub(crate) fn remove_waiting(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }
}
