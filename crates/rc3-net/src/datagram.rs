//! Named futures for sending and receiving application datagrams.

use bytes::Bytes;
use rc3_core::{self as core, ConnectionError};

use crate::{
    connection_handle::Connection, error::SendDatagramError, named_future::named_future, state::Access,
};

named_future! {
    /// What [`Connection::read_datagram`](crate::Connection::read_datagram) returns.
    ReadDatagram() -> Result<Bytes, ConnectionError>,
    |connection| &connection.waiters().datagram_received,
    try_read(connection)
}

named_future! {
    /// What [`Connection::send_datagram_wait`](crate::Connection::send_datagram_wait) returns.
    SendDatagram(data: Bytes) -> Result<(), SendDatagramError>,
    |connection| &connection.waiters().datagrams_unblocked,
    send(connection, data.clone(), false).transpose()
}

/// Datagrams received before the connection was lost can still be read.
fn try_read(connection: &Connection) -> Option<Result<Bytes, ConnectionError>> {
    let read = connection.access(Access::Change, |core, state| match core.read_datagram() {
        Some(data) => Some(Ok(data)),
        None => state.error.clone().map(Err),
    });
    read.unwrap_or_else(|error| Some(Err(error)))
}

/// Sends now; `None` if it would have to wait.
pub(crate) fn send(
    connection: &Connection,
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
