//! What the driver and the handles of one endpoint share: the machines, who waits for them, and one lock.
//!
//! Invariant: whenever the lock is free, the machines' events have been taken and every waiter they concern is
//! woken or about to be. [`Shared::with`] is the only way in, and it sees to that. Nobody awaits under the lock,
//! and no handle may be dropped under it (dropping one takes the lock).

use std::{
    collections::VecDeque,
    fmt, io, mem,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    task::Waker,
    time::Instant,
};

use bytes::Bytes;
use rc3_core::{self as core, ConnectionError, ConnectionHandle, Event, StreamId, VarInt};
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{Notify, oneshot};

use crate::{
    keeper::Keeper,
    marks::Marks,
    paths::PathMemory,
    socket::{AsyncSocket, Options, Sockets},
    wake::{Monitor, Worker},
};

/// Names a connection for as long as anybody asks; the core's handles are used again.
pub(crate) type ConnectionId = u64;

/// A map by number: connection or stream. These are counted up and few at a time, so a peer cannot choose them
/// to collide, and the lookups of every datagram and read need no keyed hash.
pub(crate) type Map<K, V> = FxHashMap<K, V>;

/// The sockets an endpoint is bound to.
pub(crate) struct Bound {
    pub(crate) primary: AsyncSocket,
    /// `None`: everything goes over `primary`.
    pub(crate) low: Option<AsyncSocket>,
}

impl Bound {
    /// Binds them to `addr`.
    ///
    /// # Errors
    /// When the address is taken or not local.
    pub(crate) fn new(addr: SocketAddr, options: &Options) -> io::Result<Self> {
        let Sockets { primary, low } = Sockets::bind(addr, options)?;
        Ok(Self { primary: AsyncSocket::new(primary)?, low: low.map(AsyncSocket::new).transpose()? })
    }

    /// The address it is bound to.
    pub(crate) fn ip(&self) -> IpAddr {
        self.primary.local_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |local| local.ip())
    }

    /// The socket for low-priority datagrams.
    pub(crate) fn low(&self) -> &AsyncSocket {
        self.low.as_ref().unwrap_or(&self.primary)
    }
}

/// One endpoint.
pub(crate) struct Shared {
    state: Monitor<State>,
    pub(crate) marks: Marks,
    /// What is known of paths, for longer than the endpoint lives.
    pub(crate) paths: Option<Keeper>,
    /// Somebody wants to connect, or nobody ever will.
    pub(crate) incoming: Notify,
    /// The last connection is gone.
    pub(crate) idle: Notify,
}

impl Shared {
    pub(crate) fn new(core: core::Endpoint, bound: Bound, marks: Marks, paths: Option<PathMemory>) -> Self {
        let state = State {
            core,
            bound: Arc::new(bound),
            handshakes: Handshakes::default(),
            ids: Map::default(),
            connections: Map::default(),
            next_id: 0,
            incoming: VecDeque::new(),
            closed: None,
            held: true,
            lost: false,
            driver: Worker::new(),
            wakers: Vec::new(),
        };
        Self {
            state: Monitor::new(state),
            marks,
            paths: paths.map(Keeper::new),
            incoming: Notify::new(),
            idle: Notify::new(),
        }
    }

