//! The connections of one endpoint.

use std::{mem, sync::Arc, task::Waker};

use rc3_core::{ConnectionError, ConnectionHandle, Event};

use super::{ConnectionState, map::Map};
use crate::waiters::ConnectionWaiters;

/// Identifies a connection as long as a handle exists; the core reuses its handles.
pub(crate) type ConnectionId = u64;

/// The connections of one endpoint.
#[derive(Default)]
pub(crate) struct Connections {
    /// Those that have not ended.
    ids: Map<ConnectionHandle, ConnectionId>,
    /// These, and ended ones with handles.
    states: Map<ConnectionId, ConnectionState>,
    next_id: ConnectionId,
    /// Those whose handshake is complete, which was not announced yet.
    completed: Vec<ConnectionId>,
}

impl Connections {
    pub(super) fn add(&mut self, handle: ConnectionHandle) -> (ConnectionId, Arc<ConnectionWaiters>) {
        let id = self.next_id;
        self.next_id += 1;
        let waiters = Arc::<ConnectionWaiters>::default();
        self.ids.insert(handle, id);
        self.states.insert(id, ConnectionState::new(handle, waiters.clone()));
        (id, waiters)
    }

    /// How many have not ended.
    pub(crate) fn open(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn open_ids(&self) -> Vec<ConnectionId> {
        self.ids.values().copied().collect()
    }

    /// Those that have not ended.
    #[cfg(feature = "metrics")]
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = (ConnectionHandle, &mut ConnectionState)> {
        let open = self.states.values_mut().filter(|state| state.gone.is_none());
        open.map(|state| (state.handle, state))
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&ConnectionState> {
        self.states.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut ConnectionState> {
        self.states.get_mut(&id)
    }

    /// Forgets a connection that has ended and has no handle.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        self.states.remove(&id);
    }

    /// Passes an event to its connection.
    pub(super) fn on_event(
        &mut self,
        handle: ConnectionHandle,
        event: Event,
        wakers: &mut Vec<Waker>,
    ) -> Option<ConnectionId> {
        let id = *self.ids.get(&handle)?;
        let state = self.states.get_mut(&id)?;
        if matches!(event, Event::Connected) {
            self.completed.push(id);
        }
        state.on_event(event, wakers);
        Some(id)
    }

    /// Whether [`Self::announce_completed`] has work.
    pub(crate) fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Lets applications see the connections whose handshake is complete.
    pub(super) fn announce_completed(&mut self, wakers: &mut Vec<Waker>) {
        for id in mem::take(&mut self.completed) {
            if let Some(state) = self.states.get_mut(&id) {
                state.announce(wakers);
            }
        }
    }

    /// The core has ended a connection.
    pub(super) fn end(&mut self, handle: ConnectionHandle) -> Option<ConnectionId> {
        self.ids.remove(&handle)
    }

    /// All end with `error`; returns how many had not ended.
    pub(super) fn lose_all(&mut self, error: &ConnectionError, wakers: &mut Vec<Waker>) -> usize {
        for state in self.states.values_mut() {
            state.on_lost(error.clone(), wakers);
        }
        self.states.retain(|_, state| state.held);
        mem::take(&mut self.ids).len()
    }
}
