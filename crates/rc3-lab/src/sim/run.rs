//! Runs commands: their output and errors.

use std::{io, num::NonZero, path::PathBuf, thread};

use rc3_cli::output;
use rc3_sim::registry::Registry;

use super::{
    args::{SimCommand, SimListArgs, SimMergeArgs, SimRunArgs, SimTodayArgs, SimTraceArgs},
    catalogue, coverage,
    engine::Engine,
    experiment::{Experiment, ExperimentError, ExperimentPlan, not_written},
    progress::{self, NamedWorld, ProgressReport},
    report::{self, Finding},
    shard::{self, Job, Shard, Stored},
    shared::{RememberingEngine, distinct},
    simulator::Simulator,
    today::{self, TodayJob},
    trace,
};
use crate::NAME;

/// Runs the command, with the names of `registry` in scenario files; inside is whether its output could be printed.
pub(super) fn run(command: SimCommand, registry: &Registry) -> Result<io::Result<()>, ExperimentError> {
    let text = match command {
        SimCommand::List(SimListArgs { toml: Some(name), .. }) => {
            catalogue::text(&name).ok_or(ExperimentError::Unknown(name))?.to_owned()
        }
        SimCommand::List(SimListArgs { json, .. }) => catalogue::list(json),
        SimCommand::Run(arguments) => run_all(arguments, registry)?,
        SimCommand::Merge(arguments) => merge(&arguments, registry)?,
        SimCommand::Keys => rc3_sim::scenario::keys::page(registry),
        SimCommand::Trace(arguments) => trace_one(arguments, registry)?,
        SimCommand::Coverage { reports } => coverage::coverage(&reports)?,
        SimCommand::Today(SimTodayArgs { list: true, .. }) => today::list(),
        SimCommand::Today(SimTodayArgs { names, quick, scheme, set, worst, page, jobs, ablate, .. }) => {
            let plan = ExperimentPlan {
                quick,
                changes: set,
                threads: jobs.unwrap_or_else(cores),
                ..ExperimentPlan::new(PathBuf::new(), registry)
            };
            let job = TodayJob::new(&names, &scheme, worst, page, plan)?;
            match ablate {
                Some(numbers) => job.ablate(&numbers).map(|()| String::new())?,
                None => job.run()?,
            }
        }
    };
    Ok(output::print(&text).and_then(|()| output::finish()))
}

fn cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// The experiments that names mean, each once.
fn expanded(names: &[String], quick: bool) -> Vec<String> {
    distinct(names.iter().flat_map(|name| match name.as_str() {
        "all" => catalogue::all(quick).map(str::to_owned).collect(),
        "today" => catalogue::TODAY.iter().map(|(name, _)| (*name).to_owned()).collect(),
        _ => vec![name.clone()],
    }))
}

/// How experiments run. The short ways come first, so that --set has the last word.
fn plan(arguments: SimRunArgs, registry: &Registry) -> ExperimentPlan {
    let SimRunArgs { seed, runs, flows, set, quick, commit, out, jobs, .. } = arguments;
    let mut changes = Vec::new();
    changes.extend(seed.map(|seed| format!("measure.seed={seed}")));
    changes.extend(runs.map(|runs| format!("measure.repetitions={runs}")));
    changes.extend(flows.map(|flows| format!("measure.flows={flows}")));
    changes.extend(set);
    let threads = jobs.unwrap_or_else(cores);
    ExperimentPlan { changes, threads, quick, commit, ..ExperimentPlan::new(out, registry) }
}

fn trace_one(arguments: SimTraceArgs, registry: &Registry) -> Result<String, ExperimentError> {
    let changes = arguments.set.clone();
    let plan = ExperimentPlan { changes, ..ExperimentPlan::new(arguments.out.clone(), registry) };
    let experiment = Experiment::load(&arguments.name, &plan)?;
    let traced = trace::trace(experiment.runs(), &arguments)?;
    let flow = &traced.flow;
    let mut text = format!(
        "{}: flow {} of {} bytes, host {} to host {}\n",
        traced.world, flow.id.0, flow.bytes, flow.from.0, flow.to.0
    );
    for file in &traced.files {
        text += &format!("{}\n", file.display());
    }
    Ok(text)
}

/// Results are printed as they come; what is left to print is returned.
fn run_all(arguments: SimRunArgs, registry: &Registry) -> Result<String, ExperimentError> {
    let names = expanded(&arguments.names, arguments.quick);
    let (shard, json) = (arguments.shard, arguments.json);
    let plan = plan(arguments, registry);
    let experiments = Experiment::load_all(&names, &plan)?;
    let engine = RememberingEngine::new(Simulator);
    match shard {
        Some(shard) => {
            Job::new(&names, &plan, &experiments, shard)?.write(&plan.out)?;
            run_shard(shard, &experiments, &engine, &plan, json)
        }
        None => {
            let jobs = experiments.iter().map(|experiment| (experiment, &engine as &dyn Engine));
            report_all(jobs, &plan, json)?;
            Ok(String::new())
        }
    }
}

