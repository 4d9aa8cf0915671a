//! The machines of one endpoint and their users: the content of the lock of [`Shared`](crate::shared::Shared).

mod connection;
mod handshakes;
mod map;

use std::{collections::VecDeque, io, iter, mem, sync::Arc, task::Waker, time::Instant};

use bytes::Bytes;
use rc3_core::{self as core, ConnectionError, ConnectionHandle, Event, VarInt};

pub(crate) use self::connection::ConnectionState;
use self::{handshakes::Handshakes, map::Map};
#[cfg(feature = "metrics")]
use crate::metrics::{Detours, EndpointGauges};
use crate::{
    bound::Bound,
    keeper::Keeper,
    runtime::Runtime,
    takeover::SuccessorLink,
    waiters::{ConnectionWaiters, EndpointWaiters},
    wake::Worker,
    workers::{HandedOver, Member},
};

/// Identifies a connection as long as a handle exists; the core reuses its handles.
pub(crate) type ConnectionId = u64;

/// What a handle does with a connection.
#[derive(Debug, Clone, Copy)]
enum Access {
    Change,
    Read,
    Write,
}

/// The content of the lock.
pub(crate) struct State {
    pub(crate) core: core::Endpoint,
    runtime: Arc<dyn Runtime>,
    pub(crate) bound: Bound,
    /// The other workers of the endpoint.
    member: Option<Member>,
    pub(crate) handshakes: Handshakes,
    /// Connections that have not ended.
    ids: Map<ConnectionHandle, ConnectionId>,
    /// These, and ended ones with handles.
    connections: Map<ConnectionId, ConnectionState>,
    next_id: ConnectionId,
    pub(crate) incoming: VecDeque<core::Incoming>,
    /// Connections whose handshake is complete, which was not announced yet.
    completed: Vec<ConnectionId>,
    /// Set by `Endpoint::close`.
    pub(crate) closed: Option<(VarInt, Bytes)>,
    /// Whether a handle to the endpoint exists.
    held: bool,
    /// Why the driver has ended, if it has.
    failure: Option<String>,
    /// Another process has taken the port over. Until then its link must stay open, because its end shows that the
    /// process has failed.
    successor_reads: bool,
    /// Its link, for the driver.
    pub(crate) successor: Option<SuccessorLink>,
    /// Datagrams passed to the process that had the port before.
    pub(crate) to_predecessor: HandedOver,
    /// Datagrams from the process that has the port now.
    pub(crate) from_successor: HandedOver,
    /// Has work when the machines may have something to send or another deadline.
    pub(crate) driver: Worker,
    wakers: Vec<Waker>,
}

impl State {
    pub(crate) fn new(
        core: core::Endpoint,
        bound: Bound,
        member: Option<Member>,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self {
            core,
            runtime,
            bound,
            member,
            handshakes: Handshakes::default(),
            ids: Map::default(),
            connections: Map::default(),
            next_id: 0,
            incoming: VecDeque::new(),
            completed: Vec::new(),
            closed: None,
            held: true,
            failure: None,
            successor_reads: false,
            successor: None,
            to_predecessor: HandedOver::default(),
            from_successor: HandedOver::default(),
            driver: Worker::new(),
            wakers: Vec::new(),
        }
    }

    /// The current time by the runtime's clock.
    pub(crate) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// A connection the core has just made.
    pub(crate) fn add(&mut self, handle: ConnectionHandle) -> (ConnectionId, Arc<ConnectionWaiters>) {
        let id = self.next_id;
        self.next_id += 1;
        let waiters = Arc::<ConnectionWaiters>::default();
        self.ids.insert(handle, id);
        if let Some(member) = &self.member {
            member.add_connection();
        }
        self.connections.insert(id, ConnectionState::new(handle, waiters.clone()));
        self.wake_driver();
        (id, waiters)
    }

    /// Refuses a handshake; the peer is informed.
    pub(crate) fn refuse(&mut self, incoming: core::Incoming) {
        self.handshakes.refused += 1;
        self.core.refuse(incoming);
        self.wake_driver();
    }

    /// Moves the endpoint, with all its connections, to other sockets.
    pub(crate) fn rebind(&mut self, bound: Bound) {
        self.bound = bound;
        self.core.handle_local_address_change(self.runtime.now());
        self.wake_driver();
    }

