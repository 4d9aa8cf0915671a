//! `rc3-lab net`: the laboratory on real sockets.
//!
//! A run makes a [`site`] of network namespaces, whose [`wan`] is a process of this program; [`validate`] checks it. An
//! [`experiment`] has cells, in which [`scheme`]s take turns ([`session`]), alone or beside [`others`]; what is measured
//! are rows of [`sample`]. Or it is something else ([`streams`], [`kickass`] and so on). [`report`] has tables and pictures
//! of all. What a process of a scheme does is [`act`], what carries it [`transport`].

pub mod act;
pub mod args;
pub mod cell;
pub mod charts;
pub mod check;
pub mod clock;
pub mod copies;
pub mod error;
pub mod experiment;
pub mod forward;
pub mod forwarder;
pub mod fragments;
pub mod interop;
pub mod interrupt;
pub mod kickass;
pub mod memory;
pub mod namespace;
pub mod nats;
pub mod others;
pub mod outages;
pub mod parallel;
pub mod path;
pub mod priorities;
pub mod process;
pub mod programs;
pub mod recipe;
pub mod report;
pub mod results;
pub mod run;
pub mod sample;
pub mod scheme;
pub mod session;
pub mod simulated;
pub mod site;
pub mod streams;
pub mod tables;
pub mod transport;
pub mod urgency;
pub mod validate;
pub mod wan;
pub mod workers;

use std::process::ExitCode;

use rc3_cli::output;

use self::{act::Job, args::NetCommand, error::NetError, experiment::EXPERIMENTS, run::Lab};
use crate::NAME;

/// Does what was typed.
pub fn run(typed: NetCommand) -> ExitCode {
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
