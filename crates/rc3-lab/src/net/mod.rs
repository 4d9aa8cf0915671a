//! `rc3-lab net`: the laboratory on real sockets.
//!
//! A run makes a [`site`] of network namespaces, whose [`wan`] is a process of this program; [`validate`] checks it. An
//! [`experiment`] has cells, in which [`scheme`]s take turns ([`session`]), alone or beside [`others`]; what is measured
//! are rows of [`sample`]. Or it is something else ([`streams`], [`kickass`] and so on). [`report`] has tables and pictures
//! of all. What a process of a scheme does is in `act`, what carries it `transport`.

mod act;
pub(crate) mod args;
mod cell;
mod charts;
mod check;
mod clock;
mod copies;
mod error;
mod experiment;
mod forward;
mod forwarder;
mod fragments;
mod interop;
mod interrupt;
mod kickass;
mod memory;
pub mod namespace;
mod nats;
mod others;
mod outages;
mod parallel;
mod path;
mod priorities;
mod process;
mod programs;
pub mod recipe;
mod report;
mod results;
mod run;
pub mod sample;
mod scheme;
mod session;
mod simulated;
mod site;
mod streams;
mod tables;
mod transport;
mod urgency;
mod validate;
mod wan;
mod workers;

use std::process::ExitCode;

use rc3_cli::output;

use self::{act::Job, args::NetCommand, error::NetError, experiment::EXPERIMENTS, run::Lab};
use crate::NAME;

/// Does what was typed.
pub(crate) fn run(typed: NetCommand) -> ExitCode {
    let done = match typed {
        NetCommand::List => list(),
        NetCommand::Check { peers } => check::check(peers.as_deref()),
        NetCommand::Run(args) => interrupt::watch().and_then(|()| Lab::new(*args)).and_then(Lab::run),
        NetCommand::Act { job } => act(&job),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(NAME, &error, error.hint());
            error.code().into()
        }
    }
}

fn list() -> Result<(), NetError> {
    let line = |experiment: &experiment::Experiment| format!("{:18} {}\n", experiment.name, experiment.about);
    Ok(output::print(&EXPERIMENTS.iter().map(line).collect::<String>())?)
}

fn act(job: &str) -> Result<(), NetError> {
    let job: Job = serde_json::from_str(job)?;
    job.run().map_err(|error| NetError::Process { what: "process".to_owned(), why: error.to_string() })
}
