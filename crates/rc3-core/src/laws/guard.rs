//! Finds out whether a path honours priorities, so that the [`clock`](super::clock) knows whether a queue of RLP harms
//! anybody.
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
//! deceive it: the order in the queue is evidence, no matter who filled it. Each trial moves a score by the weight of its
//! outcome, in the manner of a sequential probability ratio test (Wald 1945), so that no single outcome decides.
//!
//! Pure: times and counts come in, decisions go out. Units: bytes, [`Instant`], [`Duration`].

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::order::Answer;
use crate::{quic::StreamId, units::Span};

/// RLP packets watched at a time: six round trips, since a queue and the detection of a loss multiply them.
const SAMPLES_MAX: usize = 192;
/// At most so many are watched per round trip: of those in between the last.
const SAMPLES_PER_ROUND_TRIP: u32 = 32;
/// Waiting is evidence above an eighth of the round trip, within these bounds. Below it is the packet in service,
/// which nobody overtakes (4 ms at 3 Mbit/s), and the unrest of hosts.
const WAIT_MIN: Duration = Duration::from_millis(4);
const WAIT_MAX: Duration = Duration::from_millis(10);
/// By how much hosts may be late: a primary packet that arrives not earlier than RLP by more keeps order.
const HOST_JITTER: Duration = Duration::from_millis(1);
/// Bytes of RLP behind which a probe is worth its packet.
const PROBE_BYTES_MIN: u64 = 16 * 1024;
/// Probes are at least a quarter of a round trip apart.
const PROBES_PER_ROUND_TRIP: u32 = 4;
const PROBE_PAUSE_MIN: Duration = Duration::from_millis(1);
/// Where RLP and the primary are both lost, that is RLP's doing if it had so many times more under way.
const DOMINANCE: u64 = 4;

/// From this score on the path ignores marks: twice waited or lost with RLP the most of what was under way.
const SCORE_IGNORED: i32 = 6;
/// From this score down it honours them.
const SCORE_HONOURED: i32 = -6;
/// More evidence for honour is not kept, so that a change of the path is noticed.
const SCORE_MIN: i32 = -12;

/// Whether a path honours priorities.
///
/// ```
/// use std::time::Duration;
/// use rc3_core::{Dir, Verdict, units::Rate};
/// use rc3_sim::{LinkConfig, Pair, PairConfig};
///
/// /// The verdict of a client that has sent 10 MB over 100 Mbit/s with a round trip of 40 ms.
/// fn verdict(priority: bool) -> Verdict {
///     let rate = Rate::from_bits_per_second(100_000_000);
///     let link = LinkConfig { rate, delay: Duration::from_millis(20), ..LinkConfig::default() };
///     let mut pair = Pair::new(PairConfig { priority, ..PairConfig::symmetric(link, 1_000_000) });
///     let client = pair.connect();
///     pair.drive();
///     pair.client.with(client, |connection| {
///         let stream = connection.open(Dir::Uni).unwrap();
///         connection.write(stream, vec![0; 10_000_000].into()).unwrap();
///     });
///     pair.drive();
///     let stats = pair.client.connection(client).unwrap().stats();
///     stats.guard.expect("the default is `RlpMode::Guard`").verdict
/// }
///
/// assert_eq!(verdict(true), Verdict::Honoured);
/// assert_eq!(verdict(false), Verdict::Ignored);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Verdict {
    /// Not known: no queue was long enough to tell.
    #[default]
    Unproven,
    /// The primary overtakes RLP.
    Honoured,
    /// The primary waits and is lost like RLP: RLP must not build a queue.
    Ignored,
}

