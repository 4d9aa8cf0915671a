//! Streams before the handshake is complete: 0-RTT of clients, 0.5-RTT of servers.
//!
//! A client writes 0-RTT data in the form, records or plain, of the resumed session. An honest server accepts it only
//! under the same protocol (RFC 8446 §4.2.10), so it can read what it accepts.
//!
//! RLP sends 0-RTT data too, with keys from a secret that the client draws and sends on its control stream, as 0-RTT
//! data. So the server has the keys if and only if it has accepted early data. It sends nothing by RLP before the
//! handshake is complete, because the client's address is not validated.

use std::time::Instant;

use zeroize::Zeroizing;

use super::Connection;
use crate::{
    config::RlpMode,
    error::PeerMisbehaved,
    event::Event,
    laws::verdicts::DestinationVerdict,
    machines::{overlay::Overlay, rlp::Rlp, stream::set::Streams},
    quic::Side,
    wire::control::{ControlFrame, EARLY_SECRET_LEN, EarlySecret},
};

impl Connection {
    /// Allows streams before the handshake is complete; returns whether that is possible: on clients with a session to
    /// resume that allows it, on servers always. Others can replay what clients send then (RFC 8446 §8).
    pub fn begin_early(&mut self) -> bool {
        if self.primary.side() == Side::Server {
            return true;
        }
        let Some(rc3) = self.primary.zero_rtt_as_rc3() else { return false };
        if !self.primary.is_handshaking() {
            return true;
        }
        let known = self.primary.handshake_data().is_some();
        if known && self.negotiated_rc3() != rc3 {
            // The server is about to reject it.
            return false;
        }
        if !std::mem::replace(&mut self.life.early_offered, true) && !known {
            self.set_rc3(rc3);
        }
        true
    }

    /// Whether the server accepted, or would have accepted, early data; true on servers.
    pub fn is_early_accepted(&self) -> bool {
        self.primary.side() == Side::Server || self.primary.accepted_0rtt()
    }

    pub(super) fn may_open(&self) -> bool {
        self.life.early_offered || self.primary.side() == Side::Server || !self.primary.is_handshaking()
    }

    /// Whether RLP is ready to send 0-RTT data and waits for [`Self::begin_early_rlp`].
    pub(crate) fn wants_early_rlp(&self) -> bool {
        let ready = match &self.overlay {
            Some(Overlay { rlp: None, control: Some(_), .. }) => true,
            Some(_) | None => false,
        };
        let wanted = self.config.early_rlp && self.config.rlp != RlpMode::Off;
        ready
            && wanted
            && self.life.early_offered
            && self.primary.is_handshaking()
            && self.life.lost.is_none()
    }

    /// Lets RLP send 0-RTT data, with keys from `secret`, which is drawn at random for this connection. `record`: the
    /// memory of the path.
    pub(crate) fn begin_early_rlp(
        &mut self,
        now: Instant,
        secret: Zeroizing<[u8; EARLY_SECRET_LEN]>,
        record: Option<DestinationVerdict>,
    ) {
        let secret = EarlySecret(secret);
        self.send_control(ControlFrame::Early(secret.clone()));
        let remembered = record.and_then(|record| record.pace).map(|pace| pace.rtt_min);
        // The handshake corrects a guess that is too high, but not one that is too low.
        let rtt = self.primary.rtt().max(remembered.unwrap_or_default());
        let mut rlp = Rlp::new(secret.sealer(), self.secrets.receipt_key(), &self.config, rtt);
        if let Some(record) = record {
            rlp.begin_early(now, record);
        }
        self.overlay.as_mut().map(|overlay| overlay.rlp.insert(rlp));
    }

    /// The secret of the client's early data has arrived.
    pub(super) fn on_early_secret(&mut self, secret: &EarlySecret) {
        let Some(overlay) = self.overlay.as_mut().filter(|_| self.config.early_rlp) else { return };
        if self.primary.side() == Side::Client || !overlay.openers.on_early_secret(secret) {
            self.life.fault = Some(PeerMisbehaved::Malformed("early secret"));
        }
    }

    /// Drops the keys of early data when they expire.
    pub(super) fn expire_early_keys(&mut self, now: Instant) {
        if let Some(overlay) = self.overlay.as_mut().filter(|_| !self.primary.is_handshaking()) {
            overlay.openers.expire_early(now);
        }
    }

    /// The handshake is complete.
    pub(super) fn end_early(&mut self) {
        if !std::mem::take(&mut self.life.early_offered) {
            return;
        }
        let rc3 = self.negotiated_rc3();
        if !self.primary.accepted_0rtt() {
            self.start_over(rc3);
        } else if rc3 != self.is_rc3() {
            self.life.fault = Some(PeerMisbehaved::EarlyProtocol);
        }
    }

    /// quinn-proto has dropped all streams, and counts them from 0 again.
    fn start_over(&mut self, rc3: bool) {
        tracing::debug!("early data rejected");
        self.streams = Streams::default();
        self.primary.on_early_rejected();
        self.events.push_back(Event::EarlyDataRejected);
        self.set_rc3(rc3);
    }
}
