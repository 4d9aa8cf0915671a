//! A connection in its handshake.

use std::{
    any::Any,
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};

use rc3_core::ConnectionError;

use crate::connection::{Connection, ConnectionRef};

/// A handshake going on; awaiting it yields the connection. Dropped, the handshake is given up.
#[derive(Debug)]
#[must_use = "a handshake is given up when dropped"]
pub struct Connecting(Option<ConnectionRef>);

impl Connecting {
    pub(crate) fn new(connection: ConnectionRef) -> Self {
        Self(Some(connection))
    }

    /// Waits until the ALPN protocol (and on servers the name the client asked for) is known; the value is a
    /// [`HandshakeData`](crate::crypto::rustls::HandshakeData).
    ///
    /// # Errors
    /// When the handshake fails.
    ///
    /// # Panics
    /// After the future has yielded its connection.
    pub async fn handshake_data(&mut self) -> Result<Box<dyn Any>, ConnectionError> {
        let connection = self.inner();
        connection
            .wait(&connection.waiters().handshake, || {
                match connection.peek(|core, state| (core.handshake_data(), state.error.clone())) {
                    Ok((Some(data), _)) => Some(Ok(Box::new(data) as Box<dyn Any>)),
                    Ok((None, error)) => error.map(Err),
                    Err(error) => Some(Err(error)),
                }
            })
            .await
    }

    /// Our address that the peer talks to, where known.
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

    fn inner(&self) -> &ConnectionRef {
        self.0.as_ref().expect("used after it has yielded its connection")
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.inner().change(|_, state| match (&state.error, state.connected) {
            (Some(error), false) => Poll::Ready(Err(error.clone())),
            (_, true) => Poll::Ready(Ok(())),
            (None, false) => {
                state.connecting = Some(cx.waker().clone());
                Poll::Pending
            }
        });
        let result = match result {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result,
            Err(error) => Err(error),
        };
        let connection = self.0.take();
        Poll::Ready(result.map(|()| Connection(connection.expect("checked above"))))
    }
}
