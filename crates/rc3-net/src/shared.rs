//! What the driver and the handles of one endpoint share: the machines, who waits for them, and one lock.
//!
//! Invariant: whenever the lock is free, the machines' events have been taken and every waiter they concern is
//! woken or about to be. [`Shared::with`] is the only way in, and it sees to that. Nobody awaits under the lock,
//! and no handle may be dropped under it (dropping one takes the lock).

use std::{fmt, mem, sync::Arc, task::Waker};

use rc3_core as core;

use crate::{
    bound::Bound, keeper::Keeper, marks::Marks, paths::PathMemory, state::State, waiters::EndpointWaiters,
    wake::Monitor,
};

/// One endpoint.
pub(crate) struct Shared {
    state: Monitor<State>,
    pub(crate) marks: Marks,
    /// What is known of paths, for longer than the endpoint lives.
    pub(crate) paths: Option<Keeper>,
    pub(crate) waiters: EndpointWaiters,
}

impl Shared {
    pub(crate) fn new(core: core::Endpoint, bound: Bound, marks: Marks, paths: Option<PathMemory>) -> Self {
        Self {
            state: Monitor::new(State::new(core, bound)),
            marks,
            paths: paths.map(Keeper::new),
            waiters: EndpointWaiters::default(),
        }
    }

    /// Does something with the state, takes note of what follows from it, and wakes whom it concerns after the
    /// lock is free again.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.with(|state| {
            let result = change(state);
            (result, mem::take(state.take_events(&self.waiters, self.paths.as_ref())))
        })
    }

    /// As [`Self::with`]; whom it concerns is added to `later`, for the caller to wake.
    pub(crate) fn with_later<T>(&self, later: &mut Vec<Waker>, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.with_later(|state| {
            let result = change(state);
            later.append(state.take_events(&self.waiters, self.paths.as_ref()));
            result
        })
    }

    /// The sockets of now.
    pub(crate) fn bound(&self) -> Arc<Bound> {
        self.with(|state| state.bound.clone())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
