//! Do no harm: notices that a path does not honour priorities, and withdraws RLP there.
//!
//! RC3 §2.1 assumes that the network serves low priorities last. Many paths ignore the marks; there RLP waits in
//! the same queue as everybody's primary, delays it and makes it lose packets. The sender can tell the two kinds
//! of path apart without help, by one question: *does a primary packet overtake the RLP packet sent before it?*
//!
//! - Where marks are honoured, an RLP packet that waits is overtaken by every primary packet that comes later; and
//!   where there is no room, RLP is lost and the primary is not.
//! - Where they are not, the queue is first in, first out: the primary packet waits at least until the RLP packet
//!   before it has left, and is lost where RLP is lost.
//! - Where nothing waits and nothing is lost, both look the same, and RLP harms nobody.
//!
//! So the guard watches a few RLP packets per round trip and pairs each with a primary packet sent soon after it:
//! a *trial*. What it compares is how long each waited, its round trip less the least one. Queues of others do not
//! deceive it: whoever filled the queue, the order in it tells. Each trial moves a score by the weight of its
//! outcome, in the manner of a sequential probability ratio test (Wald 1945), so that no single outcome decides.
//!
//! Pure: times and counts come in, decisions go out. Units: bytes, [`Instant`], [`Duration`].

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crate::{primary::StreamId, units::Span};

/// How much RLP a path about which nothing is known is sent ahead of what is known to have left it.
pub const UNPROVEN_BYTES: u64 = 4 << 20;

/// RLP packets watched at a time.
const SAMPLES_MAX: usize = 24;
/// At most so many are watched per round trip: of those in between the last.
const SAMPLES_PER_ROUND_TRIP: u32 = 16;
/// Waiting is evidence above an eighth of the round trip, within these bounds. Below it is the packet in service,
/// which nobody overtakes (4 ms at 3 Mbit/s), and the unrest of hosts.
const WAIT_MIN: Duration = Duration::from_millis(4);
const WAIT_MAX: Duration = Duration::from_millis(10);
/// Bytes of RLP behind which a probe is worth its packet.
const PROBE_BYTES_MIN: u64 = 16 * 1024;
/// Probes are at least a quarter of a round trip apart.
const PROBES_PER_ROUND_TRIP: u32 = 4;
/// Where RLP and the primary are both lost, that is RLP's doing if it had so many times more under way.
const DOMINANCE: u64 = 4;

/// From this score on the path ignores marks: three times waited, or twice lost.
const SCORE_IGNORED: i32 = 6;
/// From this score down it honours them.
const SCORE_HONOURED: i32 = -6;
/// More evidence for honour is not kept, so that a change of the path is noticed.
const SCORE_MIN: i32 = -12;

/// Whether a path honours priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Verdict {
    /// Not known: there was too little queue to tell by.
    #[default]
    Unproven,
    /// The primary overtakes RLP.
    Honoured,
    /// The primary waits and is lost like RLP, which is withdrawn.
    Ignored,
}

/// What the guard has seen and decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GuardStats {
    /// What is known about the path.
    pub verdict: Verdict,
    /// While RLP is withdrawn: when it comes back for another try.
    pub withdrawn_until: Option<Instant>,
    /// Whether the guard began with what an earlier connection to the same destination had learned.
    pub remembered: bool,
    /// Trials in which the primary overtook RLP, or was spared where RLP was lost: for honour.
    pub overtook: u64,
    /// Trials in which the primary waited like the RLP packet before it: against.
    pub waited: u64,
    /// Trials in which the primary was lost and RLP was not served worse, or was the cause: against.
    pub lost: u64,
    /// Packets the primary was asked to send for a trial.
    pub probes: u64,
}

/// What is remembered about a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    score: i32,
    /// When the evidence was last added to.
    pub at: Instant,
    /// When it is too old.
    pub until: Instant,
}

impl Record {
    /// What it says.
    pub fn verdict(&self) -> Verdict {
        verdict(self.score)
    }
}

/// What RLP may do, as far as the guard is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Send up to so many bytes.
    Bytes(u64),
    /// Nothing before this time, unless more is learned earlier.
    Wait(Instant),
}

