//! The machines of one endpoint and their users: the content of the lock of `Shared`.
//!
//! `restart.rs` has what only a graceful restart needs.

mod connection;
mod connections;
mod handshakes;
mod lifetime;
mod map;
mod restart;

use std::{iter, sync::Arc, task::Waker};

use bytes::Bytes;
use rc3_core::{self as core, ConnectionError, ConnectionHandle, Event, VarInt};

pub(crate) use self::{connection::ConnectionState, connections::ConnectionId};
use self::{connections::Connections, handshakes::Handshakes, lifetime::Lifetime, restart::Restart};
#[cfg(feature = "metrics")]
use crate::metrics::EndpointGauges;
use crate::{
    bound::Bound,
    keeper::Keeper,
    runtime::Runtime,
    waiters::{ConnectionWaiters, EndpointWaiters},
    wake::Requests,
    workers::{Mail, Member},
};

/// What a handle does with a connection, and whether the driver then has work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    /// Anything without consequences for the driver.
    Change,
    /// Anything that may cause sending.
    Command,
    /// Accepts streams or reads from them, which seldom causes sending.
    Read,
    /// Like [`Self::Read`], by a reader that continues: see [`EndpointState::wake_driver_after_reader`].
    ReadOn,
    /// Opens streams, or writes to them, which may accept nothing: see [`EndpointState::wake_driver`].
    Write,
    /// Finishes or stops a stream.
    End,
}

/// The content of the lock.
pub(crate) struct EndpointState {
    pub(crate) core: core::Endpoint,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) bound: Bound,
    /// The workers of the endpoint.
    member: Member,
    pub(crate) connections: Connections,
    pub(crate) handshakes: Handshakes,
    pub(crate) lifetime: Lifetime,
    pub(crate) restart: Restart,
    /// To the driver: the machines may have something to send or another deadline.
    pub(crate) requests: Requests,
    wakers: Vec<Waker>,
}

impl EndpointState {
    pub(crate) fn new(core: core::Endpoint, bound: Bound, member: Member, runtime: Arc<dyn Runtime>) -> Self {
        Self {
            core,
            runtime,
            bound,
            member,
            connections: Connections::default(),
            handshakes: Handshakes::default(),
            lifetime: Lifetime::default(),
            restart: Restart::default(),
            requests: Requests::new(),
            wakers: Vec::new(),
        }
    }

    /// A connection the core has just made.
    pub(crate) fn add(&mut self, handle: ConnectionHandle) -> (ConnectionId, Arc<ConnectionWaiters>) {
        self.member.add_connection();
        self.wake_driver();
        self.connections.add(handle)
    }

    /// Refuses a handshake; the peer is informed.
    pub(crate) fn refuse(&mut self, incoming: core::Incoming) {
        self.core.refuse(incoming);
        self.wake_driver();
    }

    /// Moves the endpoint, with all its connections, to other sockets.
    pub(crate) fn rebind(&mut self, bound: Bound) {
        self.bound = bound;
        self.core.handle_local_address_change(self.runtime.now());
        self.wake_driver();
    }

    /// Something changed that the driver should handle.
    pub(crate) fn wake_driver(&mut self) {
        self.requests.add(&mut self.wakers);
    }

