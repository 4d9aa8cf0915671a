//! The `rc3-lab` command: runs what the command line means, and turns the outcome into an exit code.
#![forbid(unsafe_code)]

use std::{io, process::ExitCode};

use clap::Parser;
use rc3_lab::{
    args::{LabArgs, LabCommand},
    sim,
};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    // Usage errors end here, with code 2.
    let LabArgs { command } = LabArgs::parse();
    // Nothing unless asked: RUST_LOG=debug, RUST_LOG=rc3_core=trace.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    match command {
        LabCommand::Sim(command) => sim::run(command).into(),
        #[cfg(target_os = "linux")]
        LabCommand::Net(command) => rc3_lab::net::run(command).into(),
    }
}
