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

use super::engine::{Engine, Outcome};

/// Progress of the worlds.
#[derive(Debug)]
pub enum Step {
    /// So many more flows have ended.
    Flows(u64),
    /// A world has ended: its place among the runs.
    World(usize, Box<Outcome>),
}

enum Note {
    Flows(u64),
    World(usize, Result<Outcome, String>),
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
pub fn run<E: From<WorldError>>(
    engine: &dyn Engine,
    worlds: &[World<'_>],
    threads: NonZero<usize>,
    mut report: impl FnMut(Step) -> Result<(), E>,
) -> Result<(), E> {
    let mut early = BTreeMap::new();
    let mut due = 0;
    complete(engine, worlds, threads, |note| {
        match note {
            Note::Flows(flows) => report(Step::Flows(flows))?,
            Note::World(index, outcome) => {
                early.insert(index, outcome);
            }
        }
        while let Some(outcome) = early.remove(&due) {
            report(step(worlds, due, outcome)?)?;
            due += 1;
        }
        Ok(())
    })
}

fn step(worlds: &[World<'_>], index: usize, outcome: Result<Outcome, String>) -> Result<Step, WorldError> {
    let failed = |message| WorldError { label: worlds[index].run.label.to_string(), message };
    Ok(Step::World(index, Box::new(outcome.map_err(failed)?)))
}

fn complete<E>(
    engine: &dyn Engine,
    worlds: &[World<'_>],
    threads: NonZero<usize>,
    mut listen: impl FnMut(Note) -> Result<(), E>,
) -> Result<(), E> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, notes) = mpsc::channel();
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
                        let _ = sender.send(Note::Flows(flows - reported));
                        reported = flows;
                    });
                    let _ = sender.send(Note::World(index, outcome));
                }
            });
        }
        // The loop ends when the last thread has dropped its sender.
        drop(sender);
        let result = notes.iter().try_for_each(&mut listen);
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// A world could not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{label}: {message}")]
pub struct WorldError {
    /// Its label.
    pub label: String,
    /// The reason.
    pub message: String,
}
