//! Asks a listener which DSCPs survive in each direction, with which marks low priority is treated differently, and how
//! long packets may be.
//!
//! The visitor sends two small datagrams per DSCP. Then, for each choice of marks, it sends rounds of forty low-priority
//! datagrams directly followed by eight normal ones, then packets of several lengths: at most 2.5 MB in all, and as
//! much comes back. If a queue forms and honours the marks, the normal datagrams overtake. If no queue forms, the
//! report says that the result is unknown.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    future::poll_fn,
    io,
    net::SocketAddr,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use rc3_net::{
    Level,
    marks::{DSCP_LOWER_EFFORT, MarkChoice, Marks},
    socket::{AsyncSocket, RecvBatch},
};
use serde::Serialize;
use tokio::time::{sleep, timeout_at};

use super::{
    advice::{self, MarkAdvice, mark_name},
    answer::{bind, send_marked},
    probe::{DSCPS, LEN_MIN, Probe, ProbeKey, ProbeKind},
};
use crate::transfer::reachable::unspecified;

const MARK_TRIES: u32 = 2;
const MARK_PAUSE: Duration = Duration::from_millis(2);
/// Rounds for each choice of marks.
const ROUNDS: u32 = 10;
/// The tested choices. The first is the default.
const CHOICES: [MarkChoice; 4] =
    [MarkChoice::LowerEffort, MarkChoice::Cs1, MarkChoice::Raised, MarkChoice::PerLevel];
const LOW_PER_ROUND: u32 = 40;
/// So many of them, of the worst level, make the queue. The levels share the rest, the best level last.
const FIRST_PER_ROUND: u32 = 10;
const NORMAL_PER_ROUND: u32 = 8;
const ROUND_PAUSE: Duration = Duration::from_millis(60);
const BURST_LEN: usize = 1200;
/// Common MTUs: the minimum of IPv6, tunnels, PPPoE, Ethernet, jumbo frames of data centres and of research networks,
/// loopback on some systems.
const MTUS: [u16; 8] = [1280, 1400, 1420, 1492, 1500, 8000, 9000, 16_384];
const LENGTH_TRIES: u32 = 3;
const LENGTH_PAUSE: Duration = Duration::from_millis(5);
/// Longest wait for the last answers.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest wait until the listener answers at all, and the time between two tries.
const FIRST_PATIENCE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Announcements of the end, as some may be lost.
const ENDS: u32 = 3;
const END_PAUSE: Duration = Duration::from_millis(20);

/// Numbers of the rounds that test no choice of marks: each DSCP, lengths, and the first contact.
const ROUND_OF_MARKS: u32 = 0;
const ROUND_OF_LENGTHS: u32 = u32::MAX;
const ROUND_OF_CONTACT: u32 = u32::MAX - 1;

/// Smallest queue that stands out from the jitter of hosts, in milliseconds.
const QUEUE_MS_MIN: f64 = 2.0;
/// Shares of packets above chance.
const OVERTAKING_MIN: f64 = 0.2;
const LOSS_DIFFERENCE_MIN: f64 = 0.1;

/// How a direction treats low priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Treatment {
    /// Normal priority overtakes, or loses nothing while low priority does.
    Different,
    /// Both share one queue.
    Same,
    /// Unknown, because no queue formed.
    Unknown,
}

/// Results of bursts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BurstTrial {
    /// Share of lost low-priority packets.
    pub low_loss: f64,
    /// Share of lost normal packets.
    pub normal_loss: f64,
    /// Median delay of low-priority packets behind the first of their burst, in milliseconds.
    pub low_wait_ms: f64,
    /// The same for normal packets.
    pub normal_wait_ms: f64,
    /// Share of normal packets that arrived before a low-priority one sent earlier; with a code point per level, that of
    /// the level where it is least.
    pub overtaking: f64,
    /// Low-priority levels that the path distinguishes: of two neighbours, packets of the better one overtook.
    pub levels: usize,
    /// The conclusion.
    pub treatment: Treatment,
}

/// Bursts with one choice of marks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChoiceReport {
    /// Its name for `--marks`.
    #[serde(serialize_with = "mark_name")]
    pub marks: MarkChoice,
    /// To the peer.
    pub there: BurstTrial,
    /// From the peer; counts only packets that had arrived there.
    pub back: BurstTrial,
}

