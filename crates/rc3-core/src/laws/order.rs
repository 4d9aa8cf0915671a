//! The first test of an unknown path: does a packet of normal priority overtake a burst of RLP?
//!
//! Packets that RLP sends at once wait at the bottleneck in a row. One datagram at the primary's priority, sent when
//! the burst has left the host and waits there, arrives first if marks are honoured, and last if not. The receiver
//! counts, so the test needs neither room in a window nor an exact clock, and the answer arrives with the first SACKs.
//! Later trials of the [`guard`](super::guard) still count.
//!
//! Pure: counts and times go in, an answer comes out.

use std::time::{Duration, Instant};

use super::constants::Law;
use crate::wire::order::Order;

/// How the path treats priorities, by one burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BurstOrder {
    /// Normal priority arrived before the burst that had left before it.
    Overtook,
    /// It arrived after the burst, which had waited longer than the time between them.
    Followed,
}

/// The end of a burst, and the datagram of normal priority behind it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Question {
    /// Packet numbers of the first and the last datagram of the burst.
    burst_first: u64,
    burst_last: u64,
    /// Datagrams with DATA sent before it that may still arrive.
    sent: u64,
    number: u64,
    /// Time between the burst and it.
    gap: Duration,
    /// One-way time of one of the burst's last packets, including an unknown clock offset.
    delay: Option<f64>,
    /// The shortest one of its packets: what a busy host delays has no part in the burst's own queue.
    least: Option<f64>,
    /// It arrived after the burst.
    in_order: bool,
    /// The receiver has reported it.
    reported: bool,
}

