//! Why the adapter refuses what a peer sends.

use std::fmt;

use h3::error::Code;

/// A fault of the peer that is refused before h3 or the application sees it.
///
/// h3 prints it as an undefined error of the stream or of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The code that the peer gets (RFC 9114 §8.1).
    pub(crate) code: Code,
    pub(crate) scope: Scope,
    pub(crate) reason: &'static str,
}

/// What a fault ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Stream,
    Connection,
}

impl Refused {
    /// RFC 9114 §4.1.2.
    pub(super) const fn malformed(reason: &'static str) -> Self {
        Self { code: Code::H3_MESSAGE_ERROR, scope: Scope::Stream, reason }
    }

    /// RFC 9114 §4.2.2: a larger header than the adapter accepts.
    pub(super) const fn too_large() -> Self {
        let reason = "a header is larger than Connection::max_field_section_size allows";
        Self { code: Code::H3_EXCESSIVE_LOAD, scope: Scope::Stream, reason }
    }

    /// RFC 9114 §10.5: a long frame that the receiver would have to store.
    pub(super) const fn too_long() -> Self {
        let reason = "a control frame is longer than any that HTTP/3 needs";
        Self { code: Code::H3_EXCESSIVE_LOAD, scope: Scope::Connection, reason }
    }

    /// RFC 9114 §7.1.
    pub(super) const fn truncated() -> Self {
        let reason = "the stream ended inside of a frame";
        Self { code: Code::H3_FRAME_ERROR, scope: Scope::Connection, reason }
    }

    /// RFC 9204 §2.2.3 and §6.
    pub(super) const fn undecodable() -> Self {
        let reason = "the header is not encoded by the static table of QPACK alone";
        Self { code: Code::QPACK_DECOMPRESSION_FAILED, scope: Scope::Connection, reason }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused what the peer sent: {} ({})", self.reason, self.code)
    }
}

impl std::error::Error for Refused {}
