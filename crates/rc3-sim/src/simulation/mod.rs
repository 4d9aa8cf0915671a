//! Runs one world of a scenario: builds it, lets flows arrive, and ends when all that are measured have ended.
//!
//! Flows go on arriving, unmeasured, until 99 of 100 measured ones are done: the network is as busy for them as
//! for the first. What is left waits for timeouts rather than for the network, and a world that stayed busy for
//! the very last would mostly simulate flows that are not measured.

mod build;
#[cfg(test)]
mod tests;

use std::time::Duration;

use rustc_hash::FxHashSet;
use thiserror::Error;

use crate::{
    agent::{Flow, FlowId, HostId},
    record::FlowRecord,
    sample::Sample,
    scenario::{Run, Sampling},
    world::{Counts, LinkId, Tap, Watch, World},
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
    #[error("run `{0}` mixes RCP with other schemes, whose packets RCP hosts cannot read; give each scheme a run of its own")]
    Mixed(String),
    /// Some flows never end.
    #[error("{0} of the measured flows had not ended {1} seconds after the last began")]
    NoEnd(usize, u64),
}

/// A world under way.
#[derive(Debug)]
pub struct Simulation {
    world: World,
    arrivals: Arrivals,
    uplinks: Vec<LinkId>,
    /// Measured flows under way.
    measured: FxHashSet<FlowId>,
    /// Of all that are measured, how few are left when arrivals end.
    stragglers: u64,
    /// When the world ends, even with flows under way.
    until: Option<Duration>,
    sampler: Option<Sampler>,
}

/// When a link is sampled, and the samples so far.
#[derive(Debug)]
struct Sampler {
    every: Duration,
    next: Duration,
    samples: Vec<Sample>,
}

/// What arrives, and how much of it is measured.
struct Arrivals {
    flows: Box<dyn Iterator<Item = (bool, Flow)> + Send>,
    /// Still to come before measuring begins.
    warm_up: u64,
    /// Still to be measured.
    wanted: u64,
    /// When the latest measured flow began.
    latest: Duration,
}

impl Arrivals {
    /// The next flow, and whether it is measured.
    fn next(&mut self) -> Option<(bool, Flow)> {
        let (candidate, flow) = self.flows.next()?;
        if !candidate || self.wanted == 0 {
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
}

impl std::fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrivals")
            .field("warm_up", &self.warm_up)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// The world of `run`, at rest.
    ///
    /// # Errors
    /// [`SimulationError::Mixed`].
    pub fn new(run: &Run) -> Result<Self, SimulationError> {
        let (mut world, uplinks) = build::world(run)?;
        // A list may have fewer than are wanted, and what runs beside it no end.
        let there = run.workload.count().map(|flows| flows.saturating_sub(run.measure.warm_up));
        let wanted = there.map_or(run.measure.flows, |flows| flows.min(run.measure.flows));
        let arrivals = Arrivals {
            flows: Box::new(run.arrivals()),
            warm_up: run.measure.warm_up,
            wanted,
            latest: Duration::ZERO,
        };
        let stragglers = wanted / STRAGGLERS;
        let until = run.measure.until;
        let sampler = run.measure.sample.map(|Sampling { site, every }| {
            world.set_meter(site.link(&run.topology).expect("a link that the topology has"));
            Sampler { every, next: every, samples: Vec::new() }
        });
        Ok(Self { world, arrivals, uplinks, measured: FxHashSet::default(), stragglers, until, sampler })
    }

    /// Lets the next flow arrive, or time pass where none does; `false` once all measured flows have ended, or the world has.
    ///
    /// # Errors
    /// [`SimulationError::NoEnd`].
    pub fn step(&mut self) -> Result<bool, SimulationError> {
        let left = self.arrivals.wanted + self.measured.len() as u64;
        if left == 0 || self.until.is_some_and(|until| self.world.elapsed() >= until) {
            return Ok(false);
        }
        let arrives = self.arrivals.wanted > 0 || left > self.stragglers;
        match arrives.then(|| self.arrivals.next()).flatten() {
            Some((_, flow)) if self.until.is_some_and(|until| flow.at > until) => self.pass(flow.at),
            Some((measured, flow)) => {
                self.pass(flow.at);
                if measured {
                    self.measured.insert(flow.id);
                }
                self.world.start(&flow);
            }
            None if self.measured.is_empty() => return Ok(false),
            None => self.pass(self.world.elapsed() + STRIDE),
        }
        if self.arrivals.wanted == 0 && self.world.elapsed() > self.arrivals.latest + PATIENCE {
            return Err(SimulationError::NoEnd(self.measured.len(), PATIENCE.as_secs()));
        }
        Ok(true)
    }

    /// Lets time pass until `then`, or the end of the world if that is sooner.
    fn pass(&mut self, then: Duration) {
        let then = self.until.map_or(then, |until| until.min(then));
        if let Some(Sampler { every, next, samples }) = &mut self.sampler {
            while *next <= then {
                self.world.run_until(*next);
                samples.extend(self.world.sample());
                *next += *every;
            }
        }
        self.world.run_until(then);
    }

    /// The samples of the sampled link, if there is one; a second call returns none.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.sampler.as_mut().map(|sampler| std::mem::take(&mut sampler.samples)).unwrap_or_default()
    }

    /// Records of measured flows that have ended, in the order in which they ended.
    pub fn poll_record(&mut self) -> Option<FlowRecord> {
        loop {
            let record = self.world.poll_record()?;
            if self.measured.remove(&record.flow) {
                return Some(record);
            }
        }
    }

    /// How much work the world has done.
    pub fn counts(&self) -> Counts {
        self.world.counts()
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
    pub fn set_watch(&mut self, host: HostId, flow: FlowId, watch: Watch) {
        self.world.set_watch(host, flow, watch);
    }

    /// From now on `tap` sees each packet that arrives at the end of a link.
    pub fn set_tap(&mut self, tap: Tap) {
        self.world.set_tap(tap);
    }
}
