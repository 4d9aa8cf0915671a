//! Many connections on one UDP port: separates QUIC from RLP datagrams, finds the connection, accepts and drops
//! connections, and decides which sends next. The primaries of all connections go before the RLP loop of any.
//!
//! Other endpoints on the port, of workers or of a restarted program, concern only `neighbours` and `succession`.

mod handshakes;
mod neighbours;
mod path_memory;
mod schedule;
mod succession;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;

pub use self::handshakes::IncomingStats;
use self::{
    handshakes::Admission,
    neighbours::{DatagramOrigin, Neighbours},
    path_memory::PathMemory,
    schedule::Schedule,
};
use crate::{
    config::{ClientConfig, EndpointConfig, ServerConfig},
    datagram_meta::DatagramMeta,
    event::Event,
    laws::{
        ack_frequency::read_at,
        shares::Shares,
        verdicts::{DestinationVerdict, KnownPath},
    },
    machines::{
        connection::{Connection, secrets::RlpSecrets},
        connections::Connections,
        receivers::{Receivers, Registered},
    },
    quic::ConnectionHandle,
    seams::{
        keys::{Secrets, receiver_id},
        primary::quinn::{Bounds, ConnectFailed, Incoming, QuicEndpoint, RoutedDatagram},
        tls::ConfigError,
    },
    transmit::Transmit,
    wire::header::is_rlp,
};

/// Most connections of an endpoint that reads packets together.
const READ_TOGETHER_MAX: usize = 8;

/// What [`Endpoint::poll_event`] reports.
#[derive(Debug)]
pub enum EndpointEvent {
    /// A peer wants to connect: accept, refuse, retry or ignore it.
    Incoming(Incoming),
    /// An event on a connection.
    Connection(ConnectionHandle, Event),
    /// The guard or the clock has learned about the path to a destination. Programs can store it beyond the endpoint's
    /// lifetime, see [`Endpoint::import_path`].
    Learned(DestinationVerdict),
    /// A connection has ended; its handle is no longer valid.
    Drained(Drained),
}

/// A connection that has ended. Received data can still be read.
#[derive(Debug)]
pub struct Drained {
    /// Its former handle; new connections may reuse it.
    pub handle: ConnectionHandle,
    /// The connection itself. It sends nothing any more.
    pub connection: Box<Connection>,
}

/// All connections of one UDP port.
///
/// The [crate's page](crate) shows its poll loop. All input is checked, so any bytes may be passed:
///
/// ```
/// use std::time::Instant;
/// use rc3_core::{DatagramMeta, Endpoint};
///
/// let mut endpoint = Endpoint::new(None, None)?;
/// let meta = DatagramMeta { remote: "192.0.2.1:9".parse()?, local_ip: None, ecn: 0, leading_len: None, arrived: None };
/// let now = Instant::now();
/// endpoint.handle_datagram(now, meta, b"not a packet"[..].into());
/// assert!(endpoint.poll_event().is_none());
/// assert!(endpoint.poll_primary(now, 1, &mut Vec::new()).is_none(), "no answer to an unknown peer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Endpoint {
    quic: QuicEndpoint,
    connections: Connections,
    receivers: Receivers,
    secrets: Secrets,
    shares: Shares,
    schedule: Schedule,
    admission: Admission,
    paths: PathMemory,
    responses: VecDeque<(Transmit, Vec<u8>)>,
    events: VecDeque<EndpointEvent>,
    neighbours: Neighbours,
}

impl Endpoint {
    /// An endpoint that connects; with `server` it also accepts. `seed` makes connection ids repeatable: for
    /// simulations only.
    ///
    /// # Errors
    /// [`ConfigError`] if QUIC cannot use the TLS settings of `server`.
    pub fn new(server: Option<&ServerConfig>, seed: Option<[u8; 32]>) -> Result<Self, ConfigError> {
        Self::make(&EndpointConfig::default(), server, seed, true)
    }

    /// As [`Self::new`], with settings. `mtu_discovery` allows connections to probe for longer packets: set it unless
    /// the sockets let routers fragment datagrams.
    ///
    /// # Errors
    /// [`ConfigError`] if QUIC cannot use the TLS settings of `server`, or if connection ids have a wrong length.
    pub fn with_config(
        config: &EndpointConfig,
        server: Option<&ServerConfig>,
        mtu_discovery: bool,
    ) -> Result<Self, ConfigError> {
        Self::make(config, server, None, mtu_discovery)
    }

