//! One flow over a bottleneck, and what others have of the path meanwhile.

use std::{iter::Peekable, time::Duration};

use rc3_core::units::Rate;
use serde::{Deserialize, Serialize};

use crate::{
    agent::{Flow, HostId, Writes},
    random::{ALONE, Random, derive},
    record::FlowRecord,
    scenario::{Run, SchemeKind},
    topology::{Nominal, Site},
    workload::{ArrivalProcess, LIMIT, One},
    world::{LinkId, World},
};

/// How far the clock moves on at a time.
const STRIDE: Duration = Duration::from_millis(10);

/// Rest between a flow that teaches and the next one.
const REST: Duration = Duration::from_secs(1);

/// Bytes of a flow that teaches: two products of rate and round trip, within these.
const LESSON_MIN: f64 = 1e6;
const LESSON_MAX: f64 = 30e6;

/// What happened on the path while one flow was there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Beside {
    /// Packets that the bottleneck dropped since the flow began, towards the receivers.
    pub dropped: u64,
    /// The time over which others are counted, from connect on: twice the flow, at least ten round trips more than it. `None`
    /// without others.
    pub window: Option<Duration>,
    /// Bytes of others behind the bottleneck in that time, headers included.
    pub bytes: u64,
    /// Completion times, in ascending order, of short flows of others that began in that time.
    pub fcts: Vec<Duration>,
}

/// One flow under way.
pub(super) struct OneFlow {
    bottleneck: LinkId,
    nominal: Nominal,
    /// The flow; from its beginning on with the time of that.
    flow: Flow,
    has_begun: bool,
    /// An earlier flow has the path at so many times its rate.
    lesson: Option<f64>,
    /// Where that flow goes.
    learns_from: HostId,
    /// How long others have the path to themselves before the flow begins.
    lead: Duration,
    rate_change: Option<f64>,
    change_after: Option<Duration>,
    others: Peekable<Box<dyn Iterator<Item = Flow> + Send>>,
    /// When they begin: after the lesson, which has the path alone.
    others_from: Duration,
    /// Whether there are any.
    has_others: bool,
    /// How long after the window short flows of others may still end.
    grace: Duration,
    record: Option<FlowRecord>,
    /// When short flows of others began, and how long they took.
    fcts: Vec<(Duration, Duration)>,
    window: Option<Duration>,
    bytes: Option<u64>,
    dropped_before: u64,
}

impl OneFlow {
    /// The flow of a run, with the time over which others are counted, if that is known.
    pub(super) fn new(run: &Run, one: &One, window: Option<Duration>) -> Self {
        let others: Box<dyn Iterator<Item = Flow> + Send> =
            Box::new(run.arrivals().map(|(_, flow)| One::other(flow)));
        let remembers = run.scheme().kind == SchemeKind::Rc3;
        Self {
            bottleneck: Site::Core(0, 1).link(&run.topology).expect("the kind of topology is checked"),
            nominal: run.topology.nominal,
            flow: run.measured_flow(0).expect("it has one flow"),
            has_begun: false,
            lesson: one.taught_at.filter(|_| remembers),
            learns_from: one.teacher(),
            lead: lead_time(run),
            rate_change: one.rate_change,
            change_after: run.change_after(),
            others: others.peekable(),
            others_from: Duration::ZERO,
            has_others: !run.background.is_empty(),
            grace: match run.background.first().map(|others| &others.arrivals) {
                Some(ArrivalProcess::Short(_)) => Duration::from_secs(1),
                _ => Duration::ZERO,
            },
            record: None,
            fcts: Vec::new(),
            window,
            bytes: None,
            dropped_before: 0,
        }
    }

    /// Lets an earlier flow teach the sender and the others settle, and begins the flow.
    fn begin(&mut self, world: &mut World) {
        if let Some(factor) = self.lesson {
            self.run_lesson(world, factor);
        }
        self.others_from = world.elapsed();
        self.flow.at = self.others_from + self.lead;
        self.pass(world, self.flow.at);
        self.dropped_before = self.dropped(world);
        if self.has_others {
            world.set_meter(self.bottleneck);
        }
        world.start(&self.flow);
        self.has_begun = true;
    }

