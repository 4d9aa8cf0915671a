//! Counters of handshakes.

/// The results of handshakes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Handshakes {
    pub(crate) accepted: u64,
    pub(crate) outgoing: u64,
    pub(crate) refused: u64,
    pub(crate) ignored: u64,
}
