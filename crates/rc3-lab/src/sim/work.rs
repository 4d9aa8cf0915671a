//! The worlds of an experiment, on a few threads.
//!
//! One thread runs a world. Results come in the order of the scenario, whichever thread is faster, so that reports do not
//! depend on the number of threads.

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use rc3_sim::scenario::Run;

use super::{
    engine::{Engine, WorldOutcome},
    experiment::ExperimentError,
};

/// Progress of the worlds.
#[derive(Debug)]
pub enum WorldProgress {
    /// So many more flows have ended.
    Flows(u64),
    /// A world has ended: its place among the runs.
    World(usize, Box<WorldOutcome>),
}

/// A world to run.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// Its scenario's run.
    pub run: &'a Run,
    /// Whether to keep the packets of its first flow.
    pub trace: bool,
}

/// Runs all worlds on `threads` threads. `report` is called for worlds in the order of `worlds`; if it fails, no further
/// world is begun.
///
/// # Errors
/// The error of a world that fails, of several the first, with its label; the error of `report`.
pub fn run(
    engine: &dyn Engine,
    worlds: &[World<'_>],
    threads: NonZero<usize>,
    mut report: impl FnMut(WorldProgress) -> Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, steps) = mpsc::channel();
    let (mut early, mut due) = (BTreeMap::new(), 0);
    thread::scope(|scope| {
        for _ in 0..threads.get().min(worlds.len()) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(world) = worlds.get(index) else { break };
                    let mut reported = 0;
                    let outcome = engine.simulate(world.run, world.trace, &mut |flows| {
                        // After a failure there is no receiver any more.
                        let _ = sender.send((index, Ok(WorldProgress::Flows(flows - reported))));
                        reported = flows;
                    });
                    let label = || world.run.label.to_string();
                    let step = outcome.map(|outcome| WorldProgress::World(index, Box::new(outcome)));
                    let step = step.map_err(|message| ExperimentError::World { label: label(), message });
                    let _ = sender.send((index, step));
                }
            });
        }
        // The loop ends when the last thread has dropped its sender.
        drop(sender);
        let result = steps.iter().try_for_each(|(index, step)| {
            if let Ok(WorldProgress::Flows(_)) = step {
                return report(step?);
            }
            early.insert(index, step);
            while let Some(step) = early.remove(&due) {
                report(step?)?;
                due += 1;
            }
            Ok(())
        });
        stop.store(true, Ordering::Relaxed);
        result
    })
}