    /// Whether peers may ask for new connections, and this end may.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed() && !self.is_handed_over()
    }

    /// Whether no connection may begin, not even with a peer that has asked for it.
    pub(crate) fn is_closed(&self) -> bool {
        self.lifetime.closed || self.lifetime.failure.is_some()
    }

    /// Whether the driver can never have work again. It answers peers as long as another worker has connections.
    pub(crate) fn is_over(&self) -> bool {
        self.lifetime.released && self.member.open_connections() == 0 && !self.is_between()
    }

    /// Reads or changes one connection.
    ///
    /// # Errors
    /// When the driver has ended before the connection had.
    #[inline]
    pub(crate) fn access<T>(
        &mut self,
        id: ConnectionId,
        access: Access,
        with: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        let Self { core, connections, runtime, .. } = self;
        let Some(state) = connections.get_mut(id) else { return Err(lifetime::driver_lost()) };
        if let Some(mut gone) = state.gone.take() {
            let result = with(&mut gone, state);
            state.gone = Some(gone);
            return Ok(result);
        }
        let handle = state.handle;
        let with = |connection: &mut core::Connection| with(connection, state);
        let result = match access {
            Access::Change | Access::Command => core.with_connection(runtime.now(), handle, with),
            Access::Read | Access::ReadOn => core.with_reader(|| runtime.now(), handle, with),
            Access::Write | Access::End => core.with_writer(handle, with),
        };
        match access {
            Access::Command | Access::End => self.wake_driver(),
            Access::Read => self.wake_driver_after_reader(),
            Access::Change | Access::ReadOn | Access::Write => {}
        }
        result.ok_or_else(lifetime::driver_lost)
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
    /// As [`Self::access`].
    pub(crate) fn peek<T>(
        &self,
        id: ConnectionId,
        ask: impl FnOnce(&core::Connection, &ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        let state = self.connections.get(id).ok_or_else(lifetime::driver_lost)?;
        let live = || self.core.connection(state.handle);
        let connection = state.gone.as_deref().or_else(live).ok_or_else(lifetime::driver_lost)?;
        Ok(ask(connection, state))
    }

    /// Ends a connection at once.
    pub(crate) fn close(&mut self, id: ConnectionId, code: VarInt, reason: Bytes) {
        let Some(state) = self.connections.get_mut(id) else { return };
        if state.error.is_some() {
            return;
        }
        let now = self.runtime.now();
        self.core.with_connection(now, state.handle, |connection| {
            connection.close(now, code, reason);
        });
        state.on_lost(ConnectionError::LocallyClosed, &mut self.wakers);
        self.lifetime.closes += 1;
        self.wake_driver();
    }

    /// Ends every connection at once, refuses waiting handshakes, and lets no other connection begin.
    pub(crate) fn close_all(&mut self, code: VarInt, reason: &Bytes) {
        for id in self.connections.open_ids() {
            self.close(id, code, reason.clone());
        }
        self.lifetime.closed = true;
        self.refuse_waiting();
    }

    fn refuse_waiting(&mut self) {
        while let Some(incoming) = self.handshakes.waiting.pop_front() {
            self.refuse(incoming);
        }
        // It may have ended.
        self.wake_driver();
    }

    /// Ends a connection as soon as all accepted bytes are delivered.
    pub(crate) fn close_when_delivered(&mut self, id: ConnectionId, code: VarInt, reason: Bytes) {
        let finished = self.access(id, Access::Command, |connection, state| {
            for &stream in &state.undelivered {
                // A stream that is already finished is fine.
                let _ = connection.finish(stream);
            }
            state.closing.get_or_insert((code, reason));
        });
        if finished.is_ok() {
            self.close_if_delivered(id);
        }
    }

    /// The last stream may just have been delivered.
    pub(crate) fn close_if_delivered(&mut self, id: ConnectionId) {
        let Some(state) = self.connections.get_mut(id) else { return };
        if state.undelivered.is_empty()
            && let Some((code, reason)) = state.closing.take()
        {
            self.close(id, code, reason);
        }
    }

    /// What completes handshakes at the peers was sent: applications may see the connections.
    pub(crate) fn announce_completed(&mut self) {
        self.connections.announce_completed(&mut self.wakers);
    }

    /// There is no handle to the connection or its streams any more. With `linger` it may first deliver.
    pub(crate) fn release_connection(&mut self, id: ConnectionId, linger: bool) {
        let Some(state) = self.connections.get_mut(id) else { return };
        state.held = false;
        if state.gone.is_some() || self.lifetime.failure.is_some() {
            self.connections.remove(id);
        } else if linger {
            self.close_when_delivered(id, VarInt::from_u32(0), Bytes::new());
        } else if state.closing.is_none() {
            self.close(id, VarInt::from_u32(0), Bytes::new());
        }
    }

    /// There is no handle to the endpoint any more: its connections continue, new ones are refused.
    pub(crate) fn release_endpoint(&mut self) {
        self.lifetime.released = true;
        self.refuse_waiting();
    }

    /// The driver ends: nothing will ever happen again.
    pub(crate) fn on_driver_lost(&mut self, waiters: &EndpointWaiters) {
        let error = self.lifetime.on_driver_lost();
        self.restart.successor = None;
        self.handshakes.waiting.clear();
        for _ in 0..self.connections.lose_all(&error, &mut self.wakers) {
            self.member.remove_connection();
        }
        waiters.incoming.notify_waiters();
        waiters.idle.notify_waiters();
    }

    /// Another worker has something for this one.
    pub(crate) fn handle_mail(&mut self, mail: Mail) {
        let now = self.runtime.now();
        match mail {
            Mail::Datagram(parcel) => self.core.handle_handed_over(now, [parcel]),
            Mail::Reset((meta, token)) => self.core.handle_reset(now, meta, token),
            Mail::Verdict(learned) => self.core.share_verdict(now, &learned),
            Mail::Check => {}
        }
    }

    /// Takes the machines' events, which wakes some waiters, and passes to other workers what is theirs; collects wakers.
    pub(crate) fn take_events(
        &mut self,
        waiters: &EndpointWaiters,
        paths: Option<&Keeper>,
    ) -> &mut Vec<Waker> {
        while let Some(event) = self.core.poll_event() {
            self.on_event(event, waiters, paths);
        }
        if self.member.workers() > 1 {
            self.inform_workers();
        }
        &mut self.wakers
    }

    fn on_event(&mut self, event: core::EndpointEvent, waiters: &EndpointWaiters, paths: Option<&Keeper>) {
        match event {
            core::EndpointEvent::Incoming(incoming) if !self.lifetime.released && self.is_open() => {
                self.handshakes.waiting.push_back(incoming);
                waiters.incoming.notify_waiters();
            }
            core::EndpointEvent::Incoming(incoming) => self.refuse(incoming),
            core::EndpointEvent::Connection(handle, event) => {
                let one_less =
                    matches!(event, Event::Finished(_) | Event::Stopped(..) | Event::EarlyDataRejected);
                let id = self.connections.on_event(handle, event, &mut self.wakers);
                if let Some(id) = id.filter(|_| one_less) {
                    self.close_if_delivered(id);
                }
            }
            core::EndpointEvent::Learned(learned) => {
                self.member.inform_others(|| Mail::Verdict(learned));
                if let Some(paths) = paths {
                    paths.on_learned(&learned, self.bound.ip());
                }
            }
            core::EndpointEvent::Drained(core::Drained { handle, connection }) => {
                self.on_drained(handle, connection);
                if self.connections.open() == 0 {
                    waiters.idle.notify_waiters();
                }
            }
        }
    }

    /// Passes to other workers what is theirs.
    fn inform_workers(&mut self) {
        let Self { core, member, runtime, .. } = self;
        member.publish(|| runtime.now(), iter::from_fn(|| core.poll_route_change()));
        iter::from_fn(|| core.poll_stray()).for_each(|parcel| member.pass_stray(runtime.now(), &parcel));
        iter::from_fn(|| core.poll_reset()).for_each(|reset| member.inform_others(|| Mail::Reset(reset)));
    }

    /// Reports the activity of the open connections since the last time, and current values.
    #[cfg(feature = "metrics")]
    pub(crate) fn report_metrics(&mut self, now: std::time::Instant) -> EndpointGauges {
        for (handle, state) in self.connections.open_mut() {
            if let Some(connection) = self.core.connection(handle) {
                state.reporter.report(&connection.stats(), now);
            }
        }
        EndpointGauges {
            open_connections: self.connections.open(),
            steered_connections: self
                .connections
                .open_mut()
                .filter(|(_, state)| state.reporter.is_steered())
                .count(),
            held_bytes: self.core.held_bytes(),
        }
    }

    fn on_drained(&mut self, handle: ConnectionHandle, connection: Box<core::Connection>) {
        let Some(id) = self.connections.end(handle) else { return };
        self.member.remove_connection();
        tracing::trace!(id, "connection drained");
        if let Some(state) = self.connections.get_mut(id) {
            #[cfg(feature = "metrics")]
            state.reporter.report_end(&connection.stats(), self.runtime.now());
            state.gone = Some(connection);
            if !state.held {
                self.connections.remove(id);
            }
        }
        if self.is_over() || self.is_done() {
            self.wake_driver();
        }
    }
}
