//! Asks a listening peer which DSCPs survive in each direction, and with which marks low priority is treated
//! differently.
//!
//! The check sends two small datagrams per DSCP. Then, for each choice of marks, it sends rounds of forty low-priority
//! datagrams directly followed by eight normal ones, then packets of several lengths: at most 1.9 MB in all, and as
//! much comes back. If a queue forms and honours the marks, the normal datagrams overtake. If no queue forms, the
//! report says that the result is unknown.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    future::poll_fn,
    io,
    net::SocketAddr,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use rc3_net::{
    marks::{DSCP_LOWER_EFFORT, MarkChoice},
    socket::{AsyncSocket, RecvBatch},
};
use serde::{Serialize, Serializer};
use tokio::time::{sleep, timeout_at};

use super::{
    Step,
    advice::{self, Advice},
    lengths,
    listen::send_marked,
    probe::{Key, Kind, LEN_MIN, Probe},
};
use crate::transfer::ticket::Fingerprint;

const DSCPS: u8 = 64;
const MARK_TRIES: u32 = 2;
const MARK_PAUSE: Duration = Duration::from_millis(2);
/// Rounds for each choice of marks.
const ROUNDS: u32 = 10;
/// The tested choices. The first is the default, and represents a direction as a whole.
const CHOICES: [MarkChoice; 3] = [MarkChoice::LowerEffort, MarkChoice::Cs1, MarkChoice::Raised];
const LOW_PER_ROUND: u32 = 40;
const NORMAL_PER_ROUND: u32 = 8;
const ROUND_PAUSE: Duration = Duration::from_millis(60);
const BURST_LEN: usize = 1200;
/// Longest wait for the last answers.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

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
pub struct Trial {
    /// Share of lost low-priority packets.
    pub low_loss: f64,
    /// Share of lost normal packets.
    pub normal_loss: f64,
    /// Median delay of low-priority packets behind the first of their burst, in milliseconds.
    pub low_wait_ms: f64,
    /// The same for normal packets.
    pub normal_wait_ms: f64,
    /// Share of normal packets that arrived before a low-priority one sent earlier.
    pub overtaking: f64,
    /// The conclusion.
    pub treatment: Treatment,
}

/// One direction of the path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Direction {
    /// DSCPs that arrived: sent and received values.
    pub marks: BTreeMap<u8, u8>,
    /// Results with the default marks.
    #[serde(flatten)]
    pub trial: Trial,
}

/// Bursts with one choice of marks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChoiceReport {
    /// Its name for `--marks`.
    #[serde(serialize_with = "choice_name")]
    pub marks: MarkChoice,
    /// To the peer.
    pub there: Trial,
    /// From the peer.
    pub back: Trial,
}

fn choice_name<S: Serializer>(choice: &MarkChoice, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(choice.name())
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
    /// To the peer.
    pub there: Direction,
    /// From the peer; counts only packets that had arrived there.
    pub back: Direction,
    /// The same bursts with each choice of marks.
    pub choices: Vec<ChoiceReport>,
    /// Which marks to send with.
    pub advice: Advice,
    /// Fingerprint of the listener's certificate, if it takes part in flows.
    #[serde(skip)]
    pub fingerprint: Option<Fingerprint>,
}

