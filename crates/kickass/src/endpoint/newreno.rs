//! The window of TCP mode: NewReno as QUIC has it (RFC 9002 §7 and its appendix B), in bytes.

use std::time::Instant;

/// Smallest window in packets (RFC 9002 §7.2).
const MINIMUM: u64 = 2;

#[derive(Debug, Clone)]
pub(super) struct NewReno {
    pub(super) window: u64,
    /// The window before anything was known.
    initial: u64,
    threshold: u64,
    /// Acknowledged since the window last grew in congestion avoidance.
    acked: u64,
    /// When the window was last reduced: what was sent before has no second say.
    reduced: Option<Instant>,
}

impl NewReno {
    pub(super) fn new(window: u64) -> Self {
        Self { window, initial: window, threshold: u64::MAX, acked: 0, reduced: None }
    }

    /// Whether congestion of packets sent at `sent` has been answered.
    pub(super) fn answered(&self, sent: Instant) -> bool {
        self.reduced.is_some_and(|reduced| sent <= reduced)
    }

    /// `bytes` sent at `sent` have arrived; packets are of `mtu` bytes.
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

    /// Halves the window (RFC 9002 §7.3.2), or takes it to the minimum where nothing arrived for long (§7.6).
    pub(super) fn reduce(&mut self, now: Instant, mtu: u64, persistent: bool) {
        self.reduced = Some(now);
        self.acked = 0;
        self.threshold = (self.window / 2).max(MINIMUM * mtu);
        self.window = if persistent { MINIMUM * mtu } else { self.threshold };
    }

    /// Goes on from a window that somebody else had found: without slow start, but up to half of what it had found itself,
    /// as after a timeout (RFC 5681 §3.1).
    pub(super) fn go_on_from(&mut self, window: u64, mtu: u64) {
        let found = self.found();
        self.window = window.max(MINIMUM * mtu);
        self.threshold = self.window.max(found);
        self.acked = 0;
    }

    /// Up to where slow start is sound, by what has been acknowledged here.
    fn found(&self) -> u64 {
        match self.threshold {
            u64::MAX if self.window <= self.initial => 0,
            // It was on its way there.
            threshold if self.window < threshold && threshold != u64::MAX => threshold,
            _ => self.window / 2,
        }
    }
}
