//! The handle of an endpoint: one UDP port, any number of connections both ways.

use std::{
    collections::HashMap,
    fmt, io,
    net::{SocketAddr, UdpSocket},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use pin_project_lite::pin_project;
use rc3_core::{
    self as core, ClientConfig, ConnectFailed, DestinationVerdict, EndpointConfig, ServerConfig, VarInt,
    WorkerHash,
};
use tokio::sync::futures::Notified;

use crate::{
    bound::{Bound, Pair},
    connecting::Connecting,
    connection_handle::Connection,
    driver::Driver,
    endpoint_ref::EndpointRef,
    error::ConnectError,
    handed_over::HandedOver,
    incoming::Incoming,
    marks::Marks,
    paths::PathMemory,
    runtime::{AsyncUdpSocket, Runtime, TokioRuntime, is_tokio},
    shared::Shared,
    socket::{self, EndpointSocket, Socket, canonical},
    state::EndpointState,
    waiters::EndpointWaiters,
    wake::{poll_until, until},
    workers::Member,
};

/// One UDP port that connects, accepts, or both. Clones are handles to the same endpoint.
///
/// A task on the tokio runtime in which it was created does the work, or several do ([`EndpointOptions::workers`]).
/// When all handles are dropped, no new connection is accepted, and the task continues until the last connection has
/// ended.
///
/// ```
/// use rc3_net::{Endpoint, VarInt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
/// let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
/// let mut client = Endpoint::client("127.0.0.1:0".parse()?)?;
/// client.set_default_client_config(client_config);
///
/// let connecting = client.connect(server.local_addr()?, "rc3.test")?;
/// let accepting = async { server.accept().await.expect("the endpoint is open").await };
/// let (connected, accepted) = tokio::try_join!(connecting, accepting)?;
/// assert!(connected.is_rc3() && accepted.is_rc3());
/// assert_eq!(accepted.remote_address().port(), client.local_addr()?.port());
///
/// client.close(VarInt::from_u32(0), b"done");
/// client.wait_idle().await;
/// assert_eq!(client.open_connections(), 0);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) handle: Arc<EndpointRef>,
    default_client_config: Option<ClientConfig>,
}

impl Endpoint {
    /// An endpoint that only connects. `[::]:0` reaches IPv4 too where the system allows.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if the port is taken, [`io::ErrorKind::AddrNotAvailable`] if this host does not
    /// have the address, and other errors of the system.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one without I/O or time.
    pub fn client(addr: SocketAddr) -> io::Result<Self> {
        Self::bind(EndpointOptions::default(), None, addr)
    }

    /// An endpoint that accepts with `config`; it may connect as well.
    ///
    /// # Errors
    /// As [`Self::client`], and [`io::ErrorKind::InvalidInput`] if QUIC cannot use the TLS settings.
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn server(config: ServerConfig, addr: SocketAddr) -> io::Result<Self> {
        Self::bind(EndpointOptions::default(), Some(config), addr)
    }

    /// An endpoint bound to `addr`, with `options` for its sockets and marks; with `server` it accepts.
    ///
    /// # Errors
    /// As [`Self::server`], [`io::ErrorKind::InvalidInput`] if connection ids have a wrong length, and
    /// [`io::ErrorKind::Unsupported`] if the system cannot divide the port among [`EndpointOptions::workers`].
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn bind(
        options: EndpointOptions,
        server: Option<ServerConfig>,
        addr: SocketAddr,
    ) -> io::Result<Self> {
        Self::make(options, server, Arc::new(TokioRuntime), |settings, hash| {
            Bound::new(Socket::bind_plain(addr, settings)?, settings, hash)
        })
    }

