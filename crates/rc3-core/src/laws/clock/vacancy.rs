//! How much of the rate RLP may take, from what packets of RLP find there.
//!
//! A train that leaves at the card's rate measures how fast the link is, not how much of it is free: nothing gets between its
//! packets. But packets that are sent one by one see the queue of others as often as it is there: the part of them that find
//! none is the part of the time in which the link is idle (Wolff 1982, "Poisson arrivals see time averages"). What both loops
//! have put into the queue themselves is known, and counted off.

use std::time::{Duration, Instant};

use super::{delay::Delay, own::Own};

/// Waiting longer than that is a queue of others, in seconds: packets in service and the unrest of hosts,
const WAIT_MIN: f64 = 0.000_5;
/// and a part of what we have put there ourselves, since the rate is an estimate.
const OWN_PART: f64 = 8.0;
/// With more of our own than that in front of it, in seconds, a packet that comes too early shows that some of ours was lost.
const OWN_MAX: f64 = 0.001;
/// So many packets that met nobody are enough to take the link for idle.
const ENOUGH: f64 = 8.0;

/// What came of RLP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// The packet number.
    pub(super) number: u64,
    /// How long it took, in seconds from an epoch that does not matter.
    pub(super) delay: f64,
    /// How much longer that is than at the least.
    pub(super) waited: f64,
    /// How long the link takes for a packet, in seconds.
    pub(super) service: f64,
    /// Bytes per second of the link.
    pub(super) rate: f64,
    /// Datagrams that were passed by one that came, and had not come.
    pub(super) missing: u64,
}

/// What packets of a round trip met.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// They found the link idle,
    idle: u64,
    /// waited for others,
    waited: u64,
    /// or were lost.
    lost: u64,
}

/// What others have of the link.
#[derive(Debug, Default)]
pub(super) struct Vacancy {
    own: Own,
    /// Without what is our own.
    others: Delay,
    missing: u64,
    /// Of the round trip before, and of this one.
    seen: [Seen; 2],
    began: Option<Instant>,
}

impl Vacancy {
    /// Of a link on which so many datagrams are missing from before.
    pub(super) fn new(missing: u64) -> Self {
        Self { missing, ..Self::default() }
    }

    /// What both loops send.
    pub(super) fn own(&mut self) -> &mut Own {
        &mut self.own
    }

    /// A packet of RLP has come.
    pub(super) fn on_arrival(&mut self, now: Instant, sample: Sample, rtt: Duration) {
        if self.began.is_none_or(|began| now >= began + rtt) {
            self.began = Some(now);
            self.seen = [self.seen[1], Seen::default()];
        }
        let Some(wait) = self.own.wait(sample.number, sample.rate) else { return };
        let lost = sample.missing.saturating_sub(self.missing);
        self.missing += lost;
        let own = self.own_wait(&sample, wait.seconds, lost);
        let least = self.others.add(now, sample.delay - own, rtt);
        let seen = &mut self.seen[1];
        // With much of our own in front of it, that was our doing.
        if wait.seconds <= OWN_MAX {
            seen.lost += lost;
        }
        if !wait.first {
            return;
        }
        let others = (sample.delay - own - least).min(sample.waited);
        let is_idle = others <= WAIT_MIN + own / OWN_PART;
        let count = if is_idle { &mut seen.idle } else { &mut seen.waited };
        *count += 1;
    }

    /// How long the packet has waited for ours, in seconds. What was lost it has not waited for, and we do not know of all that is
    /// lost yet: nothing comes earlier than the least delay and the wait.
    fn own_wait(&mut self, sample: &Sample, wait: f64, lost: u64) -> f64 {
        let known = lost as f64 * sample.service;
        let own = (wait - known).max(0.0);
        let least = self.others.least().filter(|_| own > OWN_MAX);
        let unknown = least.map_or(0.0, |least| (least + own - sample.delay).clamp(0.0, own));
        self.own.cut(known + unknown);
        own - unknown
    }

    /// How long packets have waited for others at least, of late.
    pub(super) fn queue(&self) -> Duration {
        self.others.queue()
    }