/// What the guard has seen and decided.
///
/// ```
/// # use rc3_core::Dir;
/// # use rc3_sim::{LinkConfig, Pair, PairConfig};
/// # let mut pair = Pair::new(PairConfig::symmetric(LinkConfig::default(), 1 << 20));
/// # let handle = pair.connect();
/// # pair.drive();
/// # pair.client.with(handle, |c| {
/// #     let stream = c.open(Dir::Uni).unwrap();
/// #     c.write(stream, vec![0; 1_000_000].into()).unwrap();
/// # });
/// # pair.drive();
/// # let connection = pair.client.connection(handle).unwrap();
/// if let Some(guard) = connection.stats().guard {
///     let trials = guard.overtook + guard.waited + guard.lost;
///     println!("{:?} after {trials} trials and {} probes", guard.verdict, guard.probes);
///     assert!(!guard.remembered, "no earlier connection went to this destination");
/// }
/// # assert!(connection.stats().guard.is_some());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GuardStats {
    /// What is known about the path.
    pub verdict: Verdict,
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

/// The guard of one path.
#[derive(Debug)]
pub(crate) struct Guard {
    /// How long evidence is good for.
    age: Duration,
    rtt_min: Duration,
    score: i32,
    /// When the score moved last, and whether anybody has asked since.
    moved: Option<Instant>,
    news: bool,
    /// Oldest first.
    samples: VecDeque<Sample>,
    /// RLP bytes sent in all, and up to the packet whose fate was learned last.
    sent: u64,
    learned: u64,
    /// When RLP's loss was evidence last.
    rlp_lost: Option<Instant>,
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
    /// The primary waited as RLP had, which was most of what was under way.
    Waited,
    /// The primary waited as RLP had, but others may have filled the queue.
    WaitedWithOthers,
    /// The primary was lost, RLP before it was not.
    LostAlone,
    /// Both were lost, and other RLP packets of that time were not.
    LostTogether,
    /// The primary's priority passed a whole burst of RLP, by the receiver's count.
    OvertookBurst,
    /// It came behind a whole burst that had waited.
    FollowedBurst,
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
            Self::WaitedWithOthers => 1,
            // Else by chance.
            Self::Waited | Self::LostAlone | Self::LostTogether => 3,
            // By many packets, and nobody has to measure times: known, until a trial says otherwise clearly.
            Self::OvertookBurst => SCORE_HONOURED - 2,
            Self::FollowedBurst => SCORE_IGNORED,
            Self::Undecided => 0,
        }
    }
}

impl Guard {
    /// A guard of an unknown path, on which evidence is good for `age` and the shortest round trip so far was
    /// `rtt`.
    pub(crate) fn new(age: Duration, rtt: Duration) -> Self {
        Self {
            age,
            rtt_min: rtt,
            score: 0,
            moved: None,
            news: false,
            samples: VecDeque::new(),
            sent: 0,
            learned: 0,
            rlp_lost: None,
            behind: 0,
            probed: None,
            stats: GuardStats::default(),
        }
    }

    // --- what is known ---

    /// Begins with the score that an earlier connection has arrived at, with its last evidence at `at`.
    pub(crate) fn recall(&mut self, at: Instant, score: i32) {
        self.score = score;
        self.moved = Some(at);
        self.stats.remembered = true;
    }

    /// The score, which says how much speaks against the path.
    pub(crate) fn score(&self) -> i32 {
        self.score
    }

