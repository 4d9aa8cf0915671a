//! Runs one world of a scenario: builds it, lets flows arrive, and ends when all that are measured have ended.
//!
//! Flows go on arriving, unmeasured, until 99 of 100 measured ones are done: the network is as busy for them as
//! for the first. What is left waits for timeouts rather than for the network, and a world that stayed busy for
//! the very last would mostly simulate flows that are not measured.

mod arrivals;
mod build;
mod links;
mod one;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Duration};

use rustc_hash::FxHashSet;
use thiserror::Error;

use self::{arrivals::FlowArrivals, links::Links, one::OneFlow};
pub use self::{links::LinkReport, one::Beside};
use crate::{
    agent::{FlowId, HostId},
    record::FlowRecord,
    registry::Fault,
    sample::LinkSample,
    scenario::{Run, Sampling},
    workload,
    world::{LinkId, StatsObserver, Tap, World},
};

/// After the last measured flow has begun, the others may take this long, in virtual time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Of so many measured flows one may end in a network where nothing arrives any more.
const STRAGGLERS: u64 = 100;

/// How far the clock moves on at a time once nothing arrives any more.
const STRIDE: Duration = Duration::from_millis(100);

/// Why a world could not be run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SimulationError {
    /// RCP hosts understand no other protocol.
    #[error(
        "run `{0}` mixes RCP with other schemes, whose packets RCP hosts cannot read; give each scheme a run of its own"
    )]
    Mixed(String),
    /// Some flows never end.
    #[error("{0} of the measured flows had not ended {1} seconds after the last began")]
    NoEnd(usize, u64),
    /// More flows are under way than the scenario allows.
    #[error(
        "more than {max} flows were under way after {} s: flows arrive faster than the network ends them; lower \
         `workload.load` or raise `measure.max-in-flight`",
        at.as_secs_f32()
    )]
    InFlight {
        /// The bound.
        max: u64,
        /// When, from the beginning of the world.
        at: Duration,
    },
    /// A registered entry refuses a setting that it took when the scenario was read.
    #[error("`{name}`: `{key}`: {message}")]
    Registered {
        /// Name of the entry.
        name: String,
        /// The key, relative to its table.
        key: String,
        /// The reason.
        message: String,
    },
}

impl SimulationError {
    fn registered(name: &str, fault: Fault) -> Self {
        Self::Registered { name: name.to_owned(), key: fault.key, message: fault.message }
    }
}

/// A world under way.
pub struct Simulation {
    world: World,
    arrivals: FlowArrivals,
    uplinks: Vec<LinkId>,
    /// Measured flows under way.
    measured: FxHashSet<FlowId>,
    /// Of all that are measured, how few are left when arrivals end.
    stragglers: u64,
    /// When the world ends, even with flows under way.
    until: Option<Duration>,
    max_in_flight: u64,
    sampler: Option<Sampler>,
    links: Links,
    /// The flow of a world with one.
    one: Option<Box<OneFlow>>,
    /// Measured flows that have ended and were not polled.
    records: VecDeque<FlowRecord>,
}

/// When a link is sampled, and the samples so far.
#[derive(Debug)]
struct Sampler {
    every: Duration,
    next: Duration,
    samples: Vec<LinkSample>,
}

/// The time over which others are counted, where it comes from another run.
fn window(run: &Run) -> Result<Option<Duration>, SimulationError> {
    match (&run.base, run.measure.window) {
        (Some(base), None) => Ok(Simulation::run(base)?.1.window),
        (_, window) => Ok(window),
    }
}

impl Simulation {
    /// The world of `run`, at rest.
    ///
    /// # Errors
    /// [`SimulationError::Mixed`], [`SimulationError::Registered`].
    pub fn new(run: &Run) -> Result<Self, SimulationError> {
        let (mut world, uplinks) = build::world(run)?;
        // A list may have fewer than are wanted, and what runs beside it no end.
        let there = run.workload.count().map(|flows| flows.saturating_sub(run.measure.warm_up));
        let wanted = there.map_or(run.measure.flows, |flows| flows.min(run.measure.flows));
        let arrivals = FlowArrivals::new(run, wanted);
        let stragglers = wanted / STRAGGLERS;
        let until = run.measure.until;
        let sampler = run.measure.sample.map(|Sampling { site, every }| {
            world.set_meter(site.link(&run.topology).expect("a link that the topology has"));
            Sampler { every, next: every, samples: Vec::new() }
        });
        let at_random = !matches!(run.workload.arrivals, workload::ArrivalProcess::List(_));
        let links = Links::new(&run.topology, at_random && until.is_none());
        let (measured, records) = (FxHashSet::default(), VecDeque::new());
        let max_in_flight = run.measure.max_in_flight;
        let one = match run.one() {
            Some(one) => Some(Box::new(OneFlow::new(run, one, window(run)?))),
            None => None,
        };
        Ok(Self {
            world,
            arrivals,
            uplinks,
            measured,
            stragglers,
            until,
            max_in_flight,
            sampler,
            links,
            one,
            records,
        })
    }

