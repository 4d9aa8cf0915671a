//! The command line of `rc3-lab`: one command for each kind of experiment.

use clap::{Parser, Subcommand};
use rc3_cli::exit::CommandExit;

#[cfg(target_os = "linux")]
use crate::net::args::NetCommand;
use crate::{over_time::OverTimeArgs, sim::args::SimCommand};

/// Experiments with rc3: those of the papers, and your own.
#[derive(Debug, Clone, Parser)]
#[command(name = "rc3-lab", version, after_help = CommandExit::HELP, max_term_width = 100)]
pub struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum LabCommand {
    /// Run the experiments of the RC3 papers in a simulator
    #[command(subcommand)]
    Sim(SimCommand),
    /// Compare rc3 with other transports on real sockets, over an emulated WAN between network namespaces
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Net(NetCommand),
    /// Draw the page of ratios commit by commit
    OverTime(OverTimeArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        LabArgs::command().debug_assert();
    }
}