/// The guard of one path.
#[derive(Debug)]
pub struct Guard {
    /// How long evidence is good for.
    age: Duration,
    rtt_min: Duration,
    score: i32,
    /// When the score moved, if it did since the last [`Self::take_record`].
    moved: Option<Instant>,
    withdrawn_until: Option<Instant>,
    /// Oldest first.
    samples: VecDeque<Sample>,
    /// RLP bytes sent in all, and up to the packet whose fate was learned last.
    sent: u64,
    learned: u64,
    /// The RLP packet whose fate was learned last came through without waiting.
    room: bool,
    rlp_lost: Option<Instant>,
    lost_together: Option<Instant>,
    /// RLP bytes since the primary sent last.
    behind: u64,
    probed: Option<Instant>,
    stats: GuardStats,
}

/// An RLP packet whose fate is watched.
#[derive(Debug, Clone, Copy)]
struct Sample {
    sent: Instant,
    stream: StreamId,
    /// Of one of its bytes.
    offset: u64,
    /// RLP bytes sent in all, with it.
    total: u64,
    /// Whether most of what was under way was RLP.
    dominant: bool,
    /// Round trip to the SACK, once there is one.
    delay: Option<Duration>,
    partner: Option<Partner>,
    tried: bool,
}

/// The primary packet of a trial.
#[derive(Debug, Clone, Copy)]
struct Partner {
    sent: Instant,
    /// When its fate was learned.
    at: Instant,
    /// Its round trip; `None`: lost.
    rtt: Option<Duration>,
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The primary passed an RLP packet that waited.
    Overtook,
    /// RLP was lost, the primary found no queue.
    Spared,
    /// The primary waited as RLP had.
    Waited,
    /// The primary was lost, RLP before it was not.
    LostAlone,
    /// Both were lost.
    LostTogether,
    /// It tells nothing.
    Undecided,
}

impl Outcome {
    /// Weight of evidence: about the logarithm to base 2 of how much likelier it is where marks are ignored.
    fn weight(self) -> i32 {
        match self {
            // Else only by a SACK that was lost or late.
            Self::Overtook => -4,
            // Else if the queue is too short to be noticed, or the loss was chance.
            Self::Spared => -2,
            // Else where a queue of normal priority has just run out.
            Self::Waited => 2,
            // Else by chance.
            Self::LostAlone | Self::LostTogether => 3,
            Self::Undecided => 0,
        }
    }
}

impl Guard {
    /// A guard of an unknown path, on which evidence is good for `age` and the shortest round trip so far was
    /// `rtt`.
    pub fn new(age: Duration, rtt: Duration) -> Self {
        Self {
            age,
            rtt_min: rtt,
            score: 0,
            moved: None,
            withdrawn_until: None,
            samples: VecDeque::new(),
            sent: 0,
            learned: 0,
            room: false,
            rlp_lost: None,
            lost_together: None,
            behind: 0,
            probed: None,
            stats: GuardStats::default(),
        }
    }

    // --- what is known ---

    /// Begins with what an earlier connection has learned, unless that is too old.
    pub fn recall(&mut self, now: Instant, record: Record) {
        if record.until <= now {
            return;
        }
        self.score = record.score;
        self.stats.remembered = true;
        if record.verdict() == Verdict::Ignored {
            self.withdrawn_until = Some(record.until);
        }
    }

    /// What should be remembered, if there is something new.
    pub fn take_record(&mut self) -> Option<Record> {
        let at = self.moved.take()?;
        let until = self.withdrawn_until.unwrap_or(at + self.age);
        Some(Record { score: self.score, at, until })
    }

    /// The path is another one, of which nothing is known.
    pub fn on_new_path(&mut self, rtt: Duration) {
        let stats = GuardStats { remembered: false, ..self.stats };
        *self = Self { stats, ..Self::new(self.age, rtt) };
    }

    /// What is known about the path.
    pub fn verdict(&self) -> Verdict {
        verdict(self.score)
    }

