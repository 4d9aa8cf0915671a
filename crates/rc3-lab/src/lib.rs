//! The laboratory: experiments with rc3, simulated ([`sim`]) and between real sockets (`net`). Nothing of it is part of what
//! people install.
#![forbid(unsafe_code)]

pub mod args;
pub mod document;
#[cfg(target_os = "linux")]
pub mod net;
pub mod sim;
pub mod statistics;

use std::{io, process::ExitCode};

use clap::Parser;
use rc3_sim::registry::Registry;
use tracing_subscriber::EnvFilter;

use self::args::{LabArgs, LabCommand};

/// The name of the command.
pub const NAME: &str = "rc3-lab";

/// The whole command, with the congestion controllers, queues and topologies of `registry`: the `main` of a binary of your own
/// that adds some (docs/EXTENDING.md).
pub fn main(registry: &Registry) -> ExitCode {
    // Usage errors end here, with code 2.
    let LabArgs { command } = LabArgs::parse();
    // Off by default; RUST_LOG=debug or RUST_LOG=rc3_core=trace turn it on.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match command {
        LabCommand::Sim(command) => sim::run(command, registry).into(),
        #[cfg(target_os = "linux")]
        LabCommand::Net(command) => net::run(command),
    }
}
