//! Many connections on one UDP port: separates QUIC from RLP datagrams, finds the connection, accepts and drops
//! connections, and decides which sends next. The primaries of all connections go before the RLP loop of any.
//!
//! Invariant: a connection that was touched is in `primary_queue` until its primary has nothing to send, and in
//! `rlp_queue` while its RLP side may have something; its deadline is in `timers`.

mod succession;

use std::{
    collections::VecDeque,
    iter, mem,
    net::SocketAddr,
    ops::AddAssign,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;

#[cfg(feature = "kickass")]
use crate::laws::fragments::Drops;
use crate::{
    config::{ClientConfig, EndpointConfig, ServerConfig},
    datagram_meta::DatagramMeta,
    event::Event,
    laws::{
        path_mtu::PathMtu,
        pool::Pool,
        shares::Shares,
        verdicts::{DestinationVerdict, KnownPath, Verdicts},
    },
    machines::{
        connection::{Connection, secrets::RlpSecrets},
        connections::Connections,
        receivers::{Receivers, Registered, RouteChange},
        strays::{Strays, reset_of, reset_token},
        succession::Succession,
    },
    quic::{ConnectionError, ConnectionHandle},
    seams::{
        keys::{Aead, Secrets, protection::Protection, receiver_id},
        primary::quinn::{Accepting, Bounds, ConnectFailed, Found, Incoming, QuicEndpoint, Routed},
        tls::ConfigError,
    },
    structures::{
        destination_cache::DestinationCache,
        timers::Timers,
        undecryptable::{Kept, Undecryptable},
    },
    transmit::Transmit,
};

/// The two top bits of the first byte: both clear in RLP datagrams. QUIC sets the lower of them (RFC 9000 §17), except
/// in Version Negotiation, which sets the upper.
const QUIC_BITS: u8 = 0xc0;

/// Most queued answers to datagrams of no connection. Unanswered peers ask again; a flood of such datagrams must not
/// cost memory, nor stop connections from sending.
const RESPONSES_MAX: usize = 1024;

/// How to take datagrams that arrived before the keys: [`Undecryptable::take`] or [`Undecryptable::end`].
type TakeUndecryptable = fn(&mut Undecryptable, SocketAddr, &dyn Fn(&[u8]) -> bool) -> Vec<Kept>;

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

/// How a datagram reached an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// By the port.
    Port,
    /// By another endpoint on the port, which has looked for further ones.
    Worker,
    /// By the endpoint that took the port over, perhaps with the number of an offer.
    Successor(Option<u64>),
}

/// Counters of the handshakes that peers began, including those decided by [`ServerConfig::max_incoming`] and
/// [`ServerConfig::retry_incoming_from`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IncomingStats {
    /// Handshakes that wait for an answer now: handed out by [`EndpointEvent::Incoming`] and neither accepted,
    /// refused, retried nor ignored.
    pub waiting: usize,
    /// Handshakes answered with a Retry packet.
    pub retried: u64,
    /// Handshakes refused.
    pub refused: u64,
    /// Datagrams of no connection left without an answer, because too many answers waited to be sent.
    pub unanswered: u64,
}

impl AddAssign for IncomingStats {
    fn add_assign(&mut self, other: Self) {
        self.waiting += other.waiting;
        self.retried += other.retried;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
    }
}

/// The number of waiting handshakes from which new ones get a Retry.
#[derive(Debug, Clone, Copy)]
struct Shedding {
    retry_from: usize,
    refuse_from: usize,
}

