//! The worlds of an experiment, on a few threads.
//!
//! A world is one thread's work, and what it leaves behind is taken up in the order of the scenario whatever
//! thread is faster: results do not depend on how many there are.

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

/// Something that has happened meanwhile.
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

/// Runs all worlds on `threads` threads. `tell` hears of worlds in the order of `runs`; if it fails, no further
/// world is begun.
///
/// # Errors
/// Of the first world that fails, with its label; of `tell`.
pub fn run<E: From<WorldError>>(
    engine: &dyn Engine,
    runs: &[Run],
    trace: bool,
    threads: NonZero<usize>,
    mut tell: impl FnMut(Step) -> Result<(), E>,
) -> Result<(), E> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, notes) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.get().min(runs.len()) {
            let (sender, next, stop) = (sender.clone(), &next, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(run) = runs.get(index) else { break };
                    let mut told = 0;
                    let outcome = engine.simulate(run, trace, &mut |flows| {
                        // Nobody listens any more after a failure.
                        let _ = sender.send(Note::Flows(flows - told));
                        told = flows;
                    });
                    let _ = sender.send(Note::World(index, outcome));
                }
            });
        }
        // The loop ends when the last thread has dropped its sender.
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0;
        let mut listen = |note| {
            match note {
                Note::Flows(flows) => tell(Step::Flows(flows))?,
                Note::World(index, outcome) => {
                    early.insert(index, outcome);
                }
            }
            while let Some(outcome) = early.remove(&due) {
                let failed = |message| WorldError { label: runs[due].label.to_string(), message };
                tell(Step::World(due, Box::new(outcome.map_err(failed)?)))?;
                due += 1;
            }
            Ok(())
        };
        let result = notes.iter().try_for_each(&mut listen);
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// A world could not be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{label}: {message}")]
pub struct WorldError {
    /// Which.
    pub label: String,
    /// Why.
    pub message: String,
}