    /// The part of the rate that RLP may take, without what is lost on its way; `None` until two packets have come. Where the rate is
    /// not `known`, our own wait is not, and only losses tell of others.
    ///
    /// Of what is free it is as much as that is of the link, which leaves others room to grow.
    pub(super) fn part(&self, known: bool) -> Option<f64> {
        let sum = |count: fn(&Seen) -> u64| (count(&self.seen[0]) + count(&self.seen[1])) as f64;
        let (idle, waited, lost) = (sum(|seen| seen.idle), sum(|seen| seen.waited), sum(|seen| seen.lost));
        let came = idle + waited;
        if came < 2.0 {
            return None;
        }
        let free = if known { likely(came, waited) } else { likely(came, 0.0) };
        Some(free * free * if lost > 0.0 { likely(came + lost, lost) } else { 1.0 })
    }
}

/// The part of the good ones, of so many `seen` of which so many are `bad`: Laplace's rule of succession, which begins with a half;
/// without a bad one it is all from a few on.
fn likely(seen: f64, bad: f64) -> f64 {
    match bad > 0.0 {
        true => (seen - bad + 2.0) / (seen + 4.0),
        false => (0.5 + 0.5 * seen / ENOUGH).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);
    /// A packet takes a millisecond.
    const RATE: f64 = 1_200_000.0;

    /// A flight of which a packet leaves every three milliseconds, after `train` packets at once, and comes after our own have been
    /// served and `others` milliseconds.
    fn flight(train: u64, packets: u64, others: impl Fn(u64) -> f64) -> Vacancy {
        let start = Instant::now();
        let mut vacancy = Vacancy::default();
        vacancy.own().on_rlp_sent(start, train - 1, train, train * 1200);
        for nth in 0..packets {
            let at = start + Duration::from_millis(3 * (nth + 1));
            vacancy.own().on_rlp_sent(at, train + nth, 1, 1200);
        }
        for nth in 0..packets {
            let at = 3 * (nth + 1);
            // Each third millisecond is taken by the packets before.
            let own = (train as f64 - 2.0 * nth as f64 - 3.0).max(0.0);
            let delay = 1e-3 * (own + others(at)) + 0.02;
            let sample = Sample {
                number: train + nth,
                delay,
                waited: delay - 0.02,
                service: 1e-3,
                rate: RATE,
                missing: 0,
            };
            vacancy.on_arrival(start + Duration::from_millis(at) + RTT, sample, RTT);
        }
        vacancy
    }

    #[test]
    fn a_link_that_is_idle_is_seen_through_our_own_queue() {
        let vacancy = flight(16, 9, |_| 0.0);
        assert_eq!((vacancy.part(true), vacancy.queue()), (Some(1.0), Duration::ZERO));
    }

    #[test]
    fn the_part_of_the_time_that_is_free_is_told() {
        // Three milliseconds of queue in two of three cases.
        let vacancy = flight(1, 60, |at| if at % 9 == 0 { 0.0 } else { 3.0 });
        let part = vacancy.part(true).expect("seen");
        assert!((0.1..0.2).contains(&part), "{part}");
    }

    #[test]
    fn a_queue_of_others_that_does_not_drain_is_told() {
        let vacancy = flight(1, 60, |at| if at < 60 { 0.0 } else { 5.0 });
        assert!((vacancy.queue().as_secs_f64() - 0.005).abs() < 1e-6);
        assert!(vacancy.part(true).expect("seen") < 0.1);
    }

    #[test]
    fn losses_with_nothing_of_ours_in_front_count_and_those_of_before_do_not() {
        let part = |missing: fn(u64) -> u64| {
            let mut vacancy = Vacancy::new(100);
            let start = Instant::now();
            for nth in 0..8 {
                let at = start + Duration::from_millis(3 * nth);
                vacancy.own().on_rlp_sent(at, nth, 1, 1200);
                let missing = missing(nth);
                let sample =
                    Sample { number: nth, delay: 0.02, waited: 0.0, service: 1e-3, rate: RATE, missing };
                vacancy.on_arrival(at + RTT, sample, RTT);
            }
            vacancy.part(true).expect("packets have come")
        };
        assert!(part(|nth| 100 + 2 * nth) < 0.4);
        assert_eq!(part(|_| 100), 1.0);
    }
}
