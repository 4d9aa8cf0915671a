//! The RLP loop: when it may send, at which level, how much at once (RC3 §2.1). It knows neither streams nor bytes; the
//! connection asks it for an [allowance](Rlp::allowance) and reports what was sent, and does not ask while the primary
//! sends to an address that is not validated (`connection/addresses.rs`).
//!
//! In guard mode a [`Clock`] limits its rate, and a [`Guard`] decides whether a queue of RLP would harm others. In
//! trust mode it sends as fast as the card accepts, as in the papers.

pub(crate) mod arrivals;
pub(crate) mod openers;

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use crate::laws::{
    clock::{Clock, Departure, Loss, PathNow, Permit},
    constants::Law,
    guard::{Guard, Verdict},
    ladder::Ladder,
    order::{Answer, OrderTrial},
    pacer::Pacer,
    verdicts::{Pace, Record},
};
use crate::seams::{
    keys::{ReceiptKey, Sealer, Sealing},
    primary::quinn::PathSample,
};
use crate::{
    config::{RlpMode, TransportConfig},
    laws::primary_window::{Waiting, Window},
    quic::StreamId,
    transmit::Transmit,
    units::{Level, Rate, Receipt, Span},
    wire::{arrival::Arrival, order::Order},
};

/// Lateness that a rate-capped RLP loop may catch up on at once: timers of user space are late by about a millisecond.
const PACER_BURST: Duration = Duration::from_millis(2);

/// Its lower bound on slow cards, in bytes: two packets.
const PACER_BURST_MIN: u64 = 3000;

/// Fraction of the bytes that the path took in a round trip that may be sent before the handshake is complete: half of
/// it, if a queue of RLP may harm others (RFC 9959 §4 uses the same fraction of a window). Even on a much slower path
/// there is then still room for the packet that ends the handshake.
const EARLY_PART: u64 = 2;

/// The level in the header of a datagram at the primary's priority, which has no number of its own there.
const HEADER_LEVEL: Level = Level::FIRST;

/// The sending side of the RLP loop of one connection, once keys exist. `openers` is the receiving side.
#[derive(Debug)]
pub(crate) struct Rlp {
    seal: Sealer,
    /// The first packet number after early data.
    established: u64,
    /// Bytes of early data that may still leave on a path not known to honour priorities; `None`: no bound.
    early_left: Option<u64>,
    receipts: ReceiptKey,
    ladder: Ladder,
    pacer: Option<Pacer>,
    /// Present in [`RlpMode::Guard`].
    guard: Option<Guard>,
    /// The same.
    clock: Option<Clock>,
    law: Law,
    order: OrderTrial,
    /// How long the memory of a path is valid.
    verdict_age: Duration,
    /// The rate for later connections.
    pace: Option<Pace>,
    /// The rate was remembered, and not confirmed so far.
    unconfirmed: bool,
    /// Packets sent in this busy period.
    sent: u64,
    /// When the loop may continue, if its rate or the card stopped it.
    wake: Option<Instant>,
}

impl Rlp {
    /// A loop that starts at level 1 on a path whose round trip is about `rtt`.
    pub(crate) fn new(seal: Sealer, receipts: ReceiptKey, config: &TransportConfig, rtt: Duration) -> Self {
        Self {
            seal,
            established: 0,
            early_left: None,
            receipts,
            ladder: config.ladder,
            pacer: config.nic_rate.map(new_pacer),
            guard: (config.rlp == RlpMode::Guard).then(|| Guard::new(config.law, config.verdict_age, rtt)),
            clock: (config.rlp == RlpMode::Guard).then(|| Clock::new(config.law, rtt)),
            law: config.law,
            order: OrderTrial::new(config.law),
            verdict_age: config.verdict_age,
            pace: None,
            unconfirmed: false,
            sent: 0,
            wake: None,
        }
    }

    /// Starts before the handshake is complete, with the memory of the path.
    pub(crate) fn begin_early(&mut self, now: Instant, record: Record) {
        self.recall(now, record);
        self.early_left = record.pace.filter(|_| self.clock.is_some()).map(|pace| pace.bdp() / EARLY_PART);
    }

    /// The sealer of datagrams.
    pub(crate) fn seal(&mut self) -> &mut Sealer {
        &mut self.seal
    }

    /// The handshake is complete, and the server has accepted early data: continues with the handshake's keys. There
    /// was no feedback so far; the clock learns from the flight that starts now.
    pub(crate) fn on_established(&mut self, seal: Sealer) {
        self.established = self.seal.next_number();
        self.seal = seal.continuing_at(self.established);
        self.early_left = None;
        self.wake = None;
        self.order.start_busy_period();
        if let Some(clock) = &mut self.clock {
            clock.start_busy_period();
        }
    }

