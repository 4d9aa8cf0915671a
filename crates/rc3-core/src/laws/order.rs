//! The first question to a path that is unknown: does a packet of normal priority overtake a burst of RLP?
//!
//! What RLP sends at once waits at the bottleneck, packet behind packet. One datagram at the primary's priority, sent when
//! the burst has left the host and waits there, comes first where marks are honoured, and last where they are not. The
//! receiver counts, so no window has to have room and no clock to be exact, and the answer is there with the first SACKs.
//! What later trials of the [`guard`](super::guard) find still counts.
//!
//! Pure: counts and times come in, an answer goes out.

use std::time::{Duration, Instant};

use crate::wire::order::Order;

/// Datagrams that are a burst; and so many overtaken are no reordering of another kind (RFC 9002 §6.1.1 takes 3 for a loss).
const BURST_MIN: u64 = 4;
/// What belongs to one burst leaves within such pauses: behind a slow card nothing waits at the bottleneck.
const PAUSE_MAX: Duration = Duration::from_micros(500);
/// Before that the burst may still be in queues of the host, where the order says nothing of the path: 16 packets and the
/// primary's first ten take so long through a card of 150 Mbit/s.
const DELAY: Duration = Duration::from_millis(2);
/// Later than that nothing waits any more.
const LATE_MAX: Duration = Duration::from_millis(2);
/// Packets at the end of a burst that have waited for those before them.
const TAIL: u64 = 8;

/// How the path treats priorities, by one burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Normal priority came before the burst that left before it.
    Overtook,
    /// It came behind the burst, which had waited for longer than it was behind.
    Followed,
}

/// The end of a burst, and the datagram of normal priority behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Question {
    /// Packet number of the last datagram of the burst.
    burst_last: u64,
    /// Datagrams with DATA sent before that may come.
    sent: u64,
    number: u64,
    /// How long after the burst it left.
    gap: Duration,
    /// How long one of the last of the burst took, by two clocks whose difference does not matter.
    delay: Option<f64>,
    /// It came behind the burst.
    in_order: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Phase {
    /// There was no burst in this busy period.
    #[default]
    Open,
    /// Soon the datagram is due.
    Waits(Instant),
    Due,
    /// It is under way.
    Asked(Question),
    Done,
}

/// One question for each busy period.
#[derive(Debug, Default)]
pub(crate) struct OrderTrial {
    /// Datagrams with DATA sent in all, and those of the burst that is under way.
    sent: u64,
    burst: u64,
    /// The last of them, and when it left.
    last: Option<(u64, Instant)>,
    phase: Phase,
}

impl OrderTrial {
    /// What comes next is another flow.
    pub(crate) fn start_busy_period(&mut self) {
        self.phase = Phase::Open;
        self.burst = 0;
    }

    /// RLP has sent a batch of `packets`, the last with the number `last`.
    pub(crate) fn on_rlp_sent(&mut self, now: Instant, last: u64, packets: u64) {
        self.sent += packets;
        let goes_on = self.last.is_some_and(|(_, at)| now.saturating_duration_since(at) < PAUSE_MAX);
        match self.phase {
            Phase::Open | Phase::Waits(_) if goes_on || self.burst < BURST_MIN => {
                self.burst = if goes_on { self.burst + packets } else { packets };
                self.last = Some((last, now));
                if self.burst >= BURST_MIN {
                    self.phase = Phase::Waits(now + DELAY);
                }
            }
            _ => {}
        }
    }

