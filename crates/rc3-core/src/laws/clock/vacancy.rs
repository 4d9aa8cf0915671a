//! How much of the rate RLP may use, by what its packets meet on the path.
//!
//! A train at the card's rate measures the speed of the link, not its free part: no other packet gets between its
//! packets. But single packets see the queue of others as often as it exists: the fraction of them that finds no queue
//! is the fraction of time in which the link is idle (Wolff 1982, "Poisson arrivals see time averages"). The queue of
//! both loops is known and subtracted.

use std::time::{Duration, Instant};

use super::{delay::Delay, own::Own};
use crate::laws::constants::Law;

/// An RLP packet and what it met.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketWait {
    /// The packet number.
    pub(super) number: u64,
    /// Its one-way time, in seconds relative to any epoch.
    pub(super) delay: f64,
    /// The excess above the minimum.
    pub(super) waited: f64,
    /// The link's service time of a packet, in seconds.
    pub(super) service: f64,
    /// The link's rate in bytes per second.
    pub(super) rate: f64,
    /// Whether the link limited that rate; otherwise it is a lower bound.
    pub(super) known: bool,
    /// Datagrams overtaken by one that arrived, and not arrived.
    pub(super) missing: u64,
    /// By how many seconds packets overtake each other on the path: no queue does that.
    pub(super) late: f64,
}

/// What the packets of a round trip met.
#[derive(Debug, Clone, Copy, Default)]
struct WaitCounts {
    /// Packets that found the link idle,
    idle: u64,
    /// that waited for others,
    waited: u64,
    /// or that were lost.
    lost: u64,
}

/// The share of others on the link.
#[derive(Debug, Default)]
pub(super) struct Vacancy {
    law: Law,
    /// Departures of both loops.
    pub(super) own: Own,
    /// Delays without the own queue.
    others: Delay,
    /// Whether the link's rate has been known, not only a lower bound.
    known: bool,
    /// The first rate by which the own queue was subtracted, in bytes per second.
    lower_bound: Option<f64>,
    missing: u64,
    /// For the previous and the current round trip.
    seen: [WaitCounts; 2],
    began: Option<Instant>,
}

impl Vacancy {
    /// For a link on which this many datagrams are already missing.
    pub(super) fn new(law: Law, missing: u64) -> Self {
        Self { law, missing, ..Self::default() }
    }

    /// An RLP packet has arrived.
    pub(super) fn on_arrival(&mut self, now: Instant, sample: PacketWait, rtt: Duration) {
        if self.began.is_none_or(|began| now >= began + rtt) {
            self.began = Some(now);
            self.seen = [self.seen[1], WaitCounts::default()];
        }
        self.restart_when_known(now, &sample, rtt);
        let Some(wait) = self.own.wait(sample.number, sample.rate) else { return };
        let host_jitter = self.law.host_jitter.as_secs_f64();
        let lost = sample.missing.saturating_sub(self.missing);
        self.missing += lost;
        let own = self.own_wait(&sample, wait.seconds, lost);
        let (delay, drift) = (sample.delay - own, wait.busy / self.law.busy_part);
        let above = self.others.least().map_or(0.0, |least| (delay - least).max(0.0));
        let least = self.others.add(&self.law, now, delay - drift.min(above), rtt);
        let seen = &mut self.seen[1];
        // With a long own queue in front, the loss is our own.
        if wait.seconds <= host_jitter {
            seen.lost += lost;
        }
        if !wait.first {
            return;
        }
        let others = (delay - least).min(sample.waited);
        let error = own / self.law.own_part + drift;
        let is_idle = others <= (host_jitter / 2.0).max(sample.late) + error;
        let count = if is_idle { &mut seen.idle } else { &mut seen.waited };
        *count += 1;
    }

    /// By a rate that is far too low the own queue looks longer than it is, and the least delay without it too low: the least
    /// that was measured takes its place.
    fn restart_when_known(&mut self, now: Instant, sample: &PacketWait, rtt: Duration) {
        if self.known {
            return;
        }
        self.known = sample.known;
        let bound = *self.lower_bound.get_or_insert(sample.rate);
        if sample.known && sample.rate > self.law.far_too_low * bound {
            self.others = Delay::default();
            self.others.add(&self.law, now, sample.delay - sample.waited, rtt);
        }
    }

