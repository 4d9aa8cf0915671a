//! Runs commands: their output and exit codes.

use std::{io, path::PathBuf};

use rc3_cli::{exit::Exit, output};
use rc3_sim::registry::Registry;

use super::{
    catalogue,
    command::{Command, MergeJob, RunJob},
    coverage,
    engine::Engine,
    experiment::{self, Event, Experiment, ExperimentError, Plan, flows_of},
    progress::Progress,
    report::{self, Finding},
    shard::{self, Job, Shard},
    shared::Shared,
    simulator::Simulator,
    today::{self, TodayJob},
    trace::{self, TracePlan, Traced},
    work::{self, Step, World},
};
use crate::NAME;

/// Runs the command.
pub(super) fn run(command: &Command, registry: &Registry) -> Exit {
    match command {
        Command::List(json) => finish(output::print(&catalogue::list(*json))),
        Command::Toml(text) => finish(output::print(text)),
        Command::Run(job) => match run_all(job) {
            Ok(()) => Exit::Success,
            Err(error) => failed(&error, error.hint(), error.is_usage()),
        },
        Command::Merge(job) => match merge(job, registry) {
            Ok(()) => Exit::Success,
            Err(error) => failed(&error, error.hint(), error.is_usage()),
        },
        Command::Keys => finish(output::print(&rc3_sim::scenario::keys::page(registry))),
        Command::Trace { name, trace, plan } => trace_one(name, trace, plan),
        Command::Coverage(reports) => match coverage::coverage(reports) {
            Ok(page) => finish(output::print(&page)),
            Err(error) => failed(&error, error.hint(), error.is_usage()),
        },
        Command::TodayList => finish(output::print(&today::list())),
        Command::Today(job) => compare(job),
    }
}

fn trace_one(name: &str, wanted: &TracePlan, plan: &Plan) -> Exit {
    let experiment = match Experiment::load(name, plan) {
        Ok(experiment) => experiment,
        Err(error) => return failed(&error, error.hint(), error.is_usage()),
    };
    match trace::trace(experiment.runs(), wanted, &plan.out) {
        Ok(traced) => finish(output::print(&trace_text(&traced))),
        Err(error) => failed(&error, error.hint(), error.is_usage()),
    }
}

fn trace_text(traced: &Traced) -> String {
    let flow = &traced.flow;
    let mut text = format!(
        "{}: flow {} of {} bytes, host {} to host {}\n",
        traced.world, flow.id.0, flow.bytes, flow.from.0, flow.to.0
    );
    for file in &traced.files {
        text += &format!("{}\n", file.display());
    }
    text
}

fn compare(job: &TodayJob) -> Exit {
    match job.run() {
        Ok(text) => finish(output::print(&text)),
        Err(error) => failed(&error, error.hint(), false),
    }
}

/// All experiments first: a mistake in the last one should not show after an hour.
fn load(names: &[String], plan: &Plan) -> Result<Vec<Experiment>, ExperimentError> {
    names.iter().map(|name| Experiment::load(name, plan)).collect()
}

fn run_all(job: &RunJob) -> Result<(), ExperimentError> {
    let experiments = load(&job.names, &job.plan)?;
    let engine = Shared::new(Simulator { bounds: job.plan.bounds });
    match job.shard {
        Some(shard) => run_shard(job, shard, &experiments, &engine),
        None => {
            let engines = experiments.iter().map(|_| &engine as &dyn Engine).collect::<Vec<_>>();
            report_all(&experiments, &engines, &job.plan, job.json)
        }
    }
}

