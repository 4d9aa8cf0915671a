//! What the application hears from a connection.

use crate::quic::{ConnectionError, Dir, StreamId, VarInt};

/// Something happened on a connection that an application may wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The ALPN protocol (and on servers the server name) is known.
    HandshakeDataReady,
    /// The server refused what was sent before the handshake was complete: the streams opened by then are gone,
    /// and others will have their numbers. [`Self::Connected`] follows.
    EarlyDataRejected,
    /// The handshake is complete; streams may be opened.
    Connected,
    /// The connection is gone; no event follows.
    Lost(ConnectionError),
    /// The peer opened a stream: [`crate::Connection::accept`] has it.
    Opened(Dir),
    /// [`crate::Connection::open`] may succeed again.
    Available(Dir),
    /// [`crate::Connection::read`] has bytes, an end or a reset.
    Readable(StreamId),
    /// [`crate::Connection::write`] takes bytes again, or [`crate::Connection::next_read`] wants some.
    Writable(StreamId),
    /// All bytes and the end of a finished stream have arrived at the peer.
    Finished(StreamId),
    /// The peer no longer reads a stream; its code.
    Stopped(StreamId, VarInt),
    /// [`crate::Connection::read_datagram`] has something.
    DatagramReceived,
    /// [`crate::Connection::send_datagram`] may succeed again.
    DatagramsUnblocked,
}
