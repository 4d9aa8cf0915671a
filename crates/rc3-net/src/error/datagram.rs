//! Sending an application datagram.

use rc3_core::ConnectionError;
use thiserror::Error;

/// Why an application datagram was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SendDatagramError {
    /// The peer accepts no datagrams.
    #[error("datagrams not supported by peer")]
    UnsupportedByPeer,
    /// Datagrams are disabled at this end: see
    /// [`TransportConfig::datagram_receive_buffer_size`](crate::TransportConfig::datagram_receive_buffer_size).
    #[error("datagram support disabled")]
    Disabled,
    /// Longer than [`Connection::max_datagram_size`](crate::Connection::max_datagram_size), or than the buffer.
    #[error("datagram too large")]
    TooLarge,
    /// The connection has ended.
    #[error("connection lost")]
    ConnectionLost(#[from] ConnectionError),
}