/// Both directions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathReport {
    /// The peer's address.
    pub remote: SocketAddr,
    /// Shortest round trip in milliseconds.
    pub rtt_ms: f64,
    /// Longest packets of common lengths, IP header included, that pass both ways.
    pub mtu: Option<u16>,
    /// DSCPs that arrived at the peer: sent and received values.
    pub marks_there: BTreeMap<u8, u8>,
    /// The same of the replies.
    pub marks_back: BTreeMap<u8, u8>,
    /// Bursts with each choice of marks, the default first.
    pub choices: Vec<ChoiceReport>,
    /// Which marks to send with.
    pub advice: MarkAdvice,
}

impl PathReport {
    /// What would let packets through, and RLP help on this path.
    pub(super) fn todo(&self) -> Vec<String> {
        let (le, mut todo) = (DSCP_LOWER_EFFORT, Vec::new());
        if self.mtu.is_none() {
            todo.push("let packets of 1280 bytes pass both ways: look for a tunnel or firewall".to_owned());
        }
        for (way, marks) in [("to", &self.marks_there), ("from", &self.marks_back)] {
            let found = match marks.get(&le) {
                Some(&seen) if seen == le => continue,
                Some(seen) => format!("it arrives as {seen}"),
                None => "such packets do not arrive".to_owned(),
            };
            todo.push(format!(
                "ask the network's operator to keep DSCP {le} {way} {}: {found}",
                self.remote.ip()
            ));
        }
        let is_shared = |choice: &ChoiceReport| {
            [&choice.there, &choice.back].iter().any(|trial| trial.treatment == Treatment::Same)
        };
        if self.choices.first().is_some_and(is_shared) {
            let what = "give low priority a queue of its own at the bottleneck (docs/OPERATORS.md): it shares that of others";
            todo.push(what.to_owned());
        }
        todo
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("Path to {}, shortest round trip {:.1} ms\n", self.remote, self.rtt_ms);
        for (name, marks) in [("there", &self.marks_there), ("back", &self.marks_back)] {
            let _ = writeln!(text, "  {name}: {}", marks_text(marks));
        }
        for ChoiceReport { marks, there, back } in &self.choices {
            let table = Marks::from(*marks);
            let [primary, first, last] =
                [Level::PRIMARY, Level::FIRST, Level::MAX].map(|level| table.dscp(level));
            let low = if first == last { first.to_string() } else { format!("{first} to {last}") };
            let _ = writeln!(text, "  marks {} (DSCP {low} below {primary})", marks.name());
            let _ = writeln!(text, "    there: {}\n    back: {}", there.text(), back.text());
        }
        text += &self.advice.text();
        text + &self.mtu_text()
    }

    fn mtu_text(&self) -> String {
        match self.mtu {
            Some(mtu @ 1501..) => {
                format!("  packets of {mtu} bytes pass: `rc3 send --mtu {mtu}` takes less CPU time\n")
            }
            Some(mtu) => format!("  packets of {mtu} bytes pass, longer ones do not\n"),
            None => "  ! packets of 1280 bytes, the shortest tried, do not pass both ways\n".to_owned(),
        }
    }
}

impl BurstTrial {
    fn text(&self) -> String {
        let meaning = match self.treatment {
            Treatment::Different if self.levels > 1 => {
                &format!("low priority is served last, in {} levels", self.levels)
            }
            Treatment::Different => "low priority is served last",
            Treatment::Same => "! both share one queue",
            Treatment::Unknown => "unknown, because no queue formed",
        };
        format!(
            "low {:.1} % lost, waits {:.1} ms; normal {:.1} % lost, waits {:.1} ms, {:.0} % overtake: {meaning}",
            100.0 * self.low_loss,
            self.low_wait_ms,
            100.0 * self.normal_loss,
            self.normal_wait_ms,
            100.0 * self.overtaking,
        )
    }
}

fn marks_text(marks: &BTreeMap<u8, u8>) -> String {
    let (kept, changed): (Vec<_>, Vec<_>) = marks.iter().partition(|(sent, seen)| sent == seen);
    let mut text = format!("{} of {DSCPS} DSCPs kept", kept.len());
    if let Some(&(_, &first)) = changed.first() {
        if changed.iter().all(|&(_, &seen)| seen == first) {
            let _ = write!(text, ", {} changed to {first}", changed.len());
        } else {
            let list: Vec<_> = changed.iter().map(|(sent, seen)| format!("{sent}->{seen}")).collect();
            let _ = write!(text, ", changed: {}", list.join(" "));
        }
    }
    match usize::from(DSCPS) - marks.len() {
        0 => {}
        missing => drop(write!(text, ", {missing} did not arrive")),
    }
    text
}

