//! `rc3-lab net`: the laboratory on real sockets.
//!
//! A run makes a [`site`] of network namespaces, whose [`wan`] is a process of this program; [`validate`] checks it. An
//! [`experiment`] has cells, in which [`scheme`]s take turns ([`session`]), alone or beside [`others`]. What is measured
//! are rows of [`sample`], of which [`report`] makes tables and pictures.

pub mod act;
pub mod args;
pub mod cell;
pub mod charts;
pub mod check;
pub mod error;
pub mod exit;
pub mod experiment;
pub mod fragments;
pub mod interrupt;
pub mod machine;
pub mod namespace;
pub mod others;
pub mod path;
pub mod priorities;
pub mod process;
pub mod progress;
pub mod report;
pub mod results;
pub mod run;
pub mod sample;
pub mod scheme;
pub mod session;
pub mod shape;
pub mod simulated;
pub mod site;
pub mod tables;
pub mod urgency;
pub mod validate;
pub mod wan;

use std::{fmt::Write, fs};

use rc3_cli::output;
use serde_json::json;

use self::{
    args::{NetCheckArgs, NetCommand, NetListArgs, NetTraceArgs},
    error::NetError,
    exit::NetExit,
    experiment::EXPERIMENTS,
    run::Plan,
    scheme::Scheme,
};
use crate::{NAME, sockets::peers};

/// Does what was typed.
pub fn run(typed: NetCommand) -> NetExit {
    let done = match typed {
        NetCommand::List(args) => list(&args),
        NetCommand::Check(args) => check(&args),
        NetCommand::Run(args) => interrupt::watch().and_then(|()| Plan::new(args)).and_then(Plan::run),
        NetCommand::Trace(args) => trace(&args),
        NetCommand::Wan { config } => wan(&config),
        NetCommand::Act(act) => act
            .run()
            .map_err(|error| NetError::Process { what: "process".to_owned(), why: error.to_string() }),
    };
    match done {
        Ok(()) => NetExit::Success,
        Err(error) => {
            output::complain(NAME, &error, error.hint());
            error.exit()
        }
    }
}

fn list(args: &NetListArgs) -> Result<(), NetError> {
    let mut text = String::new();
    for experiment in &EXPERIMENTS {
        // Writing to a string does not fail.
        let _ = match args.json {
            true => writeln!(
                text,
                "{}",
                json!({ "name": experiment.name, "about": experiment.about, "in_all": experiment.in_all })
            ),
            false => writeln!(text, "{:13} {}", experiment.name, experiment.about),
        };
    }
    Ok(output::print(&text)?)
}

fn check(args: &NetCheckArgs) -> Result<(), NetError> {
    let peers = peers::find(args.peers.as_deref());
    let requirements = check::requirements(peers.as_deref());
    let mut text = String::new();
    for requirement in &requirements {
        let check::Requirement { name, without, missing, hint } = requirement;
        let _ = match (args.json, missing) {
            (true, _) => {
                writeln!(
                    text,
                    "{}",
                    json!({ "name": name, "needed": without.is_none(), "missing": missing, "hint": hint })
                )
            }
            (false, None) => writeln!(text, "ok       {name}"),
            (false, Some(why)) => {
                let without =
                    without.map_or_else(String::new, |without| format!("; without it there is no {without}"));
                writeln!(text, "missing  {name}: {why} ({hint}{without})")
            }
        };
    }
    let usable = check::require(&requirements);
    let removed = if usable.is_ok() { check::clean()? } else { Vec::new() };
    for name in &removed {
        let _ = match args.json {
            true => writeln!(text, "{}", json!({ "removed": name })),
            false => writeln!(text, "removed  {name}, left over by a laboratory that is no longer running"),
        };
    }
    for scheme in Scheme::all(peers.as_deref()) {
        let _ = match args.json {
            true => writeln!(text, "{}", json!({ "scheme": scheme.name, "version": scheme.version })),
            false => writeln!(text, "scheme   {:12} {}", scheme.name, scheme.version),
        };
    }
    output::print(&text)?;
    usable
}

fn trace(args: &NetTraceArgs) -> Result<(), NetError> {
    let invalid = |error: rc3_link::TraceError| NetError::Invalid(error.to_string());
    let trace = shape::trace(args).map_err(invalid)?;
    let failed = |source| NetError::File { path: args.file.clone(), source };
    fs::write(&args.file, trace.to_string()).map_err(failed)?;
    let mean = rc3_text::units::about_rate(trace.mean_rate().bits_per_second() as f64);
    Ok(output::print(&format!("{}: {mean} on average\n", args.file.display()))?)
}

fn wan(config: &str) -> Result<(), NetError> {
    let config = serde_json::from_str(config).map_err(std::io::Error::from)?;
    Ok(wan::run(&config)?)
}
