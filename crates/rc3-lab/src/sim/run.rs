//! Runs commands: their output and exit codes.

use std::io;

use rc3_cli::{exit::Exit, output};

use super::{
    catalogue,
    command::{Command, RunJob},
    experiment::{self, Experiment, ExperimentError, Plan},
    progress::Progress,
    report,
    shared::Shared,
    simulator::Simulator,
    today::{self, TodayJob},
    trace::{self, TracePlan, Traced},
};
use crate::NAME;

/// Runs the command.
pub(super) fn run(command: &Command) -> Exit {
    match command {
        Command::List(json) => finish(output::print(&catalogue::list(*json))),
        Command::Toml(text) => finish(output::print(text)),
        Command::Run(job) => match run_all(job) {
            Ok(()) => Exit::Success,
            Err(error) => failed(&error, error.hint(), error.is_usage()),
        },
        Command::Trace { name, trace, plan } => trace_one(name, trace, plan),
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

fn run_all(job: &RunJob) -> Result<(), ExperimentError> {
    // Load all first: a mistake in the last one should not show after an hour.
    let load = |name: &String| Experiment::load(name, &job.plan);
    let experiments = job.names.iter().map(load).collect::<Result<Vec<_>, _>>()?;
    let engine = Shared::new(Simulator);
    let mut findings = Vec::new();
    for experiment in &experiments {
        let mut progress = Progress::new(experiment, job.json);
        let finding = experiment.run(&engine, &job.plan, |event| progress.on_event(&event))?;
        progress.end(&finding);
        if !job.json {
            // Continue even if the reader of the output is gone.
            let _ = output::print(&report::text(&finding));
        }
        findings.push(finding);
    }
    if findings.len() > 1 {
        experiment::write_overview(&findings, &job.plan.out)?;
    }
    Ok(())
}

fn finish(done: io::Result<()>) -> Exit {
    Exit::of(NAME, done)
}

fn failed(error: &dyn std::error::Error, hint: &str, is_usage: bool) -> Exit {
    output::complain(NAME, error, hint);
    if is_usage { Exit::Usage } else { Exit::Failure }
}
