//! The clock of the RLP loop: how fast it may send on an unknown path.
//!
//! In RC3 §2.1 RLP sends once, as fast as the card accepts. Behind a card much faster than the bottleneck, all packets
//! beyond the buffer are lost. So here RLP starts with a bounded flight, measures the rate at which it arrives, and
//! sends the rest at that rate:
//!
//! - `SentDatagrams` knows when each datagram left and what is in flight,
//! - `RateEstimate` computes the path's rate from the arrival times that the receiver reports,
//! - `RoundTrips` corrects those times by when receipts came,
//! - `Delay` computes the queueing delay from one-way delays above their minimum,
//! - `Own` computes the part of it that both loops caused,
//! - `Reordering` knows how far packets overtake each other,
//! - `Vacancy` computes the part of others: their queue, and the fraction of time without it,
//! - `Proof` counts the bytes that the peer proved to have received,
//! - [`Clock`] decides how much may be in flight, and the pace.
//!
//! Pure: times and counts come in, decisions go out. Units: bytes of UDP payload, [`Instant`], [`Duration`].

mod delay;
mod estimate;
mod least;
mod own;
mod proof;
mod reordering;
mod round_trips;
mod sent_datagrams;
mod vacancy;

use std::time::{Duration, Instant};

pub(crate) use sent_datagrams::{Departure, Loss};

use self::{
    delay::Delay,
    estimate::{PathRate, PathTimes, RateEstimate, Shown},
    proof::Proof,
    reordering::{Extent, Reordering},
    round_trips::RoundTrips,
    sent_datagrams::SentDatagrams,
    vacancy::{PacketWait, Vacancy},
};
use super::{constants::Law, pacer::Pacer, verdicts::Pace};
use crate::{units::Rate, wire::arrival::Arrival};

/// RLP bytes in a busy period before the peer has proved any receipt; or the bytes it proved in one earlier round trip,
/// if more; plus twice the proved bytes. A peer with forged times gains no more.
const UNPROVEN_BYTES: u64 = 4 << 20;
/// Packets of a new path have at least so many bytes (RFC 9000 §14.1).
const PACKET_MIN: f64 = 1200.0;
/// From one flow to the next a rate that no path limited grows by so much: as in two round trips of slow start.
const GROWTH_UNLIMITED: f64 = 4.0;
/// Packets of a phase after which its pace counts as tried: a slower path would have delayed the last ones by more than hosts
/// do.
const TRIED_PACKETS: u64 = 48;
/// Upper bound of what an earlier round trip counts for, because memory may come from outside.
const TOOK_MAX: u64 = 64 << 20;

/// The clock's view of the path for a decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathNow {
    /// UDP payload of a full packet.
    pub packet_bytes: u64,
    /// Bytes of the primary in flight.
    pub primary_in_flight: u64,
    /// The minimum round trip seen.
    pub rtt_min: Duration,
    /// Whether the path is known to honour priorities: RLP's queue then harms no other traffic.
    pub honoured: bool,
    /// Packets that should leave at once, so that an order of arrival shows.
    pub burst: u64,
}

/// The clock's decision for RLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Send up to this many bytes.
    Bytes(u64),
    /// Wait until this time, unless feedback arrives earlier.
    Wait(Instant),
}

/// The clock's measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClockStats {
    /// The delivery rate of UDP payload; `None` until known.
    pub rate: Option<Rate>,
    /// Whether the path limits that rate; otherwise it is a lower bound.
    pub path_limited: bool,
    /// Recent minimum of the queueing delay.
    pub queue: Duration,
    /// Whether a queue holds RLP back.
    pub braked: bool,
    /// Whether RLP started with values of an earlier connection.
    pub remembered: bool,
}

/// The clock of one path.
#[derive(Debug)]
pub(crate) struct Clock {
    law: Law,
    /// Packets in a round trip while others hold RLP back.
    few: u64,
    rtt_min: Duration,
    pub(crate) departures: SentDatagrams,
    estimate: RateEstimate,
    /// The highest known rate of this busy period, in bytes per second: while others hold both loops back, packets show less.
    fastest: f64,
    /// Epoch of the local clock.
    epoch: Option<Instant>,
    delay: Delay,
    pacer: Pacer,
    /// When the first flight of this busy period left.
    begun: Option<Instant>,
    /// Packets sent in this busy period.
    sent: u64,
    vacancy: Vacancy,
    /// RLP's part of the rate.
    share: f64,
    phase: ClockPhase,
    /// When that phase began, or the share last grew.
    entered: Option<Instant>,
    /// Values of an earlier connection.
    remembered: Option<Pace>,
    recalled: bool,
    /// Bytes that the peer proved to have received in one round trip of an earlier connection or flow.
    took: u64,
    /// The rate that was last handed on, and its evidence.
    handed_on: (f64, u64),
    /// The fastest pace of a phase that was long enough, or the trickle's, which anyone may try; in bytes per second.
    tried: f64,
    /// Packets sent in this busy period before this phase.
    sent_before: u64,
    /// RLP bytes sent in this busy period.
    sent_bytes: u64,
    pub(crate) proof: Proof,
    pub(crate) round_trips: RoundTrips,
    reordering: Reordering,
    /// Datagrams overtaken by one that arrived, and not arrived themselves.
    pub(crate) missing: u64,
    /// Datagrams that the receiver had counted before any of this path; known from its first report on.
    came_before: Option<u64>,
    /// When that number last grew.
    lost_at: Option<Instant>,
}

