//! Why the payload of an RLP datagram does not parse.

use thiserror::Error;

/// What is wrong with a frame that came authenticated: the peer's fault, and the end of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The datagram ends inside a frame.
    #[error("an rlp frame is cut off by the end of its datagram")]
    Truncated,
    /// No frame of rc3/1.
    #[error("rlp frame type {0:#x} is unknown in rc3/1")]
    UnknownType(u64),
    /// A span ends past 2^62 - 1.
    #[error("an rlp frame names stream offsets past 2^62 - 1")]
    OffsetOverflow,
    /// Data past the final size it came with.
    #[error("an rlp data frame reaches past the final size it declares")]
    BeyondFinalSize,
    /// A SACK of no span.
    #[error("an rlp sack frame holds no span")]
    EmptySack,
    /// A span, or the gap between two, of no byte.
    #[error("an rlp sack frame holds an empty span or gap")]
    EmptySpan,
}
