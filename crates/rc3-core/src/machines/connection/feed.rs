//! Feeds the primary: late if both sides use rc3, at once for plain QUIC.

use super::Connection;
use crate::laws::{feeding::quantum, primary_window::Waiting};

impl Connection {
    /// Hands bytes over if the primary should have some.
    pub(super) fn feed(&mut self) {
        if !self.streams.wants_primary() || !self.may_feed() {
            return;
        }
        let budget = match &self.overlay {
            Some(_) => quantum(&self.primary.window(), self.primary.rtt()),
            // Plain QUIC: the primary schedules for itself.
            None => u64::MAX,
        };
        let Self { primary, streams, overlay, telemetry, memory, .. } = self;
        let control = overlay.as_ref().and_then(|overlay| overlay.control);
        streams.feed(primary, budget, |id, fed, usage| {
            if Some(id) == control {
                return;
            }
            memory.windows.on_sent(fed.handed - fed.duplicate);
            let sent = &mut telemetry.sent;
            sent.primary_bytes += fed.handed;
            sent.duplicate_bytes += fed.duplicate;
            sent.skipped_bytes += fed.skipped;
            if let Some(overlay) = overlay {
                overlay.send_credit.on_usage(usage);
            }
        });
        if streams.is_any_fed_except(control) {
            primary.fed = true;
        }
    }

    /// Late feeding: only when all earlier bytes are in packets and the window is open.
    pub(super) fn may_feed(&self) -> bool {
        self.overlay.is_none() || {
            let window = self.primary.window();
            !self.streams.is_any_fed() && window.packets() > 0 && window.due > 0
        }
    }

    pub(super) fn note_app_limited(&mut self) {
        if self.overlay.is_some() {
            let window = self.primary.window();
            // Besides the fed bytes, application datagrams may wait in the primary.
            let idle = !self.streams.is_any_fed() && window.waiting == Waiting::Nothing;
            // Bytes that wait for a signalled rate are not with the primary yet.
            let idle = idle && !self.streams.wants_primary();
            self.primary.set_app_limited(window.packets() > 0 && idle);
        }
    }

    /// After idle time a write starts a new logical flow (RC3 §4.2.1).
    pub(super) fn note_busy_period(&mut self) {
        let Self { overlay: Some(overlay), primary, streams, .. } = self else { return };
        if let Some(rlp) = overlay.rlp.as_mut()
            && rlp.sent > 0
            && primary.window().in_flight == 0
            && streams.all_answered(overlay.control)
        {
            rlp.start_busy_period();
        }
    }
}
