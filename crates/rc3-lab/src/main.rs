//! The `rc3-lab` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use rc3_sim::registry::Registry;

fn main() -> ExitCode {
    rc3_lab::main(&Registry::default())
}