    /// What it has seen and decided.
    pub fn stats(&self) -> GuardStats {
        GuardStats { verdict: self.verdict(), withdrawn_until: self.withdrawn_until, ..self.stats }
    }

    // --- what may be done ---

    /// What RLP may send now.
    pub fn permit(&mut self, now: Instant) -> Permit {
        if let Some(until) = self.withdrawn_until {
            if now < until {
                return Permit::Wait(until);
            }
            // Too old to believe: another try, from nothing.
            self.withdrawn_until = None;
            self.score = 0;
            self.room = false;
            self.learned = self.sent;
        }
        if self.room || self.verdict() == Verdict::Honoured {
            return Permit::Bytes(u64::MAX);
        }
        match UNPROVEN_BYTES.saturating_sub(self.sent - self.learned) {
            0 => Permit::Wait(now + self.rtt_min),
            bytes => Permit::Bytes(bytes),
        }
    }

    /// Whether the primary should send a packet now for the sake of a trial: RLP has sent much, and nothing of the
    /// primary's follows by itself.
    pub fn wants_probe(&mut self, now: Instant) -> bool {
        let pause = self.rtt_min / PROBES_PER_ROUND_TRIP;
        let wants = self.behind >= PROBE_BYTES_MIN
            && self.verdict() == Verdict::Unproven
            && self.probed.is_none_or(|last| last + pause <= now);
        if wants {
            self.probed = Some(now);
            self.stats.probes += 1;
        }
        wants
    }

    // --- samples ---