fn run_shard(
    job: &RunJob,
    shard: Shard,
    experiments: &[Experiment],
    engine: &dyn Engine,
) -> Result<(), ExperimentError> {
    Job::new(&job.names, &job.plan, experiments, shard)?.write(&job.plan.out)?;
    let worlds = experiments.iter().flat_map(|experiment| {
        let name = experiment.scenario().spec().name.as_str();
        experiment.worlds().into_iter().enumerate().map(move |(number, world)| (name, number, world))
    });
    let all = worlds.clone().count();
    let own = worlds.enumerate().filter(|(place, _)| shard.takes(*place)).map(|(_, world)| world);
    let own = own.collect::<Vec<_>>();
    let stored = own.len();
    // A shard that was interrupted goes on where it was.
    let is_due =
        |(name, number, _): &(&str, usize, World<'_>)| !shard::is_stored(&job.plan.out, name, *number);
    store(job, shard, &own.into_iter().filter(is_due).collect::<Vec<_>>(), engine)?;
    if !job.json {
        let out = job.plan.out.display();
        let text = format!(
            "{stored} of {all} worlds are below {out}; after all shards: rc3-lab sim merge {out} --out {out}\n"
        );
        // The worlds are stored even if the reader of the output is gone.
        let _ = output::print(&text);
    }
    Ok(())
}

/// Runs these worlds, and stores each as soon as it has ended: one of an experiment's name, its number there.
fn store(
    job: &RunJob,
    shard: Shard,
    due: &[(&str, usize, World<'_>)],
    engine: &dyn Engine,
) -> Result<(), ExperimentError> {
    if due.is_empty() {
        return Ok(());
    }
    let worlds: Vec<World<'_>> = due.iter().map(|(_, _, world)| *world).collect();
    let flows = worlds.iter().map(|world| flows_of(world.run)).sum();
    let mut progress = Progress::of_shard(shard, worlds.len(), flows, job.json);
    let mut before = 0;
    work::each(engine, &worlds, job.plan.threads, |step| {
        match step {
            Step::Flows(flows) => progress.on_event(&Event::Flows(flows)),
            Step::World(index, outcome) => {
                let (name, number, world) = &due[index];
                shard::store(&job.plan.out, name, *number, &outcome)?;
                let label = format!("{name}: {}", world.run.label);
                progress.on_event(&Event::World { label, before, cost: outcome.cost });
                before += 1;
            }
        }
        Ok::<(), ExperimentError>(())
    })?;
    progress.clear();
    Ok(())
}

/// Whether all worlds of an experiment have run; names it if not.
fn is_complete(shards: &Job, experiment: &Experiment, folders: &[PathBuf]) -> bool {
    let complete = shards.is_complete(experiment, folders);
    if !complete {
        let name = &experiment.scenario().spec().name;
        let text = format!("worlds of `{name}` are missing");
        output::complain(NAME, &text, "run its shards, then merge again");
    }
    complete
}

fn merge(job: &MergeJob, registry: &Registry) -> Result<(), ExperimentError> {
    let shards = Job::read(&job.shards)?;
    let (changes, commit) = (shards.changes.clone(), shards.commit.clone());
    let plan = Plan { changes, commit, quick: shards.quick, ..Plan::new(job.out.clone(), registry) };
    let mut experiments = load(&shards.names, &plan)?;
    shards.check(&experiments)?;
    if job.partial {
        experiments.retain(|experiment| is_complete(&shards, experiment, &job.shards));
    }
    let stored = shards.find(&experiments, &job.shards)?;
    let engines = stored.iter().map(|stored| stored as &dyn Engine).collect::<Vec<_>>();
    report_all(&experiments, &engines, &plan, job.json)
}

/// Runs each experiment on its engine, and writes everything.
fn report_all(
    experiments: &[Experiment],
    engines: &[&dyn Engine],
    plan: &Plan,
    json: bool,
) -> Result<(), ExperimentError> {
    let mut findings = Vec::new();
    for (experiment, engine) in experiments.iter().zip(engines) {
        let mut progress = Progress::new(experiment, json);
        let finding = experiment.run(*engine, plan, |event| progress.on_event(&event))?;
        progress.end(&finding);
        if !json {
            // Continue even if the reader of the output is gone.
            let _ = output::print(&(report::text(&finding) + &links_text(&finding)));
        }
        findings.push(finding);
    }
    if findings.len() > 1 {
        experiment::write_overview(&findings, &plan.out)?;
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

fn finish(done: io::Result<()>) -> Exit {
    Exit::of(NAME, done)
}

fn failed(error: &dyn std::error::Error, hint: &str, is_usage: bool) -> Exit {
    output::complain(NAME, error, hint);
    if is_usage { Exit::Usage } else { Exit::Failure }
}
