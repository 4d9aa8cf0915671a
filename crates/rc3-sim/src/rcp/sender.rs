//! The sending end of one flow: paced at the rate granted, repaired by acknowledgements.
//!
//! ```text
//! Connecting -- SYN-ACK --> Open -- everything acknowledged --> gone
//!      \                      \
//!       `---- too many timeouts in a row ---> gone, failed
//! ```
//!
//! A segment that the receiver may lack is in exactly one of two places, `in_flight` or `lost`. It is lost when
//! three sent after it have been answered (RFC 6675's three duplicates, counted in packets sent as in RFC 9002
//! §6.1.1), or when nothing has been answered for a timeout. Repetitions go first and are paced like the rest.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use rc3_core::units::Span;

use super::{
    HEADER_BYTES, RcpHeader, RcpKind, RcpSegment,
    rtt::{RTO_INITIAL, RoundTrips},
};
use crate::agent::{Flow, SenderCounters, Writes};

/// Bytes of the application in a packet at most.
const MSS: u64 = 1460;

/// Packets answered after which an earlier one counts as lost (RFC 9002 §6.1.1).
const REORDERING: u64 = 3;
/// Timeouts in a row after which a flow is given up.
const TIMEOUTS_MAX: u32 = 8;
/// Least time between questions for a rate, so that they cost little even where round trips are nothing.
const REF_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// Most time between them (ns-2 `SYN_DELAY`).
const REF_INTERVAL_MAX: Duration = Duration::from_millis(500);
/// No wait is longer: beyond it durations would overflow.
const PAUSE_MAX: Duration = Duration::from_secs(3600);

/// One flow as its sender sees it.
#[derive(Debug)]
pub(super) struct RcpSender {
    bytes: u64,
    writes: Writes,
    state: SenderState,
    /// When the flow is given up, if it lasts so long.
    until: Option<Instant>,
    /// Timeouts in a row.
    timeouts: u32,
    sent: SenderCounters,
}

#[derive(Debug)]
enum SenderState {
    Connecting {
        /// When to send the next SYN.
        syn: Instant,
    },
    Open(Box<OpenFlow>),
}

/// A flow after its handshake.
#[derive(Debug)]
struct OpenFlow {
    since: Instant,
    /// Granted, bytes on the wire per second.
    rate: f64,
    /// When the packet left whose answer brought the rate.
    rate_of: Instant,
    round_trips: RoundTrips,
    /// First byte never sent.
    cursor: u64,
    /// In order of their numbers.
    in_flight: VecDeque<InFlight>,
    /// Lengths of the segments to be sent again, by offset.
    lost: BTreeMap<u64, u32>,
    next_number: u64,
    /// Highest number answered, plus one.
    answered: u64,
    /// The receiver has all bytes below.
    received: u64,
    /// The latest packet with data: when, and its bytes on the wire.
    data: Option<(Instant, usize)>,
    /// When a rate was last requested.
    asked: Instant,
    /// When the latest answer arrived, or the latest timeout fired.
    heard: Instant,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    segment: RcpSegment,
    sent: Instant,
}

/// What a sender can do when its time comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SenderAction {
    GiveUp,
    Syn,
    Timeout,
    Data,
    Ref,
}

/// Result of a step.
#[derive(Debug)]
pub(super) enum SenderOutput {
    /// A packet to send.
    Packet(RcpHeader),
    /// Nothing to send.
    Quiet,
    /// The flow was given up.
    Failed,
}

impl RcpSender {
    pub(super) fn new(now: Instant, flow: &Flow) -> Self {
        Self {
            bytes: flow.bytes,
            writes: flow.writes,
            until: flow.writes.until(now),
            state: SenderState::Connecting { syn: now },
            timeouts: 0,
            sent: SenderCounters::default(),
        }
    }

    /// What was sent so far.
    pub(super) fn sent(&self) -> SenderCounters {
        self.sent
    }