    /// An endpoint on a socket that the application has bound, with quinn's parameters.
    ///
    /// With [`TokioRuntime`] it is as [`Self::adopt`] with default options. Any other runtime makes its own socket of it,
    /// as for [`Self::new_with_abstract_socket`].
    ///
    /// ```
    /// use std::net::UdpSocket;
    /// use rc3_net::{Endpoint, EndpointConfig, default_runtime};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// let runtime = default_runtime().expect("called in a tokio runtime");
    /// let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime)?;
    /// # assert!(endpoint.local_addr()?.ip().is_loopback());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Self::bind`], and an [`io::Error`] if `socket` is not a UDP socket.
    ///
    /// # Panics
    /// With [`TokioRuntime`] as [`Self::client`].
    pub fn new(
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: UdpSocket,
        runtime: Arc<dyn Runtime>,
    ) -> io::Result<Self> {
        let options = EndpointOptions { protocol: config, ..EndpointOptions::default() };
        if is_tokio(&*runtime) {
            return Self::adopt(options, server, socket);
        }
        let socket = runtime.wrap_udp_socket(socket)?;
        Self::make(options, server, runtime, |_, hash| Bound::application(socket, hash))
    }

    /// An endpoint on a socket that the application has bound. [`Sockets::adopt`](socket::Sockets::adopt) says what
    /// happens to it.
    ///
    /// # Errors
    /// As [`Self::new`].
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn adopt(
        options: EndpointOptions,
        server: Option<ServerConfig>,
        socket: UdpSocket,
    ) -> io::Result<Self> {
        Self::make(options, server, Arc::new(TokioRuntime), |settings, hash| {
            Bound::new(Socket::adopt_plain(socket, settings)?, settings, hash)
        })
    }

    /// An endpoint on a socket that the application implements. Both loops share it, without marks.
    ///
    /// # Errors
    /// As [`Self::new`].
    ///
    /// # Panics
    /// With [`TokioRuntime`], outside a tokio runtime or in one without time.
    pub fn new_with_abstract_socket(
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: Arc<dyn AsyncUdpSocket>,
        runtime: Arc<dyn Runtime>,
    ) -> io::Result<Self> {
        let options = EndpointOptions { protocol: config, ..EndpointOptions::default() };
        Self::make(options, server, runtime, |_, hash| Bound::application(socket, hash))
    }

    fn make(
        options: EndpointOptions,
        server: Option<ServerConfig>,
        runtime: Arc<dyn Runtime>,
        bind: impl FnOnce(&socket::Options, Option<&WorkerHash>) -> io::Result<Vec<Bound>>,
    ) -> io::Result<Self> {
        let (endpoint, drivers) = Self::assemble(options, server, runtime, None, bind)?;
        endpoint.spawn(drivers);
        Ok(endpoint)
    }

    /// An endpoint whose drivers do not run yet. `hash`: that of the workers of another process, which had the port.
    pub(crate) fn assemble(
        options: EndpointOptions,
        server: Option<ServerConfig>,
        runtime: Arc<dyn Runtime>,
        hash: Option<WorkerHash>,
        bind: impl FnOnce(&socket::Options, Option<&WorkerHash>) -> io::Result<Vec<Bound>>,
    ) -> io::Result<(Self, Vec<Driver>)> {
        let EndpointOptions { protocol, socket, marks, path_memory, workers } = options;
        let invalid = |error: core::ConfigError| io::Error::new(io::ErrorKind::InvalidInput, error);
        let configs = match hash {
            None => protocol.for_workers(workers),
            Some(hash) => protocol.for_workers_of(hash),
        };
        let configs = configs.map_err(invalid)?;
        let hash = configs[0].worker_hash();
        let waiters = Arc::<EndpointWaiters>::default();
        let bounds = bind(&socket, hash.as_ref())?;
        let (mut workers, mut drivers) = (Vec::new(), Vec::new());
        for ((bound, config), (member, inbox)) in bounds.into_iter().zip(configs).zip(Member::all(hash)) {
            let core = core::Endpoint::with_config(&config, server.as_ref(), !bound.primary.may_fragment());
            let core = core.map_err(invalid)?;
            let (marks, paths) = (marks.clone(), path_memory.clone());
            let shared = Shared::new(core, bound, marks, paths, waiters.clone(), member, runtime.clone());
            let shared = Arc::new(shared);
            drivers.push(Driver::new(shared.clone(), inbox));
            workers.push(shared);
        }
        let handle = Arc::new(EndpointRef::new(workers.into(), socket));
        let endpoint = Self { handle, default_client_config: None };
        tracing::debug!(
            local = %endpoint.local_addr()?,
            capabilities = ?endpoint.capabilities(),
            workers = drivers.len(),
            "bound"
        );
        Ok((endpoint, drivers))
    }

