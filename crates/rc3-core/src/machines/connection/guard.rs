//! Connects the guard: samples of both loops go in, verdicts and probes come out.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use super::Connection;
use crate::{
    error::PeerMisbehaved,
    laws::{
        guard::Guard,
        primary_window::Waiting,
        verdicts::{self, Record},
    },
    machines::{overlay::Overlay, rlp::Rlp},
    seams::{keys::Sealer, primary::quinn::PathSample},
    structures::ledger::State,
    transmit::Transmit,
    wire::order::{self, Order},
};

impl Connection {
    /// What earlier connections have learned about the path.
    pub(crate) fn recall(&mut self, now: Instant, record: Record) {
        if let Some(rlp) = self.rlp() {
            rlp.recall(now, record);
        }
    }

    /// Whether [`Self::recall`] was called for the path.
    pub(crate) fn has_recalled(&self) -> bool {
        let rlp = self.overlay.as_ref().and_then(|overlay| overlay.rlp.as_ref());
        rlp.and_then(Rlp::guard_ref).is_some_and(|guard| guard.stats().remembered)
    }

    /// The local network of the path, if known.
    pub(crate) fn network(&self) -> Option<IpAddr> {
        self.local_ip().or(self.local_ip).map(verdicts::network)
    }

    /// The record for later connections, if it has changed.
    pub(crate) fn take_record(&mut self, now: Instant) -> Option<Record> {
        let network = self.network();
        self.rlp()?.take_record(now, network)
    }

    /// Whether the primary got a probe to send since the last call.
    pub(crate) fn take_probe(&mut self) -> bool {
        std::mem::take(&mut self.sched.probe_due)
    }

    pub(super) fn guard(&mut self) -> Option<&mut Guard> {
        self.rlp()?.guard()
    }

    /// Reports acknowledged and lost packets of the primary to the guard. Called after each datagram: the peer's delay
    /// can only be separated from one round trip at a time. The datagram arrived `late` ago: what this host was late does
    /// not count against the path.
    pub(crate) fn watch_primary(&mut self, now: Instant, late: Duration) {
        let Self { primary, overlay: Some(Overlay { rlp: Some(rlp), .. }), .. } = self else { return };
        let sample = primary.take_path_sample(now);
        let arrived = now - late;
        rlp.on_primary_acked(sample.acked_bytes);
        let Some(guard) = rlp.guard() else { return };
        let acked = sample
            .acked
            .is_some_and(|(sent, rtt)| guard.on_primary_acked(arrived, sent, rtt.saturating_sub(late)));
        let lost = sample.lost.is_some_and(|sent| guard.on_primary_lost(now, sent));
        if acked || lost {
            self.report_ignored();
        }
        if sample != PathSample::default() {
            self.judge(now);
        }
    }

    /// Lets the guard evaluate new samples.
    pub(super) fn judge(&mut self, now: Instant) {
        let Self { overlay: Some(Overlay { rlp: Some(rlp), .. }), streams, .. } = self else { return };
        let Some(guard) = rlp.guard() else { return };
        let ignored = guard.judge(now, |id, offset| {
            streams
                .send(id)
                .is_some_and(|stream| matches!(stream.ledger.state(offset), State::Rlp(_) | State::Open))
        });
        // What RLP was waiting for may have arrived.
        self.rlp_wake = None;
        if ignored {
            self.report_ignored();
        }
    }

    fn report_ignored(&mut self) {
        let remote = self.primary.addresses().0;
        let Some(stats) = self.guard().map(|guard| guard.stats()) else { return };
        tracing::info!(
            %remote,
            waited = stats.waited,
            lost = stats.lost,
            overtook = stats.overtook,
            "the path ignores priorities, or a host is the bottleneck: primary packets wait and are lost like RLP",
        );
    }

    /// Reports RLP's datagrams in flight to the primary, after RLP has sent or received feedback.
    pub(super) fn report_rlp_in_flight(&mut self, now: Instant) {
        let rtt = self.primary.rtt();
        let since = now.checked_sub(rtt * 2).unwrap_or(now);
        let Some(datagrams) = self.rlp().map(|rlp| rlp.in_the_way(since)) else { return };
        let until = now + rtt;
        self.primary.set_rlp_in_flight(datagrams * u64::from(self.primary.window().mtu), until);
    }

    /// RLP has stopped sending: a primary packet behind it shows how the path treats both.
    pub(super) fn probe(&mut self, now: Instant) {
        let window = self.primary.window();
        let rtt = self.primary.rtt();
        let goes_on = self.rlp_wake.is_some_and(|wake| wake < now + rtt / 4);
        if goes_on || window.packets() == 0 || window.waiting == Waiting::ForWindow {
            return;
        }
        if self.guard().is_some_and(|guard| guard.wants_probe(now)) {
            self.primary.probe();
            self.sched.probe_due = true;
        }
    }

    /// Writes the datagram of normal priority behind a burst of RLP into the empty `buf`, if it is due.
    pub(super) fn write_order_probe(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Early datagrams carry only DATA.
        if self.primary.is_handshaking() || !self.rlp()?.wants_order_probe() {
            return None;
        }
        let destination = self.remote_address();
        let transmit = self.write_alone(destination, Sealer::begin, order::emit_probe, buf)?;
        self.rlp()?.on_order_probe_sent(now);
        Some(transmit)
    }

    /// The datagram with this number is a PROBE: count what it overtakes.
    pub(super) fn on_order_probe(&mut self, packet_number: u64) {
        if let Some(overlay) = &mut self.overlay {
            overlay.arrivals.on_probe(packet_number);
        }
    }

    /// The peer reports what the local PROBE has overtaken.
    pub(super) fn on_order(&mut self, now: Instant, order: Order) {
        let Some(rlp) = self.rlp() else { return };
        if order.packet_number >= rlp.seal().next_number() {
            self.fault = Some(PeerMisbehaved::Malformed("rlp order"));
            return;
        }
        if rlp.on_order(now, order) {
            self.report_ignored();
        }
    }
}