/// Phases of the clock.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ClockPhase {
    /// The first flight, without feedback yet.
    Start,
    /// Sends at the delivery rate.
    Clocked,
    /// Held back by a queue: a few packets per round trip keep the estimate alive.
    Braked,
}

impl Clock {
    /// A clock for a path with a round trip of about `rtt`.
    pub(crate) fn new(law: Law, rtt: Duration) -> Self {
        Self {
            law,
            few: law.few,
            rtt_min: rtt,
            departures: SentDatagrams::default(),
            estimate: RateEstimate::new(law),
            fastest: 0.0,
            epoch: None,
            delay: Delay::default(),
            pacer: Pacer::new(Rate::from_bits_per_second(1_000_000).expect("not zero"), 1),
            begun: None,
            sent: 0,
            vacancy: Vacancy::new(law, 0),
            share: 1.0,
            phase: ClockPhase::Start,
            entered: None,
            remembered: None,
            recalled: false,
            took: 0,
            handed_on: (0.0, 0),
            tried: trickle(law),
            sent_before: 0,
            sent_bytes: 0,
            proof: Proof::default(),
            round_trips: RoundTrips::default(),
            reordering: Reordering::default(),
            missing: 0,
            came_before: None,
            lost_at: None,
        }
    }

    /// Sends one packet per round trip while others have the link, the least that shows when they have gone.
    pub(crate) fn yielding(mut self) -> Self {
        self.few = 1;
        self
    }

    /// Starts with the values of an earlier connection.
    pub(crate) fn recall(&mut self, pace: Pace) {
        self.remember(pace);
        self.recalled = true;
        self.handed_on = (bytes_per_second(pace.rate), pace.measured);
    }

    /// Starts with the rate of other paths, unless it is so low that an unknown path may have as much at once. It proves nothing
    /// about what the peer takes, and is not worth remembering.
    pub(crate) fn expect_rate(&mut self, rate: Rate) {
        if bytes_per_second(rate) > trickle(self.law) {
            self.remembered = Some(Pace { rate, rtt_min: self.rtt_min, measured: 0 });
            self.recalled = true;
        }
    }

    fn remember(&mut self, pace: Pace) {
        self.remembered = Some(pace);
        self.took = pace.bdp().min(TOOK_MAX);
    }

    /// The measurements.
    pub(crate) fn stats(&self) -> ClockStats {
        ClockStats {
            rate: self.pace().map(|pace| pace.rate),
            path_limited: self.estimate.rate().is_some_and(|path| path.known),
            queue: self.delay.queue(),
            braked: self.phase == ClockPhase::Braked,
            remembered: self.recalled,
        }
    }

    /// The rate of the path, if known.
    pub(crate) fn pace(&self) -> Option<Pace> {
        let PathRate { rate, measured, .. } = self.estimate.rate()?;
        let rate = Rate::from_bits_per_second((rate * 8.0) as u64)?;
        Some(Pace { rate, rtt_min: self.rtt_min, measured })
    }

    /// Bytes at which the primary's slow start has filled the path and needs no loss to end: some BDPs, fewer beside others
    /// but never less than one, and what others have in the queue, so that the primary gets its part. `None` until the rate
    /// is known, or once packets have shown more.
    pub(crate) fn slow_start_max(&self) -> Option<u64> {
        let path = self.estimate.rate().filter(|path| path.rate <= self.fastest)?;
        let bdps = self.law.slow_start_max * self.vacancy.free(path.known).unwrap_or(1.0);
        let queue = self.vacancy.queue().min(self.delay.queue());
        Some((self.fastest * (self.rtt_min.mul_f64(bdps.max(1.0)) + queue).as_secs_f64()) as u64)
    }

    /// The pace that is worth remembering, if a rate is known.
    pub(crate) fn pace_to_remember(&self) -> Option<Pace> {
        let path = self.estimate.rate()?;
        let rate = Rate::from_bits_per_second((self.rate_to_remember(path) * 8.0) as u64)?;
        Some(Pace { rate, rtt_min: self.rtt_min, measured: path.measured })
    }

    /// Of what the path took without a limit, no more than some times what was tried: a few packets that a host reads together
    /// look as fast as can be. In bytes per second.
    fn rate_to_remember(&self, path: PathRate) -> f64 {
        if path.known { path.rate } else { path.rate.min(GROWTH_UNLIMITED * self.tried) }
    }

