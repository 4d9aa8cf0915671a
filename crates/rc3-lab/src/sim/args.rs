//! What was typed after `rc3-lab sim`: one definition per flag, which feeds help.

use std::{num::NonZero, path::PathBuf};

use clap::{Args, Subcommand, value_parser};
use rc3_sim::topology::Site;

use super::{shard::Shard, today};

/// `rc3-lab sim`
#[derive(Debug, Clone, Subcommand)]
pub enum SimCommand {
    /// List the experiments
    List(SimListArgs),
    /// Run experiments, and write what they measured into a folder for each
    Run(SimRunArgs),
    /// Capture links of one world, and follow the sender of a flow
    Trace(SimTraceArgs),
    /// List every figure of the papers with what reports of experiments say about it
    Coverage {
        /// Folder with the folders that `rc3-lab sim run` left
        #[arg(value_name = "DIR")]
        reports: PathBuf,
    },
    /// Compare rc3 with plain QUIC and the ideal on paths of today
    Today(SimTodayArgs),
    /// Put the results of all shards together, as if one run had made them
    Merge(SimMergeArgs),
    /// Print the keys of scenario files as a page of Markdown
    Keys,
}

/// `rc3-lab sim list`
#[derive(Debug, Clone, Args)]
pub struct SimListArgs {
    /// Print the scenario file of this experiment instead: a start for your own
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    pub toml: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// `rc3-lab sim run`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each experiment leaves a folder: flows.csv, summary.csv, scenario.toml, pictures as SVG and PNG, and \
report.md and report.html, which put the figures printed in the papers beside the measured ones. Several \
experiments have a report of all besides. The same seed gives the same files, however many worlds run at a \
time. links.csv has the utilisation, drops and longest queue of each link. A key for --set is dotted as in the scenario file: \
workload.load=0.5, scheme.rc3.paced=true. All keys: rc3-lab sim keys, or docs/SCENARIOS.md.")]
pub struct SimRunArgs {
    /// Experiments by name, scenario files that end in .toml, `all` of the papers, or `today`
    #[arg(required = true, value_name = "NAME|FILE")]
    pub names: Vec<String>,
    /// Seed of everything random [default: the scenario's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Repetitions, each with a seed of its own [default: the scenario's]
    #[arg(long, value_name = "R", value_parser = value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// Flows measured in each world [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub flows: Option<u64>,
    /// Change a key of the scenario; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Run a small part of each experiment, of `all` only the scored ones: minutes instead of hours
    #[arg(long, conflicts_with_all = ["runs", "flows"])]
    pub quick: bool,
    /// Name this commit in the reports
    #[arg(long, value_name = "COMMIT")]
    pub commit: Option<String>,
    /// Folder for the results
    #[arg(long, default_value = "sim-results", value_name = "DIR")]
    pub out: PathBuf,
    /// Worlds that run at a time [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZero<usize>>,
    /// Print one JSON event per line: begin, world, done
    #[arg(long)]
    pub json: bool,
    /// Run only the K-th of N parts of the worlds, and store them below --out for rc3-lab sim merge
    #[arg(long, value_name = "K/N")]
    pub shard: Option<Shard>,
}

/// `rc3-lab sim merge`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Shards may have run anywhere, with the same version, names and keys, into one folder or several. The files are those that one \
run without --shard leaves, byte for byte. Scenario files are read again.")]
pub struct SimMergeArgs {
    /// Folders that shards ran into (their --out)
    #[arg(required = true, value_name = "DIR")]
    pub shards: Vec<PathBuf>,
    /// Folder for the results
    #[arg(long, default_value = "sim-results", value_name = "DIR")]
    pub out: PathBuf,
    /// Report the experiments whose worlds have all run, and name the others
    #[arg(long)]
    pub partial: bool,
    /// Print one JSON event per line: begin, world, done
    #[arg(long)]
    pub json: bool,
}

/// `rc3-lab sim trace`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Into the folder go timeline.csv (cwnd, bytes in flight, bytes by each loop, where RLP is and on which level, one row for \
each change) and a pcap file for each link, as it sees packets leave. DSCP there is the number of the level.")]
pub struct SimTraceArgs {
    /// Experiment, or scenario file that ends in .toml
    #[arg(value_name = "NAME|FILE")]
    pub name: String,
    /// Which of its worlds, in the order of `rc3-lab sim run --json`, from 1
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub world: usize,
    /// Which of the measured flows to follow, from 1
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub flow: u64,
    /// A link to capture: uplink:HOST, downlink:HOST or core:ROUTER-ROUTER, counted from 0; may be given more than
    /// once [default: the uplink of the flow's sender]
    #[arg(long, value_name = "LINK")]
    pub link: Vec<Site>,
    /// Packets captured of each link at most
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub packets: u64,
    /// Change a key of the scenario; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Folder for the files
    #[arg(long, default_value = "sim-trace", value_name = "DIR")]
    pub out: PathBuf,
}

/// `rc3-lab sim today`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each experiment is one kind of path, over a range of rates, round trips, buffers and sizes. Every flow runs with plain \
QUIC and with each scheme. FCT is from connect to the last byte at the receiver. The same command gives the same \
figures, however many flows run at a time.")]
pub struct SimTodayArgs {
    /// Scenarios by name, or files that end in .toml [default: all]
    #[arg(value_name = "NAME|FILE")]
    pub names: Vec<String>,
    /// Print the names of the scenarios and schemes instead
    #[arg(long, conflicts_with_all = ["names", "quick", "scheme", "set", "worst", "page"])]
    pub list: bool,
    /// Run a small part of each scenario: seconds instead of minutes
    #[arg(long)]
    pub quick: bool,
    /// Change a key of each scenario, for example scheme.guard.constants.gain=1; may be given more than once
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A scheme to compare with plain QUIC; may be given more than once [default: guard]
    #[arg(long, value_name = "SCHEME")]
    pub scheme: Vec<String>,
    /// Vary numbers of RLP's law instead: for each a line for its value without effect, for half and twice the product's;
    /// NAME=VALUE,... is one line for these values [default: all numbers]
    #[arg(long, num_args = 0.., value_name = "NUMBER", conflicts_with_all = ["list", "scheme", "worst"])]
    pub ablate: Option<Vec<String>>,
    /// Cells in the list of the worst, each with its path, size and seed
    #[arg(long, default_value_t = today::WORST, value_name = "N")]
    pub worst: usize,
    /// Also write a page of Markdown, with a picture beside it for each scenario with others
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Flows that run at a time [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZero<usize>>,
}