    /// Does something with the state, takes note of what follows from it, and wakes whom it concerns after the
    /// lock is free again.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.with(|state| {
            let result = change(state);
            state.take_events(self);
            (result, mem::take(&mut state.wakers))
        })
    }

    /// As [`Self::with`]; whom it concerns is added to `later`, for the caller to wake.
    pub(crate) fn with_later<T>(&self, later: &mut Vec<Waker>, change: impl FnOnce(&mut State) -> T) -> T {
        self.state.with_later(|state| {
            let result = change(state);
            state.take_events(self);
            later.append(&mut state.wakers);
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

/// What became of handshakes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handshakes {
    pub(crate) accepted: u64,
    pub(crate) outgoing: u64,
    pub(crate) refused: u64,
    pub(crate) ignored: u64,
}

/// What is behind the lock.
pub(crate) struct State {
    pub(crate) core: core::Endpoint,
    pub(crate) bound: Arc<Bound>,
    pub(crate) handshakes: Handshakes,
    /// Connections that are not gone for good.
    ids: Map<ConnectionHandle, ConnectionId>,
    /// These, and those gone that somebody still holds.
    connections: Map<ConnectionId, ConnectionState>,
    next_id: ConnectionId,
    pub(crate) incoming: VecDeque<core::Incoming>,
    /// Set by `Endpoint::close`.
    pub(crate) closed: Option<(VarInt, Bytes)>,
    /// Whether a handle to the endpoint is alive.
    held: bool,
    /// The driver has ended.
    pub(crate) lost: bool,
    /// Has work when the machines may have something to send or another deadline.
    pub(crate) driver: Worker,
    wakers: Vec<Waker>,
}

impl State {
    /// A connection the core has just made.
    pub(crate) fn add(&mut self, handle: ConnectionHandle) -> (ConnectionId, Arc<Waiters>) {
        let id = self.next_id;
        self.next_id += 1;
        let waiters = Arc::<Waiters>::default();
        self.ids.insert(handle, id);
        self.connections.insert(id, ConnectionState::new(handle, waiters.clone()));
        self.wake_driver();
        (id, waiters)
    }

    /// Turns a handshake down; the peer hears of it.
    pub(crate) fn refuse(&mut self, incoming: core::Incoming) {
        self.handshakes.refused += 1;
        self.core.refuse(incoming);
        self.wake_driver();
    }

    /// Moves the endpoint, with all its connections, to other sockets.
    pub(crate) fn rebind(&mut self, bound: Bound) {
        self.bound = Arc::new(bound);
        self.core.handle_local_address_change(Instant::now());
        self.wake_driver();
    }

    /// Something was changed that the driver should see to.
    pub(crate) fn wake_driver(&mut self) {
        self.driver.wake(&mut self.wakers);
    }

    /// Whether new connections are welcome.
    pub(crate) fn is_open(&self) -> bool {
        self.closed.is_none() && !self.lost
    }

    /// Connections that are not gone for good.
    pub(crate) fn open_connections(&self) -> usize {
        self.ids.len()
    }

    /// Whether the driver has nothing left to do, ever.
    pub(crate) fn is_over(&self) -> bool {
        !self.held && self.ids.is_empty()
    }

    /// Asks or changes one connection. The driver is not woken.
    ///
    /// # Errors
    /// When the driver has ended before the connection had.
    pub(crate) fn connection<T>(
        &mut self,
        id: ConnectionId,
        change: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        let Self { core, connections, .. } = self;
        let Some(state) = connections.get_mut(&id) else { return Err(driver_lost()) };
        if let Some(mut gone) = state.gone.take() {
            let result = change(&mut gone, state);
            state.gone = Some(gone);
            return Ok(result);
        }
        let handle = state.handle;
        let result = core.with_connection(Instant::now(), handle, |connection| change(connection, state));
        result.ok_or_else(driver_lost)
    }

    /// As [`Self::connection`], for what only accepts streams and reads from them.
    ///
    /// # Errors
    /// As [`Self::connection`].
    pub(crate) fn reader<T>(
        &mut self,
        id: ConnectionId,
        read: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        let Self { core, connections, .. } = self;
        let Some(state) = connections.get_mut(&id) else { return Err(driver_lost()) };
        if let Some(mut gone) = state.gone.take() {
            let result = read(&mut gone, state);
            state.gone = Some(gone);
            return Ok(result);
        }
        let handle = state.handle;
        let result = core.with_reader(Instant::now(), handle, |connection| read(connection, state));
        result.ok_or_else(driver_lost)
    }

    /// The driver should see to what readers have left to send, such as credit; mostly they leave nothing.
    pub(crate) fn wake_driver_after_reader(&mut self) {
        if self.core.wants_primary() {
            self.wake_driver();
        }
    }

    /// Looks at one connection without any consequence.
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
        self.core.with_connection(Instant::now(), state.handle, |connection| {
            connection.close(Instant::now(), code, reason);
        });
        state.on_lost(ConnectionError::LocallyClosed, &mut self.wakers);
        self.wake_driver();
    }

    /// Ends every connection at once and turns away who waits to be accepted.
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
        // It may be over.
        self.wake_driver();
    }

    /// Ends a connection as soon as all it accepted is delivered.
    pub(crate) fn close_when_delivered(&mut self, id: ConnectionId, code: VarInt, reason: Bytes) {
        let finished = self.connection(id, |connection, state| {
            for &stream in &state.undelivered {
                // One that is finished already is as good.
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

    /// Nobody holds the connection or a stream of it any more. With `linger` it may first deliver.
    pub(crate) fn release_connection(&mut self, id: ConnectionId, linger: bool) {
        let Some(state) = self.connections.get_mut(&id) else { return };
        state.held = false;
        if state.gone.is_some() || self.lost {
            self.connections.remove(&id);
        } else if linger {
            self.close_when_delivered(id, VarInt::from_u32(0), Bytes::new());
        } else if state.closing.is_none() {
            self.close(id, VarInt::from_u32(0), Bytes::new());
        }
    }

    /// Nobody holds the endpoint any more: its connections go on, new ones are turned away.
    pub(crate) fn release_endpoint(&mut self) {
        self.held = false;
        self.refuse_waiting();
    }

    /// The driver ends: nothing will ever move again.
    pub(crate) fn on_driver_lost(&mut self, shared: &Shared) {
        self.lost = true;
        self.incoming.clear();
        self.ids.clear();
        for state in self.connections.values_mut() {
            state.on_lost(driver_lost(), &mut self.wakers);
        }
        self.connections.retain(|_, state| state.held);
        shared.incoming.notify_waiters();
        shared.idle.notify_waiters();
    }

    fn take_events(&mut self, shared: &Shared) {
        while let Some(event) = self.core.poll_event() {
            match event {
                core::EndpointEvent::Incoming(incoming) if self.held && self.is_open() => {
                    self.incoming.push_back(incoming);
                    shared.incoming.notify_waiters();
                }
                core::EndpointEvent::Incoming(incoming) => self.refuse(incoming),
                core::EndpointEvent::Connection(handle, event) => {
                    let Some(&id) = self.ids.get(&handle) else { continue };
                    let Some(state) = self.connections.get_mut(&id) else { continue };
                    let one_less =
                        matches!(event, Event::Finished(_) | Event::Stopped(..) | Event::EarlyDataRejected);
                    state.on_event(event, &mut self.wakers);
                    if one_less {
                        self.close_if_delivered(id);
                    }
                }
                core::EndpointEvent::Learned(learned) => {
                    if let Some(paths) = &shared.paths {
                        paths.on_learned(&learned, self.bound.ip());
                    }
                }
                core::EndpointEvent::Drained(core::Drained { handle, connection }) => {
                    self.on_drained(handle, connection);
                    if self.ids.is_empty() {
                        shared.idle.notify_waiters();
                    }
                }
            }
        }
    }

    /// Reports what the living connections have done since the last time.
    #[cfg(feature = "metrics")]
    pub(crate) fn report_metrics(&mut self, now: Instant) {
        for (&handle, id) in &self.ids {
            if let (Some(state), Some(connection)) =
                (self.connections.get_mut(id), self.core.connection(handle))
            {
                state.reported.report(&connection.stats(), now);
            }
        }
    }

    /// How many of them followed the rate of a router when they were reported.
    #[cfg(all(feature = "kickass", feature = "metrics"))]
    pub(crate) fn steered_connections(&self) -> usize {
        let states = self.ids.values().filter_map(|id| self.connections.get(id));
        states.filter(|state| state.reported.is_steered()).count()
    }

    fn on_drained(&mut self, handle: ConnectionHandle, connection: Box<core::Connection>) {
        let Some(id) = self.ids.remove(&handle) else { return };
        tracing::trace!(id, "connection drained");
        if let Some(state) = self.connections.get_mut(&id) {
            #[cfg(feature = "metrics")]
            state.reported.report_end(&connection.stats(), Instant::now());
            state.gone = Some(connection);
            if !state.held {
                self.connections.remove(&id);
            }
        }
        if self.is_over() {
            self.wake_driver();
        }
    }
}

/// The error of everything that needs a driver.
fn driver_lost() -> ConnectionError {
    let mut error = core::TransportError::from(core::TransportErrorCode::INTERNAL_ERROR);
    error.reason = "the endpoint's driver has ended".to_string();
    ConnectionError::TransportError(error)
}

/// Who waits for what on one connection, when there may be many.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// The handshake has come on: its data is known, it is complete, or it failed.
    pub(crate) handshake: Notify,
    /// Streams may be opened again, by direction.
    pub(crate) available: [Notify; 2],
    /// The peer opened streams, by direction.
    pub(crate) opened: [Notify; 2],
    pub(crate) datagram_received: Notify,
    pub(crate) datagrams_unblocked: Notify,
    /// The connection is lost.
    pub(crate) closed: Notify,
}

/// One connection beside the core's own state of it.
pub(crate) struct ConnectionState {
    handle: ConnectionHandle,
    /// The core's side, after it let go.
    gone: Option<Box<core::Connection>>,
    /// Whether somebody holds it or a stream of it.
    held: bool,
    pub(crate) connected: bool,
    pub(crate) error: Option<ConnectionError>,
    /// The task inside `Connecting`.
    pub(crate) connecting: Option<Waker>,
    /// Who waits to hear whether 0-RTT was accepted.
    pub(crate) zero_rtt: Option<oneshot::Sender<bool>>,
    /// The server refused the streams that were opened before the handshake was complete.
    pub(crate) zero_rtt_rejected: bool,
    pub(crate) readers: Map<StreamId, Waker>,
    pub(crate) writers: Map<StreamId, Waker>,
    /// Who waits to hear that a stream was stopped, delivered or reset.
    pub(crate) stopped: Map<StreamId, Arc<Notify>>,
    /// Streams that accepted bytes, or an end, of which the peer has not acknowledged all.
    pub(crate) undelivered: FxHashSet<StreamId>,
    /// To be closed so when `undelivered` is empty.
    closing: Option<(VarInt, Bytes)>,
    waiters: Arc<Waiters>,
    #[cfg(feature = "metrics")]
    reported: crate::metrics::Reported,
}

impl ConnectionState {
    fn new(handle: ConnectionHandle, waiters: Arc<Waiters>) -> Self {
        Self {
            handle,
            gone: None,
            held: true,
            connected: false,
            error: None,
            connecting: None,
            zero_rtt: None,
            zero_rtt_rejected: false,
            readers: Map::default(),
            writers: Map::default(),
            stopped: Map::default(),
            undelivered: FxHashSet::default(),
            closing: None,
            waiters,
            #[cfg(feature = "metrics")]
            reported: crate::metrics::Reported::default(),
        }
    }

    fn on_event(&mut self, event: Event, wakers: &mut Vec<Waker>) {
        match event {
            Event::HandshakeDataReady => self.waiters.handshake.notify_waiters(),
            Event::EarlyDataRejected => {
                self.zero_rtt_rejected = true;
                self.undelivered.clear();
                self.wake_streams(wakers);
            }
            Event::Connected => {
                self.connected = true;
                // Nobody may be waiting any more.
                self.zero_rtt.take().map(|waiter| waiter.send(!self.zero_rtt_rejected));
                wakers.extend(self.connecting.take());
                self.waiters.handshake.notify_waiters();
                // Streams could not be opened before.
                self.waiters.available.iter().for_each(Notify::notify_waiters);
            }
            Event::Lost(error) => self.on_lost(error, wakers),
            Event::Opened(dir) => self.waiters.opened[dir as usize].notify_waiters(),
            Event::Available(dir) => self.waiters.available[dir as usize].notify_waiters(),
            Event::Readable(id) => wakers.extend(self.readers.remove(&id)),
            Event::Writable(id) => wakers.extend(self.writers.remove(&id)),
            Event::Finished(id) => {
                self.on_send_over(id);
            }
            Event::Stopped(id, _) => {
                self.on_send_over(id);
                wakers.extend(self.writers.remove(&id));
            }
            Event::DatagramReceived => self.waiters.datagram_received.notify_waiters(),
            Event::DatagramsUnblocked => self.waiters.datagrams_unblocked.notify_waiters(),
            // What a newer core has to say that nobody here waits for.
            _ => {}
        }
    }

    /// A stream has nothing left to deliver, or gave it up.
    pub(crate) fn on_send_over(&mut self, id: StreamId) {
        self.undelivered.remove(&id);
        if let Some(stopped) = self.stopped.remove(&id) {
            stopped.notify_waiters();
        }
    }

    fn on_lost(&mut self, error: ConnectionError, wakers: &mut Vec<Waker>) {
        if self.error.is_some() {
            return;
        }
        self.error = Some(error);
        self.closing = None;
        wakers.extend(self.connecting.take());
        self.zero_rtt = None;
        self.wake_streams(wakers);
        let Waiters { handshake, available, opened, datagram_received, datagrams_unblocked, closed } =
            &*self.waiters;
        let all = [handshake, datagram_received, datagrams_unblocked, closed];
        all.into_iter().chain(available).chain(opened).for_each(Notify::notify_waiters);
    }

    /// Everybody who waits for a stream has something to learn.
    fn wake_streams(&mut self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.readers.drain().map(|(_, waker)| waker));
        wakers.extend(self.writers.drain().map(|(_, waker)| waker));
        self.stopped.drain().for_each(|(_, stopped)| stopped.notify_waiters());
    }
}