    /// Lets the drivers run.
    pub(crate) fn spawn(&self, drivers: Vec<Driver>) {
        for driver in drivers {
            self.handle.first().runtime.spawn(Box::pin(driver));
        }
    }

    /// The settings [`Self::connect`] uses, of this handle and clones made from it later.
    pub fn set_default_client_config(&mut self, config: ClientConfig) {
        self.default_client_config = Some(config);
    }

    /// Begins to connect to the server at `addr`, whose certificate must name `server_name`, with the default settings. An
    /// IPv4-mapped IPv6 address is that IPv4 address.
    ///
    /// # Errors
    /// [`ConnectError::NoDefaultClientConfig`] without [`Self::set_default_client_config`],
    /// [`ConnectError::InvalidServerName`], [`ConnectError::InvalidRemoteAddress`] for port 0, an unspecified address or
    /// IPv6 on an IPv4 socket, [`ConnectError::UnsupportedVersion`] if QUIC cannot use the TLS settings,
    /// [`ConnectError::CidsExhausted`] with too many connections, [`ConnectError::EndpointStopping`] after
    /// [`Self::close`].
    pub fn connect(&self, addr: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = self.default_client_config.as_ref().ok_or(ConnectError::NoDefaultClientConfig)?;
        self.begin(config, addr, server_name)
    }

    /// As [`Self::connect`], with `config` in place of the default settings.
    ///
    /// # Errors
    /// As [`Self::connect`], except [`ConnectError::NoDefaultClientConfig`].
    pub fn connect_with(
        &self,
        config: ClientConfig,
        addr: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        self.begin(&config, addr, server_name)
    }

    fn begin(
        &self,
        config: &ClientConfig,
        given: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        // Answers come from the canonical address.
        let addr = canonical(given);
        let shared = self.handle.in_turn().next().expect("there is a worker");
        let bound = shared.bound().ip();
        let ipv4_only = bound.is_ipv4();
        if ipv4_only && !addr.is_ipv4() {
            return Err(ConnectError::InvalidRemoteAddress(given));
        }
        let (id, waiters) = shared.with_path(addr, bound, |state| {
            if !state.is_open() {
                return Err(ConnectError::EndpointStopping);
            }
            let now = state.runtime.now();
            let handle = state.core.connect(now, config, addr, server_name).map_err(|error| match error {
                ConnectFailed::Connect(ConnectError::InvalidRemoteAddress(_)) => {
                    ConnectError::InvalidRemoteAddress(given)
                }
                ConnectFailed::Connect(error) => error,
                ConnectFailed::Config(error) => {
                    tracing::error!(%error, "the client's settings are not for QUIC");
                    ConnectError::UnsupportedVersion
                }
            })?;
            state.handshakes.outgoing += 1;
            Ok(state.add(handle))
        })?;
        Ok(Connecting::new(Connection::new(shared.clone(), id, waiters)))
    }

