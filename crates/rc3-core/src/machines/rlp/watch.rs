//! What RLP knows of its path in guard mode: a [`Clock`] for its rate, a [`Guard`] that decides whether a queue of RLP would
//! harm others, and the trials of the order of arrivals.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use crate::{
    config::{Congestion, TransportConfig},
    laws::{
        clock::{Clock, Departure},
        constants::Law,
        guard::{Guard, Verdict},
        order::{BurstOrder, OrderTrial},
        verdicts::{DestinationVerdict, Pace},
    },
    seams::primary::quinn::PathSample,
    wire::{arrival::Arrival, order::Order},
};

/// The laws that watch a path.
#[derive(Debug)]
pub(crate) struct PathLaws {
    pub(crate) guard: Guard,
    pub(crate) clock: Clock,
    pub(super) order: OrderTrial,
    law: Law,
    /// Both loops leave all of the link to others, by the same mark: comparing their packets would show nothing.
    yields: bool,
    /// The rate for later connections.
    pace: Option<Pace>,
    /// The rate was remembered, and not confirmed so far.
    unconfirmed: bool,
}

impl PathLaws {
    pub(super) fn new(config: &TransportConfig, rtt: Duration) -> Self {
        let yields = config.congestion == Congestion::Background;
        let law = config.law;
        Self {
            guard: Guard::new(law, config.verdict_age, rtt),
            clock: clock(law, yields, rtt),
            order: OrderTrial::new(law),
            law,
            yields,
            pace: None,
            unconfirmed: false,
        }
    }

    /// Whether trials may still tell if the path honours priorities.
    pub(super) fn is_unproven(&self) -> bool {
        !self.yields && self.guard.verdict() == Verdict::Unproven
    }

    /// Whether the path is known to honour priorities.
    pub(super) fn is_honoured(&self) -> bool {
        self.guard.verdict() == Verdict::Honoured
    }

    /// Packets that should leave at once, to test a path whose rate is known.
    pub(super) fn burst(&mut self, now: Instant, packet_bytes: u64) -> u64 {
        if !self.is_unproven() {
            return 0;
        }
        let packets = self.clock.packets_within(self.law.evident_min, packet_bytes);
        let Some(packets) = packets else { return 0 };
        self.order.on_rate(packets);
        self.order.burst_left(now)
    }

    pub(super) fn start_busy_period(&mut self) {
        self.order.start_busy_period();
        self.clock.start_busy_period();
    }

    /// The peer has moved to another network, where the round trip is about `rtt`.
    pub(super) fn on_new_path(&mut self, rtt: Duration) {
        self.guard.on_new_path(rtt);
        self.order.on_new_path();
        self.clock = clock(self.law, self.yields, rtt);
        (self.pace, self.unconfirmed) = (None, false);
    }

    /// What became of packets of the primary. The datagram that shows it arrived `late` ago: what this host was late
    /// does not count against the path. Returns whether the path is now known to ignore marks.
    pub(crate) fn on_primary_sample(&mut self, now: Instant, late: Duration, sample: &PathSample) -> bool {
        self.clock.proof.on_primary_acked(sample.acked_bytes);
        if self.yields {
            return false;
        }
        let guard = &mut self.guard;
        let acked = sample
            .acked
            .is_some_and(|(sent, rtt)| guard.on_primary_acked(now - late, sent, rtt.saturating_sub(late)));
        let lost = sample.lost.is_some_and(|sent| guard.on_primary_lost(now, sent));
        acked || lost
    }

    /// The memory of the path from an earlier connection.
    pub(crate) fn recall(&mut self, now: Instant, record: DestinationVerdict) {
        if record.until <= now {
            return;
        }
        // The guard uses it as long as the record is valid, and no longer than its own evidence.
        let left = record.until.saturating_duration_since(now).min(self.guard.age);
        self.guard.recall(now.checked_sub(self.guard.age - left).unwrap_or(now), record.score);
        if let Some(pace) = record.pace {
            self.clock.recall(pace);
            (self.pace, self.unconfirmed) = (Some(pace), true);
        }
    }

    /// What to remember of the path to `destination`, if it has changed. Confirming a remembered rate counts as a change.
    pub(crate) fn take_record(
        &mut self,
        now: Instant,
        destination: IpAddr,
        network: Option<IpAddr>,
    ) -> Option<DestinationVerdict> {
        let changed = self.guard.take_changed() | self.clock.take_changed();
        if !changed && !self.unconfirmed {
            return None;
        }
        let limited = self.clock.stats().path_limited;
        let confirmed = self.unconfirmed && limited;
        self.unconfirmed &= !confirmed;
        self.pace = match (self.clock.pace_to_remember(), self.pace) {
            // A rate that the path did not limit does not contradict a higher one.
            (Some(found), Some(known)) if !limited && found.rate < known.rate => Some(known),
            (Some(found), known) => Some(found.or_known(known)),
            (None, known) => known,
        };
        let (verdict, score, pace) = (self.guard.verdict(), self.guard.score, self.pace);
        let until = now + self.guard.age;
        let record = DestinationVerdict { destination, verdict, score, pace, network, at: now, until };
        (changed || confirmed).then_some(record)
    }

    /// The receiver's report of a datagram that it has proved to have.
    pub(super) fn on_arrival(&mut self, now: Instant, arrival: Arrival) {
        let delay = self.clock.on_arrival(now, arrival, self.is_honoured());
        self.guard.on_late_report(now, self.clock.round_trips.late());
        let waited = |delay| self.clock.waited(delay);
        let answer = delay.and_then(|delay| self.order.on_arrival(arrival.packet_number, delay, waited));
        self.on_answer(now, answer);
    }

    /// When the trial of the order has something to do.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.order.timeout().filter(|_| self.is_unproven())
    }

    /// The receiver's report of what the PROBE has overtaken. Returns whether the path is now known to ignore marks.
    pub(super) fn on_order(&mut self, now: Instant, order: Order) -> bool {
        let answer = self.order.on_order(Order { came: self.clock.came(order.came), ..order });
        self.on_answer(now, answer)
    }

    fn on_answer(&mut self, now: Instant, answer: Option<BurstOrder>) -> bool {
        answer.is_some_and(|answer| self.guard.on_order(now, answer))
    }

    /// As [`super::Rlp::on_sent`].
    pub(super) fn on_rlp_sent(
        &mut self,
        now: Instant,
        departure: Departure,
        bytes: u64,
        guarded: Option<(u64, u64)>,
    ) {
        if let Some((offset, in_flight)) = guarded.filter(|_| !self.yields) {
            self.guard.on_rlp_sent(now, departure.stream, offset, bytes, in_flight);
        }
        self.order.on_rlp_sent(now, departure.last, departure.packets);
        self.clock.on_rlp_sent(now, departure, bytes);
    }
}

fn clock(law: Law, yields: bool, rtt: Duration) -> Clock {
    let clock = Clock::new(law, rtt);
    if yields { clock.yielding() } else { clock }
}
