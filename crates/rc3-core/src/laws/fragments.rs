//! Whether fragments reach a destination: some eight paths in a hundred drop them (Kick-Ass §4.3).
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
//! From *Suspected* on packets may not be fragmented. Only *Dropped* is held against the destination: where
//! unfragmented packets are lost like those before, it was an outage. Routers fragment what is longer than the code, so
//! only *long* packets, at least half a full one, tell anything. An outage that ends right after the switch looks like a
//! path that drops fragments, and so does an overload in which one packet of many gets through: one signal ends all
//! suspicion, and even in *Dropped* one packet may be fragmented now and then, so that there can be one. That it is lost is
//! then no congestion, as with probes of the path MTU (RFC 9000 §14.4).
//!
//! Pure law: what became of packets comes in. Units: bytes, [`Instant`].

use std::time::{Duration, Instant};

use crate::structures::destination_cache::Aged;

/// What is remembered of a path that drops fragments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drops {
    at: Instant,
    age: Duration,
}

impl Drops {
    /// Learned at `at`, and too old after `age`.
    pub(crate) fn new(at: Instant, age: Duration) -> Self {
        Self { at, age }
    }
}

impl Aged for Drops {
    fn at(&self) -> Instant {
        self.at
    }

    fn until(&self) -> Instant {
        self.at + self.age
    }
}

/// Probe timeouts in a row. The second probe of a handshake leaves three seconds after the first packet, if nothing is
/// known of the round trip (RFC 9002 §6.2).
const TIMEOUTS: u32 = 2;

/// Until a packet may be fragmented again that should not reach its destination then, at first; each time it takes twice as
/// long.
const RETRY_FIRST: Duration = Duration::from_secs(2);
/// And at most this: what is lost once a minute is not missed.
const RETRY_MAX: Duration = Duration::from_secs(64);

/// When a path that drops fragments is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retry {
    at: Instant,
    wait: Duration,
    /// When the latest such packet left, and its bytes.
    sent: Option<(Instant, u64)>,
}

/// What is known of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragments {
    /// They are made if routers want.
    Allowed {
        /// Probes sent since something long was acknowledged.
        timeouts: u32,
    },
    /// One has arrived.
    Proven,
    /// They seem to be dropped: none are made since then.
    Suspected(Instant),
    /// They are dropped.
    Dropped(Retry),
}

impl Fragments {
    /// Nothing is known.
    pub(crate) const NEW: Self = Self::Allowed { timeouts: 0 };

    /// They are dropped, as is known at `now`.
    pub(crate) fn dropped(now: Instant) -> Self {
        Self::Dropped(Retry { at: now + RETRY_FIRST, wait: RETRY_FIRST, sent: None })
    }

    /// Whether packets may be fragmented.
    pub(crate) fn are_allowed(self) -> bool {
        matches!(self, Self::Allowed { .. } | Self::Proven)
    }

    /// Whether the packet may be that leaves at `now`, if only to see what becomes of it.
    pub(crate) fn may_fragment(self, now: Instant) -> bool {
        self.are_allowed() || matches!(self, Self::Dropped(retry) if now >= retry.at)
    }

    /// Whether they are dropped.
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

    /// Whether `bytes` that are lost, the latest sent at `sent`, are but the one packet by which the path was tried.
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

    /// All that was sent for long is lost (RFC 9002 §7.6).
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
