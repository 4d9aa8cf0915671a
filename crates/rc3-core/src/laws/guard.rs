//! Tests whether a path honours priorities, so that the [`clock`](super::clock) knows whether a queue of RLP harms
//! other traffic.
//!
//! RC3 §2.1 assumes that the network serves low priorities last. Many paths ignore the marks; there RLP shares a queue
//! with the primaries of all flows, delays them and causes losses. The sender can distinguish the two kinds of path
//! without help, by one question: *does a primary packet overtake the RLP packet sent before it?*
//!
//! - If marks are honoured, later primary packets overtake an RLP packet that waits; and when the queue is full, RLP is
//!   lost and the primary is not.
//! - If not, the queue is first in, first out: the primary packet waits at least until the RLP packet before it has
//!   left, and is lost when RLP is lost.
//! - If no packet waits or is lost, both look the same, and RLP does no harm.
//!
//! So the guard watches a few RLP packets per round trip and pairs each with a primary packet sent soon after it: a
//! *trial*. It compares how long each waited, which is its round trip minus the minimum. Queues of other traffic do not
//! mislead it: the order in the queue is evidence, whatever filled it. Each trial moves a score by the weight of its
//! outcome, as in a sequential probability ratio test (Wald 1945), so that no single outcome decides.
//!
//! Pure: times and counts come in, decisions go out. Units: bytes, [`Instant`], [`Duration`].

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{constants::Law, order::BurstOrder};
use crate::{quic::StreamId, units::Span};

/// RLP packets watched at a time: six round trips, since a queue and loss detection multiply them.
const SAMPLES_MAX: usize = 192;

/// Round trips for which a late report counts. Six leave two of 378 FIFOs wrong whose way back jitters.
const LATE_REPORT_ROUNDS: u32 = 32;

/// From this score on the path counts as ignoring marks: twice waited or lost with RLP as most of the bytes in flight.
const SCORE_IGNORED: i32 = 6;
/// From this score down it counts as honouring them.
const SCORE_HONOURED: i32 = -6;
/// Lower bound of the score, so that a change of the path is noticed.
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
    /// Unknown: no queue was long enough.
    #[default]
    Unproven,
    /// The primary overtakes RLP.
    Honoured,
    /// The primary waits and is lost like RLP, so RLP must not build a queue.
    Ignored,
}

/// The guard's measurements and verdict.
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
///     println!("{:?} after {trials} trials", guard.verdict);
///     assert!(!guard.remembered, "no earlier connection went to this destination");
/// }
/// # assert!(connection.stats().guard.is_some());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GuardStats {
    /// What is known about the path.
    pub verdict: Verdict,
    /// Whether the guard started with a verdict of an earlier connection to the same destination.
    pub remembered: bool,
    /// Trials for honour: the primary overtook RLP, or arrived while RLP was lost.
    pub overtook: u64,
    /// Trials against: the primary waited like the RLP packet before it.
    pub waited: u64,
    /// Trials against: the primary was lost while RLP was not served worse, or was the cause.
    pub lost: u64,
}

/// The guard of one path.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    law: Law,
    /// How long evidence is valid.
    pub(crate) age: Duration,
    rtt_min: Duration,
    /// The score: positive values speak against the path.
    pub(crate) score: i32,
    /// When the score last moved, and whether [`Self::take_changed`] was called since.
    moved: Option<Instant>,
    changed: bool,
    /// Oldest first.
    samples: VecDeque<WatchedPacket>,
    /// RLP bytes sent in total, and up to the packet whose fate was learned last.
    sent: u64,
    learned: u64,
    /// When RLP's loss, and when a wait of the primary, was last evidence.
    rlp_lost: Option<Instant>,
    waited_at: Option<Instant>,
    /// How late reports came on their way back, the most of some round trips, and when.
    late: (Duration, Option<Instant>),
    stats: GuardStats,
}