/// A received reply.
#[derive(Debug, Clone, Copy)]
struct Heard {
    reply: Probe,
    /// Bytes of the datagram.
    len: usize,
    /// DSCP on arrival.
    dscp: u8,
    /// Arrival time in nanoseconds of the local clock.
    at: u64,
}

/// Probes the path to a listener in a session with this key; `None` without answers. `progress` gets the parts.
///
/// # Errors
/// When the socket becomes unusable.
pub(super) async fn probe(
    remote: SocketAddr,
    key: &ProbeKey,
    mut progress: impl FnMut(&str),
) -> io::Result<Option<PathReport>> {
    let socket = bind(SocketAddr::new(unspecified(remote), 0))?;
    let mut prober = Prober { socket, remote, key, begun: Instant::now(), heard: Vec::new() };
    progress("which marks arrive");
    if !prober.await_contact().await? {
        return Ok(None);
    }
    for _ in 0..MARK_TRIES {
        for dscp in 0..DSCPS {
            prober.send(ProbeKind::Mark, dscp, false, ROUND_OF_MARKS, LEN_MIN).await?;
            sleep(MARK_PAUSE).await;
            prober.collect(Duration::ZERO).await?;
        }
    }
    prober.collect(PATIENCE).await?;
    for (nth, choice) in (0..).zip(CHOICES) {
        progress(&format!("overtaking with marks {}", choice.name()));
        prober.send_bursts(choice, rounds(nth)).await?;
    }
    prober.collect(PATIENCE).await?;
    progress("how long packets may be");
    prober.send_lengths().await?;
    for _ in 0..ENDS {
        prober.send(ProbeKind::End, 0, false, 0, LEN_MIN).await?;
        sleep(END_PAUSE).await;
    }
    Ok(Some(report(remote, &prober.heard)))
}

/// The level of the nth low-priority packet of a round.
fn low_level(nth: u32) -> Level {
    let levels = u32::from(Level::MAX.get());
    let better = nth.saturating_sub(FIRST_PER_ROUND) * levels / (LOW_PER_ROUND - FIRST_PER_ROUND);
    Level::new((levels - better) as u8).unwrap_or(Level::MAX)
}

/// The UDP payload in bytes that makes packets of `mtu` bytes to this address.
fn payload(mtu: u16, remote: SocketAddr) -> usize {
    let headers = if remote.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 };
    usize::from(mtu.saturating_sub(headers))
}

/// Numbers of the rounds with the nth choice of marks.
fn rounds(nth: u32) -> RangeInclusive<u32> {
    nth * ROUNDS + 1..=(nth + 1) * ROUNDS
}

/// The visitor's part in a session of probes.
struct Prober<'a> {
    socket: AsyncSocket,
    remote: SocketAddr,
    key: &'a ProbeKey,
    begun: Instant,
    /// All replies so far.
    heard: Vec<Heard>,
}

impl Prober<'_> {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A probe that leaves now, in a datagram of `len` bytes.
    async fn send(&self, kind: ProbeKind, dscp: u8, low: bool, round: u32, len: usize) -> io::Result<()> {
        let probe = Probe { kind, dscp, low, round, sent: self.now(), ..Probe::default() };
        send_marked(&self.socket, self.remote, dscp, low, &probe.emit(self.key, len)).await
    }

    /// Whether the listener, which first has to change its socket, answers.
    async fn await_contact(&mut self) -> io::Result<bool> {
        while self.heard.is_empty() && self.begun.elapsed() < FIRST_PATIENCE {
            self.send(ProbeKind::Mark, 0, false, ROUND_OF_CONTACT, LEN_MIN).await?;
            self.collect(FIRST_PAUSE).await?;
        }
        Ok(!self.heard.is_empty())
    }

    /// Bursts with one choice of marks.
    async fn send_bursts(&mut self, choice: MarkChoice, rounds: RangeInclusive<u32>) -> io::Result<()> {
        let marks = Marks::from(choice);
        for round in rounds {
            for nth in 0..LOW_PER_ROUND + NORMAL_PER_ROUND {
                let low = nth < LOW_PER_ROUND;
                let level = if low { low_level(nth) } else { Level::PRIMARY };
                self.send(ProbeKind::Burst, marks.dscp(level), low, round, BURST_LEN).await?;
            }
            self.collect(ROUND_PAUSE).await?;
        }
        Ok(())
    }

    /// Packets of each of [`MTUS`].
    async fn send_lengths(&mut self) -> io::Result<()> {
        for _ in 0..LENGTH_TRIES {
            for mtu in MTUS {
                let len = payload(mtu, self.remote);
                self.send(ProbeKind::Mark, 0, false, ROUND_OF_LENGTHS, len).await?;
                sleep(LENGTH_PAUSE).await;
                self.collect(Duration::ZERO).await?;
            }
        }
        self.collect(PATIENCE).await
    }

    /// Receives replies for this long.
    async fn collect(&mut self, patience: Duration) -> io::Result<()> {
        let deadline = tokio::time::Instant::now() + patience;
        let mut batch = RecvBatch::new();
        while let Ok(received) =
            timeout_at(deadline, poll_fn(|cx| self.socket.poll_recv(cx, &mut batch))).await
        {
            received?;
            let at = self.now();
            for datagram in batch.datagrams() {
                let (len, dscp) = (datagram.data.len(), datagram.meta.dscp);
                let reply = Probe::parse(self.key, &datagram.data);
                let reply = reply.filter(|reply| reply.kind == ProbeKind::Reply);
                self.heard.extend(reply.map(|reply| Heard { reply, len, dscp, at }));
            }
        }
        Ok(())
    }
}

