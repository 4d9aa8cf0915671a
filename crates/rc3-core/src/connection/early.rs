//! Streams before the handshake is complete: 0-RTT of clients, 0.5-RTT of servers.
//!
//! A client writes 0-RTT data in the form, records or plain, that the resumed session had agreed on. An honest server
//! accepts it only under the same protocol (RFC 8446 §4.2.10), so what it takes it understands. RLP has no keys before
//! the handshake is complete and joins then.

use super::Connection;
use crate::{error::PeerMisbehaved, event::Event, held::Received, primary::Side, stream::set::Streams};

/// What became of 0-RTT on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Early {
    /// Nothing was sent early.
    Unused,
    /// Streams may be open that the server has not agreed to.
    Offered,
    Accepted,
    Rejected,
}

impl Connection {
    /// Lets streams be opened before the handshake is complete, and tells whether that is possible: on clients with
    /// a session to resume that allows it, on servers always. What clients send then can be replayed by others
    /// (RFC 8446 §8).
    pub fn begin_early(&mut self) -> bool {
        if self.primary.side() == Side::Server {
            return true;
        }
        let Some(rc3) = self.primary.early() else { return false };
        if !self.primary.is_handshaking() {
            return true;
        }
        let known = self.primary.handshake_data().is_some();
        if known && self.negotiated_rc3() != rc3 {
            // The server is about to refuse.
            return false;
        }
        if self.early == Early::Unused {
            self.early = Early::Offered;
            if !known {
                self.speak(rc3);
            }
        }
        true
    }

    /// Whether the server refused what was sent early; not known before [`Event::Connected`].
    pub fn is_early_rejected(&self) -> bool {
        self.early == Early::Rejected
    }

    /// Whether the server took, or would have taken, early data; for servers themselves, yes.
    pub fn is_early_accepted(&self) -> bool {
        self.primary.side() == Side::Server || self.primary.early_accepted()
    }

    pub(super) fn may_open(&self) -> bool {
        self.early == Early::Offered || self.primary.side() == Side::Server || !self.primary.is_handshaking()
    }

    pub(super) fn has_sent_early(&self) -> bool {
        self.early == Early::Offered
    }

    /// The handshake is complete.
    pub(super) fn end_early(&mut self) {
        if self.early != Early::Offered {
            return;
        }
        let rc3 = self.negotiated_rc3();
        if !self.primary.early_accepted() {
            self.early = Early::Rejected;
            self.start_over(rc3);
        } else if rc3 == self.is_rc3() {
            self.early = Early::Accepted;
        } else {
            self.fault = Some(PeerMisbehaved::EarlyProtocol);
        }
    }

    /// quinn-proto has forgotten all streams, and counts them from 0 again.
    fn start_over(&mut self, rc3: bool) {
        tracing::debug!("early data rejected");
        self.streams = Streams::new(Side::Client);
        self.unsettled.clear();
        self.blocked_writers.clear();
        self.received_held = Received::default();
        self.primary.on_early_rejected();
        self.events.push_back(Event::EarlyDataRejected);
        self.speak(rc3);
    }
}