    /// The sealer of datagrams, and the key of their receipts.
    pub(crate) fn sealing(&mut self) -> (&mut Sealer, &ReceiptKey) {
        (&mut self.seal, &self.receipts)
    }

    /// Whether a SACK proves that the peer has received its spans.
    pub(crate) fn is_shown(&self, stream: u64, span: Span, receipt: Receipt) -> bool {
        self.receipts.receipt(stream, span) == receipt
    }

    /// One datagram at the primary's priority, on the path from the second address to the first; appended to `buf`.
    pub(crate) fn write_alone(
        &mut self,
        (destination, source): (SocketAddr, Option<IpAddr>),
        begin: fn(&mut Sealer, Level, &mut Vec<u8>) -> Sealing,
        payload: impl FnOnce(&mut Vec<u8>),
        buf: &mut Vec<u8>,
    ) -> Transmit {
        let sealing = begin(&mut self.seal, HEADER_LEVEL, buf);
        payload(buf);
        self.seal.finish(sealing, buf);
        Transmit {
            destination,
            source,
            level: Level::PRIMARY,
            ecn: 0,
            size: buf.len(),
            segment_size: None,
            dont_fragment: true,
        }
    }

    /// The guard, in guard mode.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// The bytes of this span of a stream were SACKed.
    pub(crate) fn on_sacked(&mut self, now: Instant, stream: StreamId, span: Span) {
        if let Some(guard) = &mut self.guard {
            guard.on_sacked(now, stream, span);
        }
    }

    /// What became of packets of the primary. The datagram that shows it arrived `late` ago: what this host was late
    /// does not count against the path. Returns whether the path is now known to ignore marks.
    pub(crate) fn on_primary_sample(&mut self, now: Instant, late: Duration, sample: &PathSample) -> bool {
        if let Some(clock) = &mut self.clock {
            clock.on_primary_acked(sample.acked_bytes);
        }
        let Some(guard) = &mut self.guard else { return false };
        let acked = sample
            .acked
            .is_some_and(|(sent, rtt)| guard.on_primary_acked(now - late, sent, rtt.saturating_sub(late)));
        let lost = sample.lost.is_some_and(|sent| guard.on_primary_lost(now, sent));
        acked || lost
    }

    /// Lets the guard evaluate new samples. `is_open` returns whether a byte that RLP has sent still waits for its SACK.
    /// Returns whether the path is now known to ignore marks.
    pub(crate) fn evaluate_samples(&mut self, now: Instant, is_open: impl Fn(StreamId, u64) -> bool) -> bool {
        let Some(guard) = &mut self.guard else { return false };
        // What RLP was waiting for may have arrived.
        self.wake = None;
        guard.evaluate_samples(now, is_open)
    }

    /// RLP has nothing more to send: whether a primary packet should follow it, which shows how the path treats both.
    /// Each answer counts as one such packet.
    pub(crate) fn take_probe(&mut self, now: Instant, rtt: Duration, window: &Window) -> bool {
        let goes_on = self.wake.is_some_and(|wake| wake < now + rtt / 4);
        !goes_on
            && window.packets() > 0
            && window.waiting != Waiting::ForWindow
            && self.guard.as_mut().is_some_and(|guard| guard.take_probe(now))
    }

    /// The memory of the path from an earlier connection.
    pub(crate) fn recall(&mut self, now: Instant, record: Record) {
        if record.until <= now {
            return;
        }
        if let Some(guard) = &mut self.guard {
            // The guard uses it as long as the record is valid, and no longer than its own evidence.
            let left = record.until.saturating_duration_since(now).min(self.verdict_age);
            guard.recall(now.checked_sub(self.verdict_age - left).unwrap_or(now), record.score);
        }
        if let (Some(clock), Some(pace)) = (&mut self.clock, record.pace) {
            clock.recall(pace);
            (self.pace, self.unconfirmed) = (Some(pace), true);
        }
    }

    /// The record to remember, if it has changed. Confirming a remembered rate counts as a change.
    pub(crate) fn take_record(&mut self, now: Instant, network: Option<IpAddr>) -> Option<Record> {
        let (guard, clock) = (self.guard.as_mut()?, self.clock.as_mut()?);
        let changed = guard.take_changed() | clock.take_changed();
        if !changed && !self.unconfirmed {
            return None;
        }
        let limited = clock.stats().path_limited;
        let confirmed = self.unconfirmed && limited;
        self.unconfirmed &= !confirmed;
        self.pace = match (clock.found(), self.pace) {
            // A rate that the path did not limit does not contradict a higher one.
            (Some(found), Some(known)) if !limited && found.rate < known.rate => Some(known),
            (Some(found), known) => Some(found.or_known(known)),
            (None, known) => known,
        };
        let record =
            Record { score: guard.score(), pace: self.pace, network, at: now, until: now + self.verdict_age };
        (changed || confirmed).then_some(record)
    }