    /// Whether there was new evidence since the last call.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Forgets evidence that is too old to believe.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.moved.is_some_and(|moved| now >= moved + self.age) {
            self.score = 0;
            self.moved = None;
        }
    }

    /// The path is another one, of which nothing is known.
    pub(crate) fn on_new_path(&mut self, rtt: Duration) {
        let stats = GuardStats { remembered: false, ..self.stats };
        *self = Self { stats, ..Self::new(self.age, rtt) };
    }

    /// What is known about the path.
    pub(crate) fn verdict(&self) -> Verdict {
        verdict(self.score)
    }

    /// What it has seen and decided.
    pub(crate) fn stats(&self) -> GuardStats {
        GuardStats { verdict: self.verdict(), ..self.stats }
    }

    /// Whether the primary should send a packet now for the sake of a trial: RLP has sent much, and nothing of the
    /// primary's follows by itself.
    pub(crate) fn wants_probe(&mut self, now: Instant) -> bool {
        let pause = (self.rtt_min / PROBES_PER_ROUND_TRIP).max(PROBE_PAUSE_MIN);
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
    pub(crate) fn on_rlp_sent(
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
    pub(crate) fn on_sacked(&mut self, now: Instant, stream: StreamId, span: Span) {
        for at in 0..self.samples.len() {
            let sample = &mut self.samples[at];
            let held = sample.stream == stream && span.start <= sample.offset && sample.offset < span.end;
            if !held || sample.delay.is_some() {
                continue;
            }
            let delay = now.saturating_duration_since(sample.sent);
            sample.delay = Some(delay);
            let ahead = sample.total.saturating_sub(self.learned);
            self.rtt_min = self.rtt_min.min(delay);
            self.learned += ahead;
        }
    }

    /// The primary has sent something.
    pub(crate) fn on_primary_sent(&mut self) {
        self.behind = 0;
    }

    /// The primary packet sent at `sent` was acknowledged after `rtt`, the peer's delay not counted. Returns whether
    /// it is known now that the path ignores marks.
    pub(crate) fn on_primary_acked(&mut self, now: Instant, sent: Instant, rtt: Duration) -> bool {
        self.rtt_min = self.rtt_min.min(rtt);
        self.try_primary(now, Partner { sent, at: now, rtt: Some(rtt) })
    }

    /// Packets of the primary are lost, the last of them sent at `sent`. Returns whether it is known now that
    /// the path ignores marks.
    pub(crate) fn on_primary_lost(&mut self, now: Instant, sent: Instant) -> bool {
        self.try_primary(now, Partner { sent, at: now, rtt: None })
    }

    // --- trials ---

    /// What came of the datagram behind a burst. Returns whether it is known now that the path ignores marks.
    pub(crate) fn on_order(&mut self, now: Instant, answer: Answer) -> bool {
        let outcome = match answer {
            Answer::Overtook => Outcome::OvertookBurst,
            Answer::Followed => Outcome::FollowedBurst,
        };
        self.weigh(now, outcome)
    }

    /// A primary packet is compared with the last RLP packet before it that is known to have arrived; and the last
    /// before it of all, if that is another, may be overtaken or lost yet.
    fn try_primary(&mut self, now: Instant, partner: Partner) -> bool {
        let before = |sample: &&mut Sample| sample.sent < partner.sent;
        if let Some(last) = self.samples.iter_mut().rev().find(before)
            && last.delay.is_none()
            && last.partner.is_none()
        {
            last.partner = Some(partner);
        }
        let arrived = |sample: &&mut Sample| sample.sent < partner.sent && sample.delay.is_some();
        let Some(arrived) = self.samples.iter_mut().rev().find(arrived) else { return false };
        let tried = std::mem::replace(&mut arrived.tried, true);
        let arrived = *arrived;
        let Some(delay) = arrived.delay.filter(|_| !tried) else { return false };
        let outcome = self.compare(partner, &arrived, delay);
        self.weigh(now, outcome)
    }

    /// Judges the trials that have waited for the RLP packet's fate. `is_open` says whether a byte of a stream that
    /// RLP has sent still waits for its SACK: it does not once the primary has taken it. Returns whether it is
    /// known now that the path ignores marks.
    ///
    /// To be called after each group of samples.
    pub(crate) fn judge(&mut self, now: Instant, is_open: impl Fn(StreamId, u64) -> bool) -> bool {
        let grace = self.wait_min();
        for at in 0..self.samples.len() {
            let sample = self.samples[at];
            let Some(partner) = sample.partner.filter(|_| !sample.tried) else { continue };
            let outcome = match sample.delay {
                Some(delay) => self.compare(partner, &sample, delay),
                // On a path that keeps order the SACK is here before the ACK, but for the haste of hosts.
                None if now < partner.at + grace => continue,
                None => {
                    self.learned = self.learned.max(sample.total);
                    self.compare_lost(now, partner, &sample, is_open(sample.stream, sample.offset))
                }
            };
            self.samples[at].tried = true;
            if self.weigh(now, outcome) {
                return true;
            }
        }
        false
    }

    /// The primary's packet against an RLP packet sent before it that arrived after `delay`.
    fn compare(&self, partner: Partner, sample: &Sample, delay: Duration) -> Outcome {
        let gap = partner.sent.saturating_duration_since(sample.sent);
        // How long the RLP packet was still to wait when the primary's came.
        let left = self.waited(delay).saturating_sub(gap);
        if left < self.wait_min() {
            return Outcome::Undecided;
        }
        match partner.rtt.map(|rtt| self.waited(rtt)) {
            // Where marks are honoured, RLP goes before the primary loses anything.
            None => Outcome::LostAlone,
            Some(waited) if waited * 2 <= left => Outcome::Overtook,
            Some(waited) if waited + HOST_JITTER < left => Outcome::Undecided,
            Some(_) if sample.dominant => Outcome::Waited,
            Some(_) => Outcome::WaitedWithOthers,
        }
    }

    /// The primary's packet against an RLP packet sent before it that has not arrived.
    fn compare_lost(&self, now: Instant, partner: Partner, sample: &Sample, open: bool) -> Outcome {
        // Losses come in crowds, and a crowd is one event.
        if self.rlp_lost.is_some_and(|last| now < last + self.rtt_min) {
            return Outcome::Undecided;
        }
        let gap = partner.sent.saturating_duration_since(sample.sent);
        match partner.rtt {
            Some(rtt) if open && gap.max(self.waited(rtt)) < self.wait_min() => Outcome::Spared,
            // Where normal priority alone is too much, no RLP of that time arrives.
            None if sample.dominant && gap <= self.rtt_min / 2 && self.arrived_near(partner.sent) => {
                Outcome::LostTogether
            }
            _ => Outcome::Undecided,
        }
    }

    /// Whether RLP sent at about this time arrived.
    fn arrived_near(&self, sent: Instant) -> bool {
        let apart = |at: Instant| at.saturating_duration_since(sent).max(sent.saturating_duration_since(at));
        self.samples.iter().any(|sample| sample.delay.is_some() && apart(sample.sent) <= self.wait_min())
    }

    /// Adds an outcome to the score; whether it is known now that the path ignores marks.
    fn weigh(&mut self, now: Instant, outcome: Outcome) -> bool {
        if outcome == Outcome::Undecided {
            return false;
        }
        tracing::trace!(?outcome, score = self.score, "trial of the path");
        match outcome {
            Outcome::Overtook | Outcome::OvertookBurst | Outcome::Spared => self.stats.overtook += 1,
            Outcome::Waited | Outcome::FollowedBurst | Outcome::WaitedWithOthers => self.stats.waited += 1,
            Outcome::LostAlone | Outcome::LostTogether => self.stats.lost += 1,
            Outcome::Undecided => {}
        }
        if matches!(outcome, Outcome::Spared | Outcome::LostTogether) {
            self.rlp_lost = Some(now);
        }
        let before = self.verdict();
        self.score = (self.score + outcome.weight()).clamp(SCORE_MIN, SCORE_IGNORED);
        (self.moved, self.news) = (Some(now), true);
        before != Verdict::Ignored && self.verdict() == Verdict::Ignored
    }

    /// How much of a round trip was waiting.
    fn waited(&self, rtt: Duration) -> Duration {
        rtt.saturating_sub(self.rtt_min)
    }

    /// Waiting that is evidence.
    fn wait_min(&self) -> Duration {
        (self.rtt_min / 8).clamp(WAIT_MIN, WAIT_MAX)
    }
}

/// What a score says.
pub(super) fn verdict(score: i32) -> Verdict {
    match score {
        SCORE_IGNORED.. => Verdict::Ignored,
        ..=SCORE_HONOURED => Verdict::Honoured,
        _ => Verdict::Unproven,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::{Dir, Side};

    const AGE: Duration = Duration::from_secs(600);
    const RTT: Duration = Duration::from_millis(40);
    const PACKET: u64 = 1200;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A guard, and a path that its packets take.
    struct World {
        start: Instant,
        guard: Guard,
        offset: u64,
    }

    impl World {
        fn new() -> Self {
            Self { start: Instant::now(), guard: Guard::new(AGE, RTT), offset: 1 << 40 }
        }

        fn stream() -> StreamId {
            StreamId::new(Side::Client, Dir::Uni, 0)
        }

        /// RLP sends a burst and the primary a packet a millisecond later; how long each waits, or `None`: lost.
        /// Whether the path is
        /// known now to ignore marks.
        fn trial(&mut self, at: Duration, rlp: Option<u64>, primary: Option<u64>) -> bool {
            let sent = self.start + at;
            self.offset -= 100 * PACKET;
            self.guard.on_rlp_sent(sent, Self::stream(), self.offset, 100 * PACKET, PACKET);
            let behind = sent + ms(1);
            self.guard.on_primary_sent();
            let mut now = behind + RTT;
            if let Some(waited) = rlp {
                now = sent + RTT + ms(waited);
                self.guard.on_sacked(now, Self::stream(), Span::new(self.offset, self.offset + PACKET));
            }
            let withdrawn = match primary {
                Some(waited) => self.guard.on_primary_acked(now, behind, RTT + ms(waited)),
                None => self.guard.on_primary_lost(now, behind),
            };
            withdrawn || self.guard.judge(now + ms(20), |_, _| true)
        }
    }

    #[test]
    fn a_primary_that_waits_like_rlp_speaks_against_the_path_and_one_that_overtakes_for_it() {
        let mut fifo = World::new();
        assert!(!fifo.trial(ms(0), Some(30), Some(29)));
        assert_eq!(fifo.guard.verdict(), Verdict::Unproven, "one trial decides nothing");
        assert!(fifo.trial(ms(200), Some(30), Some(30)));
        assert_eq!(fifo.guard.verdict(), Verdict::Ignored);
        assert!(!fifo.trial(ms(400), Some(30), Some(30)), "it is known already");

        let mut priority = World::new();
        for round in 0..20 {
            assert!(!priority.trial(ms(200 * round), Some(30), Some(0)));
        }
        assert_eq!(priority.guard.verdict(), Verdict::Honoured);
    }

    #[test]
    fn a_primary_that_is_lost_behind_rlp_that_arrives_speaks_against_the_path() {
        let mut fifo = World::new();
        assert!(!fifo.trial(ms(0), Some(30), None));
        assert!(fifo.trial(ms(200), Some(30), None));
        assert_eq!((fifo.guard.stats().lost, fifo.guard.stats().waited), (2, 0));
    }

    #[test]
    fn chance_losses_are_outweighed_where_the_primary_overtakes() {
        let mut world = World::new();
        for round in 0..300 {
            let primary = if round % 10 == 9 { None } else { Some(0) };
            assert!(!world.trial(ms(200 * round), Some(30), primary), "round {round}");
        }
    }

    #[test]
    fn without_a_queue_nothing_is_learned() {
        let mut world = World::new();
        for round in 0..100 {
            assert!(!world.trial(ms(200 * round), Some(1), Some(1)));
            assert!(
                !world.trial(ms(200 * round + 100), Some(1), None),
                "a loss that has nothing to do with RLP"
            );
        }
        let stats = world.guard.stats();
        assert_eq!((stats.overtook, stats.waited, stats.lost), (0, 0, 0));
    }

    #[test]
    fn losses_of_both_are_no_evidence_when_no_rlp_of_that_time_arrives() {
        let mut world = World::new();
        for round in 0..100 {
            assert!(!world.trial(ms(200 * round), None, None));
        }
        assert_eq!(world.guard.verdict(), Verdict::Unproven);
    }

    #[test]
    fn a_verdict_ends_with_its_age_and_is_handed_on_until_then() {
        let mut world = World::new();
        world.trial(ms(0), Some(30), Some(30));
        world.trial(ms(200), Some(30), Some(30));
        assert!(world.guard.take_news() && !world.guard.take_news());
        let (at, score) = (world.start + ms(200), world.guard.score());

        let mut next = Guard::new(AGE, RTT);
        next.recall(at, score);
        next.expire(at + AGE - ms(1));
        assert_eq!((next.verdict(), next.stats().remembered), (Verdict::Ignored, true));
        next.expire(at + AGE);
        assert_eq!(next.verdict(), Verdict::Unproven);
    }
}
