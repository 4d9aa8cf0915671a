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
pub mod error;
pub mod experiment;
pub mod forward;
pub mod forwarder;
pub mod fragments;
pub mod interrupt;
pub mod kickass;
pub mod machine;
pub mod memory;
pub mod namespace;
pub mod others;
pub mod path;
pub mod peers;
pub mod priorities;
pub mod process;
pub mod programs;
pub mod progress;
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
pub mod trend;
pub mod urgency;
pub mod validate;
pub mod wan;
pub mod workers;

use std::{fmt::Write, process::ExitCode};

use rc3_cli::output;

use self::{
    args::{NetCheckArgs, NetCommand},
    error::NetError,
    experiment::EXPERIMENTS,
    run::Lab,
    scheme::Scheme,
};
use crate::NAME;

/// Does what was typed.
pub fn run(typed: NetCommand) -> ExitCode {
    let done = match typed {
        NetCommand::List => list(),
        NetCommand::Check(args) => check(&args),
        NetCommand::Run(args) => interrupt::watch().and_then(|()| Lab::new(*args)).and_then(Lab::run),
        NetCommand::Trend(args) => interrupt::watch().and_then(|()| trend::trend(&args)),
        NetCommand::Wan { config } => wan(&config),
        NetCommand::Act(act) => act
            .run()
            .map_err(|error| NetError::Process { what: "process".to_owned(), why: error.to_string() }),
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

fn check(args: &NetCheckArgs) -> Result<(), NetError> {
    let peers = peers::find(args.peers.as_deref());
    let requirements = check::requirements(peers.as_deref());
    let mut text = String::new();
    for check::Requirement { name, without, missing, hint } in &requirements {
        let without =
            without.map_or_else(String::new, |without| format!("; without it there is no {without}"));
        // Writing to a string does not fail.
        let _ = match missing {
            None => writeln!(text, "ok       {name}"),
            Some(why) => writeln!(text, "missing  {name}: {why} ({hint}{without})"),
        };
    }
    let usable = check::require(&requirements);
    let removed = if usable.is_ok() { namespace::remove_left_over()? } else { Vec::new() };
    for name in &removed {
        let _ = writeln!(text, "removed  {name}, left over by a laboratory that is no longer running");
    }
    for scheme in Scheme::all(peers.as_deref()) {
        let _ = writeln!(text, "scheme   {:12} {}", scheme.name, scheme.version);
    }
    output::print(&text)?;
    usable
}

fn wan(config: &str) -> Result<(), NetError> {
    let config = serde_json::from_str(config)?;
    Ok(wan::run(&config)?)
}
