//! The command line of `rc3-lab sim`, resolved: defaults filled in, unknown names refused.

use std::{collections::HashSet, num::NonZero, path::PathBuf, thread};

use rc3_sim::registry::Registry;

use super::{
    args::{
        SimCommand, SimCoverageArgs, SimHowArgs, SimListArgs, SimMergeArgs, SimPlotArgs, SimRunArgs,
        SimTodayArgs, SimTraceArgs,
    },
    bounds::Bounds,
    catalogue,
    experiment::{ExperimentError, Plan},
    shard::Shard,
    today::TodayJob,
    trace::TracePlan,
};

/// A command ready to run.
#[derive(Debug)]
pub enum Command {
    /// List the experiments, as JSON or not.
    List(bool),
    /// Print the scenario file of an experiment.
    Toml(&'static str),
    /// Run experiments.
    Run(RunJob),
    /// Trace a world of an experiment: its name, changes of keys, what to trace, where to write.
    Trace {
        /// The experiment or file.
        name: String,
        /// What to trace.
        trace: TracePlan,
        /// How to read the scenario and where to write.
        plan: Plan,
    },
    /// List the figures of the papers beside the reports in a folder.
    Coverage(PathBuf),
    /// Print the names of today's paths and of the schemes.
    TodayList,
    /// Compare schemes on today's paths.
    Today(TodayJob),
    /// Put the results of shards together.
    Merge(MergeJob),
    /// Print the keys of scenario files.
    Keys,
}

/// Shards to put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeJob {
    /// The folders that they ran into.
    pub shards: Vec<PathBuf>,
    /// The folder for the results.
    pub out: PathBuf,
    /// Leave out experiments of which worlds are missing.
    pub partial: bool,
    /// JSON instead of words.
    pub json: bool,
}

/// Experiments to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunJob {
    /// Their names, or files.
    pub names: Vec<String>,
    /// How to run them.
    pub plan: Plan,
    /// The part of the worlds to run and to store; all of them without.
    pub shard: Option<Shard>,
    /// JSON instead of words.
    pub json: bool,
}

impl Command {
    /// Resolves the command line.
    ///
    /// # Errors
    /// See [`ExperimentError`].
    pub fn resolve(command: SimCommand, registry: &Registry) -> Result<Self, ExperimentError> {
        let known = |name: &str| catalogue::EXPERIMENTS.iter().find(|(known, _)| *known == name);
        match command {
            SimCommand::List(SimListArgs { toml: None, json }) => Ok(Self::List(json)),
            SimCommand::List(SimListArgs { toml: Some(name), .. }) => {
                let (_, text) = known(&name).ok_or(ExperimentError::Unknown(name))?;
                Ok(Self::Toml(text))
            }
            SimCommand::Run(SimRunArgs { names, how, shard }) => {
                Ok(Self::Run(RunJob { shard, ..job(&names, how, registry)? }))
            }
            SimCommand::Merge(SimMergeArgs { shards, out, partial, json }) => {
                Ok(Self::Merge(MergeJob { shards, out, partial, json }))
            }
            SimCommand::Keys => Ok(Self::Keys),
            SimCommand::Trace(SimTraceArgs { name, world, flow, link, packets, set, out }) => {
                let trace = TracePlan { world, flow, links: link, packets };
                Ok(Self::Trace { name, trace, plan: Plan { changes: set, ..Plan::new(out, registry) } })
            }
            SimCommand::Coverage(SimCoverageArgs { reports }) => Ok(Self::Coverage(reports)),
            SimCommand::Today(SimTodayArgs { list: true, .. }) => Ok(Self::TodayList),
            SimCommand::Today(SimTodayArgs { names, quick, scheme, worst, page, jobs, .. }) => {
                let threads = jobs.unwrap_or_else(cores);
                Ok(Self::Today(TodayJob::new(&names, quick, &scheme, worst, page, threads)?))
            }
            SimCommand::Plot(SimPlotArgs { names, how }) => {
                let plots = || catalogue::PLOTS.iter().map(|&name| name.to_owned()).collect();
                let names = if names.is_empty() { plots() } else { names };
                Ok(Self::Run(job(&names, how, registry)?))
            }
        }
    }
}

fn cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

fn job(names: &[String], how: SimHowArgs, registry: &Registry) -> Result<RunJob, ExperimentError> {
    let all = || catalogue::all(how.quick).map(str::to_owned).collect();
    let mut named: Vec<String> = Vec::new();
    for name in names {
        named.extend(if name == "all" { all() } else { vec![name.clone()] });
    }
    let mut seen = HashSet::new();
    named.retain(|name| seen.insert(name.clone()));
    // The short ways first, so that --set has the last word.
    let mut changes = Vec::new();
    changes.extend(how.seed.map(|seed| format!("measure.seed={seed}")));
    changes.extend(how.runs.map(|runs| format!("measure.repetitions={runs}")));
    changes.extend(how.flows.map(|flows| format!("measure.flows={flows}")));
    changes.extend(how.set);
    let threads = how.jobs.unwrap_or_else(cores);
    let bounds = Bounds::new(how.max_memory, how.max_time)?;
    let plan = Plan {
        changes,
        threads,
        bounds,
        quick: how.quick,
        commit: how.commit,
        ..Plan::new(how.out, registry)
    };
    Ok(RunJob { names: named, plan, shard: None, json: how.json })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::LabArgs;

    fn resolve(words: &[&str]) -> Result<Command, ExperimentError> {
        let LabArgs { command } = LabArgs::try_parse_from(words).unwrap();
        let command = command.sim().unwrap();
        Command::resolve(command, &Registry::default())
    }

    #[test]
    fn experiments_are_named_once_and_changes_keep_their_order() {
        let words = [
            "rc3-lab", "sim", "run", "fig8", "all", "my.toml", "--seed", "7", "--flows", "9", "--set",
            "a.b=c",
        ];
        let Ok(Command::Run(job)) = resolve(&words) else { panic!("not a run") };
        assert_eq!(job.names.len(), catalogue::EXPERIMENTS.len() + 1);
        assert_eq!((job.names[0].as_str(), job.names.last().unwrap().as_str()), ("fig8", "my.toml"));
        assert_eq!(job.plan.changes, ["measure.seed=7", "measure.flows=9", "a.b=c"]);
        let Ok(Command::Run(job)) = resolve(&["rc3-lab", "sim", "plot"]) else { panic!("not a run") };
        assert_eq!(job.names, catalogue::PLOTS);
        assert!(matches!(
            resolve(&["rc3-lab", "sim", "list", "--toml", "x"]),
            Err(ExperimentError::Unknown(_))
        ));
    }
}
