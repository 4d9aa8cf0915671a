//! The seam between rc3 and the congestion-controlled transport that serves as its primary loop (RC3 §2.1).
//!
//! That transport is quinn-proto and no other: [`quinn::Quic`] is the seam, and docs/QUINN_PROTO.md lists what rc3 rests on
//! behind it. The types here are its output and input; [`PrimaryWriter`] is all that streams need of it to send.

pub(crate) mod quinn;

use bytes::Bytes;

pub(crate) use quinn::{ReadEnd as StreamReadEnd, WriteError as StreamWriteError};

use crate::quic::{ConnectionError, Dir, StreamId, VarInt};

/// What the sending part of a stream hands its bytes to: [`quinn::Quic`], or in tests something simpler.
///
/// Bytes written are the primary's from then on: they cannot be withdrawn, and it answers for them.
pub(crate) trait PrimaryWriter {
    /// Hands bytes over; returns how many were taken, from the front.
    fn write(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, StreamWriteError>;

    /// Ends the sending part of a stream.
    fn end(&mut self, id: StreamId, how: End);
}

/// How the sending part of a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All bytes were written.
    Finish,
    /// The rest is given up, with the application's code.
    Reset(VarInt),
}

/// What the primary reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PrimaryEvent {
    /// The ALPN protocol is agreed.
    Negotiated,
    /// The handshake is complete.
    Connected,
    /// The connection is gone.
    Lost(ConnectionError),
    /// The peer opened streams.
    Opened(Dir),
    /// The peer's limit allows more streams.
    Available(Dir),
    /// A stream has bytes, an end or a reset to read.
    Readable(StreamId),
    /// A stream that refused bytes takes them again.
    Writable(StreamId),
    /// The peer has acknowledged all of a finished stream.
    Finished(StreamId),
    /// The peer no longer reads a stream.
    Stopped(StreamId, VarInt),
    /// An application datagram came, and none was waiting before.
    DatagramReceived,
    /// Application datagrams that waited have left.
    DatagramsUnblocked,
}
