//! Bytes of the peer that do not parse.

/// A fault in authenticated bytes, thus of the peer; the connection ends, whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;
