//! The shared part of handles to an endpoint or to a waiting handshake.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::Mutex;

use crate::{shared::Shared, socket, state::EndpointState, waiters::EndpointWaiters};

/// State shared by all clones of an endpoint and its waiting handshakes.
pub(crate) struct EndpointRef {
    /// At least one.
    pub(crate) workers: Box<[Arc<Shared>]>,
    /// The worker whose turn it is.
    turn: AtomicUsize,
    /// For future sockets.
    pub(crate) socket: socket::Options,
    /// Held during a hand-over of the port to another process.
    #[cfg_attr(any(not(target_os = "linux"), rc3_portable), expect(dead_code, reason = "no hand-overs"))]
    pub(crate) handing_over: Mutex<()>,
}

impl EndpointRef {
    /// `workers` is not empty.
    pub(crate) fn new(workers: Box<[Arc<Shared>]>, socket: socket::Options) -> Self {
        Self { workers, turn: AtomicUsize::new(0), socket, handing_over: Mutex::new(()) }
    }

    /// The first worker, for what all have in common.
    pub(crate) fn first(&self) -> &Arc<Shared> {
        &self.workers[0]
    }

    /// The waiters, which the workers have in common.
    pub(crate) fn waiters(&self) -> &EndpointWaiters {
        &self.first().waiters
    }

    /// All workers, another one first at each call.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = &Arc<Shared>> {
        let turn = if self.workers.len() == 1 { 0 } else { self.turn.fetch_add(1, Relaxed) };
        let (later, first) = self.workers.split_at(turn % self.workers.len());
        first.iter().chain(later)
    }

    /// Asks each worker, one after the other.
    pub(crate) fn each<T>(&self, mut ask: impl FnMut(&mut EndpointState) -> T) -> Vec<T> {
        self.workers.iter().map(|worker| worker.with(&mut ask)).collect()
    }
}

impl Drop for EndpointRef {
    fn drop(&mut self) {
        self.each(EndpointState::release_endpoint);
    }
}
