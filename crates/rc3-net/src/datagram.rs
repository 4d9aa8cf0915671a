//! Named futures for sending and receiving application datagrams.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use pin_project_lite::pin_project;
use rc3_core::{self as core, ConnectionError};
use tokio::sync::futures::Notified;

use crate::{connection_ref::ConnectionRef, error::SendDatagramError, state::Access, wake::poll_until};

pin_project! {
    /// What [`Connection::read_datagram`](crate::Connection::read_datagram) returns.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct ReadDatagram<'a> {
        connection: &'a ConnectionRef,
        #[pin]
        notified: Notified<'a>,
    }
}

impl<'a> ReadDatagram<'a> {
    pub(crate) fn new(connection: &'a ConnectionRef) -> Self {
        Self { notified: connection.waiters().datagram_received.notified(), connection }
    }
}

impl Future for ReadDatagram<'_> {
    type Output = Result<Bytes, ConnectionError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let connection: &ConnectionRef = this.connection;
        let attempt = || {
            // Datagrams received before the connection was lost can still be read.
            let read = connection.access(Access::Change, |core, state| match core.read_datagram() {
                Some(data) => Some(Ok(data)),
                None => state.error.clone().map(Err),
            });
            read.unwrap_or_else(|error| Some(Err(error)))
        };
        poll_until(cx, &connection.waiters().datagram_received, this.notified, attempt)
    }
}

pin_project! {
    /// What [`Connection::send_datagram_wait`](crate::Connection::send_datagram_wait) returns.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct SendDatagram<'a> {
        connection: &'a ConnectionRef,
        data: Bytes,
        #[pin]
        notified: Notified<'a>,
    }
}

impl<'a> SendDatagram<'a> {
    pub(crate) fn new(connection: &'a ConnectionRef, data: Bytes) -> Self {
        Self { notified: connection.waiters().datagrams_unblocked.notified(), connection, data }
    }
}

impl Future for SendDatagram<'_> {
    type Output = Result<(), SendDatagramError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (connection, data): (&ConnectionRef, _) = (this.connection, this.data);
        let attempt = || send(connection, data.clone(), false).transpose();
        poll_until(cx, &connection.waiters().datagrams_unblocked, this.notified, attempt)
    }
}

/// Sends now; `None` if it would have to wait.
pub(crate) fn send(
    connection: &ConnectionRef,
    data: Bytes,
    drop_old: bool,
) -> Result<Option<()>, SendDatagramError> {
    connection.access(Access::Command, |core, state| {
        if let Some(error) = &state.error {
            return Err(error.clone().into());
        }
        match core.send_datagram(data, drop_old) {
            Ok(()) => Ok(Some(())),
            Err(core::SendDatagramError::Blocked(_)) => Ok(None),
            Err(core::SendDatagramError::UnsupportedByPeer) => Err(SendDatagramError::UnsupportedByPeer),
            Err(core::SendDatagramError::Disabled) => Err(SendDatagramError::Disabled),
            Err(core::SendDatagramError::TooLarge) => Err(SendDatagramError::TooLarge),
        }
    })?
}
