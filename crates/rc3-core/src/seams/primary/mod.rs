//! The seam between rc3 and the congestion-controlled transport that serves as its primary loop (RC3 §2.1).
//!
//! That transport is always quinn-proto: [`quinn::Quic`] is the seam, and docs/QUINN_PROTO.md lists the behaviour that
//! rc3 relies on. The types here are its output and input; [`PrimaryWriter`] is the part that sending streams need.

pub(crate) mod quinn;

use bytes::Bytes;

pub(crate) use quinn::{ReadEnd as StreamReadEnd, WriteError as StreamWriteError};

use crate::quic::{ConnectionError, Dir, StreamId, VarInt};

/// Where the sending part of a stream writes its bytes: [`quinn::Quic`], or in tests something simpler.
///
/// Written bytes belong to the primary: they cannot be withdrawn, and the primary delivers them.
pub(crate) trait PrimaryWriter {
    /// Hands bytes over; returns how many were accepted, from the front.
    fn write(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, StreamWriteError>;

    /// Ends the sending part of a stream.
    fn end(&mut self, id: StreamId, how: End);
}

/// How the sending part of a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// All bytes were written.
    Finish,
    /// The rest is abandoned, with the application's code.
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
    /// A stream that refused bytes accepts them again.
    Writable(StreamId),
    /// The peer has acknowledged all of a finished stream.
    Finished(StreamId),
    /// The peer no longer reads a stream.
    Stopped(StreamId, VarInt),
    /// An application datagram arrived while none was waiting.
    DatagramReceived,
    /// Waiting application datagrams have left.
    DatagramsUnblocked,
}
