//! One flow over a path, and what it does to others.

use std::time::Duration;

use rc3_core::Verdict;

use super::{
    Cell, Company, Memory, Scheme,
    world::{self, FORWARD},
};
use crate::{agent::Flow, record::FlowRecord, world::World};

/// A flow that takes longer, in virtual time, never ends.
const LIMIT: Duration = Duration::from_secs(600);

/// How far the clock moves on at a time.
const STRIDE: Duration = Duration::from_millis(10);

/// Rest between a flow that teaches and the next one.
const REST: Duration = Duration::from_secs(1);

/// Bytes of a flow that teaches: two products, within these.
const LESSON_MIN: f64 = 1e6;
const LESSON_MAX: f64 = 30e6;

/// The result of a flow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// From connect to the last byte at the receiver; `None` if it never arrived.
    pub fct: Option<Duration>,
    /// What the guard decided; `None` without one.
    pub verdict: Option<Verdict>,
    /// Packets of the primary sent.
    pub primary_packets: u64,
    /// Packets of the primary declared lost.
    pub primary_lost: u64,
    /// Packets of RLP sent.
    pub rlp_packets: u64,
    /// Packets that the bottleneck dropped since the flow began, towards the receivers.
    pub dropped: u64,
    /// What others had of the bottleneck meanwhile.
    pub harm: Harm,
}

/// What others had of the bottleneck while a flow was there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Harm {
    /// The time that is compared, from connect on: twice the flow with plain QUIC, at least ten round trips more than it.
    pub window: Option<Duration>,
    /// Bytes of others behind the bottleneck in that time, headers included.
    pub bytes: u64,
    /// Completion times in seconds of short flows of others that began in that time.
    pub fcts: Vec<f64>,
}

/// Runs the flow of a cell over a new world. What others have is counted over `window`, or if that is `None` over the one
/// that follows from this flow.
pub(super) fn flow(cell: &Cell, scheme: Scheme, window: Option<Duration>) -> Outcome {
    let mut world = world::world(cell, scheme);
    let mut nth = 0;
    if let Memory::Taught(factor) = cell.memory
        && scheme.learns()
    {
        world.set_rate(FORWARD, cell.path.rate_times(factor));
        let bytes = (2.0 * cell.path.product() * factor).clamp(LESSON_MIN, LESSON_MAX);
        world.start(&world::ours(nth, Duration::ZERO, bytes as u64));
        world.run_to_end(LIMIT);
        while world.poll_record().is_some() {}
        world.run_until(world.elapsed() + REST);
        world.set_rate(FORWARD, Some(cell.path.rate));
        nth += 1;
    }
    let mut others = world::others(cell, world.elapsed() + LIMIT);
    others.retain(|flow| flow.at >= world.elapsed());
    let mut run = Run {
        began: world.elapsed() + world::lead(cell),
        others: others.into_iter().peekable(),
        record: None,
        fcts: Vec::new(),
        cell,
        world,
    };
    run.measure(nth, window)
}

struct Run<'a, I: Iterator<Item = Flow>> {
    cell: &'a Cell,
    world: World,
    began: Duration,
    others: std::iter::Peekable<I>,
    record: Option<FlowRecord>,
    /// When short flows of others began, and how long they took.
    fcts: Vec<(Duration, f64)>,
}

impl<I: Iterator<Item = Flow>> Run<'_, I> {
    fn measure(&mut self, nth: u32, window: Option<Duration>) -> Outcome {
        self.pass(self.began);
        let dropped = self.dropped();
        let counts = self.cell.company != Company::Nobody;
        if counts {
            self.world.set_meter(FORWARD);
        }
        self.world.start(&world::ours(nth, self.began, self.cell.bytes));
        let mut window = window;
        let mut change = self.cell.path.change_after(self.cell.bytes).map(|after| self.began + after);
        let mut bytes = None;
        while self.world.elapsed() < self.began + LIMIT {
            let end = window.map(|window| self.began + window);
            let stops = [Some(self.world.elapsed() + STRIDE), change, end.filter(|_| bytes.is_none())];
            let stop = stops.into_iter().flatten().min().unwrap_or(self.began + LIMIT);
            self.pass(stop);
            if change.is_some_and(|at| at <= stop) {
                let rate = self.cell.path.rate_times(self.cell.path.trouble.change);
                self.world.set_rate(FORWARD, rate);
                change = None;
            }
            if end.is_some_and(|end| end <= stop) && bytes.is_none() {
                bytes = Some(self.bytes_of_others());
            }
            let Some(fct) = self.record.as_ref().map(|record| record.fct.unwrap_or(LIMIT)) else { continue };
            if !counts {
                break;
            }
            let window = *window.get_or_insert_with(|| (2 * fct).max(fct + 10 * self.cell.path.rtt));
            if bytes.is_some() && self.others_are_done(window) {
                break;
            }
        }
        let began = self.began;
        let meanwhile = |at: Duration| window.is_some_and(|window| began <= at && at < began + window);
        let mut fcts: Vec<f64> =
            self.fcts.iter().filter(|(at, _)| meanwhile(*at)).map(|(_, fct)| *fct).collect();
        fcts.sort_unstable_by(f64::total_cmp);
        let harm = Harm { window: window.filter(|_| counts), bytes: bytes.unwrap_or_default(), fcts };
        let dropped = self.dropped() - dropped;
        let Some(record) = &self.record else { return Outcome { dropped, harm, ..Outcome::default() } };
        Outcome {
            fct: record.fct,
            verdict: record.sent.guard.map(|guard| guard.verdict),
            primary_packets: record.sent.primary_packets,
            primary_lost: record.sent.lost_packets,
            rlp_packets: record.sent.rlp_packets,
            dropped,
            harm,
        }
    }

    /// Lets time pass until `then`, and flows of others begin.
    fn pass(&mut self, then: Duration) {
        while let Some(flow) = self.others.next_if(|flow| flow.at <= then) {
            self.world.start(&flow);
        }
        self.world.run_until(then);
        while let Some(record) = self.world.poll_record() {
            if world::is_others(record.flow) {
                self.fcts.extend(record.fct.map(|fct| (record.start, fct.as_secs_f64())));
            } else {
                self.record = Some(record);
            }
        }
    }

    fn dropped(&self) -> u64 {
        self.world.link_stats(FORWARD).total().dropped.packets
    }

    fn bytes_of_others(&mut self) -> u64 {
        let sample = self.world.sample();
        let flows = sample.into_iter().flat_map(|sample| sample.flows);
        flows.filter(|flow| world::is_others(flow.flow)).map(|flow| flow.bytes).sum()
    }

    /// Whether the short flows of the window have ended, more or less: a second after it.
    fn others_are_done(&self, window: Duration) -> bool {
        let rest = match self.cell.company {
            Company::Load(_) => Duration::from_secs(1),
            _ => Duration::ZERO,
        };
        self.world.elapsed() >= self.began + window + rest
    }
}
