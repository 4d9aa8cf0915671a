//! Why bytes of the peer do not parse.

/// A fault in authenticated bytes, thus of the peer; the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// A datagram ends inside a frame, or a stream inside a record.
    Truncated,
    /// Not a frame type of rc3/1.
    UnknownType(u64),
    /// A span or a record ends beyond 2^62 - 1.
    OffsetOverflow,
    /// Data beyond the final size in the same frame.
    BeyondFinalSize,
    /// A SACK without spans.
    EmptySack,
    /// An empty span or gap in a SACK.
    EmptySpan,
    /// An empty RUN or SKIP.
    EmptyRecord,
    /// The first control frame is not SETTINGS.
    MissingSettings,
    /// SETTINGS came twice.
    DuplicateSettings,
    /// One setting appears twice in SETTINGS.
    DuplicateSetting(u64),
    /// The payload of a control frame has so many bytes, above
    /// [`PAYLOAD_LEN_MAX`](super::control::PAYLOAD_LEN_MAX).
    TooLong(u64),
    /// The payload of a control frame ends inside a field, or continues after the last.
    Fields,
}
