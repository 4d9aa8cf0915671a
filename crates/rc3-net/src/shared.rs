//! State shared by the driver and the handles of one endpoint, or of one of its workers: the machines, their waiters,
//! and one lock.
//!
//! Invariant: whenever the lock is free, the machines' events have been taken and every affected waiter is woken or
//! about to be. [`Shared::with`] is the only access and ensures that. Never await under the lock, and never drop a
//! handle under it (dropping one takes the lock).

use std::{
    fmt, mem,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::Waker,
};

use rc3_core as core;

use crate::{
    bound::Bound,
    keeper::Keeper,
    marks::Marks,
    paths::{GOOD_FOR, PathMemory},
    runtime::Runtime,
    state::EndpointState,
    waiters::EndpointWaiters,
    wake::Monitor,
    workers::Member,
};

/// One endpoint, or one of its workers.
pub(crate) struct Shared {
    state: Monitor<EndpointState>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) marks: Marks,
    /// The memory of paths, which outlives the endpoint.
    pub(crate) paths: Option<Keeper>,
    /// Those of the endpoint, which its workers have in common.
    pub(crate) waiters: Arc<EndpointWaiters>,
    /// The workers of the endpoint.
    pub(crate) member: Member,
}

impl Shared {
    pub(crate) fn new(
        core: core::Endpoint,
        bound: Bound,
        marks: Marks,
        paths: Option<PathMemory>,
        waiters: Arc<EndpointWaiters>,
        member: Member,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            state: Monitor::new(EndpointState::new(core, bound, member.clone(), runtime.clone())),
            runtime,
            marks,
            paths: paths.map(Keeper::new),
            waiters,
            member,
        }
    }

    /// Changes the state, handles the consequences, and wakes the affected waiters after the lock is free again.
    #[inline]
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut EndpointState) -> T) -> T {
        self.state.with(|state| {
            let result = change(state);
            (result, mem::take(state.take_events(&self.waiters, self.paths.as_ref())))
        })
    }

    /// Like [`Self::with`]; affected waiters are added to `later`, for the caller to wake.
    pub(crate) fn with_later<T>(
        &self,
        later: &mut Vec<Waker>,
        change: impl FnOnce(&mut EndpointState) -> T,
    ) -> T {
        self.state.with_later(|state| {
            let result = change(state);
            later.append(state.take_events(&self.waiters, self.paths.as_ref()));
            result
        })
    }

    /// Like [`Self::with`], for a new connection to `remote` from an endpoint bound to `bound`: the machines first learn
    /// what is known of its path, or of others like it.
    pub(crate) fn with_path<T>(
        &self,
        remote: SocketAddr,
        bound: IpAddr,
        change: impl FnOnce(&mut EndpointState) -> T,
    ) -> T {
        // This makes system calls, so it comes before the lock.
        let known = self.paths.as_ref().map(|paths| paths.known(remote, bound)).unwrap_or_default();
        self.with(|state| {
            let now = state.runtime.now();
            for (destination, known) in known {
                state.core.import_path(now, SocketAddr::new(destination, 0), known, GOOD_FOR);
            }
            change(state)
        })
    }

    /// The current sockets.
    pub(crate) fn bound(&self) -> Bound {
        self.with(|state| state.bound.clone())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
