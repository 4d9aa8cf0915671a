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
//! path that drops fragments; where routers signal that is rare, since one signal ends all suspicion.
//!
//! Pure law: what became of packets comes in. Units: bytes, [`Instant`].

use std::time::{Duration, Instant};

use crate::memory::Aged;

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
    Dropped,
}

impl Fragments {
    /// Nothing is known.
    pub(crate) const NEW: Self = Self::Allowed { timeouts: 0 };

    /// Whether packets may be fragmented.
    pub(crate) fn are_allowed(self) -> bool {
        matches!(self, Self::Allowed { .. } | Self::Proven)
    }

    /// A leading fragment has arrived.
    pub(crate) fn on_signal(&mut self) {
        if self.are_allowed() {
            *self = Self::Proven;
        }
    }

    /// A long packet sent at `sent` was acknowledged.
    pub(crate) fn on_acked(&mut self, sent: Instant) {
        match *self {
            Self::Allowed { .. } => *self = Self::NEW,
            Self::Suspected(since) if sent >= since => *self = Self::Dropped,
            Self::Suspected(_) | Self::Proven | Self::Dropped => {}
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
        fragments.on_acked(start);
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
        fragments.on_acked(start);
        assert_eq!(fragments, Fragments::Suspected(start + MS), "it was late, not lost");
        fragments.on_acked(start + MS);
        assert_eq!(fragments, Fragments::Dropped);
        fragments.on_signal();
        assert!(!fragments.are_allowed());
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