    /// RLP has sent a batch of `bytes`; its last packet holds the byte of `stream` at `offset`. The primary had
    /// `primary_in_flight` bytes under way.
    pub fn on_rlp_sent(
        &mut self,
        now: Instant,
        stream: StreamId,
        offset: u64,
        bytes: u64,
        primary_in_flight: u64,
    ) {
        self.sent += bytes;
        self.behind += bytes;
        let sample = Sample {
            sent: now,
            stream,
            offset,
            total: self.sent,
            dominant: self.sent - self.learned >= DOMINANCE * primary_in_flight,
            delay: None,
            partner: None,
            tried: false,
        };
        let spacing = self.rtt_min / SAMPLES_PER_ROUND_TRIP;
        let len = self.samples.len();
        if len >= 2
            && self.samples[len - 1].partner.is_none()
            && self.samples[len - 1].sent < self.samples[len - 2].sent + spacing
        {
            self.samples.pop_back();
        } else if len == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// A SACK says that the peer holds `span` of `stream`.
    pub fn on_sacked(&mut self, now: Instant, stream: StreamId, span: Span) {
        for at in 0..self.samples.len() {
            let sample = &mut self.samples[at];
            let held = sample.stream == stream && span.start <= sample.offset && sample.offset < span.end;
            if !held || sample.delay.is_some() {
                continue;
            }
            let delay = now.saturating_duration_since(sample.sent);
            sample.delay = Some(delay);
            let total = sample.total;
            self.learned = self.learned.max(total);
            self.rtt_min = self.rtt_min.min(delay);
            self.room = delay < self.rtt_min + self.wait_min();
        }
    }

    /// The primary has sent something.
    pub fn on_primary_sent(&mut self) {
        self.behind = 0;
    }

    /// The primary packet sent at `sent` was acknowledged after `rtt`, the peer's delay not counted.
    pub fn on_primary_acked(&mut self, now: Instant, sent: Instant, rtt: Duration) {
        self.rtt_min = self.rtt_min.min(rtt);
        self.pair(Partner { sent, at: now, rtt: Some(rtt) });
    }

    /// Packets of the primary are lost, the last of them sent at `sent`.
    pub fn on_primary_lost(&mut self, now: Instant, sent: Instant) {
        self.pair(Partner { sent, at: now, rtt: None });
    }

    fn pair(&mut self, partner: Partner) {
        let before = self.samples.iter_mut().rev().find(|sample| sample.sent <= partner.sent);
        if let Some(sample) = before.filter(|sample| sample.partner.is_none()) {
            sample.partner = Some(partner);
        }
    }

    // --- trials ---

    /// Judges the trials that have ended. `is_open` says whether a byte of a stream that RLP has sent is still
    /// waiting for its SACK: it is not once the primary has taken it. Returns whether this withdraws RLP.
    ///
    /// To be called after each group of samples.
    pub fn judge(&mut self, now: Instant, is_open: impl Fn(StreamId, u64) -> bool) -> bool {
        let grace = self.wait_min();
        for at in 0..self.samples.len() {
            let sample = self.samples[at];
            let Some(partner) = sample.partner.filter(|_| !sample.tried) else { continue };
            // On a path that keeps order the SACK is here before the ACK, but for the haste of hosts.
            if sample.delay.is_none() && now < partner.at + grace {
                continue;
            }
            self.samples[at].tried = true;
            if sample.delay.is_none() {
                self.rlp_lost = Some(now);
                self.room = false;
                self.learned = self.learned.max(sample.total);
            }
            let outcome = self.outcome(now, &sample, &partner, &is_open);
            if self.weigh(now, outcome) {
                return true;
            }
        }
        false
    }

    fn outcome(
        &self,
        now: Instant,
        sample: &Sample,
        partner: &Partner,
        is_open: impl Fn(StreamId, u64) -> bool,
    ) -> Outcome {
        let gap = partner.sent.saturating_duration_since(sample.sent);
        let enough = self.wait_min();
        let waited = |rtt: Duration| rtt.saturating_sub(self.rtt_min);
        let recent = |at: Option<Instant>, round_trips: u32| {
            at.is_some_and(|at| now < at + self.rtt_min * round_trips)
        };
        match (sample.delay, partner.rtt) {
            (Some(delay), Some(rtt)) => {
                // What is left of the queue when the primary packet comes, if it cannot overtake.
                let left = waited(delay).saturating_sub(gap);
                if left < enough {
                    Outcome::Undecided
                } else if waited(rtt) * 2 <= left {
                    Outcome::Overtook
                } else if waited(rtt) * 4 >= left * 3 {
                    Outcome::Waited
                } else {
                    Outcome::Undecided
                }
            }
            (None, Some(rtt)) => {
                let spared = gap < enough && waited(rtt) < enough && is_open(sample.stream, sample.offset);
                if spared { Outcome::Spared } else { Outcome::Undecided }
            }
            (Some(delay), None) => {
                let crowded = waited(delay) >= enough || recent(self.rlp_lost, 2);
                let near = gap <= self.rtt_min / 2;
                if crowded && near { Outcome::LostAlone } else { Outcome::Undecided }
            }
            (None, None) => {
                // A loss of many packets is one event, and it may be the primary's own overshoot.
                let again = recent(self.lost_together, 1);
                let near = gap <= self.rtt_min / 2;
                if sample.dominant && near && !again { Outcome::LostTogether } else { Outcome::Undecided }
            }
        }
    }

    /// Adds an outcome to the score; whether that withdraws RLP.
    fn weigh(&mut self, now: Instant, outcome: Outcome) -> bool {
        if outcome == Outcome::Undecided || self.withdrawn_until.is_some() {
            return false;
        }
        match outcome {
            Outcome::Overtook | Outcome::Spared => self.stats.overtook += 1,
            Outcome::Waited => self.stats.waited += 1,
            Outcome::LostAlone => self.stats.lost += 1,
            Outcome::LostTogether => {
                self.stats.lost += 1;
                self.lost_together = Some(now);
            }
            Outcome::Undecided => {}
        }
        self.score = (self.score + outcome.weight()).clamp(SCORE_MIN, SCORE_IGNORED);
        self.moved = Some(now);
        if self.verdict() != Verdict::Ignored {
            return false;
        }
        self.withdrawn_until = Some(now + self.age);
        true
    }

    fn wait_min(&self) -> Duration {
        (self.rtt_min / 8).clamp(WAIT_MIN, WAIT_MAX)
    }
}

fn verdict(score: i32) -> Verdict {
    match score {
        SCORE_IGNORED.. => Verdict::Ignored,
        ..=SCORE_HONOURED => Verdict::Honoured,
        _ => Verdict::Unproven,
    }
}