/// A watched RLP packet.
#[derive(Debug, Clone, Copy)]
struct WatchedPacket {
    sent: Instant,
    stream: StreamId,
    /// The stream and offset of one of its bytes.
    offset: u64,
    /// RLP bytes sent in total, including it.
    total: u64,
    /// Whether RLP was most of the bytes in flight.
    dominant: bool,
    /// Round trip to the SACK, if it has arrived.
    delay: Option<Duration>,
    partner: Option<Partner>,
    /// Not when it should have, and nothing follows from that; it may have been overtaken.
    may_come: bool,
    tried: bool,
}

/// The primary packet of a trial.
#[derive(Debug, Clone, Copy)]
struct Partner {
    sent: Instant,
    /// When its fate was learned.
    at: Instant,
    /// Its round trip; `None` if it was lost.
    rtt: Option<Duration>,
}

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialOutcome {
    /// The primary overtook an RLP packet that waited.
    Overtook,
    /// Most RLP was lost or late, the primary was not.
    Spared,
    /// The primary waited as RLP had, and RLP was most of the bytes in flight.
    Waited,
    /// The primary waited as RLP had, but other traffic may have filled the queue.
    WaitedWithOthers,
    /// The primary was lost, RLP before it was not.
    LostAlone,
    /// Both were lost, and other RLP packets of that time were not.
    LostTogether,
    /// The primary overtook a whole burst of RLP, by the receiver's count.
    OvertookBurst,
    /// It arrived after a whole burst that had waited.
    FollowedBurst,
    /// No evidence.
    Undecided,
}

impl TrialOutcome {
    /// Weight of evidence: about the base-2 logarithm of how much likelier it is if marks are ignored.
    fn weight(self, law: &Law) -> i32 {
        match self {
            // Otherwise only by a lost or late SACK.
            Self::Overtook => -law.weight_clear,
            // Otherwise as likely as RLP arrives, if the queue is too short to notice, or by a late SACK.
            Self::Spared => -law.weight_weak,
            // Otherwise if a queue of normal priority has just drained.
            Self::WaitedWithOthers => law.weight_weak,
            // Otherwise by chance.
            Self::Waited | Self::LostAlone | Self::LostTogether => law.weight_clear,
            // By many packets and without measuring times: certain, until a trial clearly contradicts.
            Self::OvertookBurst => SCORE_HONOURED - 2,
            Self::FollowedBurst => SCORE_IGNORED,
            Self::Undecided => 0,
        }
    }
}

impl Guard {
    /// A guard of an unknown path with the minimum round trip `rtt` so far; evidence is valid for `age`.
    pub(crate) fn new(law: Law, age: Duration, rtt: Duration) -> Self {
        Self { law, age, rtt_min: rtt, ..Self::default() }
    }

    // --- what is known ---

    /// Starts with the score of an earlier connection, with its last evidence at `at`.
    pub(crate) fn recall(&mut self, at: Instant, score: i32) {
        self.score = score;
        self.moved = Some(at);
        self.stats.remembered = true;
    }

