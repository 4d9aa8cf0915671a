//! Whether fragments reach a destination: some eight of a hundred paths drop them (Kick-Ass §4.3).
//!
//! ```text
//!             two probe timeouts, or persistent congestion,
//!             and nothing long acknowledged
//!   Allowed ------------------------------------------------> Suspected
//!      |                                                          |
//!      | a leading fragment arrived                               | something long, sent since, acknowledged
//!      v                                                          v
//!   Proven                                                     Dropped
//! ```
//!
//! From *Suspected* on, Don't Fragment is set. Only *Dropped* is remembered for the destination: if unfragmented
//! packets are lost like those before, it was an outage. Routers fragment packets longer than the code, so only *long*
//! packets, of at least half the full length, are evidence. An outage that ends right after the switch looks like a
//! path that drops fragments, and so does an overload in which one packet of many gets through. One signal ends all
//! suspicion, and even in *Dropped* one packet may be fragmented now and then, so that a signal is possible. Its loss
//! is then not congestion, as with probes of the path MTU (RFC 9000 §14.4).
//!
//! Pure law: the fates of packets go in. Units: bytes, [`Instant`].

use std::time::{Duration, Instant};

/// Probe timeouts in a row. The second probe of a handshake leaves three seconds after the first packet, if nothing is
/// known of the round trip (RFC 9002 §6.2).
const TIMEOUTS: u32 = 2;

/// Time until a packet to such a destination may be fragmented again, at first; it doubles each time.
const RETRY_FIRST: Duration = Duration::from_secs(2);
/// Its upper bound: one loss a minute does no harm.
const RETRY_MAX: Duration = Duration::from_secs(64);

/// When a path that drops fragments is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    at: Instant,
    wait: Duration,
    /// When the last such packet left, and its bytes.
    sent: Option<(Instant, u64)>,
}

/// The state of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragments {
    /// Packets may be fragmented.
    Allowed {
        /// Probes sent since a long packet was acknowledged.
        timeouts: u32,
    },
    /// A fragment has arrived.
    Proven,
    /// Fragments seem to be dropped; Don't Fragment is set since then.
    Suspected(Instant),
    /// Fragments are dropped.
    Dropped(Retry),
}

impl Fragments {
    /// Nothing is known yet.
    pub(crate) const NEW: Self = Self::Allowed { timeouts: 0 };

    /// Fragments are dropped, as learned at `now`.
    pub(crate) fn dropped(now: Instant) -> Self {
        Self::Dropped(Retry { at: now + RETRY_FIRST, wait: RETRY_FIRST, sent: None })
    }

    /// Whether packets may be fragmented.
    pub(crate) fn are_allowed(self) -> bool {
        matches!(self, Self::Allowed { .. } | Self::Proven)
    }

    /// Whether the packet that leaves at `now` may be fragmented, if only as a test.
    pub(crate) fn may_fragment(self, now: Instant) -> bool {
        self.are_allowed() || matches!(self, Self::Dropped(retry) if now >= retry.at)
    }

    /// Whether long packets may be getting lost.
    pub(crate) fn are_doubted(self) -> bool {
        !matches!(self, Self::NEW | Self::Proven)
    }

    /// Whether fragments are dropped.
    pub(crate) fn are_dropped(self) -> bool {
        matches!(self, Self::Dropped(_))
    }

    /// A long packet of `bytes` leaves at `now`.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        if let Self::Dropped(retry) = self
            && now >= retry.at
        {
            let wait = (2 * retry.wait).min(RETRY_MAX);
            *retry = Retry { at: now + wait, wait, sent: Some((now, bytes)) };
        }
    }

    /// Whether the lost `bytes`, the latest sent at `sent`, are only the one test packet.
    pub(crate) fn is_retry(self, sent: Instant, bytes: u64) -> bool {
        matches!(self, Self::Dropped(Retry { sent: Some((at, size)), .. }) if at == sent && bytes <= size)
    }

    /// A leading fragment has arrived.
    pub(crate) fn on_signal(&mut self) {
        *self = Self::Proven;
    }

    /// A long packet sent at `sent` was acknowledged, at `now`.
    pub(crate) fn on_acked(&mut self, now: Instant, sent: Instant) {
        match *self {
            Self::Allowed { .. } => *self = Self::NEW,
            Self::Suspected(since) if sent >= since => *self = Self::dropped(now),
            Self::Suspected(_) | Self::Proven | Self::Dropped(_) => {}
        }
    }

    /// A probe timeout: a long packet leaves again at `now`.
    pub(crate) fn on_probe(&mut self, now: Instant) {
        if let Self::Allowed { timeouts } = self {
            *timeouts += 1;
            if *timeouts == TIMEOUTS {
                *self = Self::Suspected(now);
            }
        }
    }

    /// All packets of a long time are lost (RFC 9002 §7.6).
    pub(crate) fn on_persistent_congestion(&mut self, now: Instant) {
        if let Self::Allowed { .. } = self {
            *self = Self::Suspected(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn two_timeouts_in_a_row_are_suspicious_and_an_acknowledgment_in_between_clears() {
        let start = Instant::now();
        let mut fragments = Fragments::NEW;
        fragments.on_probe(start);
        fragments.on_acked(start, start);
        fragments.on_probe(start);
        assert!(fragments.are_allowed());
        fragments.on_probe(start + MS);
        assert_eq!(fragments, Fragments::Suspected(start + MS));
        assert!(!fragments.are_allowed());
    }

    #[test]
    fn only_what_was_sent_whole_convicts() {
        let start = Instant::now();
        let mut fragments = Fragments::NEW;
        fragments.on_persistent_congestion(start + MS);
        fragments.on_acked(start + MS, start);
        assert_eq!(fragments, Fragments::Suspected(start + MS), "it was late, not lost");
        fragments.on_acked(start + MS, start + MS);
        assert!(fragments.are_dropped() && !fragments.are_allowed());
    }

    #[test]
    fn a_path_that_drops_them_is_tried_by_one_packet_ever_more_rarely_until_a_signal_comes() {
        let start = Instant::now();
        let mut fragments = Fragments::dropped(start);
        let mut tried = Vec::new();
        for second in 0..200 {
            let now = start + Duration::from_secs(second);
            for _ in 0..2 {
                if fragments.may_fragment(now) {
                    tried.push(second);
                }
                fragments.on_sent(now, 1200);
            }
            assert_eq!(fragments.is_retry(now, 1200), tried.last() == Some(&second));
            assert!(!fragments.is_retry(now, 2400), "more is lost");
        }
        assert_eq!(tried, [2, 6, 14, 30, 62, 126, 190]);
        fragments.on_signal();
        assert!(fragments.are_allowed());
    }

    #[test]
    fn where_a_fragment_has_arrived_losses_are_losses() {
        let start = Instant::now();
        let mut fragments = Fragments::NEW;
        fragments.on_signal();
        for _ in 0..10 {
            fragments.on_probe(start);
            fragments.on_persistent_congestion(start);
        }
        assert_eq!(fragments, Fragments::Proven);
    }
}
