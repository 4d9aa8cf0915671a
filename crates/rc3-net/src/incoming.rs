//! A handshake that a peer starts, and the possible answers.

use std::{
    fmt,
    future::{Future, IntoFuture},
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rc3_core::{
    self as core, ConnectionError, ConnectionHandle, ConnectionId, ServerConfig, TransportError,
    TransportErrorCode,
};
use thiserror::Error;

use crate::{
    connecting::Connecting, connection_handle::Connection, endpoint_ref::EndpointRef, shared::Shared,
    state::EndpointState,
};

/// A handshake that waits for an answer. Dropping it without one [refuses](Self::refuse) it.
///
/// Awaiting it accepts it and waits for the handshake to complete.
pub struct Incoming {
    /// Keeps the endpoint.
    _endpoint: Arc<EndpointRef>,
    /// The worker that has the handshake.
    shared: Arc<Shared>,
    /// Taken by the answer.
    core: Option<core::Incoming>,
}

impl Incoming {
    pub(crate) fn new(endpoint: Arc<EndpointRef>, shared: Arc<Shared>, core: core::Incoming) -> Self {
        Self { _endpoint: endpoint, shared, core: Some(core) }
    }

    /// Accepts the handshake.
    ///
    /// # Errors
    /// [`ConnectionError::TransportError`] if its first packet is malformed, [`ConnectionError::LocallyClosed`] if the
    /// endpoint was closed meanwhile, [`ConnectionError::CidsExhausted`] with too many connections.
    pub fn accept(self) -> Result<Connecting, ConnectionError> {
        self.accept_by(|state, incoming| {
            let now = state.runtime.now();
            state.core.accept(now, incoming)
        })
    }

    /// Accepts the handshake with `config` in place of the endpoint's settings.
    ///
    /// # Errors
    /// As [`Self::accept`], and [`ConnectionError::TransportError`] with the code `CONNECTION_REFUSED` if QUIC cannot use
    /// the TLS settings; the peer is refused.
    pub fn accept_with(self, config: Arc<ServerConfig>) -> Result<Connecting, ConnectionError> {
        self.accept_by(|state, incoming| {
            let now = state.runtime.now();
            match state.core.accept_with(now, incoming, &config) {
                Ok(accepted) => accepted,
                Err((error, incoming)) => {
                    state.refuse(incoming);
                    let mut refused = TransportError::from(TransportErrorCode::CONNECTION_REFUSED);
                    refused.reason = error.to_string();
                    Err(ConnectionError::TransportError(refused))
                }
            }
        })
    }

    fn accept_by(
        mut self,
        accept: impl FnOnce(&mut EndpointState, core::Incoming) -> Result<ConnectionHandle, ConnectionError>,
    ) -> Result<Connecting, ConnectionError> {
        let Some(incoming) = self.core.take() else { return Err(ConnectionError::LocallyClosed) };
        let shared = &self.shared;
        let bound = incoming.local_ip().unwrap_or_else(|| shared.bound().ip());
        let (id, waiters) = shared.with_path(incoming.remote_address(), bound, |state| {
            if state.is_closed() {
                state.refuse(incoming);
                return Err(ConnectionError::LocallyClosed);
            }
            let accepted = accept(state, incoming);
            state.wake_driver();
            let added = state.add(accepted?);
            state.handshakes.accepted += 1;
            Ok(added)
        })?;
        Ok(Connecting::new(Connection::new(shared.clone(), id, waiters)))
    }

    /// Refuses the handshake; the peer receives `CONNECTION_REFUSED` (RFC 9000 §20.1).
    pub fn refuse(self) {
        drop(self);
    }

    /// Answers with a Retry packet: the peer must start again with a token, which validates its address (RFC 9000
    /// §8.1.2).
    ///
    /// ```
    /// use rc3_net::Endpoint;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (client_config, server_config) = rc3_sim::identity::identity(&["example"]);
    /// let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    /// # let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    /// # let connecting = client.connect_with(client_config, server.local_addr()?, "rc3.test")?;
    /// let accepting = async {
    ///     loop {
    ///         let incoming = server.accept().await.expect("the endpoint is open");
    ///         if incoming.remote_address_validated() {
    ///             break incoming.await;
    ///         }
    ///         incoming.retry().expect("without a token, a Retry is possible");
    ///     }
    /// };
    /// let (accepted, _connected) = tokio::try_join!(accepting, connecting)?;
    /// assert_eq!(server.stats().incoming.retried, 1);
    /// # drop(accepted);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`RetryError`], which contains the handshake, if the peer already has a token; see [`Self::may_retry`].
    pub fn retry(mut self) -> Result<(), RetryError> {
        let Some(incoming) = self.core.take() else { return Ok(()) };
        let returned = self.shared.with(|state| {
            state.wake_driver();
            state.core.retry(incoming).err()
        });
        match returned {
            None => Ok(()),
            Some(incoming) => {
                self.core = Some(incoming);
                Err(RetryError(Box::new(self)))
            }
        }
    }

    /// Drops the handshake without an answer.
    pub fn ignore(mut self) {
        if let Some(incoming) = self.core.take() {
            self.shared.with(|state| {
                state.handshakes.ignored += 1;
                state.core.ignore(incoming);
            });
        }
    }

    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.core().remote_address()
    }

    /// The local address that the handshake was sent to, if known.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.core().local_ip()
    }

    /// Whether the peer's address is validated.
    pub fn remote_address_validated(&self) -> bool {
        self.core().remote_address_validated()
    }

    /// The connection id that the peer chose for its first packets.
    pub fn orig_dst_cid(&self) -> ConnectionId {
        *self.core().orig_dst_cid()
    }

    /// Whether [`Self::retry`] is still possible.
    pub fn may_retry(&self) -> bool {
        self.core().may_retry()
    }

    fn core(&self) -> &core::Incoming {
        self.core.as_ref().expect("an answer consumes the handshake")
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(incoming) = self.core.take() {
            self.shared.with(|state| state.refuse(incoming));
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("remote_address", &self.remote_address()).finish_non_exhaustive()
    }
}

impl IntoFuture for Incoming {
    type Output = Result<Connection, ConnectionError>;
    type IntoFuture = IncomingFuture;

    fn into_future(self) -> IncomingFuture {
        IncomingFuture(self.accept())
    }
}

/// The future of an awaited [`Incoming`].
#[derive(Debug)]
pub struct IncomingFuture(Result<Connecting, ConnectionError>);

impl Future for IncomingFuture {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(connecting) => Pin::new(connecting).poll(cx),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

/// The peer has already started again.
#[derive(Debug, Error)]
#[error("the peer has already answered a retry, accept or refuse it")]
pub struct RetryError(Box<Incoming>);

impl RetryError {
    /// The handshake, still waiting for an answer.
    pub fn into_incoming(self) -> Incoming {
        *self.0
    }
}