/// Runs the worlds of a shard, and stores each as soon as it and those before it have ended.
fn run_shard(
    shard: Shard,
    experiments: &[Experiment],
    engine: &dyn Engine,
    plan: &ExperimentPlan,
    json: bool,
) -> Result<String, ExperimentError> {
    let worlds: Vec<NamedWorld<'_>> = experiments.iter().flat_map(Experiment::named_worlds).collect();
    let all = worlds.len();
    let own = worlds.into_iter().enumerate().filter(|(place, _)| shard.takes(*place)).map(|(_, world)| world);
    let mut due: Vec<NamedWorld<'_>> = own.collect();
    let stored = due.len();
    // A shard that was interrupted goes on where it was.
    due.retain(|(name, number, _)| !shard::world_path(&plan.out, name, *number).exists());
    progress::run_worlds(engine, format!("shard {shard}"), &due, plan.threads, json, |index, outcome| {
        let (name, number, _) = &due[index];
        shard::write(&shard::world_path(&plan.out, name, *number), &outcome)
    })?;
    let out = plan.out.display();
    let text = format!(
        "{stored} of {all} worlds are below {out}; after all shards: rc3-lab sim merge {out} --out {out}\n"
    );
    Ok(if json { String::new() } else { text })
}

fn merge(arguments: &SimMergeArgs, registry: &Registry) -> Result<String, ExperimentError> {
    let job = Job::read(&arguments.shards)?;
    let (changes, commit) = (job.changes.clone(), job.commit.clone());
    let plan = ExperimentPlan {
        changes,
        commit,
        quick: job.quick,
        ..ExperimentPlan::new(arguments.out.clone(), registry)
    };
    let experiments = Experiment::load_all(&job.names, &plan)?;
    job.check(&experiments)?;
    let mut stored: Vec<(&Experiment, Stored)> = Vec::new();
    for experiment in &experiments {
        let of_one = Stored::find(experiment, &arguments.shards);
        if arguments.partial && !of_one.is_complete() {
            let text = format!("worlds of `{}` are missing", experiment.name());
            output::complain(NAME, &text, "run its shards, then merge again");
            continue;
        }
        stored.push((experiment, of_one));
    }
    job.check_complete(&stored)?;
    let jobs = stored.iter().map(|(experiment, stored)| (*experiment, stored as &dyn Engine));
    report_all(jobs, &plan, arguments.json)?;
    Ok(String::new())
}

/// Runs each experiment on its engine, and writes everything.
fn report_all<'a>(
    jobs: impl Iterator<Item = (&'a Experiment, &'a dyn Engine)>,
    plan: &ExperimentPlan,
    json: bool,
) -> Result<(), ExperimentError> {
    let mut findings = Vec::new();
    for (experiment, engine) in jobs {
        let mut progress = ProgressReport::new(experiment, json);
        let finding = experiment.run(engine, plan, |step| progress.on_step(step))?;
        progress.end(&finding.cost, finding.pictures.len());
        if !json {
            // Continue even if the reader of the output is gone.
            output::emit((report::text(&finding) + &links_text(&finding)).trim_end());
        }
        findings.push(finding);
    }
    if findings.len() > 1 {
        report::overview(&findings).write(&plan.out).map_err(not_written(&plan.out))?;
    }
    Ok(())
}

/// A line for the busiest link of each run.
fn links_text(finding: &Finding) -> String {
    let column = |name: &str| finding.links.head.iter().position(|(head, _)| head == name);
    let (Some(link), Some(utilisation)) = (column("busiest core link"), column("utilisation")) else {
        return String::new();
    };
    let line = |row: &Vec<String>| {
        let place =
            row[..link].iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", ");
        format!("  {place}: busiest core link {}, utilisation {}\n", row[link], row[utilisation])
    };
    finding.links.rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{LabArgs, LabCommand};

    #[test]
    fn experiments_are_named_once_and_changes_keep_their_order() {
        let words = [
            "rc3-lab", "sim", "run", "fig8", "all", "my.toml", "--seed", "7", "--flows", "9", "--set",
            "a.b=c",
        ];
        let LabArgs { command } = LabArgs::try_parse_from(words).unwrap();
        let LabCommand::Sim(SimCommand::Run(arguments)) = command else { panic!("not a run") };
        let names = expanded(&arguments.names, false);
        assert_eq!(names.len(), catalogue::EXPERIMENTS.len() + 1);
        assert_eq!((names[0].as_str(), names.last().unwrap().as_str()), ("fig8", "my.toml"));
        let plan = plan(arguments, &Registry::default());
        assert_eq!(plan.changes, ["measure.seed=7", "measure.flows=9", "a.b=c"]);
        assert_eq!(expanded(&["today".to_owned(), "fifo".to_owned()], true).len(), catalogue::TODAY.len());
    }
}