    /// Whether the rate to remember, or its evidence, has doubled since the last call, or the rate has halved.
    pub(crate) fn take_changed(&mut self) -> bool {
        let Some(path) = self.estimate.rate() else { return false };
        let (rate, measured, known) = (self.rate_to_remember(path), path.measured, path.known);
        let (last, evidence) = self.handed_on;
        // What no path limited contradicts no higher rate.
        let changed = rate > 2.0 * last
            || known && (rate < last / 2.0 || measured >= evidence.max(1).saturating_mul(2));
        if changed {
            self.handed_on = (rate, measured);
        }
        changed
    }

    /// Everything sent is acknowledged or lost: what follows is another flow.
    pub(crate) fn start_busy_period(&mut self) {
        self.begun = None;
        (self.sent, self.sent_before) = (0, 0);
        self.sent_bytes = 0;
        self.proof.start_busy_period();
        // The path may have changed meanwhile.
        self.vacancy = Vacancy::new(self.law, self.missing);
        if self.estimate.rate().is_some_and(|path| path.known) {
            if let Some(pace) = self.pace() {
                self.remember(pace.or_known(self.remembered));
            }
            self.estimate = RateEstimate::new(self.law);
            self.fastest = 0.0;
            self.phase = ClockPhase::Start;
        }
    }

    /// How many bytes RLP may send now.
    pub(crate) fn permit(&mut self, now: Instant, path: PathNow) -> Permit {
        self.rtt_min = self.rtt_min.min(path.rtt_min);
        let credit = (self.unproven() + 2 * self.proof.delivered).saturating_sub(self.sent_bytes);
        if credit < path.packet_bytes {
            return Permit::Wait(now + self.rtt_min);
        }
        match self.permit_phase(now, path) {
            _ if path.burst > 0 => Permit::Bytes(credit.min(path.burst.saturating_mul(path.packet_bytes))),
            Permit::Bytes(bytes) => Permit::Bytes(bytes.min(credit)),
            wait => wait,
        }
    }

    /// Packets that the path takes within this time, if its rate is known and the link looks idle.
    pub(crate) fn packets_within(&self, time: Duration, packet_bytes: u64) -> Option<u64> {
        let rate = match self.estimate.rate() {
            Some(PathRate { rate, known, .. }) => {
                let is_idle = self.vacancy.rlp_share(known).is_some_and(|part| part >= 1.0);
                Some(rate).filter(|_| known && is_idle && self.lost_at.is_none())
            }
            None => self.remembered.map(|pace| bytes_per_second(pace.rate)),
        };
        rate.map(|rate| (rate * time.as_secs_f64() / packet_bytes as f64) as u64)
    }

    /// Bytes that may be sent before the peer has proved any receipt.
    fn unproven(&self) -> u64 {
        self.took.max(UNPROVEN_BYTES)
    }

    fn permit_phase(&mut self, now: Instant, path: PathNow) -> Permit {
        match self.phase {
            ClockPhase::Start => self.permit_start(now, path),
            ClockPhase::Clocked => self.permit_clocked(now, path),
            ClockPhase::Braked => {
                let rate = (self.few * path.packet_bytes) as f64 / self.rtt_min.as_secs_f64();
                self.permit_paced(now, path, rate, path.packet_bytes)
            }
        }
    }

    fn permit_start(&mut self, now: Instant, path: PathNow) -> Permit {
        let begun = *self.begun.get_or_insert(now);
        if let Some(pace) = self.remembered {
            return self.permit_remembered(now, path, begun, pace);
        }
        let since = now.saturating_duration_since(begun);
        let trickled = (since.as_nanos() / self.law.trickle_every.as_nanos()) as u64;
        let due = self.law.train + trickled.min(self.law.trickle_max);
        if self.sent < due {
            return Permit::Bytes((due - self.sent) * path.packet_bytes);
        }
        let silent = begun + self.rtt_min * self.law.silence;
        if now >= silent {
            // Without feedback: the lower bound.
            self.enter(now, ClockPhase::Braked);
        }
        let next = begun + self.law.trickle_every * u32::try_from(trickled + 1).unwrap_or(u32::MAX);
        Permit::Wait(if due < self.law.train + self.law.trickle_max { next } else { silent.max(now) })
    }

    /// At the rate of an earlier connection until it is confirmed. RFC 9959 §4 begins with half a window; bytes of RLP that a
    /// path which has become slower loses are sent again, and do not touch the window.
    fn permit_remembered(&mut self, now: Instant, path: PathNow, begun: Instant, pace: Pace) -> Permit {
        let at_once = if path.honoured { self.law.train } else { self.law.burst };
        if self.sent < at_once {
            return Permit::Bytes((at_once - self.sent) * path.packet_bytes);
        }
        let remembered = bytes_per_second(pace.rate);
        let rate = if self.sent < self.law.train {
            // No slower than on an unknown path: the rate may have been that of a slower one.
            remembered.max(path.packet_bytes as f64 / self.law.trickle_every.as_secs_f64())
        } else {
            remembered
        };
        // A handshake that waited for others took longer than the path does.
        if now >= begun + self.rtt_min.min(pace.rtt_min) * self.law.silence {
            // Nothing confirmed it. On an unknown path more would have left by now, which must not leave at once.
            self.remembered = None;
            self.enter(now, ClockPhase::Braked);
            return self.permit_phase(now, path);
        }
        self.on_tried(rate);
        self.permit_paced(now, path, rate, self.law.burst * path.packet_bytes)
    }