    /// Whether the score moved since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Drops evidence that is too old.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.moved.is_some_and(|moved| now >= moved + self.age) {
            self.score = 0;
            self.moved = None;
        }
    }

    /// The path has changed, and nothing is known of the new one.
    pub(crate) fn on_new_path(&mut self, rtt: Duration) {
        let stats = GuardStats { remembered: false, ..self.stats };
        *self = Self { stats, ..Self::new(self.law, self.age, rtt) };
    }

    /// The verdict on the path.
    pub(crate) fn verdict(&self) -> Verdict {
        verdict(self.score)
    }

    /// Measurements and verdict.
    pub(crate) fn stats(&self) -> GuardStats {
        GuardStats { verdict: self.verdict(), ..self.stats }
    }

    // --- samples ---

    /// RLP sent a batch of `bytes`; its last packet has the byte of `stream` at `offset`. The primary had
    /// `primary_in_flight` bytes in flight.
    pub(crate) fn on_rlp_sent(
        &mut self,
        now: Instant,
        stream: StreamId,
        offset: u64,
        bytes: u64,
        primary_in_flight: u64,
    ) {
        self.sent += bytes;
        let sample = WatchedPacket {
            sent: now,
            stream,
            offset,
            total: self.sent,
            dominant: self.sent - self.learned >= self.law.dominance * primary_in_flight,
            delay: None,
            partner: None,
            may_come: false,
            tried: false,
        };
        let spacing = self.rtt_min / self.law.guard_samples;
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

    /// A SACK reports that the peer has `span` of `stream`.
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

    /// Reports have come up to `late` after the shortest way back. So may SACKs.
    pub(crate) fn on_late_report(&mut self, now: Instant, late: Duration) {
        let (most, at) = self.late;
        if late >= most || at.is_none_or(|at| now >= at + self.rtt_min * LATE_REPORT_ROUNDS) {
            self.late = (late, Some(now));
        }
    }

    /// The primary packet sent at `sent` was acknowledged after `rtt`, without the peer's delay. Returns whether the
    /// path is now known to ignore marks.
    pub(crate) fn on_primary_acked(&mut self, now: Instant, sent: Instant, rtt: Duration) -> bool {
        self.rtt_min = self.rtt_min.min(rtt);
        self.try_primary(now, Partner { sent, at: now, rtt: Some(rtt) })
    }

    /// Packets of the primary were lost, the last of them sent at `sent`. Returns whether the path is now known to
    /// ignore marks.
    pub(crate) fn on_primary_lost(&mut self, now: Instant, sent: Instant) -> bool {
        self.try_primary(now, Partner { sent, at: now, rtt: None })
    }

    // --- trials ---

    /// The result of the datagram behind a burst. Returns whether the path is now known to ignore marks.
    pub(crate) fn on_order(&mut self, now: Instant, answer: BurstOrder) -> bool {
        let outcome = match answer {
            BurstOrder::Overtook => TrialOutcome::OvertookBurst,
            BurstOrder::Followed => TrialOutcome::FollowedBurst,
        };
        self.score_outcome(now, outcome)
    }

    /// A primary packet is compared with the last RLP packet before it that is known to have arrived. The very last one
    /// before it, if another, may still be overtaken or lost.
    fn try_primary(&mut self, now: Instant, partner: Partner) -> bool {
        let before = |sample: &&mut WatchedPacket| sample.sent < partner.sent;
        if let Some(last) = self.samples.iter_mut().rev().find(before)
            && last.delay.is_none()
            && last.partner.is_none()
        {
            last.partner = Some(partner);
        }
        let arrived = |sample: &&mut WatchedPacket| sample.sent < partner.sent && sample.delay.is_some();
        let Some(arrived) = self.samples.iter_mut().rev().find(arrived) else { return false };
        let tried = std::mem::replace(&mut arrived.tried, true);
        let arrived = *arrived;
        let Some(delay) = arrived.delay.filter(|_| !tried) else { return false };
        let outcome = self.compare(partner, &arrived, delay);
        self.score_outcome(now, outcome)
    }

    /// Decides the trials that waited for the RLP packet's fate. `is_open` returns whether a byte of a stream that RLP
    /// has sent still waits for its SACK; it does not once the primary has taken it. Returns whether the path is now
    /// known to ignore marks.
    ///
    /// Call it after each group of samples.
    pub(crate) fn evaluate_samples(&mut self, now: Instant, is_open: impl Fn(StreamId, u64) -> bool) -> bool {
        let grace = self.wait_min();
        for at in 0..self.samples.len() {
            let sample = self.samples[at];
            let Some(partner) = sample.partner.filter(|_| !sample.tried) else { continue };
            let outcome = match sample.delay {
                Some(delay) if sample.may_come => self.compare_late(partner, &sample, delay),
                Some(delay) => self.compare(partner, &sample, delay),
                // On a path that keeps the order the SACK arrives before the ACK, except for timing noise of hosts.
                None if now < partner.at + grace || sample.may_come => continue,
                None => {
                    self.learned = self.learned.max(sample.total);
                    self.compare_lost(now, partner, &sample, is_open(sample.stream, sample.offset))
                }
            };
            let may_come = sample.delay.is_none() && outcome == TrialOutcome::Undecided;
            self.samples[at].may_come = may_come;
            self.samples[at].tried = !may_come;
            if self.score_outcome(now, outcome) {
                return true;
            }
        }
        false
    }

    /// The primary's packet against an RLP packet sent before it that arrived after `delay`.
    fn compare(&self, partner: Partner, sample: &WatchedPacket, delay: Duration) -> TrialOutcome {
        let gap = partner.sent.saturating_duration_since(sample.sent);
        // How long the RLP packet still had to wait when the primary's arrived.
        let left = self.waited(delay).saturating_sub(gap);
        if left < self.wait_min() {
            return TrialOutcome::Undecided;
        }
        match partner.rtt.map(|rtt| self.waited(rtt)) {
            // If marks are honoured, RLP is dropped before the primary.
            None => TrialOutcome::LostAlone,
            Some(waited) if waited * 2 <= left => TrialOutcome::Overtook,
            Some(waited) if waited + self.law.host_jitter < left => TrialOutcome::Undecided,
            Some(_) if sample.dominant => TrialOutcome::Waited,
            Some(_) => TrialOutcome::WaitedWithOthers,
        }
    }

    /// The same, for an RLP packet that seemed lost. After two round trips it may have been sent again, and its SACK may be
    /// what was late.
    fn compare_late(&self, partner: Partner, sample: &WatchedPacket, delay: Duration) -> TrialOutcome {
        match self.compare(partner, sample, delay) {
            TrialOutcome::Overtook if delay < self.rtt_min * 2 => TrialOutcome::Spared,
            _ => TrialOutcome::Undecided,
        }
    }

    /// The primary's packet against an RLP packet sent before it that has not arrived.
    fn compare_lost(
        &self,
        now: Instant,
        partner: Partner,
        sample: &WatchedPacket,
        open: bool,
    ) -> TrialOutcome {
        // Losses come in groups, and a group is one event.
        if self.rlp_lost.is_some_and(|last| now < last + self.rtt_min) {
            return TrialOutcome::Undecided;
        }
        let gap = partner.sent.saturating_duration_since(sample.sent);
        match partner.rtt {
            // Where most is lost, the primary's packet would hardly find room in the queue.
            Some(_)
                if open && gap < self.wait_min() && self.lost_share(sample.sent) >= self.law.lost_most =>
            {
                TrialOutcome::Spared
            }
            // If normal priority alone exceeds the link, no RLP of that time arrives.
            None if sample.dominant && gap <= self.rtt_min / 2 && self.arrived_near(partner.sent) => {
                TrialOutcome::LostTogether
            }
            _ => TrialOutcome::Undecided,
        }
    }

    /// The share of RLP in the round trip around this time that was lost, in hundredths. If marks are ignored, the primary
    /// loses as much: at a policer, or at random.
    fn lost_share(&self, sent: Instant) -> u64 {
        let newest = self.samples.iter().rev().find(|sample| sample.delay.is_some());
        let known = newest.map_or(sent, |newest| newest.sent.max(sent));
        let (mut all, mut lost) = (0, 0);
        for sample in self.samples.iter().filter(|sample| apart(sample.sent, sent) <= self.rtt_min / 2) {
            all += u64::from(sample.delay.is_some() || sample.sent <= known);
            lost += u64::from(sample.delay.is_none() && sample.sent <= known);
        }
        100 * lost / all.max(1)
    }

    /// Whether RLP sent at about this time arrived.
    fn arrived_near(&self, sent: Instant) -> bool {
        let is_near = |sample: &WatchedPacket| apart(sample.sent, sent) <= self.wait_min();
        self.samples.iter().any(|sample| sample.delay.is_some() && is_near(sample))
    }

    /// Adds an outcome to the score; returns whether the path is now known to ignore marks.
    fn score_outcome(&mut self, now: Instant, outcome: TrialOutcome) -> bool {
        let is_wait = matches!(outcome, TrialOutcome::Waited | TrialOutcome::WaitedWithOthers);
        // A busy host delays many packets at once: one event.
        let is_same = is_wait && self.waited_at.is_some_and(|last| now < last + self.rtt_min);
        if outcome == TrialOutcome::Undecided || is_same {
            return false;
        }
        if is_wait {
            self.waited_at = Some(now);
        }
        tracing::trace!(?outcome, score = self.score, "trial of the path");
        match outcome {
            TrialOutcome::Overtook | TrialOutcome::OvertookBurst | TrialOutcome::Spared => {
                self.stats.overtook += 1
            }
            TrialOutcome::Waited | TrialOutcome::FollowedBurst | TrialOutcome::WaitedWithOthers => {
                self.stats.waited += 1
            }
            TrialOutcome::LostAlone | TrialOutcome::LostTogether => self.stats.lost += 1,
            TrialOutcome::Undecided => {}
        }
        if matches!(outcome, TrialOutcome::Spared | TrialOutcome::LostTogether) {
            self.rlp_lost = Some(now);
        }
        let before = self.verdict();
        self.score = (self.score + outcome.weight(&self.law)).clamp(SCORE_MIN, SCORE_IGNORED);
        (self.moved, self.changed) = (Some(now), true);
        before != Verdict::Ignored && self.verdict() == Verdict::Ignored
    }

    /// The waiting time that is evidence.
    fn wait_min(&self) -> Duration {
        let evident =
            (self.rtt_min / self.law.evident_part).max(self.law.evident_min).min(self.law.evident_max);
        evident.max(self.late.0 * 2)
    }

    /// The part of a round trip that was waiting.
    fn waited(&self, rtt: Duration) -> Duration {
        rtt.saturating_sub(self.rtt_min)
    }
}

