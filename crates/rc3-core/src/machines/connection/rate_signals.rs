//! Rates that routers signal (Kick-Ass): received signals are reported to the peer, the peer's reports go to the
//! congestion controller, and RTT indicators go to the routers.

use std::{
    mem,
    time::{Duration, Instant},
};

use kickass::{
    code::Code,
    endpoint::Echo,
    indicator::{Bucket, INTERVAL},
};

use super::Connection;
use crate::{
    seams::{primary::quinn::udp_ip_headers, qlog::QlogEvent},
    transmit::Transmit,
    wire::control::ControlFrame,
};

/// Signals in both directions of a connection.
#[derive(Debug, Default)]
pub(super) struct RateSignals {
    echo: Echo,
    /// The peer's latest report, until it is passed on.
    reported: Option<Code>,
    /// When data left after which an indicator is due, if none has followed.
    due: bool,
    /// When the last indicator left.
    indicated: Option<Instant>,
    /// It is known, from the start or by now, that fragments do not reach the peer.
    drops_noted: bool,
}

impl Connection {
    /// A QUIC datagram arrived whose leading fragment carried this many bytes of payload.
    pub(crate) fn on_leading(&mut self, len: u16) {
        self.rate_signals.echo.on_leading(len.into());
    }

    /// Handles what routers have signalled: the peer's reports go to the congestion controller, local signals to the
    /// peer.
    pub(super) fn process_rate_signals(&mut self, now: Instant) {
        if let Some(code) = self.rate_signals.reported.take() {
            self.primary.on_signal(now, code);
        }
        if self.overlay.as_ref().is_some_and(|overlay| overlay.control.is_some())
            && let Some(code) = self.rate_signals.echo.poll(now, self.primary.rtt())
        {
            // Lengths of codes are below 2^62.
            self.send_control(ControlFrame::Signal { leading: code.payload_len() as u64 });
        }
        self.log_mode_changes();
    }

    fn log_mode_changes(&mut self) {
        for switch in self.primary.take_switches() {
            let rate = self.primary.kickass().and_then(|stats| stats.rate);
            tracing::debug!(remote = %self.remote_address(), mode = ?switch.mode, ?rate, "mode changes");
            self.telemetry.trace.emit(switch.at, || QlogEvent::ModeChanged { mode: switch.mode });
        }
    }

    /// The peer reports a signal. Lengths that are not codes are ignored.
    pub(super) fn on_signal(&mut self, leading: u64) {
        let code = usize::try_from(leading).ok().and_then(Code::from_len);
        self.rate_signals.reported = code.or(self.rate_signals.reported);
    }

    /// A primary packet of `bytes` has left.
    pub(super) fn note_departure(&mut self, now: Instant, bytes: usize) {
        if self.rate_signals.due || !self.config.steered() {
            return;
        }
        let long = 2 * bytes >= usize::from(self.primary.window().mtu);
        let silent = self.rate_signals.indicated.is_none_or(|last| now >= last + INTERVAL);
        self.rate_signals.due = long && silent && self.primary.fragments_allowed();
    }

    /// Writes an RTT indicator into the empty `buf`, if one is due: a datagram whose only content is its length.
    pub(super) fn write_indicator(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        // The round trip is unknown before the handshake is complete.
        if !self.rate_signals.due
            || self.life.lost.is_some()
            || !self.addresses.is_proven(&self.primary)
            || self.is_handshaking()
        {
            return None;
        }
        let total = Bucket::of(self.primary.rtt()).total_len();
        let transmit = self.write_padding(total - udp_ip_headers(self.remote_address()), buf)?;
        self.rate_signals.due = false;
        self.rate_signals.indicated = Some(now);
        self.primary.on_departed(now, self.primary.rate(), buf.len());
        Some(transmit)
    }

    /// Fragments do not reach the peer, according to earlier connections.
    pub(crate) fn forbid_fragments(&mut self, now: Instant) {
        self.rate_signals.drops_noted = true;
        self.primary.forbid_fragments(now);
    }

    /// Returns once that fragments do not reach the peer, and once that one has reached it after all.
    pub(crate) fn take_drops_change(&mut self) -> Option<bool> {
        let dropped = self.primary.drops_fragments();
        if mem::replace(&mut self.rate_signals.drops_noted, dropped) == dropped {
            return None;
        }
        if dropped {
            tracing::warn!(remote = %self.remote_address(), "fragments do not reach the peer: routers cannot signal rates");
        }
        Some(dropped)
    }

    /// How long later connections may rely on what this one has found out about the path.
    pub(crate) fn verdict_age(&self) -> Duration {
        self.config.verdict_age
    }
}