fn report(remote: SocketAddr, heard: &[Heard]) -> PathReport {
    // The longest packets that the listener received and answered in the same length.
    let passes = |mtu| {
        let len = payload(mtu, remote);
        heard.iter().any(|heard| heard.reply.round == ROUND_OF_LENGTHS && heard.len == len)
    };
    let mtu = MTUS.into_iter().rev().find(|&mtu| passes(mtu));
    // The listener delays answers to bursts: only marks show the round trip.
    let marks = heard.iter().filter(|heard| heard.reply.round == ROUND_OF_MARKS);
    let rtt = marks.clone().map(|heard| heard.at.saturating_sub(heard.reply.sent)).min().unwrap_or(0);
    let choices: Vec<ChoiceReport> = (0..)
        .zip(CHOICES)
        .map(|(nth, marks)| {
            let (there, back) = trials(heard, &rounds(nth));
            ChoiceReport { marks, there, back }
        })
        .collect();
    let marks_there = marks.clone().map(|heard| (heard.reply.dscp, heard.reply.seen)).collect();
    let marks_back = marks.map(|heard| (heard.reply.dscp, heard.dscp)).collect();
    let overtaken = choices.iter().filter(|choice| choice.there.treatment == Treatment::Different);
    let advice = advice::advise(&marks_there, overtaken.map(|choice| choice.marks));
    PathReport { remote, rtt_ms: rtt as f64 / 1e6, mtu, marks_there, marks_back, choices, advice }
}

