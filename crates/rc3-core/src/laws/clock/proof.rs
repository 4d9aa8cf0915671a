//! The bytes that the peer proved to have received, by the receipts in its SACKs.

use std::time::{Duration, Instant};

/// Proved bytes, in a busy period and in a round trip.
#[derive(Debug, Default)]
pub(super) struct Proof {
    delivered: u64,
    /// Start of the counted round trip, and the bytes proved in it.
    round: Option<(Instant, u64)>,
    most: u64,
}

impl Proof {
    /// What follows is another flow.
    pub(super) fn start_busy_period(&mut self) {
        self.delivered = 0;
        self.round = None;
    }

    /// The peer has proved that it has `bytes` more.
    pub(super) fn on_delivered(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        self.delivered += bytes;
        let (began, before) = self.round.filter(|&(began, _)| now < began + rtt).unwrap_or((now, 0));
        self.round = Some((began, before + bytes));
        self.most = self.most.max(before + bytes);
    }

    /// Bytes proved in this busy period.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The maximum in one round trip.
    pub(super) fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_round_trip_counts_and_no_longer_one() {
        let (start, rtt) = (Instant::now(), Duration::from_millis(40));
        let mut proof = Proof::default();
        for (ms, bytes) in [(0, 10), (39, 20), (40, 25), (100, 4)] {
            proof.on_delivered(start + Duration::from_millis(ms), bytes, rtt);
        }
        assert_eq!((proof.delivered(), proof.most()), (59, 30));
        proof.start_busy_period();
        proof.on_delivered(start + Duration::from_millis(101), 29, rtt);
        assert_eq!((proof.delivered(), proof.most()), (29, 30));
    }
}