    /// The packet's wait for the own queue, in seconds. Lost packets do not count, but not all losses are known yet: no
    /// packet can arrive earlier than the minimum delay plus this wait.
    fn own_wait(&mut self, sample: &PacketWait, wait: f64, lost: u64) -> f64 {
        let known = lost as f64 * sample.service;
        let own = (wait - known).max(0.0);
        let least = self.others.least().filter(|_| own > self.law.host_jitter.as_secs_f64());
        let unknown = least.map_or(0.0, |least| (least + own - sample.delay).clamp(0.0, own));
        self.own.cut(known + unknown);
        own - unknown
    }

    /// Recent minimum of the wait for others.
    pub(super) fn queue(&self) -> Duration {
        self.others.queue()
    }

    /// Whether packets were lost, and none waited for others: by chance, or at a policer.
    pub(super) fn has_only_losses(&self) -> bool {
        self.sum(|seen| seen.lost) > 0.0 && self.sum(|seen| seen.waited) == 0.0
    }

    /// RLP's part of the rate, excluding losses on the path; `None` until two packets have arrived. If the rate is not
    /// `known`, neither is the own wait, and only losses indicate others.
    ///
    /// RLP uses a power of the free fraction, which leaves others room to grow.
    pub(super) fn rlp_share(&self, known: bool) -> Option<f64> {
        let lost = self.sum(|seen| seen.lost);
        let came = self.sum(|seen| seen.idle + seen.waited);
        let arrived = if lost > 0.0 { likely(&self.law, came + lost, lost) } else { 1.0 };
        Some(self.free(known)?.powf(self.law.caution) * arrived)
    }

    /// The fraction of time in which others leave the link idle; less while few packets have shown it. `None` until two have
    /// arrived.
    pub(super) fn free(&self, known: bool) -> Option<f64> {
        let waited = self.sum(|seen| seen.waited);
        let came = self.sum(|seen| seen.idle) + waited;
        (came >= 2.0).then(|| likely(&self.law, came, if known { waited } else { 0.0 }))
    }

    /// Of both round trips.
    fn sum(&self, count: fn(&WaitCounts) -> u64) -> f64 {
        (count(&self.seen[0]) + count(&self.seen[1])) as f64
    }
}

