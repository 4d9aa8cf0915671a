//! Round trips, separated by the send time of packets.

use std::time::{Duration, Instant};

/// Counts round trips: one is over when a packet is acknowledged that was sent after it began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rounds {
    began: Option<Instant>,
    /// Least round-trip time of this round, and of the one before.
    pub(super) rtt: Option<Duration>,
    pub(super) rtt_before: Option<Duration>,
}

impl Rounds {
    /// Takes note of an acknowledged packet; whether it begins a round.
    pub(super) fn on_ack(&mut self, now: Instant, sent: Instant) -> bool {
        let rtt = now.saturating_duration_since(sent);
        let begins = self.began.is_none_or(|began| sent >= began);
        if begins {
            self.began = Some(now);
            self.rtt_before = self.rtt.take();
        }
        self.rtt = Some(self.rtt.map_or(rtt, |least| least.min(rtt)));
        begins
    }

    /// The least of this round and the one before: at any time at least one round trip is in it.
    pub(super) fn floor(&self) -> Option<Duration> {
        self.rtt.into_iter().chain(self.rtt_before).min()
    }
}