    /// This phase goes on at this pace, in bytes per second.
    fn on_tried(&mut self, pace: f64) {
        if self.sent >= self.sent_before + TRIED_PACKETS {
            self.tried = self.tried.max(pace);
        }
    }

    fn permit_clocked(&mut self, now: Instant, path: PathNow) -> Permit {
        let Some(PathRate { rate, known, .. }) = self.estimate.rate() else {
            return Permit::Wait(now + self.rtt_min);
        };
        let bdp = rate * self.rtt_min.as_secs_f64();
        // Plus what keeps the link busy between bursts without a queue.
        let packets = |packets: u64| (packets * path.packet_bytes) as f64;
        let spare = (rate * self.queue_max().as_secs_f64()).max(packets(2)).min(packets(self.law.burst));
        let gain = self.gain(now, known);
        // Where nobody waits for it, as much as a first flight without feedback.
        let most = if path.honoured { bdp * f64::from(self.law.silence) } else { bdp * gain + spare };
        let in_flight = self.departures.in_flight() + path.primary_in_flight;
        let room = most - in_flight as f64;
        if room < path.packet_bytes as f64 {
            // Reports and acknowledgments make room earlier; this is for when none comes.
            return Permit::Wait(now + self.rtt_min / 4);
        }
        let part = gain * self.rlp_share(path.honoured, known);
        self.on_tried(rate * part);
        match self.permit_paced(now, path, rate * part, self.law.burst * path.packet_bytes) {
            Permit::Bytes(bytes) => Permit::Bytes(bytes.min(room as u64)),
            Permit::Wait(until) => self.stay_informed(now, path, until),
        }
    }

    /// The primary may take all of RLP's part. Then no packet of RLP would measure the path again, and what the clock saw
    /// before, when a policer's bucket ran empty or the primary's slow start filled the queue, would hold for the rest of the
    /// flow. So some packets leave all the same, unless a queue shows, which they would lengthen.
    fn stay_informed(&self, now: Instant, path: PathNow, until: Instant) -> Permit {
        let has_queue = !self.vacancy.has_only_losses() || self.delay.queue() > self.queue_max();
        let seen =
            self.delay.newest().filter(|_| has_queue).map(|at| at + self.rtt_min.mul_f64(self.law.caution));
        match seen {
            _ if path.honoured => return Permit::Wait(until),
            Some(stale) if now < stale => return Permit::Wait(until.min(stale)),
            _ => {}
        }
        match self.departures.last_left().map(|at| at + self.rtt_min.div_f64(self.few as f64)) {
            Some(due) if now < due => Permit::Wait(until.min(due)),
            _ => Permit::Bytes(path.packet_bytes),
        }
    }

    /// RLP's part of the rate.
    fn rlp_share(&self, honoured: bool, known: bool) -> f64 {
        match self.vacancy.rlp_share(known) {
            Some(part) if !honoured => self.share.min(part).max(self.law.share_min),
            _ => self.share,
        }
    }

    fn gain(&self, now: Instant, known: bool) -> f64 {
        if !known {
            return self.law.gain_unknown;
        }
        let lost = self.lost_at.is_some_and(|at| now < at + self.rtt_min);
        if lost || self.delay.queue() > self.queue_max() { 1.0 } else { self.law.gain }
    }

    /// At `rate` bytes per second, in bursts.
    fn permit_paced(&mut self, now: Instant, path: PathNow, rate: f64, burst: u64) -> Permit {
        let burst = burst.min((rate * 0.001) as u64).max(path.packet_bytes);
        if let Some(rate) = Rate::from_bits_per_second((rate * 8.0) as u64) {
            self.pacer.set_rate(now, rate, burst.max(rate.bytes_in(self.law.host_lateness)));
        }
        match self.pacer.budget(now) {
            bytes if bytes >= burst => Permit::Bytes(bytes),
            _ => Permit::Wait(self.pacer.ready_at(now, burst)),
        }
    }

    fn queue_max(&self) -> Duration {
        (self.rtt_min / self.law.noise_part).max(self.law.host_jitter)
    }

    /// RLP has sent a batch of `bytes`.
    pub(crate) fn on_rlp_sent(&mut self, now: Instant, departure: Departure, bytes: u64) {
        self.sent += departure.packets;
        self.sent_bytes += bytes;
        self.vacancy.own.on_rlp_sent(now, departure.last, departure.packets, bytes);
        self.departures.push(departure, bytes);
        self.pacer.on_rlp_sent(now, bytes);
    }

    /// The primary has sent `bytes`.
    pub(crate) fn on_primary_sent(&mut self, now: Instant, bytes: u64) {
        self.vacancy.own.on_primary_sent(now, bytes);
        self.departures.on_primary_sent(bytes);
        if self.phase != ClockPhase::Braked {
            self.pacer.on_primary_sent(now, bytes);
        }
    }