    /// RLP datagrams in flight that left in the last two round trips and may have caused a loss of the primary; none if
    /// priorities are honoured, nor in trust mode, which assumes that.
    pub(crate) fn in_the_way(&self, now: Instant, rtt: Duration) -> u64 {
        let since = now.checked_sub(rtt * 2).unwrap_or(now);
        let clock = self.clock.as_ref().filter(|_| !self.is_honoured());
        clock.map_or(0, |clock| clock.in_flight_since(since))
    }

    /// The clock, in guard mode.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// Packets sent in this busy period: the position on the ladder.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The level of the last packet in this busy period.
    pub(crate) fn last_level(&self) -> Option<Level> {
        let (level, _) = self.ladder.level_of(self.sent.checked_sub(1)?)?;
        Some(level)
    }

    /// Everything written has been delivered: what follows is a new logical flow, which starts at level 1 again (RC3
    /// §4.2.1).
    pub(crate) fn start_busy_period(&mut self) {
        self.sent = 0;
        self.order.start_busy_period();
        if let Some(clock) = &mut self.clock {
            clock.start_busy_period();
        }
    }

    /// The peer has moved from `before` to the validated address `remote`. The round trip there is about `rtt`.
    pub(crate) fn on_new_path(&mut self, before: SocketAddr, remote: SocketAddr, rtt: Duration) {
        self.wake = None;
        // Another port is another mapping of the same address (RFC 4787), most likely on the same path.
        if remote.ip() != before.ip()
            && let Some(guard) = &mut self.guard
        {
            guard.on_new_path(rtt);
            self.order.start_busy_period();
            self.clock = Some(Clock::new(self.law, rtt));
            (self.pace, self.unconfirmed) = (None, false);
        }
    }

    /// What may be sent now: the level, and how many full packets, at least one. `None` until the wait is over
    /// ([`Self::timeout`]), if the ladder has no level left in this busy period, or if early data has reached its limit.
    pub(crate) fn allowance(
        &mut self,
        now: Instant,
        window: &Window,
        rtt_min: Duration,
    ) -> Option<(Level, u64)> {
        let packet_bytes = u64::from(window.mtu);
        let (level, mut remaining) = self.ladder.level_of(self.sent)?;
        if let Some(guard) = &mut self.guard {
            guard.expire(now);
        }
        let honoured = self.is_honoured();
        let path = PathNow { packet_bytes, primary_in_flight: window.in_flight, rtt_min, honoured };
        match self.clock.as_mut().map(|clock| clock.permit(now, path)) {
            Some(Permit::Wait(until)) => {
                self.wake = Some(until);
                return None;
            }
            Some(Permit::Bytes(bytes)) => remaining = remaining.min(bytes.div_ceil(packet_bytes)),
            None => {}
        }
        if let Some(left) = self.early_left.filter(|_| !honoured) {
            remaining = remaining.min(left / packet_bytes);
            if remaining == 0 {
                return None;
            }
        }
        let packets = match &mut self.pacer {
            None => remaining,
            Some(pacer) => match pacer.budget(now) / packet_bytes {
                0 => {
                    self.wake = Some(pacer.ready_at(now, packet_bytes));
                    return None;
                }
                packets => packets.min(remaining),
            },
        };
        Some((level, packets))
    }

    /// Whether it waits for [`Self::timeout`] before it sends more.
    pub(crate) fn waits(&self) -> bool {
        self.wake.is_some()
    }

    /// The connection is lost.
    pub(crate) fn stop(&mut self) {
        self.wake = None;
    }