    /// Waits for the next peer that wants to connect; `None` once the endpoint is closed.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn accept(&self) -> Accept<'_> {
        Accept { notified: self.handle.waiters().incoming.notified(), endpoint: self }
    }

    /// Replaces the settings for connections accepted from now on; `None` accepts no more.
    ///
    /// # Errors
    /// [`ConfigError`](core::ConfigError) if QUIC cannot use the TLS settings; the old settings stay.
    pub fn set_server_config(&self, config: Option<ServerConfig>) -> Result<(), core::ConfigError> {
        // All workers accept the same settings, so either all of these calls fail or none.
        self.handle.each(|state| state.core.set_server_config(config.as_ref())).into_iter().collect()
    }

    /// Memory in bytes of all connections together, for received data, data stored for sending, and what peers may
    /// still send; [`core::Endpoint::set_memory_max`] says how it is divided. Default: 1 GiB.
    pub fn set_memory_max(&self, bytes: u64) {
        self.handle.each(|state| state.core.set_memory_max(bytes));
    }

    /// Moves the endpoint, with all its connections, to `socket`, for example after a change of networks. The endpoint
    /// takes it over as [`Self::new`] does. Do not move a server: its clients only know the old address.
    ///
    /// # Errors
    /// An [`io::Error`] if the endpoint cannot use `socket`. The old sockets stay. [`io::ErrorKind::ResourceBusy`] after
    /// [`Self::hand_over`], [`io::ErrorKind::NotConnected`] once the endpoint has ended because of its socket.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<()> {
        let runtime = &*self.handle.first().runtime;
        if !is_tokio(runtime) {
            return self.rebind_abstract(runtime.wrap_udp_socket(socket)?);
        }
        let settings = &self.handle.socket;
        self.move_to(|hash| Bound::new(Socket::adopt_plain(socket, settings)?, settings, hash))
    }

    /// As [`Self::rebind`], to a socket that the application implements.
    ///
    /// # Errors
    /// An [`io::Error`] if its address is unknown. The old sockets stay.
    pub fn rebind_abstract(&self, socket: Arc<dyn AsyncUdpSocket>) -> io::Result<()> {
        socket.local_addr()?;
        self.move_to(|hash| Bound::application(socket, hash))
    }

    /// As [`Self::rebind`], to new sockets bound to `addr`.
    ///
    /// # Errors
    /// As [`Self::client`]. The old sockets stay.
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn rebind_to(&self, addr: SocketAddr) -> io::Result<()> {
        let settings = &self.handle.socket;
        self.move_to(|hash| Bound::new(Socket::bind_plain(addr, settings)?, settings, hash))
    }

    fn move_to(&self, bind: impl FnOnce(Option<&WorkerHash>) -> io::Result<Vec<Bound>>) -> io::Result<()> {
        let workers = &self.handle.workers;
        if workers[0].with(|state| state.is_handed_over()) {
            let text = "another process has the port, wait until the last connection has ended";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        if let Some(failure) =
            workers.iter().find_map(|worker| worker.with(|state| state.lifetime.failure.clone()))
        {
            let text = format!("{failure}; make a new endpoint");
            return Err(io::Error::new(io::ErrorKind::NotConnected, text));
        }
        let bound = bind(workers[0].member.hash())?;
        for (worker, bound) in workers.iter().zip(bound) {
            worker.with(|state| state.rebind(bound));
        }
        Ok(())
    }

    /// Closes all connections at once, as [`crate::Connection::close`] does, and makes no new ones. Await
    /// [`Self::wait_idle`] or [`Self::wait_closes_sent`] afterwards: the program may otherwise end before the peers are
    /// notified.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        self.handle.each(|state| {
            state.close_all(code, &reason);
        });
        self.handle.waiters().incoming.notify_waiters();
    }

    /// Waits until no connection is left: closed ones linger for about three round trips to answer late packets. Does
    /// not prevent new ones. After [`Self::hand_over`], also waits for the process that had the port before this one,
    /// because its datagrams come by here.
    pub async fn wait_idle(&self) {
        let is_between = || self.handle.each(|state| state.is_between()).contains(&true);
        let is_idle = || (self.open_connections() == 0 && !is_between()).then_some(());
        until(&self.handle.waiters().idle, is_idle).await;
    }

    /// Waits until the peer of each connection that this side has closed was sent the close, once: enough where a peer
    /// that misses it ends by itself.
    pub async fn wait_closes_sent(&self) {
        let owes_close = || self.handle.each(|state| state.lifetime.owes_close()).contains(&true);
        until(&self.handle.waiters().idle, || (!owes_close()).then_some(())).await;
    }

    /// Saves what was learned of paths, if the endpoint has a [`PathMemory`]. The endpoint also saves from time to time;
    /// call this before the program ends. Failures are ignored: connections do not depend on it.
    pub async fn save_paths(&self) {
        if let Some(paths) = &self.handle.first().paths {
            // Lost only with the runtime.
            let _ = paths.save().await;
        }
    }

    /// The bound address.
    ///
    /// # Errors
    /// An [`io::Error`] if the system cannot report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.handle.first().bound().primary.local_addr()
    }

    /// The number of connections that have not ended.
    pub fn open_connections(&self) -> usize {
        self.handle.each(|state| state.connections.open()).into_iter().sum()
    }

    /// Which marks the datagrams of each level carry.
    pub fn marks(&self) -> &Marks {
        &self.handle.first().marks
    }

    /// The current features of the sockets; with several workers, of the first one's.
    pub fn capabilities(&self) -> Capabilities {
        let bound = self.handle.first().bound();
        let Pair { primary, low } = &*bound;
        Capabilities { primary: primary.capabilities(), low: low.as_ref().map(EndpointSocket::capabilities) }
    }

    /// The unexpired verdicts of [`crate::RlpMode::Guard`] about the paths to destinations, in no order.
    pub fn verdicts(&self) -> Vec<DestinationVerdict> {
        // Workers learn from each other a moment later: the newest counts.
        let mut newest: HashMap<_, DestinationVerdict> = HashMap::new();
        for worker in &self.handle.workers {
            let verdicts = worker.with(|state| state.core.verdicts(state.runtime.now()).collect::<Vec<_>>());
            for verdict in verdicts {
                let known = newest.entry(verdict.destination).or_insert(verdict);
                if known.at < verdict.at {
                    *known = verdict;
                }
            }
        }
        newest.into_values().collect()
    }

    /// Forgets all [`Self::verdicts`], as after a change of networks. Existing connections keep theirs. A [`PathMemory`]
    /// distinguishes networks itself and is not changed.
    pub fn forget_verdicts(&self) {
        self.handle.each(|state| state.core.forget_verdicts());
    }

    /// Counters of the endpoint.
    pub fn stats(&self) -> EndpointStats {
        let mut stats = EndpointStats::default();
        self.handle.each(|EndpointState { core, bound, handshakes, restart, .. }| {
            stats.primary += bound.primary.stats();
            if let Some(low) = &bound.low {
                *stats.low.get_or_insert_default() += low.stats();
            }
            stats.accepted_handshakes += handshakes.accepted;
            stats.outgoing_handshakes += handshakes.outgoing;
            stats.ignored_handshakes += handshakes.ignored;
            stats.incoming += core.incoming_stats();
            stats.held_bytes += core.held_bytes();
            stats.to_predecessor += restart.detours.to_predecessor;
            stats.from_successor += restart.detours.from_successor;
        });
        stats.refused_handshakes = stats.incoming.refused;
        stats.handed_over = self.handle.first().member.handed_over();
        stats
    }
}