    /// Another process takes the port over: from now on this one only sends, by `bound`.
    #[cfg(target_os = "linux")]
    pub(crate) fn hand_over(&mut self, bound: Bound, successor: SuccessorLink) {
        self.bound = bound;
        self.successor = Some(successor);
        self.core.retire(self.runtime.now());
        self.wake_driver();
    }

    /// The other process reads the port.
    #[cfg(target_os = "linux")]
    pub(crate) fn on_successor_reads(&mut self) {
        self.successor_reads = true;
        self.wake_driver();
    }

    /// That process is gone: this one reads again, by `bound`.
    #[cfg(target_os = "linux")]
    pub(crate) fn take_back(&mut self, bound: Bound) {
        bound.set_shared(self.core.has_predecessor());
        self.bound = bound;
        self.successor_reads = false;
        self.successor = None;
        self.core.resume();
        self.wake_driver();
    }

    /// Whether another process takes the port over, or has done so.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.core.is_retired()
    }

    /// Another process, which had the port before, has connections.
    #[cfg(target_os = "linux")]
    pub(crate) fn follow(&mut self) {
        self.core.follow_predecessor();
    }

    /// It has none any more.
    pub(crate) fn end_following(&mut self, waiters: &EndpointWaiters) {
        self.core.handle_predecessor_gone();
        self.bound.set_shared(self.is_handed_over());
        waiters.idle.notify_waiters();
        self.wake_driver();
    }

    /// Whether datagrams from one process to another pass through this one.
    pub(crate) fn is_between(&self) -> bool {
        self.is_handed_over() && self.core.has_predecessor()
    }

    /// Whether nothing will ever happen again after a hand-over: no connection is left, no peer waits.
    pub(crate) fn is_done(&self) -> bool {
        self.successor_reads
            && !self.core.has_predecessor()
            && self.open_to_all() == 0
            && self.core.incoming_stats().waiting == 0
    }

    /// Something changed that the driver should handle.
    pub(crate) fn wake_driver(&mut self) {
        self.driver.wake(&mut self.wakers);
    }

    /// Whether peers may ask for new connections, and this end may.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed() && !self.is_handed_over()
    }

    /// Whether a peer may come that has not asked yet. While it is open whether another process really takes the port
    /// over, one may.
    pub(crate) fn may_get_peers(&self) -> bool {
        !self.is_closed() && !self.successor_reads
    }

    /// Whether no connection may begin, not even with a peer that has asked for it.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some() || self.failure.is_some()
    }

    /// Connections that have not ended.
    pub(crate) fn open_connections(&self) -> usize {
        self.ids.len()
    }

    /// Whether the driver can never have work again. It answers peers as long as another worker has connections.
    pub(crate) fn is_over(&self) -> bool {
        !self.held && self.open_to_all() == 0 && !self.is_between()
    }

    /// Connections of all workers that have not ended.
    fn open_to_all(&self) -> usize {
        self.member.as_ref().map_or(self.ids.len(), Member::open_connections)
    }

    /// Reads or changes one connection, without waking the driver.
    ///
    /// # Errors
    /// When the driver has ended before the connection had.
    pub(crate) fn connection<T>(
        &mut self,
        id: ConnectionId,
        change: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        self.access(id, Access::Change, change)
    }

    /// Like [`Self::connection`], for accepting streams and reading from them.
    ///
    /// # Errors
    /// As [`Self::connection`].
    pub(crate) fn reader<T>(
        &mut self,
        id: ConnectionId,
        read: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        self.access(id, Access::Read, read)
    }

    /// Like [`Self::connection`], for opening streams, and writing to, finishing or stopping them. What follows happens
    /// when the driver runs.
    ///
    /// # Errors
    /// As [`Self::connection`].
    pub(crate) fn writer<T>(
        &mut self,
        id: ConnectionId,
        write: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        self.access(id, Access::Write, write)
    }

    fn access<T>(
        &mut self,
        id: ConnectionId,
        access: Access,
        with: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        let Self { core, connections, runtime, .. } = self;
        let Some(state) = connections.get_mut(&id) else { return Err(driver_lost()) };
        if let Some(mut gone) = state.gone.take() {
            let result = with(&mut gone, state);
            state.gone = Some(gone);
            return Ok(result);
        }
        let handle = state.handle;
        let with = |connection: &mut core::Connection| with(connection, state);
        let result = match access {
            Access::Change => core.with_connection(runtime.now(), handle, with),
            Access::Read => core.with_reader(|| runtime.now(), handle, with),
            Access::Write => core.with_writer(handle, with),
        };
        result.ok_or_else(driver_lost)
    }

    /// The driver should send what readers caused, such as credit; usually there is nothing.
    pub(crate) fn wake_driver_after_reader(&mut self) {
        if self.core.wants_primary() {
            self.wake_driver();
        }
    }

    /// Reads one connection without any consequence.
    ///
    /// # Errors
    /// As [`Self::connection`].
    pub(crate) fn peek<T>(
        &self,
        id: ConnectionId,
        ask: impl FnOnce(&core::Connection, &ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        let state = self.connections.get(&id).ok_or_else(driver_lost)?;
        let live = || self.core.connection(state.handle);
        let connection = state.gone.as_deref().or_else(live).ok_or_else(driver_lost)?;
        Ok(ask(connection, state))
    }

    /// Ends a connection at once.
    pub(crate) fn close(&mut self, id: ConnectionId, code: VarInt, reason: Bytes) {
        let Some(state) = self.connections.get_mut(&id) else { return };
        if state.error.is_some() {
            return;
        }
        let now = self.runtime.now();
        self.core.with_connection(now, state.handle, |connection| {
            connection.close(now, code, reason);
        });
        state.on_lost(ConnectionError::LocallyClosed, &mut self.wakers);
        self.wake_driver();
    }

    /// Ends every connection at once and refuses waiting handshakes.
    pub(crate) fn close_all(&mut self, code: VarInt, reason: &Bytes) {
        let ids: Vec<_> = self.ids.values().copied().collect();
        for id in ids {
            self.close(id, code, reason.clone());
        }
        self.refuse_waiting();
    }

    fn refuse_waiting(&mut self) {
        for incoming in mem::take(&mut self.incoming) {
            self.refuse(incoming);
        }
        // It may have ended.
        self.wake_driver();
    }

    /// Ends a connection as soon as all accepted bytes are delivered.
    pub(crate) fn close_when_delivered(&mut self, id: ConnectionId, code: VarInt, reason: Bytes) {
        let finished = self.connection(id, |connection, state| {
            for &stream in &state.undelivered {
                // A stream that is already finished is fine.
                let _ = connection.finish(stream);
            }
            state.closing.get_or_insert((code, reason));
        });
        if finished.is_ok() {
            self.wake_driver();
            self.close_if_delivered(id);
        }
    }

    /// The last stream may just have been delivered.
    pub(crate) fn close_if_delivered(&mut self, id: ConnectionId) {
        let Some(state) = self.connections.get_mut(&id) else { return };
        if state.undelivered.is_empty()
            && let Some((code, reason)) = state.closing.take()
        {
            self.close(id, code, reason);
        }
    }

    /// Whether [`Self::announce_completed`] has work.
    pub(crate) fn has_completed(&self) -> bool {
        !self.completed.is_empty()
    }

    /// What completes handshakes at the peers was sent: applications may see the connections.
    pub(crate) fn announce_completed(&mut self) {
        for id in mem::take(&mut self.completed) {
            if let Some(state) = self.connections.get_mut(&id) {
                state.announce(&mut self.wakers);
            }
        }
    }

    /// There is no handle to the connection or its streams any more. With `linger` it may first deliver.
    pub(crate) fn release_connection(&mut self, id: ConnectionId, linger: bool) {
        let Some(state) = self.connections.get_mut(&id) else { return };
        state.held = false;
        if state.gone.is_some() || self.failure.is_some() {
            self.connections.remove(&id);
        } else if linger {
            self.close_when_delivered(id, VarInt::from_u32(0), Bytes::new());
        } else if state.closing.is_none() {
            self.close(id, VarInt::from_u32(0), Bytes::new());
        }
    }

    /// There is no handle to the endpoint any more: its connections continue, new ones are refused.
    pub(crate) fn release_endpoint(&mut self) {
        self.held = false;
        self.refuse_waiting();
    }

    /// The driver is about to end because of a socket.
    pub(crate) fn fail(&mut self, error: &io::Error) {
        self.failure = Some(format!("{DRIVER_LOST}: a socket is unusable: {error}"));
    }

    /// Why the driver has ended, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    /// The driver ends: nothing will ever happen again.
    pub(crate) fn on_driver_lost(&mut self, waiters: &EndpointWaiters) {
        let failure = self.failure.get_or_insert_with(|| DRIVER_LOST.to_string());
        let error = internal_error(failure);
        self.incoming.clear();
        for _ in mem::take(&mut self.ids) {
            if let Some(member) = &self.member {
                member.remove_connection(&mut self.wakers);
            }
        }
        for state in self.connections.values_mut() {
            state.on_lost(error.clone(), &mut self.wakers);
        }
        self.connections.retain(|_, state| state.held);
        waiters.incoming.notify_waiters();
        waiters.idle.notify_waiters();
    }

    /// Takes the machines' events, which wakes some waiters; collects these and further waiters.
    pub(crate) fn take_events(
        &mut self,
        waiters: &EndpointWaiters,
        paths: Option<&Keeper>,
    ) -> &mut Vec<Waker> {
        while let Some(event) = self.core.poll_event() {
            match event {
                core::EndpointEvent::Incoming(incoming) if self.held && self.is_open() => {
                    self.incoming.push_back(incoming);
                    waiters.incoming.notify_waiters();
                }
                core::EndpointEvent::Incoming(incoming) => self.refuse(incoming),
                core::EndpointEvent::Connection(handle, event) => {
                    let Some(&id) = self.ids.get(&handle) else { continue };
                    let Some(state) = self.connections.get_mut(&id) else { continue };
                    if matches!(event, Event::Connected) {
                        self.completed.push(id);
                    }
                    let one_less =
                        matches!(event, Event::Finished(_) | Event::Stopped(..) | Event::EarlyDataRejected);
                    state.on_event(event, &mut self.wakers);
                    if one_less {
                        self.close_if_delivered(id);
                    }
                }
                core::EndpointEvent::Learned(learned) => {
                    if let Some(member) = &self.member {
                        member.share(&learned, &mut self.wakers);
                    }
                    if let Some(paths) = paths {
                        paths.on_learned(&learned, self.bound.ip());
                    }
                }
                core::EndpointEvent::Drained(core::Drained { handle, connection }) => {
                    self.on_drained(handle, connection);
                    if self.ids.is_empty() {
                        waiters.idle.notify_waiters();
                    }
                }
            }
        }
        if let Some(member) = &self.member {
            let Self { core, runtime, wakers, .. } = self;
            member.publish(|| runtime.now(), iter::from_fn(|| core.poll_route_change()), wakers);
        }
        &mut self.wakers
    }

    /// Reports the activity of the open connections since the last time, and current values.
    #[cfg(feature = "metrics")]
    pub(crate) fn report_metrics(&mut self, now: Instant) -> EndpointGauges {
        for (&handle, id) in &self.ids {
            if let (Some(state), Some(connection)) =
                (self.connections.get_mut(id), self.core.connection(handle))
            {
                state.reporter.report(&connection.stats(), now);
            }
        }
        EndpointGauges {
            open_connections: self.open_connections(),
            #[cfg(feature = "kickass")]
            steered_connections: self.steered_connections(),
            held_bytes: self.core.held_bytes(),
        }
    }

    /// Datagrams exchanged with the processes that have the port before and after this one.
    #[cfg(feature = "metrics")]
    pub(crate) fn detours(&self) -> Detours {
        Detours { to_predecessor: self.to_predecessor, from_successor: self.from_successor }
    }

    /// How many of them followed a router's rate at the last report.
    #[cfg(all(feature = "kickass", feature = "metrics"))]
    fn steered_connections(&self) -> usize {
        let states = self.ids.values().filter_map(|id| self.connections.get(id));
        states.filter(|state| state.reporter.is_steered()).count()
    }

    fn on_drained(&mut self, handle: ConnectionHandle, connection: Box<core::Connection>) {
        let Some(id) = self.ids.remove(&handle) else { return };
        if let Some(member) = &self.member {
            member.remove_connection(&mut self.wakers);
        }
        tracing::trace!(id, "connection drained");
        if let Some(state) = self.connections.get_mut(&id) {
            #[cfg(feature = "metrics")]
            state.reporter.report_end(&connection.stats(), self.runtime.now());
            state.gone = Some(connection);
            if !state.held {
                self.connections.remove(&id);
            }
        }
        if self.is_over() || self.is_done() {
            self.wake_driver();
        }
    }
}

/// The reason without a cause.
const DRIVER_LOST: &str = "the endpoint's driver has ended";

/// The error of every operation that needs a driver.
fn driver_lost() -> ConnectionError {
    internal_error(DRIVER_LOST)
}

fn internal_error(reason: &str) -> ConnectionError {
    let mut error = core::TransportError::from(core::TransportErrorCode::INTERNAL_ERROR);
    error.reason = reason.to_string();
    ConnectionError::TransportError(error)
}
