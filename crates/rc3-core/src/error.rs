//! Errors of the peer and of the caller that QUIC alone does not have; [`crate::quic`] has the others.

use thiserror::Error;

use crate::quic::{TransportErrorCode, VarInt, WriteError};

/// Why a source was not attached to a stream.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// See [`WriteError`].
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The stream would exceed 2⁶² - 1 bytes.
    #[error("exceeds the longest possible stream")]
    TooLong,
}

/// Why there is nothing to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReadError {
    /// No data yet: [`crate::Event::Readable`] follows.
    #[error("no data yet")]
    Blocked,
    /// The peer reset the stream.
    #[error("reset by peer: code {0}")]
    Reset(VarInt),
    /// Never opened, stopped, or already read to its end.
    #[error("closed stream")]
    ClosedStream,
    /// An ordered read after an unordered one that left a gap.
    #[error("ordered read after unordered read")]
    IllegalOrderedRead,
}

/// The stream has ended: finished and delivered, reset, stopped, or read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("closed stream")]
pub struct ClosedStream;

impl From<ClosedStream> for std::io::Error {
    fn from(error: ClosedStream) -> Self {
        Self::new(std::io::ErrorKind::NotConnected, error)
    }
}

/// A protocol violation by the peer, which ends the connection. [`Self::code`] goes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PeerMisbehaved {
    /// A head record, control frame or RLP frame did not parse.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// A head record skipped bytes that never arrived.
    #[error("skipped stream bytes that were not acknowledged")]
    SkippedMissing,
    /// Two final sizes, or bytes past the final size.
    #[error("inconsistent final size")]
    FinalSize,
    /// RLP data beyond the stream credit.
    #[error("rlp data beyond the credit")]
    Credit,
    /// RLP data on a stream that cannot exist.
    #[error("rlp data on a stream past the limit")]
    StreamLimit,
    /// Frames on a stream in a direction it does not have.
    #[error("rlp frame for a stream of the wrong direction")]
    StreamDirection,
    /// The control stream ended.
    #[error("closed the control stream")]
    ControlClosed,
    /// More of a stream lies beyond its first missing byte than any loss explains.
    #[error("left too much of a stream out of order")]
    OutOfOrder,
    /// A SACK of data it has not received.
    #[error("acknowledged rlp data that it has not received")]
    Receipt,
    /// Accepted 0-RTT data under another protocol than that of the resumed session (RFC 8446 §4.2.10).
    #[error("accepted early data and changed the protocol")]
    EarlyProtocol,
    /// Left a mebibyte of the control stream waiting for flow control or acknowledgments.
    #[error("does not read the control stream")]
    ControlBlocked,
}

impl PeerMisbehaved {
    /// The close code: `0x7263_3300` ("rc3") plus a number per fault (docs/WIRE.md, close codes).
    pub fn code(self) -> VarInt {
        VarInt::from_u32(0x7263_3300 + self.codes().0)
    }

    /// The number of the fault, and the error for the local application.
    pub(crate) fn codes(self) -> (u32, TransportErrorCode) {
        match self {
            Self::Malformed(_) => (1, TransportErrorCode::FRAME_ENCODING_ERROR),
            Self::SkippedMissing => (2, TransportErrorCode::PROTOCOL_VIOLATION),
            Self::FinalSize => (3, TransportErrorCode::FINAL_SIZE_ERROR),
            Self::Credit => (4, TransportErrorCode::FLOW_CONTROL_ERROR),
            Self::StreamLimit => (5, TransportErrorCode::STREAM_LIMIT_ERROR),
            Self::StreamDirection => (6, TransportErrorCode::STREAM_STATE_ERROR),
            Self::ControlClosed => (7, TransportErrorCode::PROTOCOL_VIOLATION),
            Self::OutOfOrder => (8, TransportErrorCode::PROTOCOL_VIOLATION),
            Self::EarlyProtocol => (9, TransportErrorCode::PROTOCOL_VIOLATION),
            Self::Receipt => (10, TransportErrorCode::PROTOCOL_VIOLATION),
            Self::ControlBlocked => (11, TransportErrorCode::PROTOCOL_VIOLATION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::document::DOCUMENT;

    #[test]
    fn close_codes_are_those_of_the_document() {
        for (sin, fault) in [
            (PeerMisbehaved::Malformed("frame"), "a head record, control frame or RLP frame is malformed"),
            (PeerMisbehaved::SkippedMissing, "a head record skips bytes that were not acknowledged"),
            (PeerMisbehaved::FinalSize, "final sizes contradict each other or the data"),
            (PeerMisbehaved::Credit, "DATA beyond the stream limit"),
            (PeerMisbehaved::StreamLimit, "DATA for a stream past the limit on streams"),
            (PeerMisbehaved::StreamDirection, "DATA for a stream of the wrong direction"),
            (PeerMisbehaved::ControlClosed, "the control stream ended or was reset"),
            (PeerMisbehaved::OutOfOrder, "more of a stream is out of order than losses explain"),
            (PeerMisbehaved::Receipt, "a SACK of bytes that were not received"),
            (
                PeerMisbehaved::ControlBlocked,
                "the peer does not read its control stream: a mebibyte waits for flow control or acknowledgments",
            ),
            (PeerMisbehaved::EarlyProtocol, "early data accepted under an identifier of the other kind"),
        ] {
            let row = format!("| {} | {fault} |", sin.code().into_inner() - 0x7263_3300);
            assert!(DOCUMENT.lines().any(|line| line == row), "{sin:?}: {row}");
        }
    }
}
