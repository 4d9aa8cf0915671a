//! State shared by the driver and the handles of one endpoint: the machines, their waiters, and one lock.
//!
//! Invariant: whenever the lock is free, the machines' events have been taken and every affected waiter is woken or
//! about to be. [`Shared::with`] is the only access and ensures that. Never await under the lock, and never drop a
//! handle under it (dropping one takes the lock).

use std::{fmt, mem, sync::Arc, task::Waker};

use rc3_core as core;

use crate::{
    bound::Bound, keeper::Keeper, marks::Marks, paths::PathMemory, runtime::Runtime, state::State,
    waiters::EndpointWaiters, wake::Monitor,
};

/// One endpoint.
pub(crate) struct Shared {
    state: Monitor<State>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) marks: Marks,
    /// The memory of paths, which outlives the endpoint.
    pub(crate) paths: Option<Keeper>,
    pub(crate) waiters: EndpointWaiters,
}

impl Shared {
    pub(crate) fn new(
        core: core::Endpoint,
        bound: Bound,
        marks: Marks,
        paths: Option<PathMemory>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            state: Monitor::new(State::new(core, bound, runtime.clone())),
            runtime,
            marks,
            paths: paths.map(Keeper::new),
            waiters: EndpointWaiters::default(),
        }
    }

    /// Changes the state, handles the consequences, and wakes the affected waiters after the lock is free again.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.with(|state| {
            let result = change(state);
            (result, mem::take(state.take_events(&self.waiters, self.paths.as_ref())))
        })
    }

    /// Like [`Self::with`]; affected waiters are added to `later`, for the caller to wake.
    pub(crate) fn with_later<T>(&self, later: &mut Vec<Waker>, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.with_later(|state| {
            let result = change(state);
            later.append(state.take_events(&self.waiters, self.paths.as_ref()));
            result
        })
    }

    /// The current sockets.
    pub(crate) fn bound(&self) -> Arc<Bound> {
        self.with(|state| state.bound.clone())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
