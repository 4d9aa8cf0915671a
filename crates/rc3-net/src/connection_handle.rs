//! The handle of a connection, which its streams and its handshake hold too.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use rc3_core::{self as core, ConnectionError, Side};

use crate::{
    shared::Shared,
    state::{Access, ConnectionId, ConnectionState},
    waiters::ConnectionWaiters,
};

/// A connection. Clones are handles to the same one.
///
/// When the last handle, including those of all streams, is dropped, the connection closes with code 0 at once, and
/// undelivered bytes are lost. [`Self::close_gracefully`] delivers them first.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    id: ConnectionId,
    waiters: Arc<ConnectionWaiters>,
    side: Side,
    linger: AtomicBool,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, id: ConnectionId, waiters: Arc<ConnectionWaiters>) -> Self {
        let side = shared.with(|state| state.peek(id, |core, _| core.side())).unwrap_or(Side::Client);
        Self(Arc::new(Inner { shared, id, waiters, side, linger: AtomicBool::new(false) }))
    }

    /// Client or server.
    pub fn side(&self) -> Side {
        self.0.side
    }

    /// A number that no other open connection of the endpoint has, as long as a handle exists.
    pub fn stable_id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Lets the connection deliver accepted bytes when its last handle is dropped.
    pub(crate) fn linger(&self) {
        self.0.linger.store(true, Relaxed);
    }

    pub(crate) fn id(&self) -> ConnectionId {
        self.0.id
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    pub(crate) fn waiters(&self) -> &ConnectionWaiters {
        &self.0.waiters
    }

    /// See [`crate::state::EndpointState::peek`].
    pub(crate) fn peek<T>(
        &self,
        ask: impl FnOnce(&core::Connection, &ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        self.shared().with(|state| state.peek(self.id(), ask))
    }

    /// See [`EndpointState::access`](crate::state::EndpointState::access).
    pub(crate) fn access<T>(
        &self,
        access: Access,
        with: impl FnOnce(&mut core::Connection, &mut ConnectionState) -> T,
    ) -> Result<T, ConnectionError> {
        self.shared().with(|state| state.access(self.id(), access, with))
    }

    /// The peer's current address; clients may change theirs.
    pub fn remote_address(&self) -> SocketAddr {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        self.peek(|core, _| core.remote_address()).unwrap_or(unspecified)
    }

    pub(crate) fn is_delivered(&self) -> bool {
        self.peek(|_, state| state.undelivered.is_empty()).unwrap_or_default()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let linger = self.linger.load(Relaxed);
        self.shared.with(|state| state.release_connection(self.id, linger));
    }
}
