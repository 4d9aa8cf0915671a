//! Events that a connection reports to the application.

use crate::quic::{ConnectionError, Dir, StreamId, VarInt};

/// An event on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The ALPN protocol (and on servers the server name) is known.
    HandshakeDataReady,
    /// The server rejected 0-RTT: the streams opened before the handshake was complete are gone, and new streams
    /// reuse their numbers. [`Self::Connected`] follows.
    EarlyDataRejected,
    /// The handshake is complete; streams may be opened.
    Connected,
    /// The connection has ended; no event follows.
    Lost(ConnectionError),
    /// The peer opened a stream: [`crate::Connection::accept`] returns it.
    Opened(Dir),
    /// [`crate::Connection::open`] may succeed again.
    Available(Dir),
    /// [`crate::Connection::read`] has bytes, an end or a reset.
    Readable(StreamId),
    /// [`crate::Connection::write`] accepts bytes again, or [`crate::Connection::next_read`] requests some.
    Writable(StreamId),
    /// All bytes and the end of a finished stream have arrived at the peer.
    Finished(StreamId),
    /// The peer stopped reading a stream; its code.
    Stopped(StreamId, VarInt),
    /// [`crate::Connection::read_datagram`] has a datagram.
    DatagramReceived,
    /// [`crate::Connection::send_datagram`] may succeed again.
    DatagramsUnblocked,
}