    /// Runs a world with one flow to its end; returns the flow, if it ended, and what happened beside it.
    ///
    /// # Errors
    /// As [`Self::new`] and [`Self::step`].
    pub fn run(run: &Run) -> Result<(Option<FlowRecord>, Beside), SimulationError> {
        let mut simulation = Self::new(run)?;
        while simulation.step()? {}
        Ok((simulation.poll_record(), simulation.beside().unwrap_or_default()))
    }

    /// Lets the next flow arrive, or time pass where none does; `false` once all measured flows have ended, or the world has.
    ///
    /// # Errors
    /// [`SimulationError::NoEnd`], [`SimulationError::InFlight`].
    pub fn step(&mut self) -> Result<bool, SimulationError> {
        if let Some(one) = &mut self.one {
            let goes_on = one.step(&mut self.world);
            self.records.extend(one.record().filter(|_| !goes_on).cloned());
            return Ok(goes_on);
        }
        let left = self.arrivals.wanted.saturating_add(self.measured.len() as u64);
        if left == 0 || self.until.is_some_and(|until| self.world.elapsed() >= until) {
            return Ok(false);
        }
        let arrives = self.arrivals.wanted > 0 || left > self.stragglers;
        let next = arrives.then(|| self.arrivals.next_at()).flatten();
        match next {
            Some(at) if self.until.is_some_and(|until| at > until) => {
                self.pass(at);
            }
            Some(at) => {
                if self.pass(at) {
                    self.start_next()?;
                }
            }
            None if self.measured.is_empty() && !(arrives && self.arrivals.wait_for_ends()) => {
                return Ok(false);
            }
            None => {
                self.pass(self.world.elapsed() + STRIDE);
            }
        }
        let all_wait = self.arrivals.wanted == 0 || next.is_none();
        if self.until.is_none() && all_wait && self.world.elapsed() > self.arrivals.latest + PATIENCE {
            return Err(SimulationError::NoEnd(self.measured.len(), PATIENCE.as_secs()));
        }
        Ok(true)
    }

    /// Starts the next flow now.
    fn start_next(&mut self) -> Result<(), SimulationError> {
        let Some((measured, flow)) = self.arrivals.take() else { return Ok(()) };
        if self.world.live_flows() as u64 >= self.max_in_flight {
            return Err(SimulationError::InFlight { max: self.max_in_flight, at: flow.at });
        }
        if measured {
            self.measured.insert(flow.id);
            self.links.on_measured(&self.world, self.arrivals.wanted);
        }
        self.world.start(&flow);
        self.take_records();
        Ok(())
    }

    /// Lets time pass until `then`, or the end of the world if that is sooner. It stops where a flow of a closed loop ends:
    /// `false`, since its source may start the next flow before `then`.
    fn pass(&mut self, then: Duration) -> bool {
        let then = self.until.map_or(then, |until| until.min(then));
        loop {
            let until = self.sampler.as_ref().map_or(then, |sampler| sampler.next.min(then));
            while self.world.step_until(until) {
                if self.take_records() {
                    return false;
                }
            }
            self.world.run_until(until);
            match &mut self.sampler {
                Some(sampler) if sampler.next <= then => {
                    sampler.samples.extend(self.world.sample());
                    sampler.next += sampler.every;
                }
                _ => return true,
            }
        }
    }

    /// Takes the records of flows that have ended; whether a source of a closed loop starts another one because of that.
    fn take_records(&mut self) -> bool {
        let mut starts = false;
        while let Some(record) = self.world.poll_record() {
            starts |= self.arrivals.on_end(record.flow, self.world.elapsed());
            if self.measured.remove(&record.flow) {
                self.records.push_back(record);
            }
        }
        starts
    }

    /// The results of all links that carried a packet, in the order of the topology.
    pub fn link_reports(&self) -> Vec<LinkReport> {
        self.links.reports(&self.world)
    }

    /// What happened on the path of one flow, if the world has one.
    pub fn beside(&self) -> Option<Beside> {
        self.one.as_ref().map(|one| one.beside(&self.world))
    }

    /// The samples of the sampled link, if there is one; a second call returns none.
    pub fn take_samples(&mut self) -> Vec<LinkSample> {
        self.sampler.as_mut().map(|sampler| std::mem::take(&mut sampler.samples)).unwrap_or_default()
    }

    /// Records of measured flows that have ended, in the order in which they ended.
    pub fn poll_record(&mut self) -> Option<FlowRecord> {
        self.records.pop_front()
    }

    /// The world itself.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The uplink of each host.
    pub fn uplinks(&self) -> &[LinkId] {
        &self.uplinks
    }

    /// From now on `watch` follows a flow, see [`World::set_watch`].
    pub fn set_watch(&mut self, host: HostId, flow: FlowId, watch: StatsObserver) {
        self.world.set_watch(host, flow, watch);
    }

    /// From now on `tap` sees each packet that arrives at the end of a link.
    pub fn set_tap(&mut self, tap: Tap) {
        self.world.set_tap(tap);
    }
}