    /// When [`Self::step`] wants to be called.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next().map(|(at, _)| at)
    }

    /// Does what is due first. Call it only when that is due.
    pub(super) fn step(&mut self, now: Instant) -> SenderOutput {
        let Some((_, step)) = self.next() else { return SenderOutput::Quiet };
        match (step, &mut self.state) {
            (SenderAction::GiveUp, _) => SenderOutput::Failed,
            (SenderAction::Syn, SenderState::Connecting { syn }) => {
                if self.timeouts > TIMEOUTS_MAX {
                    return SenderOutput::Failed;
                }
                *syn = now + RTO_INITIAL * 2_u32.pow(self.timeouts);
                self.timeouts += 1;
                SenderOutput::Packet(RcpHeader {
                    kind: RcpKind::Syn,
                    rate: f64::INFINITY,
                    rtt: Duration::ZERO,
                    sent: now,
                })
            }
            (SenderAction::Timeout, SenderState::Open(open)) => {
                self.timeouts += 1;
                if self.timeouts > TIMEOUTS_MAX {
                    return SenderOutput::Failed;
                }
                self.sent.lost_packets += open.on_timeout(now);
                SenderOutput::Quiet
            }
            (SenderAction::Data, SenderState::Open(open)) => {
                self.sent.primary_packets += 1;
                let segment = open.send(now, self.bytes, self.writes);
                SenderOutput::Packet(open.ask(now, RcpKind::Data(segment)))
            }
            (SenderAction::Ref, SenderState::Open(open)) => SenderOutput::Packet(open.ask(now, RcpKind::Ref)),
            _ => SenderOutput::Quiet,
        }
    }

    /// Processes an answer of the receiver; returns whether the receiver has every byte.
    pub(super) fn handle(&mut self, now: Instant, header: &RcpHeader) -> bool {
        if let SenderState::Connecting { .. } = self.state {
            if header.kind == RcpKind::SynAck {
                self.timeouts = 0;
                self.state = SenderState::Open(Box::new(OpenFlow::new(now, header)));
            }
            return false;
        }
        let SenderState::Open(open) = &mut self.state else { return false };
        open.on_answer(now, header);
        if let RcpKind::Ack { segment, received, run } = header.kind {
            self.timeouts = 0;
            self.sent.lost_packets += open.on_ack(segment, received, run);
            return received == self.bytes;
        }
        false
    }

    /// The first thing to do, and when. `None`: only an answer, which will come, brings more.
    fn next(&self) -> Option<(Instant, SenderAction)> {
        let until = self.until.map(|at| (at, SenderAction::GiveUp));
        let next = self.next_of_state();
        until.into_iter().chain(next).min()
    }

    fn next_of_state(&self) -> Option<(Instant, SenderAction)> {
        match &self.state {
            SenderState::Connecting { syn } => Some((*syn, SenderAction::Syn)),
            SenderState::Open(open) => {
                let timeout = open.timeout(self.timeouts).map(|at| (at, SenderAction::Timeout));
                let available = open.available(self.bytes, self.writes);
                let data = available.map(|at| (at.max(open.paced()), SenderAction::Data));
                let question = available.map(|at| (at.max(open.question()), SenderAction::Ref));
                // Of equal times the first in the order of `SenderAction`: a data packet also requests a rate.
                [timeout, data, question].into_iter().flatten().min()
            }
        }
    }
}

impl OpenFlow {
    fn new(now: Instant, syn_ack: &RcpHeader) -> Self {
        Self {
            since: now,
            rate: syn_ack.rate,
            rate_of: syn_ack.sent,
            round_trips: RoundTrips::new(now.saturating_duration_since(syn_ack.sent)),
            cursor: 0,
            in_flight: VecDeque::new(),
            lost: BTreeMap::new(),
            next_number: 0,
            answered: 0,
            received: 0,
            data: None,
            asked: now,
            heard: now,
        }
    }

    /// When there is something to send, if there ever will be without an answer.
    fn available(&self, bytes: u64, writes: Writes) -> Option<Instant> {
        // A flow of no bytes is one empty packet.
        let empty = bytes == 0 && self.next_number == 0;
        if empty || !self.lost.is_empty() {
            return Some(self.since);
        }
        (self.cursor < bytes).then(|| self.since + writes_until(writes, self.cursor))
    }

    /// When the pace allows the next packet with data: a new rate counts from the latest packet on.
    fn paced(&self) -> Instant {
        match self.data {
            None => self.since,
            Some((at, size)) => {
                at + Duration::from_secs_f64((size as f64 / self.rate).min(PAUSE_MAX.as_secs_f64()))
            }
        }
    }

