//! Why the payload of an RLP datagram does not parse.

use thiserror::Error;

/// A fault in an authenticated frame, thus of the peer; the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The datagram ends inside a frame.
    #[error("an rlp frame is cut off by the end of its datagram")]
    Truncated,
    /// Not a frame type of rc3/1.
    #[error("rlp frame type {0:#x} is unknown in rc3/1")]
    UnknownType(u64),
    /// A span ends beyond 2^62 - 1.
    #[error("an rlp frame has stream offsets beyond 2^62 - 1")]
    OffsetOverflow,
    /// Data beyond the final size in the same frame.
    #[error("an rlp data frame exceeds the final size it declares")]
    BeyondFinalSize,
    /// A SACK without spans.
    #[error("an rlp sack frame has no span")]
    EmptySack,
    /// An empty span or gap.
    #[error("an rlp sack frame has an empty span or gap")]
    EmptySpan,
}
