//! Detects whether quinn-proto has validated the path it sends on (RFC 9000 §8.2), which it does not report.
//!
//! quinn-proto 0.11.19 puts a PATH_CHALLENGE with an unpredictable token into each packet on a path until the matching
//! PATH_RESPONSE has arrived from there. It counts these frames. So a packet on the path that does not raise the count,
//! after a PATH_RESPONSE has arrived, shows that the path is validated. Probes of the path MTU never carry a challenge
//! and show nothing.

use std::net::SocketAddr;

use quinn_proto as quic;

/// The detector of one connection.
#[derive(Debug)]
pub(super) struct Validation {
    /// The last validated address; initially that of the handshake.
    pub(super) validated: SocketAddr,
    /// Another destination of quinn-proto, and the number of PATH_RESPONSE frames that did not validate it.
    unvalidated: Option<(SocketAddr, u64)>,
}

impl Validation {
    pub(super) fn new(remote: SocketAddr) -> Self {
        Self { validated: remote, unvalidated: None }
    }

    /// The challenges sent before a packet is made. `None`: on a validated path.
    pub(super) fn before(&mut self, conn: &quic::Connection) -> Option<u64> {
        let remote = conn.remote_address();
        if remote == self.validated {
            self.unvalidated = None;
            return None;
        }
        let stats = conn.stats();
        if self.unvalidated.is_none_or(|(unvalidated, _)| unvalidated != remote) {
            self.unvalidated = Some((remote, stats.frame_rx.path_response));
        }
        Some(stats.frame_tx.path_challenge)
    }

    /// A packet for `destination` was made that is not a probe of the path MTU. `challenges` were sent before it.
    pub(super) fn after(&mut self, conn: &quic::Connection, challenges: u64, destination: SocketAddr) {
        if destination != conn.remote_address() || !self.is_answered(conn) || conn.is_closed() {
            return;
        }
        let stats = conn.stats();
        if stats.frame_tx.path_challenge > challenges {
            self.unvalidated = Some((destination, stats.frame_rx.path_response));
        } else {
            self.validated = destination;
            self.unvalidated = None;
        }
    }

    /// Whether a PATH_RESPONSE has arrived since the last packet on this path: the next one shows whether it was the right
    /// one.
    pub(super) fn is_answered(&self, conn: &quic::Connection) -> bool {
        let Some((remote, responses)) = self.unvalidated else { return false };
        remote == conn.remote_address() && conn.stats().frame_rx.path_response > responses
    }
}
