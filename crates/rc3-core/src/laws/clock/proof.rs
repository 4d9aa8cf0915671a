//! What the peer has proved to have received, by the sender's clock: RLP's bytes by the receipts in its SACKs, the
//! primary's by its acknowledgments. A receiver that reports other times can delay a proof, but not make one.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Windows begin this often in a round trip.
const WINDOWS_PER_ROUND_TRIP: u32 = 4;
/// Windows stored: those of two round trips.
const WINDOWS_MAX: usize = 2 * WINDOWS_PER_ROUND_TRIP as usize;
/// The shortest window: packets that a host reads together arrived within this time.
const RESOLUTION: Duration = Duration::from_micros(250);

/// The most by which a short window, in which jitter shows, may exceed a whole one, in which the sender may have paused.
const WHOLE_TO_SHORT: f64 = 1.5;

/// Proved bytes, in a busy period and in windows of a round trip.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// RLP's bytes in this busy period.
    delivered: u64,
    /// Bytes of both loops.
    total: u64,
    /// Starts of windows and the total there, oldest first.
    windows: VecDeque<(Instant, u64)>,
    /// The largest rates of windows, in bytes per second, of the round trip before and of this one.
    rates: [f64; 2],
    round_began: Option<Instant>,
    /// The largest since [`Self::forget_rates`]: of all windows, and of whole ones.
    most: f64,
    most_whole: f64,
}

impl Proof {
    /// What follows is another flow.
    pub(super) fn start_busy_period(&mut self) {
        self.delivered = 0;
        self.windows.clear();
        self.rates = [0.0; 2];
        self.round_began = None;
    }

    /// What is measured from now on is another rate.
    pub(super) fn forget_rates(&mut self) {
        (self.most, self.most_whole) = (0.0, 0.0);
    }

    /// The first packet of a busy period has left: no proof of it can arrive before `due`.
    pub(super) fn expect(&mut self, due: Instant) {
        if self.windows.is_empty() {
            self.windows.push_back((due, self.total));
        }
    }

    /// The peer has proved that it has `bytes` more of RLP.
    pub(super) fn on_rlp_delivered(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        self.delivered += bytes;
        self.on_delivered(now, bytes, rtt);
    }

    /// The peer has proved that it has `bytes` more, of either loop.
    pub(super) fn on_delivered(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        self.total += bytes;
        if let Some((_, before)) = self.windows.front_mut().filter(|(due, _)| now < *due) {
            // Of an earlier busy period.
            *before = self.total;
            return;
        }
        while self.windows.get(1).is_some_and(|&(start, _)| start + rtt <= now) {
            self.windows.pop_front();
        }
        let Some(&(start, before)) = self.windows.front() else { return };
        let elapsed = now.saturating_duration_since(start).max(RESOLUTION);
        if self.round_began.is_none_or(|began| now >= began + rtt) {
            self.round_began = Some(now);
            self.rates = [self.rates[1], 0.0];
        }
        let rate = (self.total - before) as f64 / elapsed.as_secs_f64();
        self.rates[1] = self.rates[1].max(rate);
        self.most = self.most.max(rate);
        if elapsed >= rtt {
            self.most_whole = self.most_whole.max(rate);
        }
        let is_due = |&(last, _): &(Instant, u64)| now >= last + rtt / WINDOWS_PER_ROUND_TRIP;
        if self.windows.len() < WINDOWS_MAX && self.windows.back().is_none_or(is_due) {
            self.windows.push_back((now, self.total));
        }
    }

    /// RLP's bytes proved in this busy period.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The rate that proofs support, in bytes per second: of both loops, in a window of the last two round trips.
    pub(super) fn rate(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    /// `rate`, as far as proofs since [`Self::forget_rates`] support it: no higher than in any window, and neither lower nor much higher than
    /// what the path has carried for a round trip.
    pub(super) fn clamp(&self, rate: f64) -> f64 {
        let most =
            if self.most_whole > 0.0 { self.most.min(self.most_whole * WHOLE_TO_SHORT) } else { self.most };
        rate.min(most).max(self.most_whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The rates after each of these proofs: when, and how many bytes.
    fn rates(due: u64, proofs: impl IntoIterator<Item = (u64, u64)>) -> Vec<f64> {
        let (start, mut proof) = (Instant::now(), Proof::default());
        proof.expect(start + ms(due));
        let rate = |(at, bytes)| {
            proof.on_rlp_delivered(start + ms(at), bytes, RTT);
            proof.rate()
        };
        proofs.into_iter().map(rate).collect()
    }

    #[test]
    fn a_train_counts_from_when_it_was_due() {
        assert_eq!(rates(40, [(41, 1000), (42, 1000)]), [1e6, 1e6]);
        // Withheld until the last has arrived, they show no more.
        assert_eq!(rates(40, [(42, 2000)]), [1e6]);
        // Nothing is instantaneous, and what came before is of another busy period.
        assert_eq!(rates(40, [(30, 99_000), (40, 1000)]), [0.0, 4e6]);
    }

    #[test]
    fn a_steady_rate_is_found_and_a_slower_one_after_two_round_trips() {
        let steady = rates(0, (1..400).map(|at| (at, if at <= 200 { 1000 } else { 500 })));
        assert!((steady[199] / 1e6 - 1.0).abs() < 0.01, "{}", steady[199]);
        assert!((steady[398] / 0.5e6 - 1.0).abs() < 0.01, "{}", steady[398]);
    }

    #[test]
    fn proofs_that_are_withheld_for_a_round_trip_gain_at_most_twice_the_rate() {
        let hoarded = rates(0, (1..=20).map(|nth| (40 * nth, 40_000)));
        assert!(hoarded.iter().all(|&rate| rate <= 2.1e6), "{hoarded:?}");
    }

    #[test]
    fn a_rate_is_between_what_a_round_trip_and_what_a_train_has_shown() {
        let (start, mut proof) = (Instant::now(), Proof::default());
        assert_eq!(proof.clamp(1e9), 0.0);
        proof.expect(start);
        proof.on_rlp_delivered(start + ms(1), 4000, RTT);
        proof.on_rlp_delivered(start + ms(40), 36_000, RTT);
        assert_eq!([1e9, 1.2e6, 1e3].map(|rate| proof.clamp(rate)), [1.5e6, 1.2e6, 1e6]);
        proof.forget_rates();
        assert_eq!(proof.clamp(1e9), 0.0);
    }

    #[test]
    fn memory_is_bounded() {
        let (start, mut proof) = (Instant::now(), Proof::default());
        for nth in 0..100_000 {
            proof.on_delivered(start + Duration::from_micros(nth), 1, RTT);
        }
        assert!(proof.windows.len() <= WINDOWS_MAX);
    }
}