    fn make(
        config: &EndpointConfig,
        server: Option<&ServerConfig>,
        seed: Option<[u8; 32]>,
        mtu_discovery: bool,
    ) -> Result<Self, ConfigError> {
        let pool = config.worker.as_ref().map_or_else(Arc::default, |worker| worker.pool.clone());
        Ok(Self {
            quic: QuicEndpoint::new(config, server, seed, mtu_discovery)?,
            connections: Connections::default(),
            receivers: Receivers::new(config.worker.is_some()),
            secrets: Secrets::new(seed),
            shares: Shares::new(pool.clone()),
            schedule: Schedule::default(),
            admission: Admission::new(server, pool),
            paths: PathMemory::default(),
            responses: VecDeque::new(),
            events: VecDeque::new(),
            neighbours: Neighbours::default(),
        })
    }

    /// Replaces the configuration for connections accepted from now on; `None` accepts no more.
    ///
    /// # Errors
    /// [`ConfigError`] if QUIC cannot use the TLS settings; the old settings stay.
    pub fn set_server_config(&mut self, server: Option<&ServerConfig>) -> Result<(), ConfigError> {
        self.quic.set_server(server)?;
        self.admission.set_server(server);
        Ok(())
    }

    // --- inputs ---

    /// A UDP datagram came in.
    pub fn handle_datagram(&mut self, now: Instant, meta: DatagramMeta, datagram: BytesMut) {
        self.handle_datagrams(now, [(meta, datagram)]);
    }

    /// UDP datagrams arrived together. Each connection processes their consequences once, after the last of them.
    pub fn handle_datagrams(
        &mut self,
        now: Instant,
        datagrams: impl IntoIterator<Item = (DatagramMeta, BytesMut)>,
    ) {
        self.handle_all(
            now,
            datagrams.into_iter().map(|(meta, datagram)| (meta, datagram, DatagramOrigin::Port)),
        );
    }

    fn handle_all(
        &mut self,
        now: Instant,
        datagrams: impl Iterator<Item = (DatagramMeta, BytesMut, DatagramOrigin)>,
    ) {
        for (meta, datagram, origin) in datagrams {
            let concerned = if datagram.is_empty() {
                None
            } else if is_rlp(&datagram) {
                self.handle_rlp(now, meta, datagram, origin)
            } else {
                self.handle_quic(now, meta, datagram, origin)
            };
            if let Some(handle) = concerned {
                self.schedule.changed.push(handle);
            }
        }
        while let Some(handle) = self.schedule.changed.pop() {
            self.service(now, handle);
            if self.connections.get(handle).is_some_and(|connection| !connection.acks_may_wait(now)) {
                self.schedule.primary.push(handle);
            }
        }
    }

    /// Returns the connection it belongs to. `origin` concerns only the [`neighbours`].
    fn handle_rlp(
        &mut self,
        now: Instant,
        meta: DatagramMeta,
        datagram: BytesMut,
        origin: DatagramOrigin,
    ) -> Option<ConnectionHandle> {
        let id = receiver_id(&datagram)?;
        let arrived = meta.arrived_by(now);
        let Some(handle) = self.receivers.find(id) else {
            self.receivers.undecryptable.keep(meta.remote, arrived, &datagram);
            self.pass_rlp_on(meta, datagram, origin);
            return None;
        };
        let connection = self.connection_mut(handle)?;
        let len = datagram.len();
        if connection.handle_rlp(now, arrived, datagram) {
            connection.on_rlp_from(meta.remote, len);
        }
        self.recount(handle);
        Some(handle)
    }

    /// As [`Self::handle_rlp`].
    fn handle_quic(
        &mut self,
        now: Instant,
        meta: DatagramMeta,
        datagram: BytesMut,
        origin: DatagramOrigin,
    ) -> Option<ConnectionHandle> {
        let mut response = Vec::new();
        let len = datagram.len();
        let aside = self.set_aside(meta, &datagram, origin);
        let mut routed = self.quic.handle(now, meta.remote, meta.local_ip, meta.ecn, datagram, &mut response);
        if let Some(aside) = aside {
            routed = self.consult_neighbours(now, aside, routed, &mut response);
        }
        match routed? {
            RoutedDatagram::Connection(handle, event) => {
                let connection = self.connections.get_mut(handle)?;
                if !connection.admit(now, meta.remote, len) {
                    return Some(handle);
                }
                // Anyone who sees a connection id can send datagrams with it: they count once they are authentic.
                if QuicEndpoint::deliver(&mut connection.primary, event) {
                    connection.on_primary_datagram(meta, now, len);
                    if let Some(len) = meta.leading_len {
                        connection.on_leading(len);
                    }
                }
                let late = now.saturating_duration_since(meta.arrived_by(now));
                connection.watch_primary(now, late);
                return Some(handle);
            }
            RoutedDatagram::Incoming(mut incoming) => {
                incoming.leading_len = meta.leading_len;
                // Undecryptable data may arrive before the application answers.
                self.receivers.begin_handshake(incoming.remote_address());
                self.hand_out(incoming);
            }
            RoutedDatagram::Response(transmit) => self.respond(transmit, response),
        }
        None
    }

