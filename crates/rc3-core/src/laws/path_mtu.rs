//! The path MTU that a connection to a destination found, so that later ones need one probe and lose none.
//!
//! All lengths are bytes of UDP payload.

use std::time::Duration;

/// How long it is valid: a larger one may be possible afterwards (RFC 8899 §5.1.1, PMTU_RAISE_TIMER).
pub(crate) const AGE: Duration = Duration::from_secs(600);

/// The result of a complete search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathMtu {
    /// The longest datagram that arrived.
    pub(crate) found: u16,
    /// The upper bound of the search: a result says nothing beyond it.
    pub(crate) bound: u16,
}