    /// The datagram with this number is the newest that SACKs prove.
    pub(crate) fn on_proved(&mut self, packet_number: u64) {
        if let Some(departed) = self.departures.find(packet_number) {
            self.proof.on_newest(departed);
        }
    }

    /// The receiver's report of a datagram that it has proved. Returns the one-way time, for [`Self::waited`].
    pub(crate) fn on_arrival(&mut self, now: Instant, arrival: Arrival, honoured: bool) -> Option<f64> {
        let late = self.late().packets.max(self.law.burst);
        let departed = self.departures.on_arrival(arrival.packet_number, late)?;
        let round_trip = now.saturating_duration_since(departed.at);
        self.rtt_min = self.rtt_min.min(round_trip);
        let reported = self.one_way(departed.at, arrival.micros);
        let hidden = self.round_trips.add(&self.law, now, round_trip, reported, self.rtt_min);
        let delay = reported + hidden;
        let passed = self.departures.passed;
        self.came_before.get_or_insert_with(|| arrival.datagrams.saturating_sub(passed));
        let overtaken = passed.saturating_sub(self.came(arrival.datagrams));
        self.reordering.on_report(overtaken);
        let late = self.late();
        // The peer's count is newer than the receipts that are missing.
        let missing = overtaken.max(self.proof.lost);
        let arrival = Arrival { datagrams: passed.saturating_sub(missing), ..arrival };
        let shown = Shown {
            rlp: self.proof.of_rlp(departed),
            // Where the primary overtakes RLP, more of it arrives between two packets of RLP than left between them.
            primary: if honoured { self.proof.acked } else { departed.of_primary },
            in_order: !honoured,
        };
        let times = PathTimes { rtt: self.rtt_min, late: late.seconds };
        self.estimate.on_arrival(now, arrival, departed, shown, passed, times);
        let waited = delay - self.delay.add(&self.law, now, delay, self.rtt_min);
        if missing > self.missing {
            (self.missing, self.lost_at) = (missing, Some(now));
        }
        if let Some(PathRate { rate, known, .. }) = self.estimate.rate() {
            if known {
                self.fastest = self.fastest.max(rate);
            }
            let sample = PacketWait {
                number: arrival.packet_number,
                delay,
                waited,
                service: self.packet_bytes() / rate,
                rate,
                known,
                missing: self.missing,
                late: late.seconds,
            };
            self.vacancy.on_arrival(now, sample, self.rtt_min);
        }
        self.change(now, honoured);
        Some(delay)
    }

    /// How many of the datagrams that the receiver has counted are of this path; none before its first report.
    pub(crate) fn came(&self, counted: u64) -> u64 {
        self.came_before.map_or(0, |before| counted.saturating_sub(before))
    }

    /// The part of a delay, in seconds, that was a queue: beyond the lateness of hosts and a few packets.
    pub(crate) fn waited(&self, delay: f64) -> f64 {
        let few =
            self.estimate.rate().map_or(0.0, |path| self.law.few as f64 * self.packet_bytes() / path.rate);
        delay - self.delay.least().unwrap_or(delay) - few.max(self.law.host_jitter.as_secs_f64())
    }

    /// How far packets overtake each other, not beyond what counts as a queue: only the receiver says so.
    fn late(&self) -> Extent {
        let service = self.estimate.rate().map_or(0.0, |path| self.packet_bytes() / path.rate);
        self.reordering.extent(&self.law, service, self.queue_max())
    }

    /// The mean length of a datagram.
    fn packet_bytes(&self) -> f64 {
        (self.sent_bytes as f64 / self.sent.max(1) as f64).max(1.0)
    }

    /// The one-way time in seconds, including the offset of the two clocks.
    fn one_way(&mut self, departed: Instant, came_micros: u64) -> f64 {
        let epoch = *self.epoch.get_or_insert(departed);
        let left = match departed.checked_duration_since(epoch) {
            Some(after) => after.as_secs_f64(),
            None => -epoch.saturating_duration_since(departed).as_secs_f64(),
        };
        came_micros as f64 * 1e-6 - left
    }

    /// Departures in one phase are no debt in the next.
    fn enter(&mut self, now: Instant, phase: ClockPhase) {
        (self.phase, self.entered) = (phase, Some(now));
        self.sent_before = self.sent;
        self.pacer.forgive(now);
    }

    fn change(&mut self, now: Instant, honoured: bool) {
        let queue = self.vacancy.queue().min(self.delay.queue());
        let queue = !honoured && queue > self.queue_max();
        match self.phase {
            ClockPhase::Start
                if (honoured && self.estimate.rate().is_some())
                    || self.vacancy.rlp_share(false).is_some() =>
            {
                self.enter(now, ClockPhase::Clocked);
            }
            ClockPhase::Clocked if queue => {
                self.share = (self.share / self.law.caution).max(self.law.share_min);
                self.enter(now, ClockPhase::Braked);
            }
            ClockPhase::Clocked if self.entered.is_some_and(|at| now >= at + self.rtt_min) => {
                self.share = (self.share * self.law.share_up).min(1.0);
                self.entered = Some(now);
            }
            ClockPhase::Braked if !queue && self.estimate.rate().is_some() => {
                self.enter(now, ClockPhase::Clocked)
            }
            ClockPhase::Start | ClockPhase::Clocked | ClockPhase::Braked => {}
        }
    }
}