pin_project! {
    /// What [`Endpoint::accept`] returns.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Accept<'a> {
        endpoint: &'a Endpoint,
        #[pin]
        notified: Notified<'a>,
    }
}

impl Future for Accept<'_> {
    type Output = Option<Incoming>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let handle = &this.endpoint.handle;
        let attempt = || {
            let mut open = false;
            for worker in handle.in_turn() {
                match worker.with(|state| (state.handshakes.waiting.pop_front(), state.may_get_peers())) {
                    (Some(incoming), _) => {
                        return Some(Some(Incoming::new(handle.clone(), worker.clone(), incoming)));
                    }
                    (None, may_get_peers) => open |= may_get_peers,
                }
            }
            if open { None } else { Some(None) }
        };
        poll_until(cx, &handle.waiters().incoming, this.notified, attempt)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("local_addr", &self.local_addr().ok()).finish_non_exhaustive()
    }
}

/// All settings of an endpoint.
///
/// ```
/// use rc3_net::{Endpoint, EndpointOptions, marks::MarkChoice};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut options = EndpointOptions { marks: MarkChoice::Cs1.into(), ..EndpointOptions::default() };
/// // A burst of 10 Gbit/s fits; the kernel may grant less.
/// options.socket.recv_buffer = 32 << 20;
/// let endpoint = Endpoint::bind(options, None, "127.0.0.1:0".parse()?)?;
/// assert_eq!(endpoint.marks(), &MarkChoice::Cs1.into());
/// println!("{:?}", endpoint.capabilities());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct EndpointOptions {
    /// Settings of the protocol.
    pub protocol: EndpointConfig,
    /// Socket options.
    pub socket: socket::Options,
    /// Which marks the datagrams of each level carry.
    pub marks: Marks,
    /// Where to store the memory of paths beyond the endpoint's lifetime; `None`: nowhere.
    pub path_memory: Option<PathMemory>,
    /// Tasks that do the endpoint's work, 1 to 64. Default: 1.
    ///
    /// One task uses at most one core. With several, each has its own sockets on the port and its own connections, and
    /// the kernel gives each datagram to the task of its connection, whatever address it comes from. `accept`, `close`,
    /// counters, verdicts and limits concern all of them, as with one. Use a runtime with as many threads.
    ///
    /// The primary of every connection goes before RLP within a task. Between tasks, RLP that a task has begun to send,
    /// up to 64 KiB, may go before another task's primary.
    ///
    /// ```
    /// use rc3_net::{Endpoint, EndpointOptions};
    ///
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (_, server_config) = rc3_sim::identity::identity(&["example"]);
    /// let cores = std::thread::available_parallelism()?.get().min(64);
    /// let workers = if cfg!(target_os = "linux") { cores } else { 1 };
    /// let options = EndpointOptions { workers, ..EndpointOptions::default() };
    /// let server = Endpoint::bind(options, Some(server_config), "127.0.0.1:0".parse()?)?;
    /// # assert_eq!(server.open_connections(), 0);
    /// # Ok(()) }
    /// ```
    ///
    /// Several need the system's own sockets, on Linux; otherwise the endpoint cannot be made, and the error is
    /// [`io::ErrorKind::Unsupported`].
    pub workers: usize,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            protocol: EndpointConfig::default(),
            socket: socket::Options::default(),
            marks: Marks::default(),
            path_memory: None,
            workers: 1,
        }
    }
}