impl Question {
    /// Packets of the burst.
    fn packets(&self) -> u64 {
        self.burst_last - self.burst_first + 1
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum BurstPhase {
    /// No burst yet in this busy period.
    #[default]
    Open,
    /// The datagram is due soon.
    Waits(Instant),
    Due,
    /// The datagram is in flight.
    Asked(Question),
    Done,
}

/// One test for each busy period.
#[derive(Debug, Default)]
pub(crate) struct OrderTrial {
    law: Law,
    /// Datagrams with DATA sent in total, and those of the current burst.
    sent: u64,
    burst: u64,
    /// The last of them, and its departure time.
    last: Option<(u64, Instant)>,
    /// Packets that a burst needs, if the rate is known.
    needed: Option<u64>,
    /// Packets of this busy period that left for bursts: an application that writes little at a time never fills one.
    spent: u64,
    phase: BurstPhase,
}

impl OrderTrial {
    /// No burst has left so far.
    pub(crate) fn new(law: Law) -> Self {
        Self { law, ..Self::default() }
    }

    /// What follows is another flow.
    pub(crate) fn start_busy_period(&mut self) {
        self.phase = BurstPhase::Open;
        (self.burst, self.spent) = (0, 0);
    }

    /// The rate of another path says nothing about this one.
    pub(crate) fn on_new_path(&mut self) {
        self.start_busy_period();
        (self.needed, self.sent) = (None, 0);
    }

    /// The path takes `packets` in [`Constants::evident_min`](super::constants::Constants::evident_min). So many of a burst
    /// still wait when the datagram reaches them.
    pub(crate) fn on_rate(&mut self, packets: u64) {
        self.needed = Some(packets);
    }

    /// Packets that should leave at once, for a test on a path whose rate is known.
    pub(crate) fn burst_left(&self, now: Instant) -> u64 {
        let left = self.needed().saturating_sub(if self.goes_on(now) { self.burst } else { 0 });
        if self.may_start(now) { left } else { 0 }
    }

    fn needed(&self) -> u64 {
        self.needed.unwrap_or(0).max(self.law.few)
    }

    /// Whether a packet that leaves now belongs to the same burst as the last one.
    fn goes_on(&self, now: Instant) -> bool {
        self.last.is_some_and(|(_, at)| now.saturating_duration_since(at) < self.law.host_jitter / 2)
    }

    /// Whether a packet that leaves now begins a burst or lengthens it. A burst that was too short for the rate that is
    /// known by now has a longer one after it.
    fn may_start(&self, now: Instant) -> bool {
        match self.phase {
            _ if self.spent >= 2 * self.needed() => false,
            BurstPhase::Open => true,
            BurstPhase::Waits(_) => self.goes_on(now),
            BurstPhase::Asked(question) => question.reported && 2 * question.packets() < self.needed(),
            BurstPhase::Due | BurstPhase::Done => false,
        }
    }

    /// RLP has sent a batch of `packets`, the last with the number `last`.
    pub(crate) fn on_rlp_sent(&mut self, now: Instant, last: u64, packets: u64) {
        self.sent += packets;
        if !self.may_start(now) {
            return;
        }
        self.burst = if self.goes_on(now) { self.burst + packets } else { packets };
        self.spent += if self.needed.is_some() { packets } else { 0 };
        self.last = Some((last, now));
        if self.burst >= self.needed() {
            self.phase = BurstPhase::Waits(now + self.law.host_lateness);
        }
    }

    /// When to call [`Self::on_timeout`].
    pub(crate) fn timeout(&self) -> Option<Instant> {
        match self.phase {
            BurstPhase::Waits(at) => Some(at),
            _ => None,
        }
    }

    /// Call it when the time of [`Self::timeout`] may have come.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if let BurstPhase::Waits(at) = self.phase
            && at <= now
        {
            self.phase = if now < at + self.law.host_lateness { BurstPhase::Due } else { BurstPhase::Done };
        }
    }

    /// Whether the datagram should leave now.
    pub(crate) fn is_due(&self) -> bool {
        self.phase == BurstPhase::Due
    }

    /// The datagram left with this packet number. `missing` datagrams with DATA are known to be lost.
    pub(crate) fn on_probe_sent(&mut self, at: Instant, number: u64, missing: u64) {
        if let (BurstPhase::Due, Some((burst_last, burst_at))) = (self.phase, self.last) {
            let gap = at.saturating_duration_since(burst_at);
            let question = Question {
                burst_first: burst_last.saturating_sub(self.burst.saturating_sub(1)),
                burst_last,
                sent: self.sent.saturating_sub(missing),
                number,
                gap,
                ..Question::default()
            };
            self.burst = 0;
            self.phase = BurstPhase::Asked(question);
        }
    }

    /// The receiver's report about it.
    pub(crate) fn on_order(&mut self, order: Order) -> Option<BurstOrder> {
        let BurstPhase::Asked(question) = &mut self.phase else { return None };
        if order.packet_number != question.number {
            return None;
        }
        if order.overtaken >= self.law.few {
            self.phase = BurstPhase::Done;
            return Some(BurstOrder::Overtook);
        }
        question.reported = true;
        question.in_order |= question.sent.saturating_sub(order.came) < self.law.few;
        None
    }

    /// The packet with this number took `delay`. `waited` returns how many seconds of a delay were certainly a queue,
    /// as far as known.
    pub(crate) fn on_arrival(
        &mut self,
        number: u64,
        delay: f64,
        waited: impl Fn(f64) -> f64,
    ) -> Option<BurstOrder> {
        let BurstPhase::Asked(question) = &mut self.phase else { return None };
        if (question.burst_last.saturating_sub(self.law.burst)..=question.burst_last).contains(&number) {
            question.delay = Some(delay);
        }
        if (question.burst_first..=question.burst_last).contains(&number) {
            question.least = Some(question.least.map_or(delay, |least| least.min(delay)));
        }
        let delay = question.delay?;
        let waited = waited(delay).min(delay - question.least?);
        if !question.in_order || waited < question.gap.as_secs_f64() {
            return None;
        }
        self.phase = BurstPhase::Done;
        Some(BurstOrder::Followed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pause that ends a burst.
    const PAUSE: Duration = Duration::from_micros(500);

    fn order(came: u64, overtaken: u64) -> Order {
        Order { packet_number: 16, came, overtaken }
    }

    /// A burst of 16 datagrams, and one behind it.
    fn asked() -> OrderTrial {
        let now = Instant::now();
        let mut trial = OrderTrial::default();
        trial.on_rlp_sent(now, 7, 8);
        trial.on_rlp_sent(now, 15, 8);
        assert_eq!(trial.timeout(), Some(now + Law::default().host_lateness));
        trial.on_timeout(now + Law::default().host_lateness / 2);
        assert!(!trial.is_due());
        trial.on_timeout(now + Law::default().host_lateness);
        assert!(trial.is_due());
        trial.on_probe_sent(now + Law::default().host_lateness, 16, 0);
        assert_eq!((trial.is_due(), trial.timeout()), (false, None), "once");
        trial
    }

    #[test]
    fn a_known_rate_needs_a_burst_that_still_waits_when_the_datagram_comes() {
        let now = Instant::now();
        let mut trial = OrderTrial::default();
        assert_eq!(trial.burst_left(now), Law::default().few);
        trial.on_rate(70);
        assert_eq!(trial.burst_left(now), 70);
        trial.on_rlp_sent(now, 63, 64);
        assert_eq!((trial.burst_left(now), trial.timeout()), (6, None));
        trial.on_rlp_sent(now, 69, 6);
        assert_eq!((trial.burst_left(now), trial.timeout()), (0, Some(now + Law::default().host_lateness)));
    }

    #[test]
    fn an_application_that_writes_little_at_a_time_is_not_let_past_the_pace_for_ever() {
        let start = Instant::now();
        let mut trial = OrderTrial::default();
        trial.on_rate(70);
        let left = |trial: &mut OrderTrial, nth: u32| {
            let now = start + PAUSE * nth;
            let left = trial.burst_left(now);
            trial.on_rlp_sent(now, u64::from(nth) * 50, 50);
            left
        };
        let all: Vec<u64> = (1..6).map(|nth| left(&mut trial, nth)).collect();
        assert_eq!(all, [70, 70, 70, 0, 0]);
        trial.start_busy_period();
        assert_eq!(left(&mut trial, 6), 70);
    }

    #[test]
    fn on_a_new_path_a_first_flight_is_a_burst_again() {
        let now = Instant::now();
        let mut trial = OrderTrial::default();
        trial.on_rate(70);
        trial.on_new_path();
        trial.on_rlp_sent(now, 15, 16);
        assert_eq!(trial.timeout(), Some(now + Law::default().host_lateness));
    }

    #[test]
    fn a_burst_that_was_too_short_has_a_longer_one_after_its_answer() {
        let mut trial = asked();
        let now = Instant::now();
        trial.on_rate(70);
        assert_eq!(trial.burst_left(now), 0, "the answer is on its way");
        assert_eq!(trial.on_order(order(16, 0)), None, "nothing waited any more");
        assert_eq!(trial.burst_left(now), 70);
        trial.on_rlp_sent(now, 86, 70);
        trial.on_timeout(now + Law::default().host_lateness);
        trial.on_probe_sent(now + Law::default().host_lateness, 87, 0);
        let answer = Order { packet_number: 87, came: 16, overtaken: 0 };
        assert_eq!(trial.on_order(answer), None);
        trial.on_rate(75);
        assert_eq!(trial.burst_left(now), 0, "about as long as it should be");
    }

    #[test]
    fn an_overtaken_burst_decides_once() {
        let mut trial = asked();
        assert_eq!(trial.on_order(order(1, 3)), None, "that may be chance");
        assert_eq!(trial.on_order(order(1, 4)), Some(BurstOrder::Overtook));
        assert_eq!(trial.on_order(order(1, 5)), None);
    }

    #[test]
    fn kept_order_decides_only_if_packets_waited() {
        for (came, head, queue, answer) in [
            (16, 0.0, 0.003, Some(BurstOrder::Followed)),
            (13, 0.0, 0.0021, Some(BurstOrder::Followed)),
            // Less than the time between burst and datagram.
            (16, 0.0, 0.001, None),
            // Lost, or in flight.
            (12, 0.0, 0.003, None),
            // A host delayed the whole burst.
            (16, 0.002, 0.003, None),
        ] {
            let mut trial = asked();
            assert_eq!(trial.on_arrival(0, 5.0 + head, |delay| delay - 5.0), None);
            assert_eq!(trial.on_arrival(14, 5.0 + queue, |delay| delay - 5.0), None, "it is in flight");
            assert_eq!(trial.on_order(order(came, 0)), None);
            assert_eq!(
                trial.on_arrival(17, 5.0, |delay| delay - 5.0 + 1e-9),
                answer,
                "{came} {head} {queue}"
            );
        }
    }

    #[test]
    fn what_flows_before_have_lost_is_not_waited_for() {
        let now = Instant::now();
        let mut trial = OrderTrial::default();
        trial.on_rlp_sent(now, 99, 100);
        trial.start_busy_period();
        trial.on_rlp_sent(now, 115, 16);
        trial.on_timeout(now + Law::default().host_lateness);
        // Ten of the first hundred were lost.
        trial.on_probe_sent(now + Law::default().host_lateness, 116, 10);
        trial.on_arrival(100, 5.0, |delay| delay - 5.0);
        trial.on_arrival(115, 5.003, |delay| delay - 5.0);
        assert_eq!(trial.on_order(Order { packet_number: 116, came: 106, overtaken: 0 }), None);
        assert_eq!(trial.on_arrival(117, 5.0, |delay| delay - 5.0), Some(BurstOrder::Followed));
    }

    #[test]
    fn an_unrequested_answer_proves_nothing() {
        let mut trial = asked();
        assert_eq!(trial.on_order(Order { packet_number: 15, came: 0, overtaken: 15 }), None);
        assert_eq!(OrderTrial::default().on_order(order(0, u64::MAX)), None);
    }

    #[test]
    fn packets_that_leave_one_by_one_are_no_burst_and_none_ends_one() {
        let start = Instant::now();
        let mut trial = OrderTrial::default();
        for nth in 0..16 {
            trial.on_rlp_sent(start + PAUSE * nth, u64::from(nth), 1);
        }
        assert_eq!(trial.timeout(), None);
        let burst = start + PAUSE * 16;
        trial.on_rlp_sent(burst, 19, 4);
        trial.on_rlp_sent(burst + PAUSE, 20, 1);
        assert_eq!(trial.timeout(), Some(burst + Law::default().host_lateness));
    }

    #[test]
    fn a_host_that_comes_too_late_does_not_ask() {
        let now = Instant::now();
        let mut trial = OrderTrial::default();
        trial.on_rlp_sent(now, 15, 16);
        trial.on_timeout(now + Law::default().host_lateness + Law::default().host_lateness);
        assert_eq!((trial.is_due(), trial.timeout()), (false, None));
    }

    #[test]
    fn each_flow_may_ask() {
        let mut trial = asked();
        trial.start_busy_period();
        let now = Instant::now();
        trial.on_rlp_sent(now, 40, 16);
        assert_eq!(trial.timeout(), Some(now + Law::default().host_lateness));
    }
}
