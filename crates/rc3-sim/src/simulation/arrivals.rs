//! The flows of a world in order of time: those known beforehand, and those of closed-loop sources.

use std::{cmp::Reverse, collections::BinaryHeap, iter::Peekable, time::Duration};

use rustc_hash::FxHashMap;

use crate::{
    agent::{Flow, FlowId},
    scenario::Run,
    workload::LoopSource,
};

/// What arrives, and how much of it is measured.
pub(super) struct FlowArrivals {
    open: Peekable<Box<dyn Iterator<Item = (bool, Flow)> + Send>>,
    loops: Loops,
    /// Gives each flow of a closed loop its scheme.
    schemes: Box<Schemes>,
    /// Flows so far, for the numbers of the next.
    count: u32,
    /// Still to come before measuring begins.
    warm_up: u64,
    /// When measuring begins.
    from: Duration,
    /// Still to be measured.
    pub(super) wanted: u64,
    /// When the latest flow began that the world waits for: a measured one, or one of a closed loop.
    pub(super) latest: Duration,
}

/// Closed-loop sources.
#[derive(Debug, Default)]
struct Loops {
    /// Each with the place of its workload.
    sources: Vec<(usize, LoopSource)>,
    /// When those sources start a flow that think.
    thinking: BinaryHeap<Reverse<(Duration, usize)>>,
    /// The sources of flows under way.
    waiting: FxHashMap<FlowId, usize>,
}

impl FlowArrivals {
    /// The arrivals of `run`, of which `wanted` are measured.
    pub(super) fn new(run: &Run, wanted: u64) -> Self {
        let open: Box<dyn Iterator<Item = (bool, Flow)> + Send> = Box::new(run.arrivals());
        Self {
            open: open.peekable(),
            loops: Loops::new(run.closed_loops()),
            schemes: Box::new(run.with_scheme()),
            count: 0,
            warm_up: run.measure.warm_up,
            from: run.measure.from,
            wanted,
            latest: Duration::ZERO,
        }
    }

    /// When the next flow starts, as far as that is known now.
    pub(super) fn next_at(&mut self) -> Option<Duration> {
        let open = self.open.peek().map(|(_, flow)| flow.at);
        open.into_iter().chain(self.loops.next_at()).min()
    }

    /// Whether sources wait for the ends of flows under way.
    pub(super) fn wait_for_ends(&self) -> bool {
        !self.loops.waiting.is_empty()
    }

    /// The next flow, and whether it is measured.
    pub(super) fn take(&mut self) -> Option<(bool, Flow)> {
        let (candidate, flow) = match (self.open.peek().map(|(_, flow)| flow.at), self.loops.next_at()) {
            (open, Some(closed)) if open.is_none_or(|open| closed < open) => {
                self.loops.take(self.count, &*self.schemes)?
            }
            _ => {
                let (candidate, flow) = self.open.next()?;
                // Without closed loops it has this number already.
                (candidate, Flow { id: FlowId(self.count), ..flow })
            }
        };
        self.count = self.count.checked_add(1)?;
        if self.loops.waiting.contains_key(&flow.id) {
            self.latest = flow.at;
        }
        if !candidate || self.wanted == 0 || flow.at < self.from {
            return Some((false, flow));
        }
        if self.warm_up > 0 {
            self.warm_up -= 1;
            return Some((false, flow));
        }
        self.wanted -= 1;
        self.latest = flow.at;
        Some((true, flow))
    }

    /// A flow has ended; whether its source starts another one because of that.
    pub(super) fn on_end(&mut self, flow: FlowId, now: Duration) -> bool {
        self.loops.on_end(flow, now)
    }
}

/// A flow with its scheme, by the place of its workload.
type Schemes = dyn Fn(usize, &Flow) -> Flow + Send;

impl Loops {
    fn new(mut sources: Vec<(usize, LoopSource)>) -> Self {
        let first = |(at, (_, source)): (usize, &mut (usize, LoopSource))| Reverse((source.first(), at));
        let thinking = sources.iter_mut().enumerate().map(first).collect();
        Self { sources, thinking, waiting: FxHashMap::default() }
    }

    fn next_at(&self) -> Option<Duration> {
        self.thinking.peek().map(|Reverse((at, _))| *at)
    }

    fn take(&mut self, number: u32, schemes: &Schemes) -> Option<(bool, Flow)> {
        let Reverse((at, source)) = self.thinking.pop()?;
        let (part, drawn) = &mut self.sources[source];
        let flow = Flow { id: FlowId(number), ..schemes(*part, &drawn.flow(at)) };
        self.waiting.insert(flow.id, source);
        Some((*part == 0, flow))
    }

    fn on_end(&mut self, flow: FlowId, now: Duration) -> bool {
        let Some(source) = self.waiting.remove(&flow) else { return false };
        let think = self.sources[source].1.draw_think_time();
        self.thinking.push(Reverse((now.saturating_add(think), source)));
        true
    }
}