    /// The deadline of [`Self::poll_timeout`] has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(handle) = self.schedule.timers.pop(now) {
            if let Some(connection) = self.connections.get_mut(handle) {
                connection.handle_timeout(now);
                self.touch(now, handle);
            }
        }
        self.handle_succession_timeout(now);
    }

    // --- commands ---

    /// Begins a handshake with the server at `remote`, whose certificate must name `server_name`.
    ///
    /// # Errors
    /// [`ConnectFailed::Config`] if QUIC cannot use the TLS settings, [`ConnectFailed::Connect`] if the address or
    /// the name is invalid or no connection ids are left.
    pub fn connect(
        &mut self,
        now: Instant,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<ConnectionHandle, ConnectFailed> {
        let bounds = self.bounds(now, remote);
        let (handle, primary) = self.quic.connect(now, config, remote, server_name, bounds)?;
        let secrets = RlpSecrets { protection: config.security.protection(), receipts: self.secrets.next() };
        let connection = Connection::new(primary, config.transport.clone(), bounds.credit, secrets);
        self.receivers.begin_handshake(remote);
        self.add(now, handle, connection);
        Ok(handle)
    }

    /// Bytes of memory that all connections together may use for received data and its gaps, for data stored for
    /// sending, and for what peers may still send: credit counts when it is granted. Default: 1 GiB.
    ///
    /// Any connection may use the first half; once that is full, each connection has an equal share of the other half
    /// while it lasts. Beyond that RLP data and SACKs are ignored, windows stay small, and writes wait. Each connection
    /// may always receive 16 KiB, so that it never starves; with their cost and that of gaps this is at most 64 KiB.
    /// So the limit holds up to one connection for each 64 KiB of it; bound the number of connections yourself.
    ///
    /// A lower limit does not take back credit: set it before the first connection. Unread datagrams (RFC 9221) are
    /// bounded for each connection instead: `TransportConfig::datagram_receive_buffer_size`.
    pub fn set_memory_max(&mut self, bytes: u64) {
        self.shares.max = bytes;
    }

    /// Bytes of memory that peers have caused on all connections: received data, and records of gaps. The limit
    /// ([`Self::set_memory_max`]) also counts what may still come.
    pub fn held_bytes(&self) -> u64 {
        self.shares.current.held
    }

    /// The port's own address has changed: every connection sends a packet from the new address.
    pub fn handle_local_address_change(&mut self, now: Instant) {
        let handles: Vec<_> = self.connections.handles().collect();
        for handle in handles {
            self.with_connection(now, handle, Connection::handle_local_address_change);
        }
    }

    /// A connection, for reading its state and counters.
    pub fn connection(&self, handle: ConnectionHandle) -> Option<&Connection> {
        self.connections.get(handle)
    }

    /// As [`Self::with_connection`], for a `read` that only accepts streams and reads from them. Cheaper: the
    /// connection is serviced, and `now` called, only if that changed credit or flow control: a reader on a fast link
    /// would otherwise spend a thirtieth of its time on reading the clock.
    #[inline]
    pub fn with_reader<T>(
        &mut self,
        now: impl FnOnce() -> Instant,
        handle: ConnectionHandle,
        read: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        let connection = self.connection_mut(handle)?;
        let result = read(connection);
        if connection.take_needs_service() {
            self.touch(now(), handle);
        } else {
            self.recount(handle);
        }
        Some(result)
    }

    /// As [`Self::with_connection`], for a `write` that only opens streams, writes to, finishes or stops them. Cheaper:
    /// the connection is serviced by the next [`Self::poll_primary`], once for all such calls before it. Until then
    /// [`Self::poll_timeout`] and [`Self::wants_rlp`] do not know of them.
    #[inline]
    pub fn with_writer<T>(
        &mut self,
        handle: ConnectionHandle,
        write: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        let connection = self.connections.get_mut(handle)?;
        connection.take_share(&self.shares);
        let result = write(connection);
        Self::take_events(handle, connection, &mut self.events);
        self.schedule.primary.push(handle);
        self.recount(handle);
        Some(result)
    }

    /// Calls `change` with a connection, then services it: the next `poll_*` calls return what follows. `None` if
    /// there is no such connection.
    pub fn with_connection<T>(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        change: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        let result = change(self.connection_mut(handle)?);
        self.touch(now, handle);
        Some(result)
    }

    /// What [`crate::RlpMode::Guard`] knows at `now` about the paths to destinations.
    pub fn verdicts(&self, now: Instant) -> impl Iterator<Item = DestinationVerdict> {
        self.paths.verdicts.iter(now)
    }

    /// Imports what another process or an earlier endpoint has learned about the path to `remote`; its port does not
    /// matter. The knowledge is valid until its age is `good_for`. It applies to connections whose handshakes end from
    /// now on, and only if nothing newer is known. Impossible values are ignored, and the first trial that contradicts
    /// an imported verdict revokes it (RFC 9959 calls such knowledge saved parameters).
    pub fn import_path(&mut self, now: Instant, remote: SocketAddr, known: KnownPath, good_for: Duration) {
        self.paths.verdicts.import(now, remote.ip(), known, good_for);
    }

    /// Takes over what another endpoint of the process has learned about a path, unless this one knows something newer.
    /// Unlike an [imported](Self::import_path) verdict it counts as much as one of its own, and until it expires.
    pub fn share_verdict(&mut self, now: Instant, learned: &DestinationVerdict) {
        self.paths.verdicts.adopt(now, learned);
    }

    /// Forgets what is known about paths: verdicts, path MTUs, and to which destinations fragments are dropped. Call it
    /// after a change of networks. Existing connections keep what they know.
    pub fn forget_verdicts(&mut self) {
        self.paths = PathMemory::default();
    }

    // --- outputs ---

    /// The events, oldest first.
    #[inline]
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.schedule.timers.first().into_iter().chain(self.neighbours.deadline()).min()
    }

    /// When to read the socket next: where packets come fast, those of a millisecond are better read together than each for
    /// itself. `None`: as soon as one is there. Reading earlier costs only processor time.
    pub fn read_at(&self, now: Instant) -> Option<Instant> {
        // To look at more would cost more than it saves.
        let few = self.connections.places() <= READ_TOGETHER_MAX;
        few.then(|| read_at(now, self.connections.iter().map(Connection::reading)))?
    }

    /// The next datagrams at normal priority, into the empty `buf`.
    pub fn poll_primary(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if let Some((transmit, response)) = self.responses.pop_front() {
            buf.extend_from_slice(&response);
            return Some(transmit);
        }
        while let Some(handle) = self.schedule.primary.pop() {
            if let Some(connection) = self.connections.get_mut(handle)
                && let Some(transmit) = connection.poll_primary(now, datagrams_max, buf)
            {
                // Others first, then this one again.
                self.schedule.primary.push(handle);
                Self::take_events(handle, connection, &mut self.events);
                return Some(connection.marked(transmit));
            }
            self.service(now, handle);
        }
        None
    }

    /// Writes the next datagrams at a low priority into the empty `buf`. Call it when [`Self::poll_primary`] has
    /// returned `None`.
    pub fn poll_rlp(&mut self, now: Instant, datagrams_max: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(handle) = self.schedule.rlp.pop() {
            let Some(connection) = self.connections.get_mut(handle) else { continue };
            let transmit = connection.poll_rlp(now, datagrams_max, buf);
            Self::take_events(handle, connection, &mut self.events);
            if let Some(transmit) = transmit {
                self.schedule.rlp.push(handle);
                return Some(connection.marked(transmit));
            }
            self.schedule.timers.set(handle, connection.poll_timeout());
            self.recount(handle);
        }
        None
    }

    /// Whether [`Self::poll_primary`] may have something to send.
    #[inline]
    pub fn wants_primary(&self) -> bool {
        !self.responses.is_empty() || !self.schedule.primary.is_empty()
    }

    /// Whether [`Self::poll_rlp`] may have something to send.
    pub fn wants_rlp(&self) -> bool {
        !self.schedule.rlp.is_empty()
    }

    // --- keeping the books ---

    fn add(&mut self, now: Instant, handle: ConnectionHandle, mut connection: Connection) {
        self.paths.recall_drops(now, &mut connection);
        self.shares.add_connection();
        self.connections.insert(handle, connection);
        self.touch(now, handle);
    }

    /// A connection changed: serves it together with the QUIC endpoint, and lets it send.
    fn touch(&mut self, now: Instant, handle: ConnectionHandle) {
        self.service(now, handle);
        if self.connections.get(handle).is_some() {
            self.schedule.primary.push(handle);
        }
    }

    /// Serves a connection that has changed. Each step needs what those before it have done:
    ///
    /// 1. the connection draws its own conclusions, within its present share of the memory;
    /// 2. QUIC's endpoint exchanges connection ids with its primary, which step 1 may have created or retired;
    /// 3. memory is counted before events leave, because the application acts on them;
    /// 4. receiver ids are registered before anything that arrived early is opened: it is found by them;
    /// 5. the memory of the path is recalled before that, too, so that it counts from the first SACK on;
    /// 6. what arrived before its keys is opened, which may change all of the above: steps 1, 3 and 4 are repeated;
    /// 7. what was learned is stored, and recalled for another path only afterwards: it may be a return;
    /// 8. the connection is dropped, or queued and its timer set, with everything known that decides when.
    fn service(&mut self, now: Instant, handle: ConnectionHandle) {
        let Some(connection) = self.connection_mut(handle) else { return };
        connection.process_events(now);
        let Some(connection) = self.connections.get_mut(handle) else { return };
        self.quic.service(handle, &mut connection.primary);
        self.recount(handle);
        let Some(connection) = self.connections.get_mut(handle) else { return };
        Self::take_events(handle, connection, &mut self.events);
        let Registered { issued, chosen } = self.receivers.register(handle, connection, &self.quic);
        if chosen {
            self.schedule.primary.push(handle);
        }
        let remote = connection.remote_address().ip();
        if connection.wants_early_rlp() {
            let record = self.paths.recall(now, connection, remote);
            connection.begin_early_rlp(now, self.secrets.next(), record);
        }
        if connection.take_handshake_end() {
            if !connection.guard_stats().is_some_and(|stats| stats.remembered) {
                self.paths.prepare(now, connection, remote);
            }
            self.open_early_arrivals(now, handle, true);
        } else if issued {
            self.open_early_arrivals(now, handle, false);
        }
        let Some(connection) = self.connections.get_mut(handle) else { return };
        self.events.extend(self.paths.learn(now, connection).map(EndpointEvent::Learned));
        if connection.take_path_change() {
            let remote = connection.proven_address().ip();
            self.paths.prepare(now, connection, remote);
        }
        if connection.primary.is_drained() {
            self.forget(handle);
            return;
        }
        if connection.wants_rlp() {
            self.schedule.rlp.push(handle);
        }
        self.schedule.timers.set(handle, connection.poll_timeout());
    }

    /// Handles RLP datagrams that arrived before their keys. `ended`: the handshake has.
    fn open_early_arrivals(&mut self, now: Instant, handle: ConnectionHandle, ended: bool) {
        let Some(connection) = self.connection_mut(handle) else { return };
        let remote = connection.proven_address();
        let Some(connection) = self.connections.get_mut(handle) else { return };
        for (arrived, datagram) in self.receivers.take_undecryptable(handle, remote, ended) {
            connection.handle_rlp(now, arrived, datagram);
        }
        self.receivers.register(handle, connection, &self.quic);
        connection.process_events(now);
        Self::take_events(handle, connection, &mut self.events);
        if ended {
            self.receivers.on_handshake_end(connection.proven_address());
        }
    }

    /// A connection that is about to change, with its present share of the memory.
    fn connection_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(handle)?;
        connection.take_share(&self.shares);
        Some(connection)
    }

    /// What is known about a connection with `remote` before it begins.
    fn bounds(&mut self, now: Instant, remote: SocketAddr) -> Bounds {
        Bounds {
            credit: self.shares.initial_credit(),
            path_mtu: self.paths.mtus.recall(now, remote.ip()),
            carried: 0,
        }
    }

    /// Updates the memory use of a connection.
    fn recount(&mut self, handle: ConnectionHandle) {
        if let Some(connection) = self.connections.get_mut(handle) {
            let (before, after) = connection.recount();
            self.shares.on_changed(before, after);
        }
    }

    fn take_events(
        handle: ConnectionHandle,
        connection: &mut Connection,
        events: &mut VecDeque<EndpointEvent>,
    ) {
        while let Some(event) = connection.poll_event() {
            events.push_back(EndpointEvent::Connection(handle, event));
        }
    }

    fn forget(&mut self, handle: ConnectionHandle) {
        let Some(mut connection) = self.connections.remove(handle) else { return };
        let (counted, _) = connection.recount();
        self.shares.remove_connection(counted);
        self.receivers.forget(&connection);
        self.schedule.forget(handle);
        self.events.push_back(EndpointEvent::Drained(Drained { handle, connection }));
    }
}