    /// When the rate is too old to wait with.
    fn question(&self) -> Instant {
        self.asked + self.round_trips.min().clamp(REF_INTERVAL_MIN, REF_INTERVAL_MAX)
    }

    /// When everything in flight counts as lost because no answer arrived.
    fn timeout(&self, timeouts: u32) -> Option<Instant> {
        let first = self.in_flight.front()?;
        Some(self.heard.max(first.sent) + self.round_trips.rto() * 2_u32.pow(timeouts))
    }

    /// The next segment, which is in flight from now on.
    fn send(&mut self, now: Instant, bytes: u64, writes: Writes) -> RcpSegment {
        let (offset, len) = self.lost.pop_first().unwrap_or_else(|| {
            let written = writes.written(now.saturating_duration_since(self.since)).min(bytes);
            let offset = self.cursor;
            let len = written.saturating_sub(offset).min(MSS) as u32;
            self.cursor += u64::from(len);
            (offset, len)
        });
        let number = self.next_number;
        self.next_number += 1;
        let segment = RcpSegment { number, offset, len, last: offset + u64::from(len) == bytes };
        self.in_flight.push_back(InFlight { segment, sent: now });
        self.data = Some((now, HEADER_BYTES + len as usize));
        segment
    }

    fn ask(&mut self, now: Instant, kind: RcpKind) -> RcpHeader {
        self.asked = now;
        RcpHeader { kind, rate: f64::INFINITY, rtt: self.round_trips.latest(), sent: now }
    }

    fn on_answer(&mut self, now: Instant, header: &RcpHeader) {
        self.heard = now;
        self.round_trips.on_sample(now.saturating_duration_since(header.sent));
        if header.sent >= self.rate_of {
            self.rate = header.rate;
            self.rate_of = header.sent;
        }
    }

    /// Returns how many packets are lost by this.
    fn on_ack(&mut self, segment: RcpSegment, received: u64, run: Span) -> u64 {
        self.received = self.received.max(received);
        self.lost = self.lost.split_off(&self.received);
        // They have arrived, even those that counted as lost.
        while let Some((&offset, _)) = self.lost.range(run.start..run.end.max(segment.offset + 1)).next() {
            self.lost.remove(&offset);
        }
        // Few precede the packet that is answered; those that wait longer are declared lost below.
        let mut index = 0;
        while let Some(sent) = self.in_flight.get(index).filter(|sent| sent.segment.number <= segment.number)
        {
            let in_run = run.start <= sent.segment.offset && sent.segment.end() <= run.end;
            if sent.segment.number == segment.number || in_run {
                self.in_flight.remove(index);
            } else {
                index += 1;
            }
        }
        self.answered = self.answered.max(segment.number + 1);
        let mut lost = 0;
        while let Some(first) = self.in_flight.front().copied() {
            if self.has_come(first.segment) {
                self.in_flight.pop_front();
            } else if first.segment.number + REORDERING < self.answered {
                self.in_flight.pop_front();
                self.lost.insert(first.segment.offset, first.segment.len);
                lost += 1;
            } else {
                break;
            }
        }
        lost
    }

    /// Returns how many packets are lost by this.
    fn on_timeout(&mut self, now: Instant) -> u64 {
        self.heard = now;
        let lost = self.in_flight.len() as u64;
        for InFlight { segment, .. } in std::mem::take(&mut self.in_flight) {
            if !self.has_come(segment) {
                self.lost.insert(segment.offset, segment.len);
            }
        }
        lost
    }

    /// Whether the receiver is known to have all of it. An empty segment is known by its own answer only.
    fn has_come(&self, segment: RcpSegment) -> bool {
        segment.len > 0 && segment.end() <= self.received
    }
}

/// How long after the handshake the application has handed over more than `bytes`.
fn writes_until(writes: Writes, bytes: u64) -> Duration {
    match writes {
        Writes::AtOnce | Writes::Until(_) => Duration::ZERO,
        Writes::Chunked { first, .. } if bytes < first => Duration::ZERO,
        Writes::Chunked { first, chunk, every } => {
            let chunks = (bytes - first) / chunk.max(1) + 1;
            let nanos = every.as_nanos().max(1).saturating_mul(u128::from(chunks));
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        }
    }
}