/// Results of the bursts of these rounds, there and back.
fn trials(heard: &[Heard], rounds: &RangeInclusive<u32>) -> (BurstTrial, BurstTrial) {
    let bursts: Vec<Heard> =
        heard.iter().filter(|heard| rounds.contains(&heard.reply.round)).copied().collect();
    // Clocks differ by a constant, which cancels in the difference of two packets.
    let there = |heard: &Heard| i128::from(heard.reply.arrived) - i128::from(heard.reply.sent);
    let low_sent = f64::from(ROUNDS * LOW_PER_ROUND);
    let normal_sent = f64::from(ROUNDS * NORMAL_PER_ROUND);
    let counts = |Heard { reply, .. }: &Heard| (reply.round, (reply.low_arrived, reply.normal_arrived));
    let arrived: BTreeMap<u32, (u8, u8)> = bursts.iter().map(counts).collect();
    let sum = |pick: fn(&(u8, u8)) -> u8| arrived.values().map(|both| f64::from(pick(both))).sum::<f64>();
    let (low_there, normal_there) = (sum(|both| both.0), sum(|both| both.1));
    let count = |low: bool| bursts.iter().filter(|heard| heard.reply.low == low).count() as f64;
    let share = |lost: f64, of: f64| if of > 0.0 { (lost / of).clamp(0.0, 1.0) } else { 0.0 };
    let trial = |losses: (f64, f64), waits: (f64, f64), sequence: &[BurstArrival]| {
        let classes: BTreeSet<Class> = sequence.iter().map(|arrival| arrival.class).collect();
        let low: Vec<Class> = classes.into_iter().filter(|class| *class != NORMAL).collect();
        let overtaking_of = |class: &Class| overtaking(sequence, NORMAL, *class);
        let overtaking_least = low.iter().map(overtaking_of).reduce(f64::min).unwrap_or(0.0);
        let is_distinct = |pair: &&[Class]| overtaking(sequence, pair[0], pair[1]) >= OVERTAKING_MIN;
        let levels = low.len().min(1) + low.windows(2).filter(is_distinct).count();
        let treatment = match low.len() {
            // A level that is served better than normal packets could hide behind losses of others.
            2.. if overtaking_least < OVERTAKING_MIN || levels < 2 => treatment((0.0, 0.0), waits, 0.0),
            _ => treatment(losses, waits, overtaking_least),
        };
        BurstTrial {
            low_loss: losses.0,
            normal_loss: losses.1,
            low_wait_ms: waits.0,
            normal_wait_ms: waits.1,
            overtaking: overtaking_least,
            levels,
            treatment,
        }
    };
    let arrival =
        |heard: &Heard, order| BurstArrival { round: heard.reply.round, order, class: class(&heard.reply) };
    let sequence: Vec<BurstArrival> = bursts.iter().map(|heard| arrival(heard, heard.reply.order)).collect();
    let came: Vec<BurstArrival> = (0..).zip(&bursts).map(|(nth, heard)| arrival(heard, nth)).collect();
    let there = trial(
        (share(low_sent - low_there, low_sent), share(normal_sent - normal_there, normal_sent)),
        waits(&bursts, there),
        &sequence,
    );
    let back = trial(
        (share(low_there - count(true), low_there), share(normal_there - count(false), normal_there)),
        // All answers of a round leave the listener at once.
        waits(&bursts, |heard| i128::from(heard.at)),
        &came,
    );
    (there, back)
}

/// Median delays of low and normal priority in milliseconds, relative to the first packet of their round. A queue
/// stretches a burst; a busy host only delays all of it.
fn waits(heard: &[Heard], time: impl Fn(&Heard) -> i128) -> (f64, f64) {
    let mut first: BTreeMap<u32, &Heard> = BTreeMap::new();
    for one in heard.iter().filter(|one| one.reply.low) {
        let known = first.entry(one.reply.round).or_insert(one);
        if one.reply.sent < known.reply.sent {
            *known = one;
        }
    }
    let median = |low: bool| {
        let mut all: Vec<i128> = heard
            .iter()
            .filter(|one| one.reply.low == low)
            .filter_map(|one| Some((time(one) - time(first.get(&one.reply.round)?)).max(0)))
            .collect();
        all.sort_unstable();
        all.get(all.len() / 2).map_or(0.0, |&nanos| nanos as f64 / 1e6)
    };
    (median(true), median(false))
}

/// The better class first: that of normal packets, then code points of low ones.
type Class = (bool, u8);
const NORMAL: Class = (false, 0);

fn class(reply: &Probe) -> Class {
    if reply.low { (true, reply.dscp) } else { NORMAL }
}

/// A packet of a burst.
struct BurstArrival {
    round: u32,
    /// The packets of a round arrived in this order.
    order: u32,
    class: Class,
}

/// Share of packets of the better class that arrived before one of the worse class in their round, all of which were sent
/// earlier.
fn overtaking(sequence: &[BurstArrival], better: Class, worse: Class) -> f64 {
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for BurstArrival { round, order, .. } in sequence.iter().filter(|arrival| arrival.class == worse) {
        last.entry(*round).and_modify(|last| *last = (*order).max(*last)).or_insert(*order);
    }
    let better: Vec<_> = sequence.iter().filter(|arrival| arrival.class == better).collect();
    let over = better.iter().filter(|one| last.get(&one.round).is_some_and(|last| one.order < *last));
    if better.is_empty() { 0.0 } else { over.count() as f64 / better.len() as f64 }
}

