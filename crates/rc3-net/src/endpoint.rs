//! The handle of an endpoint: one UDP port, any number of connections both ways.

use std::{
    fmt, io,
    net::{SocketAddr, UdpSocket},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use pin_project_lite::pin_project;
use rc3_core::{self as core, ClientConfig, DestinationVerdict, ServerConfig, VarInt};
use tokio::sync::futures::Notified;

use crate::{
    bound::Bound,
    connecting::Connecting,
    connection_ref::ConnectionRef,
    driver::Driver,
    endpoint_ref::EndpointRef,
    error::ConnectError,
    incoming::Incoming,
    marks::Marks,
    paths::PathMemory,
    shared::Shared,
    socket::{self, AsyncSocket},
    state::State,
    wake::poll_until,
};

/// One UDP port that connects, accepts, or both. Clones are handles to the same one.
///
/// A task on the tokio runtime it was made in does the work. When all handles are dropped, no new connection
/// is accepted, and the task goes on until the last connection is gone.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) handle: Arc<EndpointRef>,
    default_client_config: Option<ClientConfig>,
}

impl Endpoint {
    /// An endpoint that only connects. `[::]:0` reaches IPv4 too where the system allows.
    ///
    /// # Errors
    /// When the address is taken or not local.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one without I/O or time.
    pub fn client(addr: SocketAddr) -> io::Result<Self> {
        Self::new(EndpointOptions::default(), None, addr)
    }

    /// An endpoint that accepts with `config`; it may connect as well.
    ///
    /// # Errors
    /// When the address is taken or not local, or the TLS settings cannot work.
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn server(config: ServerConfig, addr: SocketAddr) -> io::Result<Self> {
        Self::new(EndpointOptions::default(), Some(config), addr)
    }

    /// An endpoint with other than the default sockets or marks; with `server` it accepts.
    ///
    /// # Errors
    /// As [`Self::server`].
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn new(options: EndpointOptions, server: Option<ServerConfig>, addr: SocketAddr) -> io::Result<Self> {
        let core = core::Endpoint::new(server.as_ref(), None).map_err(invalid)?;
        let bound = Bound::new(addr, &options.socket)?;
        let shared = Arc::new(Shared::new(core, bound, options.marks, options.path_memory));
        let handle = Arc::new(EndpointRef { shared: shared.clone(), socket: options.socket });
        let endpoint = Self { handle, default_client_config: None };
        tracing::debug!(local = %endpoint.local_addr()?, capabilities = ?endpoint.capabilities(), "bound");
        tokio::spawn(Driver::new(shared));
        Ok(endpoint)
    }

    /// The settings [`Self::connect`] uses, of this handle and clones made from it later.
    pub fn set_default_client_config(&mut self, config: ClientConfig) {
        self.default_client_config = Some(config);
    }

    /// Begins to connect to the server at `addr` that calls itself `server_name`, with the default settings.
    ///
    /// # Errors
    /// When it cannot even be tried.
    pub fn connect(&self, addr: SocketAddr, server_name: &str) -> Result<Connecting, ConnectError> {
        let config = self.default_client_config.as_ref().ok_or(ConnectError::NoDefaultClientConfig)?;
        self.begin(config, addr, server_name)
    }