    /// When to call [`Self::on_timeout`].
    pub(crate) fn timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waits(at) => Some(at),
            _ => None,
        }
    }

    /// The time of [`Self::timeout`] may have come.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if let Phase::Waits(at) = self.phase
            && at <= now
        {
            self.phase = if now < at + LATE_MAX { Phase::Due } else { Phase::Done };
        }
    }

    /// Whether the datagram should leave now.
    pub(crate) fn is_due(&self) -> bool {
        self.phase == Phase::Due
    }

    /// It has left with this packet number. `missing` datagrams with DATA are known to be lost.
    pub(crate) fn on_probe_sent(&mut self, at: Instant, number: u64, missing: u64) {
        if let (Phase::Due, Some((burst_last, burst_at))) = (self.phase, self.last) {
            let gap = at.saturating_duration_since(burst_at);
            let question = Question {
                burst_last,
                sent: self.sent.saturating_sub(missing),
                number,
                gap,
                delay: None,
                in_order: false,
            };
            self.phase = Phase::Asked(question);
        }
    }

    /// What the receiver says came of it.
    pub(crate) fn on_order(&mut self, order: Order) -> Option<Answer> {
        let Phase::Asked(question) = &mut self.phase else { return None };
        if order.packet_number != question.number {
            return None;
        }
        if order.overtaken >= BURST_MIN {
            self.phase = Phase::Done;
            return Some(Answer::Overtook);
        }
        question.in_order |= question.sent.saturating_sub(order.came) < BURST_MIN;
        None
    }

    /// The packet with this number took `delay`. `waited` says how many seconds of a delay were certainly a queue, as far as is
    /// known by now.
    pub(crate) fn on_arrival(
        &mut self,
        number: u64,
        delay: f64,
        waited: impl Fn(f64) -> f64,
    ) -> Option<Answer> {
        let Phase::Asked(question) = &mut self.phase else { return None };
        if (question.burst_last.saturating_sub(TAIL)..=question.burst_last).contains(&number) {
            question.delay = Some(delay);
        }
        if !question.in_order || waited(question.delay?) < question.gap.as_secs_f64() {
            return None;
        }
        self.phase = Phase::Done;
        Some(Answer::Followed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(came: u64, overtaken: u64) -> Order {
        Order { packet_number: 16, came, overtaken }
    }

    /// A burst of 16 datagrams, and one behind it.
    fn asked() -> OrderTrial {
        let now = Instant::now();
        let mut trial = OrderTrial::default();
        trial.on_rlp_sent(now, 7, 8);
        trial.on_rlp_sent(now, 15, 8);
        assert_eq!(trial.timeout(), Some(now + DELAY));
        trial.on_timeout(now + DELAY / 2);
        assert!(!trial.is_due());
        trial.on_timeout(now + DELAY);
        assert!(trial.is_due());
        trial.on_probe_sent(now + DELAY, 16, 0);
        assert_eq!((trial.is_due(), trial.timeout()), (false, None), "once");
        trial
    }

    #[test]
    fn what_is_overtaken_tells_and_once() {
        let mut trial = asked();
        assert_eq!(trial.on_order(order(1, 3)), None, "that may be chance");
        assert_eq!(trial.on_order(order(1, 4)), Some(Answer::Overtook));
        assert_eq!(trial.on_order(order(1, 5)), None);
    }

    #[test]
    fn order_that_was_kept_tells_only_where_something_waited() {
        for (came, queue, answer) in [
            (16, 0.003, Some(Answer::Followed)),
            (13, 0.002, Some(Answer::Followed)),
            // Less than the datagram was late by.
            (16, 0.001, None),
            // Lost, or on its way.
            (12, 0.003, None),
        ] {
            let mut trial = asked();
            assert_eq!(trial.on_arrival(14, 5.0 + queue, |delay| delay - 5.0), None, "it is on its way");
            assert_eq!(trial.on_order(order(came, 0)), None);
            assert_eq!(trial.on_arrival(17, 5.0, |delay| delay - 5.0 + 1e-9), answer, "{came} {queue}");
        }
    }

    #[test]
    fn what_flows_before_have_lost_is_not_waited_for() {
        let now = Instant::now();
        let mut trial = OrderTrial::default();
        trial.on_rlp_sent(now, 99, 100);
        trial.start_busy_period();
        trial.on_rlp_sent(now, 115, 16);
        trial.on_timeout(now + DELAY);
        // Ten of the first hundred were lost.
        trial.on_probe_sent(now + DELAY, 116, 10);
        trial.on_arrival(115, 5.003, |delay| delay - 5.0);
        assert_eq!(trial.on_order(Order { packet_number: 116, came: 106, overtaken: 0 }), None);
        assert_eq!(trial.on_arrival(117, 5.0, |delay| delay - 5.0), Some(Answer::Followed));
    }

    #[test]
    fn an_answer_that_nobody_asked_for_tells_nothing() {
        let mut trial = asked();
        assert_eq!(trial.on_order(Order { packet_number: 15, came: 0, overtaken: 15 }), None);
        assert_eq!(OrderTrial::default().on_order(order(0, u64::MAX)), None);
    }

    #[test]
    fn packets_that_leave_one_by_one_are_no_burst_and_none_ends_one() {
        let start = Instant::now();
        let mut trial = OrderTrial::default();
        for nth in 0..16 {
            trial.on_rlp_sent(start + PAUSE_MAX * nth, u64::from(nth), 1);
        }
        assert_eq!(trial.timeout(), None);
        let burst = start + PAUSE_MAX * 16;
        trial.on_rlp_sent(burst, 19, 4);
        trial.on_rlp_sent(burst + PAUSE_MAX, 20, 1);
        assert_eq!(trial.timeout(), Some(burst + DELAY));
    }

    #[test]
    fn a_host_that_comes_too_late_does_not_ask() {
        let now = Instant::now();
        let mut trial = OrderTrial::default();
        trial.on_rlp_sent(now, 15, 16);
        trial.on_timeout(now + DELAY + LATE_MAX);
        assert_eq!((trial.is_due(), trial.timeout()), (false, None));
    }

    #[test]
    fn each_flow_may_ask() {
        let mut trial = asked();
        trial.start_busy_period();
        let now = Instant::now();
        trial.on_rlp_sent(now, 40, 16);
        assert_eq!(trial.timeout(), Some(now + DELAY));
    }
}