/// Features of an endpoint's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The socket for level 0.
    pub primary: socket::Capabilities,
    /// The socket for the low levels; `None` if everything goes through `primary`.
    pub low: Option<socket::Capabilities>,
}

/// Counters of an endpoint, sums over its workers. Those of its sockets restart when it is rebound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EndpointStats {
    /// The socket for level 0.
    pub primary: socket::Stats,
    /// The socket for the low levels; `None` if everything goes through `primary`.
    pub low: Option<socket::Stats>,
    /// Handshakes of peers that were accepted, successful or not.
    pub accepted_handshakes: u64,
    /// Handshakes started by this endpoint.
    pub outgoing_handshakes: u64,
    /// Handshakes of peers that were refused.
    pub refused_handshakes: u64,
    /// Handshakes of peers that got no answer.
    pub ignored_handshakes: u64,
    /// Handshakes that peers started, including those refused because too many waited.
    pub incoming: core::IncomingStats,
    /// Memory used because of peers on all connections: unread bytes, their buffers, and records of gaps on both sides.
    pub held_bytes: u64,
    /// Datagrams that arrived at another worker than their connection's; 0 with one worker.
    pub handed_over: HandedOver,
    /// Datagrams passed to the process that had the port before, see [`Endpoint::take_over`].
    pub to_predecessor: HandedOver,
    /// Datagrams that came from the process that has the port now, see [`Endpoint::hand_over`].
    pub from_successor: HandedOver,
}
