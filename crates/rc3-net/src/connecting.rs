//! A connection in its handshake.

use std::{
    any::Any,
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll, ready},
};

use rc3_core::ConnectionError;
use tokio::sync::oneshot;

use crate::{connection_handle::Connection, state::Access, wake::until, zero_rtt::ZeroRttAccepted};

/// A handshake in progress; awaiting it yields the connection. Dropping it aborts the handshake.
#[derive(Debug)]
#[must_use = "dropping it aborts the handshake"]
pub struct Connecting(Option<Connection>);

impl Connecting {
    pub(crate) fn new(connection: Connection) -> Self {
        Self(Some(connection))
    }

    /// Uses the connection before the handshake is complete, if possible: 0-RTT on a client, 0.5-RTT on a server.
    ///
    /// A client can if it connected before with a clone of the same [`ClientConfig`](crate::ClientConfig) and both
    /// ends' TLS settings allow early data. The server may still reject it. Then the streams opened so far fail with
    /// `ZeroRttRejected`, datagrams sent so far are lost, and the connection continues without them.
    ///
    /// Others can replay a client's early data to the server (RFC 8446 §8): send only data that may arrive twice. A
    /// server's early data goes to a peer that has not shown its certificate yet. RLP also sends clients' early data,
    /// unless `TransportConfig::early_rlp` disables it; on servers it starts when the handshake is complete.
    ///
    /// # Errors
    /// Returns the handshake, to be awaited, if early data is not possible.
    ///
    /// # Panics
    /// After the future has yielded its connection.
    pub fn into_0rtt(mut self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let (sender, accepted) = oneshot::channel();
        let begun = self.inner().access(Access::Command, |core, state| {
            if !core.begin_early() {
                return false;
            }
            if state.complete {
                // The receiver exists here.
                let _ = sender.send(core.is_early_accepted());
            } else if state.error.is_none() {
                state.zero_rtt = Some(sender);
            }
            true
        });
        match (begun, self.0.take()) {
            (Ok(true), Some(connection)) => Ok((connection, ZeroRttAccepted(accepted))),
            (_, connection) => Err(Self(connection)),
        }
    }

    /// Waits until the ALPN protocol (and on servers the server name from the client) is known; the value is a
    /// [`HandshakeData`](crate::crypto::rustls::HandshakeData).
    ///
    /// # Errors
    /// The [`ConnectionError`] with which the handshake failed.
    ///
    /// # Panics
    /// After the future has yielded its connection.
    pub async fn handshake_data(&mut self) -> Result<Box<dyn Any>, ConnectionError> {
        let connection = self.inner();
        until(&connection.waiters().handshake, || {
            match connection.peek(|core, state| (core.handshake_data(), state.error.clone())) {
                Ok((Some(data), _)) => Some(Ok(Box::new(data) as Box<dyn Any>)),
                Ok((None, error)) => error.map(Err),
                Err(error) => Some(Err(error)),
            }
        })
        .await
    }

    /// The local address of the connection, if known.
    ///
    /// # Panics
    /// After the future has yielded its connection.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.inner().peek(|core, _| core.local_ip()).ok().flatten()
    }

    /// The peer's address.
    ///
    /// # Panics
    /// After the future has yielded its connection.
    pub fn remote_address(&self) -> SocketAddr {
        self.inner().remote_address()
    }

    fn inner(&self) -> &Connection {
        self.0.as_ref().expect("used after it has yielded its connection")
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.inner().access(Access::Change, |_, state| match (&state.error, state.announced) {
            (Some(error), false) => Poll::Ready(Err(error.clone())),
            (_, true) => Poll::Ready(Ok(())),
            (None, false) => {
                state.connecting = Some(cx.waker().clone());
                Poll::Pending
            }
        });
        let result = ready!(result.unwrap_or_else(|error| Poll::Ready(Err(error))));
        let connection = self.0.take();
        Poll::Ready(result.map(|()| connection.expect("checked above")))
    }
}