/// The pace of packets to an unknown path, in bytes per second.
fn trickle(law: Law) -> f64 {
    PACKET_MIN / law.trickle_every.as_secs_f64()
}

fn bytes_per_second(rate: Rate) -> f64 {
    rate.bits_per_second() as f64 / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        quic::{Dir, Side, StreamId},
        units::Span,
    };

    const RTT: Duration = Duration::from_millis(40);
    const PACKET: u64 = 1200;
    /// 12 Mbit/s: a packet every 0.8 ms.
    const EVERY: Duration = Duration::from_micros(800);

    /// A clock in front of a link that serves a packet every [`EVERY`], with `others` queued in front of it.
    struct Bottleneck {
        start: Instant,
        clock: Clock,
        /// When the link is free again.
        free: Instant,
        /// Time of one packet on the link.
        every: Duration,
        others: Duration,
        /// The least round trip of the connection.
        rtt: Duration,
        sent: u64,
        /// Reports on their way: arrival time and content.
        reports: Vec<(Instant, Arrival)>,
        honoured: bool,
        /// What the receiver counts besides.
        counted: u64,
        /// The receiver's clock error as a function of an interval.
        haste: u32,
        /// Whether it has receipts.
        proves: bool,
    }

    impl Bottleneck {
        fn new() -> Self {
            let start = Instant::now();
            Self {
                start,
                clock: Clock::new(Law::default(), RTT),
                free: start,
                every: EVERY,
                others: Duration::ZERO,
                rtt: RTT,
                sent: 0,
                reports: Vec::new(),
                honoured: false,
                counted: 0,
                haste: 1,
                proves: true,
            }
        }

        /// Lets RLP send what it may between `from` and `to`; returns the departure times.
        fn run(&mut self, from: Duration, to: Duration) -> Vec<Duration> {
            let (mut now, end) = (self.start + from, self.start + to);
            let mut sent = Vec::new();
            while now < end {
                self.receive(now);
                let path = PathNow {
                    packet_bytes: PACKET,
                    primary_in_flight: 0,
                    rtt_min: self.rtt,
                    honoured: self.honoured,
                    burst: 0,
                };
                if let Permit::Bytes(bytes) = self.clock.permit(now, path) {
                    for _ in 0..bytes / PACKET {
                        self.send(now);
                        sent.push(now - self.start);
                    }
                }
                now += Duration::from_micros(50);
            }
            sent
        }

        /// Reports that have come.
        fn receive(&mut self, now: Instant) {
            while let Some(at) = self.reports.iter().position(|(at, _)| *at <= now) {
                let (at, report) = self.reports.remove(at);
                self.clock.proof.on_delivered(if self.proves { PACKET } else { 0 });
                self.clock.on_arrival(at, report, self.honoured);
            }
        }

        fn send(&mut self, now: Instant) {
            let stream = StreamId::new(Side::Client, Dir::Uni, 0);
            let departure = Departure {
                last: self.sent,
                packets: 1,
                at: now,
                stream,
                span: Span::new(0, PACKET),
                packet_span: PACKET,
            };
            self.clock.on_rlp_sent(now, departure, PACKET);
            self.free = self.free.max(now) + self.every;
            let arrives = self.free + self.others;
            self.sent += 1;
            let micros = (arrives - self.start).as_micros() as u64 / u64::from(self.haste);
            let report = Arrival {
                packet_number: self.sent - 1,
                datagrams: self.sent + self.counted,
                bytes: self.sent * PACKET,
                micros,
            };
            self.reports.push((arrives + RTT, report));
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn within(sent: &[Duration], from: u64, to: u64) -> usize {
        sent.iter().filter(|&&at| ms(from) <= at && at < ms(to)).count()
    }

    #[test]
    fn an_unknown_path_gets_a_train_and_a_trickle_then_what_it_takes() {
        let mut world = Bottleneck::new();
        let sent = world.run(ms(0), ms(400));
        assert_eq!(within(&sent, 0, 1), Law::default().train as usize);
        let trickle = within(&sent, 1, 40);
        assert!((24..=40).contains(&trickle), "{trickle}");
        // The link serves 125 packets in 100 ms.
        let clocked = within(&sent, 200, 400);
        assert!((160..=275).contains(&clocked), "{clocked}");
        let pace = world.clock.pace().expect("a rate").rate.bits_per_second() as f64;
        assert!((pace / 12e6 - 1.0).abs() < 0.05, "{pace}");
        assert!(world.clock.delay.queue() < ms(8));
    }

    #[test]
    fn silence_leaves_a_trickle() {
        let mut world = Bottleneck::new();
        world.others = ms(10_000);
        let sent = world.run(ms(0), ms(1000));
        assert!(within(&sent, 100, 1000) <= (900 / 40 + 1) * Law::default().few as usize, "{}", sent.len());
    }

    #[test]
    fn a_handshake_behind_a_queue_lets_no_more_leave_without_feedback() {
        let sent = |rtt| {
            let mut world = Bottleneck { rtt, others: ms(10_000), ..Bottleneck::new() };
            world.clock = Clock::new(Law::default(), rtt);
            let rate = Rate::from_bits_per_second(12_000_000).expect("a rate");
            world.clock.recall(Pace { rate, rtt_min: RTT, measured: 1_000_000 });
            world.run(ms(0), rtt * 3).len()
        };
        let (usual, late) = (sent(RTT), sent(RTT * 8));
        assert!(usual >= 80 && late < usual + 10, "{usual}, {late}");
    }

    #[test]
    fn what_the_receiver_counted_on_another_path_hides_no_loss() {
        let mut world = Bottleneck { counted: 10_000, ..Bottleneck::new() };
        world.run(ms(0), ms(400));
        assert_eq!(world.clock.missing, 0);
        world.counted -= 5;
        world.run(ms(400), ms(600));
        assert_eq!(world.clock.missing, 5);
    }

    #[test]
    fn what_an_earlier_flow_lost_does_not_grow_in_a_flow_of_short_packets() {
        let mut world = Bottleneck::new();
        world.run(ms(0), ms(400));
        world.clock.proof.on_lost(10);
        world.clock.start_busy_period();
        let stream = StreamId::new(Side::Client, Dir::Uni, 0);
        let (at, bytes) = (world.start + ms(500), world.sent * PACKET);
        let span = Span::new(0, 10);
        let departure = Departure { last: world.sent, packets: 1, at, stream, span, packet_span: 10 };
        world.clock.on_rlp_sent(at, departure, 60);
        let report = Arrival { packet_number: world.sent, datagrams: world.sent + 1, bytes, micros: 600_000 };
        world.clock.on_arrival(at + RTT, report, false);
        assert_eq!(world.clock.missing, 10);
    }

    #[test]
    fn slow_start_ends_no_earlier_because_packets_show_less_of_the_path() {
        let mut world = Bottleneck::new();
        world.run(ms(0), ms(400));
        let bdp = PACKET * RTT.as_micros() as u64 / EVERY.as_micros() as u64;
        assert!(world.clock.slow_start_max().is_some_and(|bytes| bytes >= bdp));
        world.every = EVERY * 8;
        world.run(ms(400), ms(3000));
        let pace = world.clock.pace().expect("a rate").rate.bits_per_second();
        assert!(pace < 6_000_000, "{pace}");
        assert!(world.clock.slow_start_max().is_some_and(|bytes| bytes >= bdp));
        // More of it again, which proves nothing about the rest.
        world.every = EVERY;
        let mut lower_bounds = 0;
        for at in (3000..3200).step_by(2) {
            let now = world.start + ms(at);
            world.receive(now);
            world.send(now);
            lower_bounds += u64::from(world.clock.estimate.rate().is_some_and(|path| !path.known));
            assert!(world.clock.slow_start_max().is_some_and(|bytes| bytes >= bdp), "{at}");
        }
        assert!(lower_bounds > 0);
    }

    #[test]
    fn slow_start_ends_earlier_beside_others() {
        let mut world = Bottleneck::new();
        world.run(ms(0), ms(400));
        let bdp = PACKET * RTT.as_micros() as u64 / EVERY.as_micros() as u64;
        let alone = world.clock.slow_start_max().expect("a known rate");
        assert!(alone > bdp * 14 / 10, "{alone}");
        // Every second packet waits for others, which leave no standing queue.
        for at in (500..700).step_by(4) {
            let now = world.start + ms(at);
            world.receive(now);
            world.free = now + ms(at / 4 % 2 * 2);
            world.send(now);
        }
        let beside = world.clock.slow_start_max().expect("a known rate");
        assert!((bdp..bdp * 12 / 10).contains(&beside), "{beside}, alone {alone}");
    }

    #[test]
    fn a_queue_of_others_brakes_within_a_round_trip_unless_priorities_are_honoured() {
        for honoured in [false, true] {
            let mut world = Bottleneck::new();
            world.honoured = honoured;
            world.run(ms(0), ms(400));
            world.others = ms(20);
            let sent = world.run(ms(400), ms(700));
            let late = within(&sent, 500, 700);
            assert_eq!(late > 120, honoured, "{late} packets in 200 ms");
            // It continues once the queue is gone.
            world.others = ms(0);
            let sent = world.run(ms(700), ms(1000));
            assert!(within(&sent, 700, 1000) > 250);
        }
    }

    #[test]
    fn late_feedback_stops_rlp_later_where_priorities_are_honoured() {
        let bdp = (RTT.as_nanos() / EVERY.as_nanos()) as u64;
        for (honoured, range) in [(false, bdp..=bdp * 5 / 4), (true, bdp * 2 - 1..=bdp * 2 + 1)] {
            let mut world = Bottleneck::new();
            world.honoured = honoured;
            world.run(ms(0), ms(1000));
            for at in (1000..2000).step_by(10) {
                world.reports.clear();
                world.run(ms(at), ms(at + 10));
            }
            let in_flight = world.clock.departures.in_flight() / PACKET;
            assert!(range.contains(&in_flight), "{in_flight} packets of {bdp}, honoured: {honoured}");
        }
    }

    #[test]
    fn a_burst_is_due_on_a_link_that_looks_idle_and_never_beyond_the_peers_credit() {
        let mut world = Bottleneck::new();
        let packets = |world: &Bottleneck| world.clock.packets_within(ms(4), PACKET);
        assert_eq!(packets(&world), None, "the rate is not known");
        world.run(ms(0), ms(400));
        assert_eq!(packets(&world), Some(5));
        world.others = ms(20);
        world.run(ms(400), ms(700));
        assert_eq!(packets(&world), None, "others would lose");

        let mut world = Bottleneck::new();
        let rate = Rate::from_bits_per_second(1_000_000_000_000).expect("not zero");
        world.clock.recall(Pace { rate, rtt_min: RTT, measured: 0 });
        let burst = packets(&world).expect("it is remembered");
        let path =
            PathNow { packet_bytes: PACKET, primary_in_flight: 0, rtt_min: RTT, honoured: false, burst };
        match world.clock.permit(world.start, path) {
            Permit::Bytes(bytes) => assert!(bytes <= TOOK_MAX, "{bytes}"),
            wait @ Permit::Wait(_) => panic!("{wait:?}"),
        }
    }

    #[test]
    fn times_that_a_receiver_makes_up_gain_it_a_bounded_burst() {
        let mut world = Bottleneck::new();
        (world.haste, world.proves) = (1000, false);
        let sent = world.run(ms(0), ms(3000));
        assert!(sent.len() as u64 * PACKET <= UNPROVEN_BYTES, "{} packets", sent.len());
    }

    #[test]
    fn a_memory_that_is_made_up_is_believed_for_a_bounded_burst() {
        let mut world = Bottleneck::new();
        (world.haste, world.proves) = (1000, false);
        let rate = Rate::from_bits_per_second(1_000_000_000_000).expect("not zero");
        world.clock.recall(Pace { rate, rtt_min: RTT, measured: 0 });
        let sent = world.run(ms(0), ms(200)).len() as u64 * PACKET;
        assert!((UNPROVEN_BYTES..=TOOK_MAX).contains(&sent), "{sent} bytes");
    }

    #[test]
    fn times_that_a_receiver_makes_up_give_no_rate_beyond_noise() {
        for haste in [1, 2, 10, 10_000] {
            let mut world = Bottleneck::new();
            world.haste = haste;
            world.run(ms(0), ms(1000));
            let rate = world.clock.pace().expect("a rate").rate.bits_per_second() as f64;
            assert!(rate < 1.5 * 12e6, "{haste}: {rate}");
        }
    }

    #[test]
    fn a_memory_that_nothing_confirms_ends_without_a_burst() {
        let mut world = Bottleneck::new();
        world.others = ms(10_000);
        let rate = Rate::from_bits_per_second(3_000_000).expect("not zero");
        world.clock.recall(Pace { rate, rtt_min: RTT, measured: 0 });
        let sent = world.run(ms(0), ms(200));
        let late = within(&sent, 80, 200);
        assert!((2..=(120 / 40 + 1) * Law::default().few as usize).contains(&late), "{sent:?}");
    }

    #[test]
    fn of_a_rate_that_no_path_limited_little_more_than_was_tried_is_remembered() {
        let fast = || Bottleneck { every: Duration::from_micros(10), ..Bottleneck::new() };
        let remembered =
            |world: &Bottleneck| world.clock.pace_to_remember().map(|pace| pace.rate.bits_per_second());
        let mut world = fast();
        world.run(ms(0), ms(40));
        world.run(ms(45), ms(45) + Duration::from_micros(50));
        assert!(world.clock.pace().is_some_and(|pace| pace.rate.bits_per_second() > 300_000_000));
        // One packet each millisecond was tried.
        assert_eq!(remembered(&world), Some(4 * 9_600_000));
        assert!(world.clock.take_changed() && !world.clock.take_changed());
        // A flow that is long enough tries more.
        world.run(ms(45), ms(60));
        assert!(remembered(&world) > Some(300_000_000));
    }

    #[test]
    fn a_remembered_rate_is_used_in_full_after_a_burst() {
        let mut world = Bottleneck::new();
        let rate = Rate::from_bits_per_second(12_000_000).expect("not zero");
        world.clock.recall(Pace { rate, rtt_min: RTT, measured: 0 });
        let sent = world.run(ms(0), ms(40));
        // The link serves 50 packets in that time.
        assert!(
            (Law::default().burst..Law::default().train).contains(&(within(&sent, 0, 2) as u64)),
            "{sent:?}"
        );
        assert!((47..=50).contains(&sent.len()), "{}", sent.len());
    }
}
