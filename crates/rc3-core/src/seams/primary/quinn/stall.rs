//! Detects when quinn-proto would stay stopped for ever with a closed window.
//!
//! While quinn-proto 0.11.19 validates a path, it pads all packets, also those that carry only an ACK. A padded packet
//! counts as in flight (RFC 9002 §2), but one that elicits no ACK arms no probe timer (RFC 9002 §6.2.1). If such
//! packets are lost and fill a small window, nothing can leave that the peer would answer, and no timer runs.
//!
//! From outside it is not visible that no timer runs; but if one does, a probe leaves before [`Stall::deadline`]. So
//! waiting until then disturbs no probe of quinn-proto's own.

use std::time::{Duration, Instant};

/// Round trips in the longest probe timeout (RFC 9002 §6.2.1): the smoothed one, four times the variation, which is
/// never more than twice the smoothed one, and one more that a peer may be asked to delay its ACKs.
const TIMEOUT_ROUND_TRIPS: u32 = 10;

/// The rest of that timeout: granularity (1 ms) and the peer's delay (25 ms, RFC 9000 §18.2).
const TIMEOUT_REST: Duration = Duration::from_millis(26);

/// Timeouts back off, and the next comes before twice the sum of those before it.
const BACKOFF: u32 = 2;

/// As a power of 2: the backoff for probes that quinn-proto has sent, as far as known. ACKs sent on a timer look the
/// same, and must not postpone the deadline for long.
const PROBES_MAX: u32 = 6;

/// The same for rc3's probes.
const OURS_MAX: u32 = 10;

/// Watches for a lack of progress.
#[derive(Debug)]
pub(super) struct Stall {
    /// When a packet last left through the window, or was acknowledged.
    moved: Instant,
    /// A timer of quinn-proto has fired: the next packet that leaves without a window check may be a probe.
    timed_out: bool,
    /// Probes since `moved`.
    probes: u32,
    /// rc3's own probes among them.
    ours: u32,
}

impl Stall {
    pub(super) fn new(now: Instant) -> Self {
        Self { moved: now, timed_out: false, probes: 0, ours: 0 }
    }

    /// A packet went through the window, or was acknowledged.
    pub(super) fn on_moved(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// A timer of quinn-proto's has fired.
    pub(super) fn on_timeout(&mut self) {
        self.timed_out = true;
    }

    /// A packet left without a window check. Returns whether it may be a probe.
    pub(super) fn on_exempt(&mut self) -> bool {
        let probe = std::mem::take(&mut self.timed_out);
        self.probes += u32::from(probe);
        probe
    }

    /// A probe of rc3 is about to leave.
    pub(super) fn on_probe(&mut self) {
        self.ours += 1;
    }

    /// When a closed window without progress has lasted so long that it would last for ever.
    pub(super) fn deadline(&self, rtt: Duration) -> Instant {
        let timeout = rtt.saturating_mul(TIMEOUT_ROUND_TRIPS).saturating_add(TIMEOUT_REST);
        let backoff = BACKOFF << (self.probes.min(PROBES_MAX) + self.ours.min(OURS_MAX));
        // Far beyond any round trip: a day.
        let wait = timeout.saturating_mul(backoff).min(Duration::from_secs(86_400));
        self.moved + wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    #[test]
    fn the_deadline_comes_after_each_probe_of_the_slowest_probe_timer() {
        #[expect(clippy::disallowed_methods, reason = "a name for time zero")]
        let start = Instant::now();
        let mut stall = Stall::new(start);
        // RFC 9002 §6.2.1 with a variation of twice the smoothed round trip, and backoff.
        let timeout = RTT * 9 + TIMEOUT_REST;
        let mut probe = start;
        for count in 0..PROBES_MAX {
            probe += timeout * (1 << count);
            assert!(probe < stall.deadline(RTT), "probe {count}");
            stall.on_timeout();
            stall.on_exempt();
        }
    }

    #[test]
    fn acks_do_not_put_the_deadline_off_for_ever() {
        #[expect(clippy::disallowed_methods, reason = "a name for time zero")]
        let start = Instant::now();
        let mut stall = Stall::new(start);
        for _ in 0..1000 {
            stall.on_timeout();
            stall.on_exempt();
            stall.on_exempt();
        }
        assert!(stall.deadline(RTT) < start + Duration::from_secs(60));
        for _ in 0..1000 {
            stall.on_probe();
        }
        assert!(stall.deadline(Duration::MAX) <= start + Duration::from_secs(86_400));
    }
}
