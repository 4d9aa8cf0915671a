//! Connects the guard: samples of both loops go in, verdicts come out.

use std::time::{Duration, Instant};

use super::Connection;
use crate::{
    error::PeerMisbehaved,
    laws::{guard::GuardStats, verdicts::DestinationVerdict},
    machines::overlay::Overlay,
    seams::{keys::Sealer, primary::quinn::PathSample},
    structures::ledger::ByteState,
    transmit::Transmit,
    units::Rate,
    wire::order::{self, Order},
};

impl Connection {
    /// What earlier connections have learned about the path.
    pub(crate) fn recall(&mut self, now: Instant, record: DestinationVerdict) {
        if let Some(watch) = self.watch() {
            watch.recall(now, record);
        }
    }

    /// What paths beside this unknown one have.
    pub(crate) fn expect_rate(&mut self, rate: Rate) {
        if let Some(watch) = self.watch() {
            watch.clock.expect_rate(rate);
        }
    }

    /// The record for later connections, if it has changed.
    pub(crate) fn take_record(&mut self, now: Instant) -> Option<DestinationVerdict> {
        let (destination, network) = (self.proven_address().ip().to_canonical(), self.network());
        self.watch()?.take_record(now, destination, network)
    }

    /// Reports acknowledged and lost packets of the primary to the guard. Called after each datagram: the peer's delay
    /// can only be separated from one round trip at a time. The datagram arrived `late` ago.
    pub(crate) fn watch_primary(&mut self, now: Instant, late: Duration) {
        let Self { primary, overlay: Some(Overlay { rlp: Some(rlp), .. }), .. } = self else { return };
        let sample = primary.take_path_sample(now);
        if rlp.watch.as_mut().is_some_and(|watch| watch.on_primary_sample(now, late, &sample)) {
            self.report_ignored();
        }
        if sample != PathSample::default() {
            self.evaluate_samples(now);
        }
    }

    /// Lets the guard evaluate new samples.
    pub(super) fn evaluate_samples(&mut self, now: Instant) {
        let Self { overlay: Some(Overlay { rlp: Some(rlp), .. }), streams, .. } = self else { return };
        let is_open = |id, offset| {
            let stream = streams.send(id);
            stream.is_some_and(|stream| {
                matches!(stream.ledger.state(offset), ByteState::Rlp(_) | ByteState::Open)
            })
        };
        if rlp.evaluate_samples(now, is_open) {
            self.report_ignored();
        }
    }

    fn report_ignored(&self) {
        let Some(stats) = self.guard_stats() else { return };
        tracing::info!(
            remote = %self.remote_address(),
            waited = stats.waited,
            lost = stats.lost,
            overtook = stats.overtook,
            "the path ignores priorities, or a host is the bottleneck: primary packets wait and are lost like RLP",
        );
    }

    pub(crate) fn guard_stats(&self) -> Option<GuardStats> {
        Some(self.overlay.as_ref()?.rlp.as_ref()?.watch.as_ref()?.guard.stats())
    }

    /// Reports to the primary what RLP has in flight and knows of the path, after RLP has sent or received feedback.
    pub(super) fn report_rlp(&mut self, now: Instant) {
        let rtt = self.primary.rtt();
        let Some(datagrams) = self.rlp().map(|rlp| rlp.in_the_way(now, rtt)) else { return };
        let bytes = datagrams * u64::from(self.primary.window().mtu);
        self.primary.set_rlp_in_flight(now, bytes);
        let max = self.watch().and_then(|watch| watch.clock.slow_start_max());
        self.primary.set_slow_start_max(max);
    }

    /// Writes the datagram of normal priority behind a burst of RLP into the empty `buf`, if it is due.
    pub(super) fn write_order_probe(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        // Early datagrams carry only DATA.
        if self.primary.is_handshaking() || !self.rlp()?.wants_order_probe() {
            return None;
        }
        let path = self.primary.addresses();
        let rlp = self.rlp()?;
        let transmit = rlp.write_alone(path, Sealer::begin, order::emit_probe, buf);
        rlp.on_order_probe_sent(now);
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
        match rlp.on_order(now, order) {
            Some(true) => self.report_ignored(),
            Some(false) => {}
            None => self.life.fault = Some(PeerMisbehaved::Malformed("rlp order")),
        }
    }
}