impl Shedding {
    fn new(server: Option<&ServerConfig>) -> Self {
        server.map_or(Self { retry_from: 0, refuse_from: 0 }, |server| Self {
            retry_from: server.retry_incoming_from,
            refuse_from: server.max_incoming,
        })
    }
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
    /// What arrived here and may be for other endpoints on the port.
    strays: Strays,
    /// The other endpoints on the port.
    pool: Option<Arc<Pool>>,
    /// Those that had the port before, or have it next.
    succession: Succession,
    secrets: Secrets,
    timers: Timers,
    primary_queue: VecDeque<ConnectionHandle>,
    rlp_queue: VecDeque<ConnectionHandle>,
    responses: VecDeque<(Transmit, Vec<u8>)>,
    events: VecDeque<EndpointEvent>,
    /// Connections with input that were not served since; empty between calls.
    changed: Vec<ConnectionHandle>,
    incoming: IncomingStats,
    shedding: Shedding,
    undecryptable: Undecryptable,
    shares: Shares,
    verdicts: Verdicts,
    path_mtus: DestinationCache<PathMtu>,
    /// Paths that drop fragments.
    #[cfg(feature = "kickass")]
    drops: DestinationCache<Drops>,
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
        let pool = config.worker.as_ref().map(|worker| worker.pool.clone());
        Ok(Self {
            quic: QuicEndpoint::new(config, server, seed, mtu_discovery)?,
            connections: Connections::default(),
            receivers: Receivers::new(pool.is_some()),
            strays: Strays::default(),
            shares: Shares::new(pool.clone()),
            pool,
            succession: Succession::default(),
            secrets: Secrets::new(seed),
            timers: Timers::new(),
            primary_queue: VecDeque::new(),
            rlp_queue: VecDeque::new(),
            responses: VecDeque::new(),
            events: VecDeque::new(),
            changed: Vec::new(),
            incoming: IncomingStats::default(),
            shedding: Shedding::new(server),
            undecryptable: Undecryptable::default(),
            verdicts: Verdicts::default(),
            path_mtus: DestinationCache::default(),
            #[cfg(feature = "kickass")]
            drops: DestinationCache::default(),
        })
    }

    /// Replaces the configuration for connections accepted from now on; `None` accepts no more.
    ///
    /// # Errors
    /// [`ConfigError`] if QUIC cannot use the TLS settings; the old settings stay.
    pub fn set_server_config(&mut self, server: Option<&ServerConfig>) -> Result<(), ConfigError> {
        self.quic.set_server(server)?;
        self.shedding = Shedding::new(server);
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
        self.handle_all(now, datagrams.into_iter().map(|(meta, datagram)| (meta, datagram, Source::Port)));
    }

    /// As [`Self::handle_datagrams`], for datagrams that another endpoint on the port has received: none of them is a
    /// stray again.
    pub fn handle_handed_over(
        &mut self,
        now: Instant,
        datagrams: impl IntoIterator<Item = (DatagramMeta, BytesMut)>,
    ) {
        self.handle_all(now, datagrams.into_iter().map(|(meta, datagram)| (meta, datagram, Source::Worker)));
    }

    fn handle_all(
        &mut self,
        now: Instant,
        datagrams: impl Iterator<Item = (DatagramMeta, BytesMut, Source)>,
    ) {
        for (meta, datagram, source) in datagrams {
            let concerned = match datagram.first() {
                None => None,
                Some(first) if first & QUIC_BITS == 0 => self.handle_rlp(now, meta, datagram, source),
                Some(_) => self.handle_quic(now, meta, datagram, source),
            };
            if let Some(handle) = concerned
                && self.changed.last() != Some(&handle)
                && self.connections.get_mut(handle).is_some_and(|connection| connection.set_changed(true))
            {
                self.changed.push(handle);
            }
        }
        let mut changed = mem::take(&mut self.changed);
        for handle in changed.drain(..) {
            self.touch(now, handle);
        }
        self.changed = changed;
    }

    /// Returns the connection it belongs to.
    fn handle_rlp(
        &mut self,
        now: Instant,
        meta: DatagramMeta,
        datagram: BytesMut,
        source: Source,
    ) -> Option<ConnectionHandle> {
        let id = receiver_id(&datagram)?;
        let arrived = meta.arrived_by(now);
        if let Some(handle) = self.receivers.find(id) {
            let connection = self.connection_mut(handle)?;
            let len = datagram.len();
            if connection.handle_rlp_arrived(now, arrived, datagram) {
                connection.on_rlp_from(meta.remote, len);
            }
            self.recount(handle);
            return Some(handle);
        }
        self.undecryptable.keep(meta.remote, arrived, &datagram);
        let shared = self.is_shared_for(source);
        match self.succession.predecessor.as_mut().filter(|_| source != Source::Worker) {
            Some(predecessor) if shared => predecessor.push(meta, datagram.clone()),
            Some(predecessor) => {
                predecessor.push(meta, datagram);
                return None;
            }
            None => {}
        }
        if shared {
            self.strays.push(meta, datagram);
        }
        None
    }

    /// Whether a datagram of no connection here may be for other endpoints on the port.
    fn is_shared_for(&self, source: Source) -> bool {
        source != Source::Worker && self.receivers.is_shared()
    }

    /// Another endpoint on the port has received what may be a stateless reset (RFC 9000 §10.3) of a connection here.
    /// Nothing about it shows which connection it concerns, except its last bytes.
    pub fn handle_reset(&mut self, now: Instant, meta: DatagramMeta, token: [u8; 16]) {
        if let Some(handle) = self.handle_quic(now, meta, reset_of(token), Source::Worker) {
            self.touch(now, handle);
        }
    }

    /// As [`Self::handle_rlp`].
    fn handle_quic(
        &mut self,
        now: Instant,
        meta: DatagramMeta,
        datagram: BytesMut,
        source: Source,
    ) -> Option<ConnectionHandle> {
        let mut response = Vec::new();
        let len = datagram.len();
        let reset = if self.is_shared_for(source) { reset_token(&datagram) } else { None };
        let unowned = self.succession.is_any().then(|| self.may_be_unowned(meta, &datagram, source));
        let mut routed = self.quic.handle(now, meta.remote, meta.local_ip, meta.ecn, datagram, &mut response);
        let owned = matches!(routed, Some(Routed::Connection(..)));
        if let Some(token) = reset
            && !owned
        {
            self.strays.push_reset(meta, token);
        }
        match unowned {
            Some(unowned) if !owned => routed = self.handle_unowned(now, unowned, routed, &mut response),
            _ => {}
        }
        match routed? {
            Routed::Connection(handle, event) => {
                if let Source::Successor(Some(offer)) = source {
                    self.succession.claim(offer, true);
                }
                let connection = self.connections.get_mut(handle)?;
                if !connection.admit(now, meta.remote, len) {
                    return Some(handle);
                }
                // Anyone who sees a connection id can send datagrams with it: they count once they are authentic.
                if QuicEndpoint::deliver(connection.primary_mut(), event) {
                    connection.on_primary_datagram(meta, now, len);
                    if let Some(len) = meta.leading_len {
                        connection.on_leading(len);
                    }
                }
                let late = now.saturating_duration_since(meta.arrived_by(now));
                connection.watch_primary(now, late);
                return Some(handle);
            }
            Routed::Incoming(mut incoming) => {
                incoming.leading_len = meta.leading_len;
                // Undecryptable data may arrive before the application answers.
                self.begin_handshake(incoming.remote_address());
                self.hand_out(incoming);
            }
            Routed::Response(transmit) => self.respond(transmit, response),
        }
        None
    }

    fn begin_handshake(&mut self, remote: SocketAddr) {
        if self.undecryptable.begin(remote) {
            self.receivers.note(RouteChange::Begun(remote));
        }
    }

    fn give_up_handshake(&mut self, remote: SocketAddr) {
        self.undecryptable.give_up(remote);
        self.note_end(remote);
    }

    /// A handshake with `remote` has ended.
    fn note_end(&mut self, remote: SocketAddr) {
        if !self.undecryptable.is_waiting(remote) {
            self.receivers.note(RouteChange::Ended(remote));
        }
    }

    /// A handshake was answered.
    fn end_waiting(&mut self) {
        self.incoming.waiting -= 1;
        if let Some(pool) = &self.pool {
            pool.remove_waiting();
        }
    }

    /// Hands a handshake out; while many wait, it requires a token first, or refuses.
    fn hand_out(&mut self, incoming: Incoming) {
        self.incoming.waiting += 1;
        let waiting = match &self.pool {
            None => self.incoming.waiting - 1,
            Some(pool) => pool.add_waiting(),
        };
        if waiting >= self.shedding.refuse_from {
            self.refuse(incoming);
            return;
        }
        let handed_out =
            if waiting >= self.shedding.retry_from { self.retry(incoming) } else { Err(incoming) };
        if let Err(incoming) = handed_out {
            self.events.push_back(EndpointEvent::Incoming(incoming));
        }
    }

    /// The deadline of [`Self::poll_timeout`] has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(handle) = self.timers.pop(now) {
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
        self.begin_handshake(remote);
        self.add(now, handle, connection);
        Ok(handle)
    }

    /// Accepts a handshake.
    ///
    /// # Errors
    /// [`ConnectionError::TransportError`] if its first packet is malformed, [`ConnectionError::CidsExhausted`] if no
    /// connection ids are left.
    pub fn accept(&mut self, now: Instant, incoming: Incoming) -> Result<ConnectionHandle, ConnectionError> {
        self.accept_as(now, incoming, None)
    }

    /// As [`Self::accept`], with `config` in place of the endpoint's settings.
    ///
    /// # Errors
    /// Outer: [`ConfigError`] if QUIC cannot use the TLS settings, with the handshake, which still waits for an
    /// answer. Inner: as [`Self::accept`].
    pub fn accept_with(
        &mut self,
        now: Instant,
        incoming: Incoming,
        config: &ServerConfig,
    ) -> Result<Result<ConnectionHandle, ConnectionError>, (ConfigError, Incoming)> {
        match Accepting::new(config) {
            Ok(accepting) => Ok(self.accept_as(now, incoming, Some(&accepting))),
            Err(error) => Err((error, incoming)),
        }
    }

    fn accept_as(
        &mut self,
        now: Instant,
        incoming: Incoming,
        with: Option<&Accepting>,
    ) -> Result<ConnectionHandle, ConnectionError> {
        self.end_waiting();
        let mut response = Vec::new();
        let accepting = with.or_else(|| self.quic.accepting());
        let (config, protection): (_, &dyn Protection) = match accepting {
            Some(accepting) => (accepting.transport.clone(), accepting.protection),
            None => (Arc::default(), &Aead),
        };
        let (leading_len, remote) = (incoming.leading_len, incoming.remote_address());
        let bounds = self.bounds(now, remote);
        match self.quic.accept(now, incoming, with, bounds, &mut response) {
            Ok((handle, primary)) => {
                let secrets = RlpSecrets { protection, receipts: self.secrets.next() };
                let mut connection = Connection::new(primary, config, bounds.credit, secrets);
                // A signal in the first flight: the client knows the rate after one round trip.
                if let Some(len) = leading_len {
                    connection.on_leading(len);
                }
                self.add(now, handle, connection);
                Ok(handle)
            }
            Err(failed) => {
                self.give_up_handshake(remote);
                if let Some(transmit) = failed.response {
                    self.respond(transmit, response);
                }
                Err(failed.cause)
            }
        }
    }

    /// Refuses a handshake; the peer receives `CONNECTION_REFUSED` (RFC 9000 §20.1).
    pub fn refuse(&mut self, incoming: Incoming) {
        self.end_waiting();
        self.incoming.refused += 1;
        self.give_up_handshake(incoming.remote_address());
        let mut response = Vec::new();
        let transmit = self.quic.refuse(incoming, &mut response);
        self.respond(transmit, response);
    }

    /// Answers with a Retry packet: the client must start again with a token, which validates its address (RFC 9000
    /// §8.1.2).
    ///
    /// # Errors
    /// Returns the handshake if the client already has a token. Accept, refuse or ignore it.
    pub fn retry(&mut self, incoming: Incoming) -> Result<(), Incoming> {
        let mut response = Vec::new();
        let remote = incoming.remote_address();
        let transmit = self.quic.retry(incoming, &mut response)?;
        self.give_up_handshake(remote);
        self.end_waiting();
        self.incoming.retried += 1;
        self.respond(transmit, response);
        Ok(())
    }

    /// Drops a handshake without an answer.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.end_waiting();
        self.give_up_handshake(incoming.remote_address());
        self.quic.ignore(incoming);
    }

    /// Counters of the handshakes that peers began.
    pub fn incoming_stats(&self) -> IncomingStats {
        self.incoming
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
        self.shares.held()
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
    pub fn with_writer<T>(
        &mut self,
        handle: ConnectionHandle,
        write: impl FnOnce(&mut Connection) -> T,
    ) -> Option<T> {
        let share = self.share_of(handle);
        let connection = self.connections.get_mut(handle)?;
        connection.set_share(share);
        let result = write(connection);
        Self::take_events(handle, connection, &mut self.events);
        if connection.set_queued_for_primary(true) {
            self.primary_queue.push_back(handle);
        }
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
        self.verdicts.verdicts(now)
    }

    /// Imports what another process or an earlier endpoint has learned about the path to `remote`; its port does not
    /// matter. The knowledge is valid until its age is `good_for`. It applies to connections whose handshakes end from
    /// now on, and only if nothing newer is known. Impossible values are ignored, and the first trial that contradicts
    /// an imported verdict revokes it (RFC 9959 calls such knowledge saved parameters).
    pub fn import_path(&mut self, now: Instant, remote: SocketAddr, known: KnownPath, good_for: Duration) {
        self.verdicts.import(now, remote, known, good_for);
    }

    /// Takes over what another endpoint of the process has learned about a path, unless this one knows something newer.
    /// Unlike an [imported](Self::import_path) verdict it counts as much as one of its own, and until it expires.
    pub fn share_verdict(&mut self, now: Instant, learned: &DestinationVerdict) {
        self.verdicts.share(now, learned);
    }

    /// Forgets what is known about paths: verdicts, path MTUs, and to which destinations fragments are dropped. Call it
    /// after a change of networks. Existing connections keep what they know.
    pub fn forget_verdicts(&mut self) {
        self.verdicts.clear();
        self.path_mtus.clear();
        #[cfg(feature = "kickass")]
        self.drops.clear();
    }

    // --- outputs ---

    /// The events, oldest first.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front()
    }

    /// The next RLP datagram that no connection here can open, if the endpoint shares its port
    /// ([`EndpointConfig::for_workers`]): pass it to [`Self::handle_handed_over`] of the endpoints that may open it. If
    /// a handshake with its sender is in progress here, this endpoint has stored a copy.
    pub fn poll_stray(&mut self) -> Option<(DatagramMeta, BytesMut)> {
        self.strays.pop()
    }

    /// What may be a stateless reset for a connection of another endpoint on the port: pass it to
    /// [`Self::handle_reset`] of all others. None unless the endpoint shares its port.
    pub fn poll_reset(&mut self) -> Option<(DatagramMeta, [u8; 16])> {
        self.strays.pop_reset()
    }

    /// The next change that decides which endpoint on the port may open a stray; none unless the endpoint shares its
    /// port.
    pub fn poll_route_change(&mut self) -> Option<RouteChange> {
        self.receivers.poll_change()
    }

    /// When [`Self::handle_timeout`] wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().into_iter().chain(self.succession.deadline()).min()
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
        while let Some(&handle) = self.primary_queue.front() {
            let transmit = match self.connections.get_mut(handle) {
                Some(connection) => connection.poll_primary(now, datagrams_max, buf),
                None => None,
            };
            self.primary_queue.pop_front();
            if transmit.is_some() {
                // Others first, then this one again.
                self.primary_queue.push_back(handle);
                if let Some(connection) = self.connections.get_mut(handle) {
                    Self::take_events(handle, connection, &mut self.events);
                }
                return transmit;
            }
            if let Some(connection) = self.connections.get_mut(handle) {
                connection.set_queued_for_primary(false);
            }
            self.service(now, handle);
        }
        None
    }

    /// Writes the next datagrams at a low priority into the empty `buf`. Call it when [`Self::poll_primary`] has
    /// returned `None`.
    pub fn poll_rlp(&mut self, now: Instant, datagrams_max: usize, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(handle) = self.rlp_queue.pop_front() {
            let Some(connection) = self.connections.get_mut(handle) else { continue };
            let transmit = connection.poll_rlp(now, datagrams_max, buf);
            if transmit.is_some() {
                self.rlp_queue.push_back(handle);
                Self::take_events(handle, connection, &mut self.events);
                return transmit;
            }
            connection.set_queued_for_rlp(false);
            Self::take_events(handle, connection, &mut self.events);
            if connection.take_probe() && connection.set_queued_for_primary(true) {
                self.primary_queue.push_back(handle);
            }
            self.recount(handle);
            self.arm(handle);
        }
        None
    }

    /// Whether [`Self::poll_primary`] may have something to send: after [`Self::poll_rlp`], which can give the primary
    /// a packet.
    pub fn wants_primary(&self) -> bool {
        !self.responses.is_empty() || !self.primary_queue.is_empty()
    }

    /// Whether [`Self::poll_rlp`] may have something to send.
    pub fn wants_rlp(&self) -> bool {
        !self.rlp_queue.is_empty()
    }

    // --- keeping the books ---

    #[cfg_attr(not(feature = "kickass"), expect(unused_mut, reason = "only fragments add a record"))]
    fn add(&mut self, now: Instant, handle: ConnectionHandle, mut connection: Connection) {
        #[cfg(feature = "kickass")]
        if self.drops.recall(now, connection.remote_address()).is_some() {
            connection.forbid_fragments(now);
        }
        self.shares.add_connection();
        self.connections.insert(handle, connection);
        self.touch(now, handle);
    }

    /// A connection changed: serves it together with the QUIC endpoint, and lets it send.
    fn touch(&mut self, now: Instant, handle: ConnectionHandle) {
        self.service(now, handle);
        if let Some(connection) = self.connections.get_mut(handle)
            && connection.set_queued_for_primary(true)
        {
            self.primary_queue.push_back(handle);
        }
    }

    /// Sources of streams are read while their other bytes are sent.
    fn service(&mut self, now: Instant, handle: ConnectionHandle) {
        let share = self.share_of(handle);
        let Some(connection) = self.connections.get_mut(handle) else { return };
        connection.set_share(share);
        connection.set_changed(false);
        connection.process_events(now);
        self.quic.service(handle, connection.primary_mut());
        self.recount(handle);
        let Some(connection) = self.connections.get_mut(handle) else { return };
        Self::take_events(handle, connection, &mut self.events);
        let Registered { issued, chosen } = self.receivers.register(handle, connection, &self.quic);
        if chosen && connection.set_queued_for_primary(true) {
            self.primary_queue.push_back(handle);
        }
        if connection.wants_early_rlp() {
            let record = self.verdicts.recall_from(now, connection.network(), connection.remote_address());
            connection.begin_early_rlp(now, self.secrets.next(), record);
        }
        if connection.take_handshake_end() {
            if !connection.has_recalled()
                && let Some(record) =
                    self.verdicts.recall_from(now, connection.network(), connection.remote_address())
            {
                connection.recall(now, record);
            }
            self.handle_undecryptable(now, handle, Undecryptable::end);
            if let Some(remote) = self.connections.get(handle).map(Connection::proven_address) {
                self.note_end(remote);
            }
        } else if issued {
            self.handle_undecryptable(now, handle, Undecryptable::take);
        }
        let Some(connection) = self.connections.get_mut(handle) else { return };
        #[cfg(feature = "kickass")]
        learn_drops(&mut self.drops, now, connection);
        match connection.primary_mut().take_path_mtu(now) {
            Some(Found::Mtu(found)) => self.path_mtus.remember(connection.remote_address(), found),
            Some(Found::Outdated) => self.path_mtus.forget(connection.remote_address()),
            None => {}
        }
        if let Some(record) = connection.take_record(now) {
            let learned = self.verdicts.learn(now, connection.proven_address(), record);
            self.events.push_back(EndpointEvent::Learned(learned));
        }
        if connection.take_path_change()
            && let Some(record) =
                self.verdicts.recall_from(now, connection.network(), connection.proven_address())
        {
            connection.recall(now, record);
        }
        if connection.is_drained() {
            self.forget(handle);
            return;
        }
        if connection.wants_rlp() && connection.set_queued_for_rlp(true) {
            self.rlp_queue.push_back(handle);
        }
        self.arm(handle);
    }

    /// A connection that is about to change, with its present share of the memory.
    fn connection_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        let share = self.share_of(handle);
        let connection = self.connections.get_mut(handle)?;
        connection.set_share(share);
        Some(connection)
    }

    /// Memory that a connection may claim now.
    fn share_of(&self, handle: ConnectionHandle) -> u64 {
        self.shares.of_one(self.connections.get(handle).map_or(0, Connection::counted))
    }

    /// What is known about a connection with `remote` before it begins.
    fn bounds(&mut self, now: Instant, remote: SocketAddr) -> Bounds {
        Bounds { credit: self.shares.initial_credit(), path_mtu: self.path_mtus.recall(now, remote) }
    }

    /// Updates the memory use of a connection.
    fn recount(&mut self, handle: ConnectionHandle) {
        if let Some(connection) = self.connections.get_mut(handle) {
            let (before, after) = connection.recount();
            self.shares.on_changed(before, after);
        }
    }

    /// Handles RLP datagrams that arrived before the keys.
    fn handle_undecryptable(&mut self, now: Instant, handle: ConnectionHandle, take: TakeUndecryptable) {
        let share = self.share_of(handle);
        let Some(connection) = self.connections.get_mut(handle) else { return };
        connection.set_share(share);
        let receivers = &self.receivers;
        let ours = |datagram: &[u8]| receiver_id(datagram).and_then(|id| receivers.find(id)) == Some(handle);
        for (arrived, datagram) in take(&mut self.undecryptable, connection.proven_address(), &ours) {
            connection.handle_rlp_arrived(now, arrived, datagram);
        }
        self.receivers.register(handle, connection, &self.quic);
        connection.process_events(now);
        Self::take_events(handle, connection, &mut self.events);
    }

    fn take_events(
        handle: ConnectionHandle,
        connection: &mut Connection,
        events: &mut VecDeque<EndpointEvent>,
    ) {
        events.extend(
            iter::from_fn(|| connection.poll_event()).map(|event| EndpointEvent::Connection(handle, event)),
        );
    }

    fn forget(&mut self, handle: ConnectionHandle) {
        let Some(mut connection) = self.connections.remove(handle) else { return };
        let (counted, _) = connection.recount();
        self.shares.remove_connection(counted);
        self.receivers.forget(&connection);
        self.timers.set(handle, None);
        self.primary_queue.retain(|&queued| queued != handle);
        self.rlp_queue.retain(|&queued| queued != handle);
        self.events.push_back(EndpointEvent::Drained(Drained { handle, connection }));
    }

    fn arm(&mut self, handle: ConnectionHandle) {
        if let Some(connection) = self.connections.get_mut(handle) {
            self.timers.set(handle, connection.poll_timeout());
        }
    }

    fn respond(&mut self, transmit: Transmit, mut response: Vec<u8>) {
        if self.responses.len() == RESPONSES_MAX {
            self.incoming.unanswered += 1;
            return;
        }
        response.truncate(transmit.size);
        self.responses.push_back((transmit, response));
    }
}

/// Records whether fragments reach the peer of a connection, once it is known.
#[cfg(feature = "kickass")]
fn learn_drops(drops: &mut DestinationCache<Drops>, now: Instant, connection: &mut Connection) {
    if let Some(found) = connection.take_drops(now) {
        drops.remember(connection.remote_address(), found);
    }
    if connection.take_refutation() {
        drops.forget(connection.remote_address());
    }
}