/// The fraction of good packets, with `bad` of `seen`: Laplace's rule of succession, which starts at a half; after a
/// few packets without a bad one it is 1.
fn likely(law: &Law, seen: f64, bad: f64) -> f64 {
    match bad > 0.0 {
        true => (seen - bad + law.caution) / (seen + 2.0 * law.caution),
        false => (0.5 + 0.5 * seen / law.enough).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    /// A packet takes a millisecond.
    const RATE: f64 = 1_200_000.0;

    /// A flight with a packet every three milliseconds, after `train` packets at once; each arrives after the own queue
    /// and `others` milliseconds.
    fn flight(train: u64, packets: u64, others: impl Fn(u64) -> f64) -> Vacancy {
        let start = Instant::now();
        let mut vacancy = Vacancy::default();
        vacancy.own.on_rlp_sent(start, train - 1, train, train * 1200);
        for nth in 0..packets {
            let at = start + Duration::from_millis(3 * (nth + 1));
            vacancy.own.on_rlp_sent(at, train + nth, 1, 1200);
        }
        for nth in 0..packets {
            let at = 3 * (nth + 1);
            // Earlier packets take every third millisecond.
            let own = (train as f64 - 2.0 * nth as f64 - 3.0).max(0.0);
            let delay = 1e-3 * (own + others(at)) + 0.02;
            let sample = PacketWait {
                number: train + nth,
                delay,
                waited: delay - 0.02,
                service: 1e-3,
                rate: RATE,
                known: true,
                missing: 0,
                late: 0.0,
            };
            vacancy.on_arrival(start + Duration::from_millis(at) + RTT, sample, RTT);
        }
        vacancy
    }

    #[test]
    fn a_link_that_is_idle_is_seen_through_our_own_queue() {
        let vacancy = flight(16, 9, |_| 0.0);
        assert_eq!((vacancy.rlp_share(true), vacancy.queue()), (Some(1.0), Duration::ZERO));
    }

    #[test]
    fn the_free_part_of_the_time_is_measured() {
        // Three milliseconds of queue in two of three cases.
        let vacancy = flight(1, 60, |at| if at % 9 == 0 { 0.0 } else { 3.0 });
        let part = vacancy.rlp_share(true).expect("seen");
        assert!((0.1..0.2).contains(&part), "{part}");
    }

    #[test]
    fn a_queue_of_others_that_does_not_drain_is_detected() {
        let vacancy = flight(1, 60, |at| if at < 60 { 0.0 } else { 5.0 });
        assert!((vacancy.queue().as_secs_f64() - 0.005).abs() < 1e-6);
        assert!(vacancy.rlp_share(true).expect("seen") < 0.1);
    }

    /// A packet that waited `own` milliseconds, all of them behind packets of ours.
    fn behind_ours(number: u64, own: u64, rate: f64, known: bool) -> PacketWait {
        let waited = 1e-3 * own as f64;
        PacketWait {
            number,
            delay: 0.021 + waited,
            waited,
            service: 1e-3,
            rate,
            known,
            missing: 0,
            late: 0.0,
        }
    }

    #[test]
    fn an_error_of_the_rate_that_adds_up_on_a_busy_link_is_no_queue_of_others() {
        let start = Instant::now();
        let at = |nth| start + Duration::from_millis(nth);
        let mut vacancy = Vacancy::default();
        // Twenty packets are always in front, and the estimate is too high by a fiftieth.
        vacancy.own.on_primary_sent(start, 20 * 1200);
        (0..900).for_each(|number| vacancy.own.on_rlp_sent(at(number), number, 1, 1200));
        for number in 0..900 {
            vacancy.on_arrival(at(number) + RTT, behind_ours(number, 20, 1.02 * RATE, true), RTT);
        }
        assert_eq!((vacancy.rlp_share(true), vacancy.queue()), (Some(1.0), Duration::ZERO));
    }

    #[test]
    fn a_rate_that_was_too_low_at_first_leaves_no_queue_of_others_behind() {
        let start = Instant::now();
        let mut vacancy = Vacancy::default();
        // Twenty bursts of four packets, 8 ms apart. For the first two the rate is a lower bound, half of what it is.
        for burst in 0..20 {
            let (at, last, known) = (start + Duration::from_millis(8 * burst), 4 * burst + 3, burst >= 2);
            vacancy.own.on_rlp_sent(at, last, 4, 4800);
            let rate = if known { RATE } else { RATE / 2.0 };
            vacancy.on_arrival(at + RTT, behind_ours(last, 3, rate, known), RTT);
        }
        assert_eq!((vacancy.rlp_share(true), vacancy.queue()), (Some(1.0), Duration::ZERO));
    }

    #[test]
    fn losses_with_nothing_of_ours_in_front_count_and_those_of_before_do_not() {
        let part = |missing: fn(u64) -> u64| {
            let mut vacancy = Vacancy::new(Law::default(), 100);
            let start = Instant::now();
            for nth in 0..8 {
                let at = start + Duration::from_millis(3 * nth);
                vacancy.own.on_rlp_sent(at, nth, 1, 1200);
                let missing = missing(nth);
                let sample = PacketWait {
                    number: nth,
                    delay: 0.02,
                    waited: 0.0,
                    service: 1e-3,
                    rate: RATE,
                    known: true,
                    missing,
                    late: 0.0,
                };
                vacancy.on_arrival(at + RTT, sample, RTT);
            }
            vacancy.rlp_share(true).expect("packets have come")
        };
        assert!(part(|nth| 100 + 2 * nth) < 0.4);
        assert_eq!(part(|_| 100), 1.0);
    }
}