fn treatment(losses: (f64, f64), waits: (f64, f64), overtaking: f64) -> Treatment {
    if overtaking >= OVERTAKING_MIN || losses.0 >= losses.1 + LOSS_DIFFERENCE_MIN {
        Treatment::Different
    } else if waits.0 >= QUEUE_MS_MIN && waits.1 >= QUEUE_MS_MIN {
        Treatment::Same
    } else {
        Treatment::Unknown
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::advice::Reason, *};

    /// A path that keeps the default mark, and on which no queue formed.
    pub(in crate::check) fn healthy() -> PathReport {
        PathReport {
            remote: ([192, 0, 2, 1], 9).into(),
            rtt_ms: 1.0,
            mtu: Some(1500),
            marks_there: [(DSCP_LOWER_EFFORT, DSCP_LOWER_EFFORT)].into(),
            marks_back: [(DSCP_LOWER_EFFORT, DSCP_LOWER_EFFORT)].into(),
            choices: Vec::new(),
            advice: MarkAdvice { marks: MarkChoice::default(), reason: Reason::NothingBetter },
        }
    }

    /// One round with the default marks in which packets arrive in this order, a millisecond apart; they return unchanged.
    fn round(order: impl Fn(u32) -> u32) -> PathReport {
        round_of(0, order)
    }

    /// The same with the choice of this index.
    fn round_of(choice: usize, order: impl Fn(u32) -> u32) -> PathReport {
        let marks = Marks::from(CHOICES[choice]);
        let heard: Vec<Heard> = (0..LOW_PER_ROUND + NORMAL_PER_ROUND)
            .map(|nth| {
                let low = nth < LOW_PER_ROUND;
                let (low_arrived, normal_arrived) = (LOW_PER_ROUND as u8, NORMAL_PER_ROUND as u8);
                let reply = Probe {
                    kind: ProbeKind::Reply,
                    dscp: marks.dscp(if low { low_level(nth) } else { Level::PRIMARY }),
                    seen: 0,
                    low,
                    low_arrived,
                    normal_arrived,
                    round: *rounds(choice as u32).start(),
                    order: order(nth),
                    sent: u64::from(nth),
                    arrived: u64::from(order(nth)) * 1_000_000,
                };
                Heard { reply, len: BURST_LEN, dscp: 0, at: 100_000_000 }
            })
            .collect();
        report(([127, 0, 0, 1], 9).into(), &heard)
    }

    #[test]
    fn a_queue_in_order_is_the_same_treatment_and_overtaking_is_not() {
        assert_eq!(round(|nth| nth).choices[0].there.treatment, Treatment::Same);
        let first = |nth| if nth < LOW_PER_ROUND { nth + NORMAL_PER_ROUND } else { nth - LOW_PER_ROUND };
        let report = round(first);
        let ChoiceReport { there, back, .. } = &report.choices[0];
        assert_eq!((there.treatment, there.overtaking), (Treatment::Different, 1.0));
        assert_eq!(back.treatment, Treatment::Unknown, "all came back at once");
    }

    /// How marks per level are treated where packets are served by rank, those of one rank in order.
    fn ladder(rank: impl Fn(u32) -> u8) -> (Treatment, usize) {
        let mut served: Vec<u32> = (0..LOW_PER_ROUND + NORMAL_PER_ROUND).collect();
        served.sort_by_key(|&nth| if nth < LOW_PER_ROUND { rank(nth) } else { 0 });
        let order = |nth| served.iter().position(|&other| other == nth).unwrap() as u32;
        let last = CHOICES.len() - 1;
        let report = round_of(last, order);
        assert_eq!(report.choices[last].marks, MarkChoice::PerLevel);
        (report.choices[last].there.treatment, report.choices[last].there.levels)
    }

    #[test]
    fn levels_count_as_honoured_if_each_is_overtaken_and_some_are_told_apart() {
        let level = |nth| low_level(nth).get();
        assert_eq!([0, 9, 10, 39].map(level), [15, 15, 15, 1]);
        assert_eq!(ladder(level), (Treatment::Different, 15));
        // A switch with eight queues.
        assert_eq!(ladder(|nth| level(nth).min(7)), (Treatment::Different, 7));
        // One class below normal packets has no use for levels.
        assert_eq!(ladder(|_| 1), (Treatment::Unknown, 1));
        // A device that serves one of them with normal packets, whatever it does with the others.
        assert_eq!(ladder(|nth| if level(nth) == 5 { 0 } else { level(nth) }).0, Treatment::Unknown);
    }

    #[test]
    fn a_line_summarizes_the_marks_of_a_path() {
        let cleared = (0..DSCPS).map(|dscp| (dscp, 0)).collect();
        assert_eq!(marks_text(&cleared), "1 of 64 DSCPs kept, 63 changed to 0");
        let dropped = (0..60).map(|dscp| (dscp, dscp)).collect();
        assert_eq!(marks_text(&dropped), "60 of 64 DSCPs kept, 4 did not arrive");
    }
}
