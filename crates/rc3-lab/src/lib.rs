//! The laboratory: experiments with rc3, simulated ([`sim`]) and between real sockets (`net`), and what they
//! came to ([`over_time`]). Nothing of it is part of what
//! people install.
#![forbid(unsafe_code)]
// Nothing is published: what is public in a private module is so for the crate.
#![allow(unreachable_pub, rustdoc::private_intra_doc_links)]

mod args;
mod document;
#[cfg(target_os = "linux")]
pub mod net;
pub mod over_time;
pub mod sim;
mod statistics;

use std::{env, io, process::ExitCode};

use clap::Parser;
use rc3_cli::exit::CommandExit;
use rc3_sim::registry::Registry;
use tracing_subscriber::{filter::Targets, prelude::*};

use self::args::{LabArgs, LabCommand};

/// The name of the command.
pub const NAME: &str = "rc3-lab";

/// The whole command, with the congestion controllers, queues and topologies of `registry`: the `main` of a binary of your own
/// that adds some (docs/EXTENDING.md).
pub fn main(registry: &Registry) -> ExitCode {
    // Usage errors end here, with code 2.
    let LabArgs { command } = LabArgs::parse();
    // Off by default; RUST_LOG=debug or RUST_LOG=rc3_core=trace turn it on.
    let filter: Targets = env::var("RUST_LOG").ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    match command {
        LabCommand::Sim(command) => sim::run(command, registry).into(),
        #[cfg(target_os = "linux")]
        LabCommand::Net(command) => net::run(command),
        LabCommand::OverTime(args) => CommandExit::of(NAME, args.run()).into(),
    }
}