fn apart(one: Instant, other: Instant) -> Duration {
    one.saturating_duration_since(other).max(other.saturating_duration_since(one))
}

/// The verdict of a score.
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

    /// A guard and the path of its packets.
    struct Bottleneck {
        start: Instant,
        guard: Guard,
        offset: u64,
    }

    impl Bottleneck {
        fn new() -> Self {
            Self { start: Instant::now(), guard: Guard::new(Law::default(), AGE, RTT), offset: 1 << 40 }
        }

        fn stream() -> StreamId {
            StreamId::new(Side::Client, Dir::Uni, 0)
        }

        /// RLP sends a burst and the primary a packet a millisecond later. Arguments: how long each waits, or `None` if
        /// lost. Returns whether the path is now known to ignore marks.
        fn trial(&mut self, at: Duration, rlp: Option<u64>, primary: Option<u64>) -> bool {
            let sent = self.start + at;
            self.offset -= 100 * PACKET;
            self.guard.on_rlp_sent(sent, Self::stream(), self.offset, 100 * PACKET, PACKET);
            let behind = sent + ms(1);
            let mut now = behind + RTT;
            if let Some(waited) = rlp {
                now = sent + RTT + ms(waited);
                self.guard.on_sacked(now, Self::stream(), Span::new(self.offset, self.offset + PACKET));
            }
            let withdrawn = match primary {
                Some(waited) => self.guard.on_primary_acked(now, behind, RTT + ms(waited)),
                None => self.guard.on_primary_lost(now, behind),
            };
            withdrawn || self.guard.evaluate_samples(now + ms(20), |_, _| true)
        }
    }

    #[test]
    fn a_primary_that_waits_like_rlp_speaks_against_the_path_and_one_that_overtakes_for_it() {
        let mut fifo = Bottleneck::new();
        assert!(!fifo.trial(ms(0), Some(30), Some(29)));
        assert_eq!(fifo.guard.verdict(), Verdict::Unproven, "one trial decides nothing");
        assert!(fifo.trial(ms(200), Some(30), Some(30)));
        assert_eq!(fifo.guard.verdict(), Verdict::Ignored);
        assert!(!fifo.trial(ms(400), Some(30), Some(30)), "already known");

        let mut priority = Bottleneck::new();
        for round in 0..20 {
            assert!(!priority.trial(ms(200 * round), Some(30), Some(0)));
        }
        assert_eq!(priority.guard.verdict(), Verdict::Honoured);
    }

    #[test]
    fn a_primary_that_is_lost_behind_rlp_that_arrives_speaks_against_the_path() {
        let mut fifo = Bottleneck::new();
        assert!(!fifo.trial(ms(0), Some(30), None));
        assert!(fifo.trial(ms(200), Some(30), None));
        assert_eq!((fifo.guard.stats().lost, fifo.guard.stats().waited), (2, 0));
    }

    #[test]
    fn chance_losses_are_outweighed_where_the_primary_overtakes() {
        let mut world = Bottleneck::new();
        for round in 0..300 {
            let primary = if round % 10 == 9 { None } else { Some(0) };
            assert!(!world.trial(ms(200 * round), Some(30), primary), "round {round}");
        }
    }

    #[test]
    fn without_a_queue_nothing_is_learned() {
        let mut world = Bottleneck::new();
        for round in 0..100 {
            assert!(!world.trial(ms(200 * round), Some(1), Some(1)));
            assert!(!world.trial(ms(200 * round + 100), Some(1), None), "a loss unrelated to RLP");
        }
        let stats = world.guard.stats();
        assert_eq!((stats.overtook, stats.waited, stats.lost), (0, 0, 0));
    }

    #[test]
    fn a_way_back_that_delays_receipts_makes_no_evidence_of_their_delay() {
        let mut world = Bottleneck::new();
        world.guard.on_late_report(world.start, ms(15));
        for round in 0..20 {
            assert!(!world.trial(ms(200 * round), Some(20), Some(0)));
            assert!(!world.trial(ms(200 * round + 100), Some(20), Some(20)));
        }
        assert_eq!(world.guard.score, 0);
        // A longer queue is, and so is the same one after the delay has gone.
        world.trial(ms(4000), Some(40), Some(0));
        assert!(world.guard.score < 0);
        let mut world = Bottleneck::new();
        world.guard.on_late_report(world.start, ms(15));
        world.guard.on_late_report(world.start + ms(2000), ms(0));
        world.trial(ms(4000), Some(20), Some(0));
        assert!(world.guard.score < 0);
    }

    #[test]
    fn losses_of_both_are_no_evidence_when_no_rlp_of_that_time_arrives() {
        let mut world = Bottleneck::new();
        for round in 0..100 {
            assert!(!world.trial(ms(200 * round), None, None));
        }
        assert_eq!(world.guard.verdict(), Verdict::Unproven);
    }

    #[test]
    fn a_verdict_ends_with_its_age_and_is_handed_on_until_then() {
        let mut world = Bottleneck::new();
        world.trial(ms(0), Some(30), Some(30));
        world.trial(ms(200), Some(30), Some(30));
        assert!(world.guard.take_changed() && !world.guard.take_changed());
        let (at, score) = (world.start + ms(200), world.guard.score);

        let mut next = Guard::new(Law::default(), AGE, RTT);
        next.recall(at, score);
        next.expire(at + AGE - ms(1));
        assert_eq!((next.verdict(), next.stats().remembered), (Verdict::Ignored, true));
        next.expire(at + AGE);
        assert_eq!(next.verdict(), Verdict::Unproven);
    }
}
