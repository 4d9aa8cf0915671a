//! The window of TCP mode in bytes: NewReno as in QUIC (RFC 9002 §7 and appendix B).

use std::time::Instant;

/// Minimum window in packets (RFC 9002 §7.2).
const MINIMUM: u64 = 2;

#[derive(Debug, Clone)]
pub(super) struct NewReno {
    pub(super) window: u64,
    /// The initial window.
    initial: u64,
    threshold: u64,
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    acked: u64,
    /// When the window was last reduced: losses of packets sent before do not reduce it again.
    reduced: Option<Instant>,
}

impl NewReno {
    pub(super) fn new(window: u64) -> Self {
        Self { window, initial: window, threshold: u64::MAX, acked: 0, reduced: None }
    }

    /// Whether the window was already reduced for congestion of packets sent at `sent`.
    pub(super) fn answered(&self, sent: Instant) -> bool {
        self.reduced.is_some_and(|reduced| sent <= reduced)
    }

    /// `bytes` sent at `sent` were acknowledged; packets are `mtu` bytes long.
    pub(super) fn on_ack(&mut self, sent: Instant, bytes: u64, mtu: u64) {
        if self.answered(sent) {
            return;
        }
        if self.window < self.threshold {
            self.window = self.window.saturating_add(bytes);
            return;
        }
        self.acked += bytes;
        if self.acked >= self.window {
            self.acked -= self.window;
            self.window = self.window.saturating_add(mtu);
        }
    }

    /// Halves the window (RFC 9002 §7.3.2), or sets it to the minimum on persistent congestion (§7.6).
    pub(super) fn reduce(&mut self, now: Instant, mtu: u64, persistent: bool) {
        self.reduced = Some(now);
        self.acked = 0;
        self.threshold = (self.window / 2).max(MINIMUM * mtu);
        self.window = if persistent { MINIMUM * mtu } else { self.threshold };
    }

    /// Continues from a window set by Kick-Ass mode: slow start only up to half of NewReno's own window, as after a
    /// timeout (RFC 5681 §3.1).
    pub(super) fn go_on_from(&mut self, window: u64, mtu: u64) {
        let found = self.found();
        self.window = window.max(MINIMUM * mtu);
        self.threshold = self.window.max(found);
        self.acked = 0;
    }

    /// The window up to which slow start is safe, by what was acknowledged in TCP mode.
    fn found(&self) -> u64 {
        match self.threshold {
            u64::MAX if self.window <= self.initial => 0,
            // Slow start was still on its way to `ssthresh`.
            threshold if self.window < threshold && threshold != u64::MAX => threshold,
            _ => self.window / 2,
        }
    }
}