impl PathReport {
    /// Whether the results allow RLP on this path.
    pub fn is_healthy(&self) -> bool {
        self.mtu.is_some()
            && [&self.there, &self.back].into_iter().all(|direction| {
                direction.trial.treatment != Treatment::Same
                    && direction.marks.get(&DSCP_LOWER_EFFORT) == Some(&DSCP_LOWER_EFFORT)
            })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("Path to {}, shortest round trip {:.1} ms\n", self.remote, self.rtt_ms);
        for (name, direction) in [("there", &self.there), ("back", &self.back)] {
            let _ = writeln!(text, "  {name}: {}", direction.marks_text());
        }
        for ChoiceReport { marks, there, back } in &self.choices {
            let (primary, low) = marks.dscps();
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

impl Trial {
    fn text(&self) -> String {
        let meaning = match self.treatment {
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

impl Direction {
    fn marks_text(&self) -> String {
        let kept = self.marks.iter().filter(|(sent, seen)| sent == seen).count();
        let missing = usize::from(DSCPS) - self.marks.len();
        let mut text = format!("{kept} of {DSCPS} DSCPs kept");
        let changed: Vec<_> = self.marks.iter().filter(|(sent, seen)| sent != seen).collect();
        if let Some(&(_, &first)) = changed.first() {
            if changed.iter().all(|&(_, &seen)| seen == first) {
                let _ = write!(text, ", {} changed to {first}", changed.len());
            } else {
                let list: Vec<_> = changed.iter().map(|(sent, seen)| format!("{sent}->{seen}")).collect();
                let _ = write!(text, ", changed: {}", list.join(" "));
            }
        }
        if missing > 0 {
            let _ = write!(text, ", {missing} did not arrive");
        }
        text
    }
}

/// A received reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    pub(super) reply: Probe,
    /// Bytes of the datagram.
    pub(super) len: usize,
    /// DSCP on arrival.
    dscp: u8,
    /// Arrival time in nanoseconds of the local clock.
    at: u64,
}

/// Runs the check; `None` without answers.
///
/// # Errors
/// When the socket becomes unusable.
pub async fn check(
    socket: &AsyncSocket,
    remote: SocketAddr,
    key: &Key,
    run: u64,
    progress: &mut impl FnMut(Step),
) -> io::Result<Option<PathReport>> {
    let mut check = Check { socket, key, run, begun: Instant::now(), heard: Vec::new(), fingerprint: None };
    progress(Step::Marks);
    for _ in 0..MARK_TRIES {
        for dscp in 0..DSCPS {
            let datagram = check.probe(Kind::Mark, dscp, false, 0).emit(key, LEN_MIN);
            send_marked(socket, remote, dscp, false, &datagram).await?;
            sleep(MARK_PAUSE).await;
            check.collect(Duration::ZERO).await?;
        }
    }
    check.collect(PATIENCE).await?;
    if check.heard.is_empty() {
        return Ok(None);
    }
    for (nth, choice) in (0..).zip(CHOICES) {
        progress(Step::Bursts(choice));
        check.bursts(remote, choice, rounds(nth)).await?;
    }
    check.collect(PATIENCE).await?;
    progress(Step::Lengths);
    let mtu = lengths::longest(&mut check, remote).await?;
    Ok(Some(report(remote, mtu, &check.heard, check.fingerprint)))
}

/// Numbers of the rounds with the nth choice of marks.
fn rounds(nth: u32) -> RangeInclusive<u32> {
    nth * ROUNDS + 1..=(nth + 1) * ROUNDS
}

/// A running check.
pub(super) struct Check<'a> {
    pub(super) socket: &'a AsyncSocket,
    pub(super) key: &'a Key,
    run: u64,
    begun: Instant,
    /// All replies so far.
    pub(super) heard: Vec<Heard>,
    fingerprint: Option<Fingerprint>,
}

impl Check<'_> {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A probe that leaves now.
    pub(super) fn probe(&self, kind: Kind, dscp: u8, low: bool, round: u32) -> Probe {
        Probe { dscp, low, run: self.run, round, sent: self.now(), ..Probe::request(kind) }
    }

    /// Bursts with one choice of marks.
    async fn bursts(
        &mut self,
        remote: SocketAddr,
        choice: MarkChoice,
        rounds: RangeInclusive<u32>,
    ) -> io::Result<()> {
        let (primary, below) = choice.dscps();
        for round in rounds {
            for nth in 0..LOW_PER_ROUND + NORMAL_PER_ROUND {
                let low = nth < LOW_PER_ROUND;
                let dscp = if low { below } else { primary };
                let datagram = self.probe(Kind::Burst, dscp, low, round).emit(self.key, BURST_LEN);
                send_marked(self.socket, remote, dscp, low, &datagram).await?;
            }
            self.collect(ROUND_PAUSE).await?;
        }
        Ok(())
    }

    /// Receives replies for this long.
    pub(super) async fn collect(&mut self, patience: Duration) -> io::Result<()> {
        let deadline = tokio::time::Instant::now() + patience;
        let mut batch = RecvBatch::new();
        while let Ok(received) =
            timeout_at(deadline, poll_fn(|cx| self.socket.poll_recv(cx, &mut batch))).await
        {
            received?;
            let at = self.now();
            for datagram in batch.datagrams() {
                let reply = Probe::parse(self.key, &datagram.data);
                if let Some(reply) = reply.filter(|reply| reply.kind == Kind::Reply && reply.run == self.run)
                {
                    self.fingerprint =
                        self.fingerprint.or_else(|| Probe::fingerprint(self.key, &datagram.data));
                    let len = datagram.data.len();
                    self.heard.push(Heard { reply, len, dscp: datagram.meta.dscp, at });
                }
            }
        }
        Ok(())
    }
}

fn report(
    remote: SocketAddr,
    mtu: Option<u16>,
    heard: &[Heard],
    fingerprint: Option<Fingerprint>,
) -> PathReport {
    // The listener delays answers to bursts: only marks show the round trip.
    let marks = heard.iter().filter(|heard| heard.reply.round == 0);
    let rtt = marks.clone().map(|heard| heard.at.saturating_sub(heard.reply.sent)).min().unwrap_or(0);
    let choices: Vec<ChoiceReport> = (0..)
        .zip(CHOICES)
        .map(|(nth, marks)| {
            let (there, back) = trials(heard, &rounds(nth));
            ChoiceReport { marks, there, back }
        })
        .collect();
    let (there, back) = trials(heard, &rounds(0));
    let there = Direction {
        marks: marks.clone().map(|heard| (heard.reply.dscp, heard.reply.seen)).collect(),
        trial: there,
    };
    let back = Direction { marks: marks.map(|heard| (heard.reply.dscp, heard.dscp)).collect(), trial: back };
    let overtaken = choices.iter().filter(|choice| choice.there.treatment == Treatment::Different);
    let advice = advice::advise(&there.marks, overtaken.map(|choice| choice.marks));
    PathReport { remote, rtt_ms: rtt as f64 / 1e6, mtu, there, back, choices, advice, fingerprint }
}

/// Results of the bursts of these rounds, there and back.
fn trials(heard: &[Heard], rounds: &RangeInclusive<u32>) -> (Trial, Trial) {
    let bursts: Vec<Heard> =
        heard.iter().filter(|heard| rounds.contains(&heard.reply.round)).copied().collect();
    // Clocks differ by a constant, which cancels in the difference of two packets.
    let there = |heard: &Heard| i128::from(heard.reply.arrived) - i128::from(heard.reply.sent);
    let low_sent = f64::from(ROUNDS * LOW_PER_ROUND);
    let normal_sent = f64::from(ROUNDS * NORMAL_PER_ROUND);
    let mut arrived: BTreeMap<u32, (u8, u8)> = BTreeMap::new();
    for Heard { reply, .. } in &bursts {
        arrived.insert(reply.round, (reply.low_arrived, reply.normal_arrived));
    }
    let sum = |pick: fn(&(u8, u8)) -> u8| arrived.values().map(|both| f64::from(pick(both))).sum::<f64>();
    let (low_there, normal_there) = (sum(|both| both.0), sum(|both| both.1));
    let count = |low: bool| bursts.iter().filter(|heard| heard.reply.low == low).count() as f64;
    let share = |lost: f64, of: f64| if of > 0.0 { (lost / of).clamp(0.0, 1.0) } else { 0.0 };
    let trial = |losses: (f64, f64), waits: (f64, f64), overtaking| Trial {
        low_loss: losses.0,
        normal_loss: losses.1,
        low_wait_ms: waits.0,
        normal_wait_ms: waits.1,
        overtaking,
        treatment: treatment(losses, waits, overtaking),
    };
    let mut sequence: Vec<(u32, u32, bool)> =
        bursts.iter().map(|heard| (heard.reply.round, heard.reply.order, heard.reply.low)).collect();
    sequence.sort_unstable();
    let came: Vec<(u32, u32, bool)> =
        (0..).zip(&bursts).map(|(nth, heard)| (heard.reply.round, nth, heard.reply.low)).collect();
    let there = trial(
        (share(low_sent - low_there, low_sent), share(normal_sent - normal_there, normal_sent)),
        waits(&bursts, there),
        overtaking(&sequence),
    );
    let back = trial(
        (share(low_there - count(true), low_there), share(normal_there - count(false), normal_there)),
        // All answers of a round leave the listener at once.
        waits(&bursts, |heard| i128::from(heard.at)),
        overtaking(&came),
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

/// Share of normal packets that arrived before a low one of their round, all of which were sent earlier. Entries are
/// round, order of arrival, and whether the packet is low.
fn overtaking(sequence: &[(u32, u32, bool)]) -> f64 {
    let mut last_low: BTreeMap<u32, u32> = BTreeMap::new();
    for &(round, order, low) in sequence {
        if low {
            last_low.entry(round).and_modify(|last| *last = order.max(*last)).or_insert(order);
        }
    }
    let normal: Vec<_> = sequence.iter().filter(|(.., low)| !low).collect();
    let over = normal.iter().filter(|(round, order, _)| last_low.get(round).is_some_and(|last| order < last));
    if normal.is_empty() { 0.0 } else { over.count() as f64 / normal.len() as f64 }
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
mod tests {
    use super::*;

    /// One round in which packets arrive in this order, a millisecond apart; they return unchanged.
    fn round(order: impl Fn(u32) -> u32) -> PathReport {
        let heard: Vec<Heard> = (0..LOW_PER_ROUND + NORMAL_PER_ROUND)
            .map(|nth| {
                let low = nth < LOW_PER_ROUND;
                let (low_arrived, normal_arrived) = (LOW_PER_ROUND as u8, NORMAL_PER_ROUND as u8);
                let reply = Probe {
                    kind: Kind::Reply,
                    dscp: u8::from(low),
                    seen: 0,
                    low,
                    low_arrived,
                    normal_arrived,
                    run: 1,
                    round: 1,
                    order: order(nth),
                    sent: u64::from(nth),
                    arrived: u64::from(order(nth)) * 1_000_000,
                };
                Heard { reply, len: BURST_LEN, dscp: 0, at: 100_000_000 }
            })
            .collect();
        report(([127, 0, 0, 1], 9).into(), Some(1500), &heard, None)
    }

    #[test]
    fn a_queue_in_order_is_the_same_treatment_and_overtaking_is_not() {
        assert_eq!(round(|nth| nth).there.trial.treatment, Treatment::Same);
        let first = |nth| if nth < LOW_PER_ROUND { nth + NORMAL_PER_ROUND } else { nth - LOW_PER_ROUND };
        let report = round(first);
        assert_eq!(
            (report.there.trial.treatment, report.there.trial.overtaking),
            (Treatment::Different, 1.0)
        );
        assert_eq!(report.back.trial.treatment, Treatment::Unknown, "all came back at once");
    }

    #[test]
    fn a_line_summarizes_the_marks_of_a_path() {
        let mut direction = round(|nth| nth).there;
        direction.marks = (0..DSCPS).map(|dscp| (dscp, 0)).collect();
        assert_eq!(direction.marks_text(), "1 of 64 DSCPs kept, 63 changed to 0");
        direction.marks = (0..60).map(|dscp| (dscp, dscp)).collect();
        assert_eq!(direction.marks_text(), "60 of 64 DSCPs kept, 4 did not arrive");
    }
}