    fn is_unproven(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.verdict() == Verdict::Unproven)
    }

    fn is_honoured(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.verdict() == Verdict::Honoured)
    }

    /// A byte in the datagram with this number, and its stream, if the clock remembers it.
    pub(crate) fn byte_of(&self, packet_number: u64) -> Option<(StreamId, u64)> {
        self.clock.as_ref()?.byte_of(packet_number)
    }

    /// The datagram with this number is the newest that SACKs prove.
    pub(crate) fn on_proved(&mut self, packet_number: u64) {
        if let Some(clock) = &mut self.clock {
            clock.on_proved(packet_number);
        }
    }

    /// The receiver's report, of a datagram that it has `proved` to have or not. `false`: it names one that was never sent.
    pub(crate) fn on_arrival(&mut self, now: Instant, arrival: Arrival, proved: bool) -> bool {
        self.wake = None;
        let honoured = self.is_honoured();
        // To the receiver, the pause between early data and later data looks like a low rate.
        let of_this_flight = arrival.packet_number >= self.established;
        if let Some(clock) = self.clock.as_mut().filter(|_| of_this_flight && proved) {
            let delay = clock.on_arrival(now, arrival, honoured);
            let answer = delay.and_then(|delay| {
                self.order.on_arrival(arrival.packet_number, delay, |delay| clock.waited(delay))
            });
            self.on_answer(now, answer);
        }
        arrival.packet_number < self.seal.next_number()
    }

    /// When to call [`Self::on_timeout`].
    pub(crate) fn timeout(&self) -> Option<Instant> {
        let order = self.order.timeout().filter(|_| self.is_unproven());
        self.wake.into_iter().chain(order).min()
    }

    /// Call it when the time of [`Self::timeout`] may have come.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.wake = self.wake.filter(|&wake| wake > now);
        self.order.on_timeout(now);
    }

    /// Whether a PROBE at normal priority should follow RLP's last burst.
    pub(crate) fn wants_order_probe(&self) -> bool {
        self.order.is_due() && self.is_unproven()
    }

    /// The datagram sealed last was the PROBE.
    pub(crate) fn on_order_probe_sent(&mut self, now: Instant) {
        let missing = self.clock.as_ref().map_or(0, Clock::missing);
        self.order.on_probe_sent(now, self.seal.next_number() - 1, missing);
    }

    /// The receiver reports what the PROBE has overtaken. Returns whether the path is now known to ignore marks; `None`:
    /// it names a datagram that was never sent.
    pub(crate) fn on_order(&mut self, now: Instant, order: Order) -> Option<bool> {
        if order.packet_number >= self.seal.next_number() {
            return None;
        }
        let answer = self.order.on_order(order);
        Some(self.on_answer(now, answer))
    }

    /// Passes an answer to the guard. Returns whether the path is now known to ignore marks.
    fn on_answer(&mut self, now: Instant, answer: Option<Answer>) -> bool {
        match (&mut self.guard, answer) {
            (Some(guard), Some(answer)) => guard.on_order(now, answer),
            _ => false,
        }
    }

    /// The peer has proved that it has `bytes` more.
    pub(crate) fn on_delivered(&mut self, now: Instant, bytes: u64) {
        if let Some(clock) = &mut self.clock {
            clock.on_delivered(now, bytes);
        }
    }

    /// `bytes` of overtaken datagrams have no receipt.
    pub(crate) fn on_lost(&mut self, bytes: u64) {
        if let Some(clock) = &mut self.clock {
            clock.on_lost(bytes);
        }
    }

    /// What may have been lost, since the last call.
    pub(crate) fn take_lost(&mut self) -> Vec<Loss> {
        self.clock.as_mut().map(Clock::take_lost).unwrap_or_default()
    }

    /// A batch of data packets with `bytes` in total was written. The guard should watch it by the byte at this offset,
    /// with so many bytes of the primary in flight.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        departure: Departure,
        bytes: u64,
        guarded: Option<(u64, u64)>,
    ) {
        if let Some((guard, (offset, in_flight))) = self.guard.as_mut().zip(guarded) {
            guard.on_rlp_sent(now, departure.stream, offset, bytes, in_flight);
        }
        self.sent += departure.packets;
        self.early_left = self.early_left.map(|left| left.saturating_sub(bytes));
        self.order.on_rlp_sent(now, departure.last, departure.packets);
        if let Some(clock) = &mut self.clock {
            clock.on_rlp_sent(now, departure, bytes);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.on_rlp_sent(now, bytes);
        }
    }

    /// No stream has data that may be sent.
    pub(crate) fn on_no_data(&mut self) {
        if let Some(clock) = &mut self.clock {
            clock.on_no_data();
        }
    }

    /// The primary has sent `bytes`, which use their share of the card.
    pub(crate) fn on_primary_sent(&mut self, now: Instant, bytes: u64) {
        if let Some(guard) = &mut self.guard {
            guard.on_primary_sent();
        }
        if let Some(clock) = &mut self.clock {
            clock.on_primary_sent(now, bytes);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.on_primary_sent(now, bytes);
        }
    }
}

fn new_pacer(rate: Rate) -> Pacer {
    Pacer::new(rate, rate.bytes_in(PACER_BURST).max(PACER_BURST_MIN))
}