    /// Lets a flow end that meets the path at so many times its rate.
    fn run_lesson(&mut self, world: &mut World, factor: f64) {
        world.set_rate(self.bottleneck, self.rate_times(factor));
        let bytes = (2.0 * self.nominal.product() * factor).clamp(LESSON_MIN, LESSON_MAX);
        world.start(&Flow {
            bytes: bytes as u64,
            writes: Writes::AtOnce,
            to: self.learns_from,
            ..self.flow.clone()
        });
        world.run_to_end(LIMIT);
        while world.poll_record().is_some() {}
        world.run_until(world.elapsed() + REST);
        world.set_rate(self.bottleneck, Some(self.nominal.rate));
        self.flow.id.0 += 1;
    }

    /// So many times the bottleneck's rate; at least 1 bit/s.
    fn rate_times(&self, factor: f64) -> Option<Rate> {
        Rate::from_bits_per_second(((self.nominal.rate.bits_per_second() as f64 * factor) as u64).max(1))
    }

    /// Lets time pass; `false` once the flow has ended, and the time over which others are counted.
    pub(super) fn step(&mut self, world: &mut World) -> bool {
        if !self.has_begun {
            self.begin(world);
        }
        let last = self.flow.at + LIMIT;
        if world.elapsed() >= last {
            return false;
        }
        let end = self.window.map(|window| self.flow.at + window);
        let change = self.change_after.map(|after| self.flow.at + after);
        let stops = [Some(world.elapsed() + STRIDE), change, end.filter(|_| self.bytes.is_none())];
        let stop = stops.into_iter().flatten().min().unwrap_or(last);
        self.pass(world, stop);
        if change.is_some_and(|at| at <= stop) {
            world.set_rate(self.bottleneck, self.rate_change.and_then(|factor| self.rate_times(factor)));
            self.change_after = None;
        }
        if end.is_some_and(|end| end <= stop) && self.bytes.is_none() {
            let flows = world.sample().into_iter().flat_map(|sample| sample.flows);
            let others = flows.filter(|flow| One::is_other(flow.flow));
            self.bytes = Some(others.map(|flow| flow.bytes).sum());
        }
        let Some(record) = &self.record else { return true };
        if !self.has_others {
            return false;
        }
        let fct = record.fct.unwrap_or(LIMIT);
        let window =
            *self.window.get_or_insert_with(|| (2 * fct).max(fct + 10 * self.nominal.rtt).min(LIMIT));
        self.bytes.is_none() || world.elapsed() < self.flow.at + window + self.grace
    }

    /// What the flow came to; `None` if it never ended.
    pub(super) fn record(&self) -> Option<&FlowRecord> {
        self.record.as_ref()
    }

    /// What happened on the path.
    pub(super) fn beside(&self, world: &World) -> Beside {
        let began = self.flow.at;
        let is_meanwhile =
            |at: Duration| self.window.is_some_and(|window| began <= at && at < began + window);
        let meanwhile = self.fcts.iter().filter(|(at, _)| is_meanwhile(*at));
        let mut fcts: Vec<Duration> = meanwhile.map(|(_, fct)| *fct).collect();
        fcts.sort_unstable();
        Beside {
            dropped: self.dropped(world) - self.dropped_before,
            window: self.window.filter(|_| self.has_others),
            bytes: self.bytes.unwrap_or_default(),
            fcts,
        }
    }

    /// Lets time pass until `then`, and flows of others begin.
    fn pass(&mut self, world: &mut World, then: Duration) {
        let from = self.others_from;
        while let Some(flow) = self.others.next_if(|flow| from + flow.at <= then) {
            world.start(&Flow { at: from + flow.at, ..flow });
        }
        world.run_until(then);
        while let Some(record) = world.poll_record() {
            if One::is_other(record.flow) {
                self.fcts.extend(record.fct.map(|fct| (record.start, fct)));
            } else {
                self.record = Some(record);
            }
        }
    }

    fn dropped(&self, world: &World) -> u64 {
        world.link_stats(self.bottleneck).total().dropped.packets
    }
}

/// How long others have the path to themselves before the flow begins; the phase depends on the seed.
fn lead_time(run: &Run) -> Duration {
    match run.background.first().map(|others| &others.arrivals) {
        None => Duration::ZERO,
        Some(ArrivalProcess::Short(_)) => Duration::from_secs(1),
        // Slow start is over, and CUBIC has come round more than once on most paths.
        Some(_) => {
            let phase = Random::new(derive(run.seed, ALONE)).unit();
            (100 * run.topology.nominal.rtt).max(Duration::from_secs(4))
                + Duration::from_secs(2).mul_f64(phase)
        }
    }
}