    /// As [`Self::connect`], with other settings.
    ///
    /// # Errors
    /// When it cannot even be tried.
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
        addr: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let shared = &self.handle.shared;
        let bound = shared.bound().ip();
        let ipv4_only = bound.is_ipv4();
        if ipv4_only && !addr.ip().to_canonical().is_ipv4() {
            return Err(ConnectError::InvalidRemoteAddress(addr));
        }
        let recall = shared.paths.as_ref().map(|paths| paths.recall(addr, bound));
        let (id, waiters) = shared.with(|state| {
            if !state.is_open() {
                return Err(ConnectError::EndpointStopping);
            }
            if let Some(recall) = recall {
                recall(&mut state.core);
            }
            let handle = state.core.connect(Instant::now(), config, addr, server_name)?;
            state.handshakes.outgoing += 1;
            Ok(state.add(handle))
        })?;
        Ok(Connecting::new(ConnectionRef::new(shared.clone(), id, waiters)))
    }

    /// The next handshake somebody wants to begin; `None` once the endpoint is closed.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub fn accept(&self) -> Accept<'_> {
        Accept { notified: self.handle.shared.waiters.incoming.notified(), endpoint: self }
    }

    /// Replaces the settings for connections accepted from now on; `None` accepts no more.
    ///
    /// # Errors
    /// When the TLS settings cannot work; the old ones stay.
    pub fn set_server_config(&self, config: Option<ServerConfig>) -> Result<(), core::ConfigError> {
        self.handle.shared.with(|state| state.core.set_server_config(config.as_ref()))
    }

    /// Bytes of memory that peers may bring about on all connections together, see
    /// [`EndpointStats::held_bytes`]; [`core::Endpoint::set_memory_max`] says how it is divided. Default: 1 GiB.
    pub fn set_memory_max(&self, bytes: u64) {
        self.handle.shared.with(|state| state.core.set_memory_max(bytes));
    }

    /// Moves the endpoint, with all its connections, to the address that `socket` is bound to: after a change of
    /// networks, or to try one. Only the address is used; `socket` is closed, and sockets with the endpoint's own
    /// options take its place. Servers cannot be reached by clients at another address than they know.
    ///
    /// # Errors
    /// When the address is taken or not local. The old sockets stay.
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<()> {
        let addr = socket.local_addr()?;
        drop(socket);
        self.rebind_to(addr)
    }

    /// As [`Self::rebind`], for an address nobody has bound yet.
    ///
    /// # Errors
    /// As [`Self::rebind`].
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn rebind_to(&self, addr: SocketAddr) -> io::Result<()> {
        let bound = Bound::new(addr, &self.handle.socket)?;
        self.handle.shared.with(|state| state.rebind(bound));
        Ok(())
    }

    /// Closes all connections at once, as [`crate::Connection::close`] does, and makes no new ones. Follow it
    /// by [`Self::wait_idle`], or the peers may not hear of it.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let shared = &self.handle.shared;
        let reason = Bytes::copy_from_slice(reason);
        shared.with(|state| {
            state.close_all(code, &reason);
            state.closed = Some((code, reason));
        });
        shared.waiters.incoming.notify_waiters();
    }

    /// Waits until no connection is left: closed ones linger for about three round trips to answer late
    /// packets. Does not keep new ones from being made.
    pub async fn wait_idle(&self) {
        let shared = &self.handle.shared;
        loop {
            let notified = shared.waiters.idle.notified();
            if shared.with(|state| state.open_connections()) == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Saves what was learned of paths, if the endpoint has a [`PathMemory`]. It is saved from time to time anyhow; before a
    /// program ends it has to be by this. No error: connections do not depend on it.
    pub async fn save_paths(&self) {
        if let Some(paths) = &self.handle.shared.paths {
            // Lost only with the runtime.
            let _ = paths.save().await;
        }
    }

    /// The bound address.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.handle.shared.bound().primary.local_addr()
    }

    /// How many connections are not gone for good.
    pub fn open_connections(&self) -> usize {
        self.handle.shared.with(|state| state.open_connections())
    }

    /// Which marks the datagrams of each level carry.
    pub fn marks(&self) -> &Marks {
        &self.handle.shared.marks
    }

    /// What the sockets can do by now.
    pub fn capabilities(&self) -> Capabilities {
        let Bound { primary, low } = &*self.handle.shared.bound();
        Capabilities { primary: primary.capabilities(), low: low.as_ref().map(AsyncSocket::capabilities) }
    }

    /// What [`crate::RlpMode::Guard`] has learned about the paths to destinations and still believes, in no order.
    pub fn verdicts(&self) -> Vec<DestinationVerdict> {
        self.handle.shared.with(|state| state.core.verdicts(Instant::now()).collect())
    }

    /// Forgets all of it, as after a change of networks. Connections that exist go on as they are. A [`PathMemory`] tells
    /// networks apart by itself and stays as it is.
    pub fn forget_verdicts(&self) {
        self.handle.shared.with(|state| state.core.forget_verdicts());
    }

    /// What the endpoint has done so far.
    pub fn stats(&self) -> EndpointStats {
        let state = |state: &mut State| {
            let State { core, bound, handshakes, .. } = state;
            (bound.clone(), *handshakes, core.incoming_stats(), core.held_bytes())
        };
        let (bound, handshakes, incoming, held_bytes) = self.handle.shared.with(state);
        EndpointStats {
            primary: bound.primary.stats(),
            low: bound.low.as_ref().map(AsyncSocket::stats),
            accepted_handshakes: handshakes.accepted,
            outgoing_handshakes: handshakes.outgoing,
            refused_handshakes: incoming.refused,
            ignored_handshakes: handshakes.ignored,
            incoming,
            held_bytes,
        }
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
        let attempt = || match handle.shared.with(|state| (state.incoming.pop_front(), state.is_open())) {
            (Some(incoming), _) => Some(Some(Incoming::new(handle.clone(), incoming))),
            (None, true) => None,
            (None, false) => Some(None),
        };
        poll_until(cx, &handle.shared.waiters.incoming, this.notified, attempt)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("local_addr", &self.local_addr().ok()).finish_non_exhaustive()
    }
}

/// How an endpoint talks to the system.
#[derive(Debug, Clone, Default)]
pub struct EndpointOptions {
    /// What to ask of the kernel.
    pub socket: socket::Options,
    /// Which marks the datagrams of each level carry.
    pub marks: Marks,
    /// Where to keep what is learned of paths, beyond the life of the endpoint; `None`: nowhere.
    pub path_memory: Option<PathMemory>,
}

/// What the sockets of an endpoint can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The one for level 0.
    pub primary: socket::Capabilities,
    /// The one for the low levels; `None` where everything goes over `primary`.
    pub low: Option<socket::Capabilities>,
}

/// Counters of an endpoint. Those of its sockets begin anew when it is rebound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// The one for level 0.
    pub primary: socket::Stats,
    /// The one for the low levels; `None` where everything goes over `primary`.
    pub low: Option<socket::Stats>,
    /// Handshakes of peers that were accepted, whether they succeeded or not.
    pub accepted_handshakes: u64,
    /// Handshakes begun from here.
    pub outgoing_handshakes: u64,
    /// Handshakes of peers that were turned down.
    pub refused_handshakes: u64,
    /// Handshakes of peers that got no answer.
    pub ignored_handshakes: u64,
    /// What became of handshakes that peers began, those shed while many waited included.
    pub incoming: core::IncomingStats,
    /// Memory that peers have brought about on all connections: bytes received and not read, the buffers they are in,
    /// records of gaps on both sides.
    pub held_bytes: u64,
}

fn invalid(error: core::ConfigError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
