//! What was typed after `rc3-lab net`: one definition per flag, which feeds help.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, value_parser};
use rc3_core::units::Rate;
use rc3_text::units::{parse_size, parse_time};

use super::{act::Act, exit::NetExit};
use crate::sockets::quantity::parse_rate;

/// `rc3-lab net`
#[derive(Debug, Clone, Subcommand)]
pub enum NetCommand {
    /// List the experiments and what each measures
    List(NetListArgs),
    /// Check what this host lacks for the laboratory, and remove what earlier runs left over
    Check(NetCheckArgs),
    /// Run experiments and write measurements, pictures and a report
    Run(NetRunArgs),
    /// Write a trace of a varying rate in Mahimahi's format
    Trace(NetTraceArgs),
    /// The WAN of a run
    #[command(hide = true)]
    Wan {
        /// Its configuration as JSON
        config: String,
    },
    /// Another process of a run
    #[command(subcommand, hide = true)]
    Act(Act),
}

/// `rc3-lab net list`
#[derive(Debug, Clone, Args)]
pub struct NetListArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// `rc3-lab net check`
#[derive(Debug, Clone, Args)]
#[command(after_help = NetExit::HELP)]
pub struct NetCheckArgs {
    /// Program with QUIC implementations of others [default: rc3-peers beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub peers: Option<PathBuf>,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// `rc3-lab net run`
#[derive(Debug, Clone, Args)]
#[command(after_help = NET_RUN_HELP)]
pub struct NetRunArgs {
    /// Experiments by name, or `all` for the comparison of schemes
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Folder for the results
    #[arg(long, default_value = "net-results", value_name = "DIR")]
    pub out: PathBuf,
    /// How often each scheme takes its turn [default: 10, with --quick 3]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// Sizes of the flows, such as 10k,1M [default: those of each experiment]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// Schemes [default: all that `rc3-lab net check` lists]
    #[arg(long, value_name = "SCHEMES", value_delimiter = ',')]
    pub schemes: Vec<String>,
    /// Rate of the bottleneck [default: that of each experiment]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<Rate>,
    /// Round-trip time without queues [default: that of each experiment]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub rtt: Option<Duration>,
    /// Trace for the experiment `trace`: a file with a delivery time in ms per line; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// How late 99 % of the packets may leave the WAN [default: a twentieth of the round trip, at least 1ms]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub lateness: Option<Duration>,
    /// Fewer sizes and runs
    #[arg(long)]
    pub quick: bool,
    /// Program with QUIC implementations of others [default: rc3-peers beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub peers: Option<PathBuf>,
    /// Print one JSON event per line on standard output: begin, session, done
    #[arg(long)]
    pub json: bool,
}

const NET_RUN_HELP: &str = "\
Needs root and Linux. Sender, another sender, router and receiver are network namespaces; the WAN is a process of this \
program. The schemes take turns, in another order in each run. A flow counts only if the WAN was in time; otherwise it \
is repeated, and after three times left out.

The folder gets flows.csv, others.csv, checks.csv, pictures as SVG and PNG, report.md and report.html.

Exit codes:
    0  done
    1  failed
    2  wrong usage
    3  this host lacks something, rc3-lab net check names it
    4  the machine is too busy to measure
    130  interrupted";

/// `rc3-lab net trace`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Each line is a time in milliseconds at which the link delivers 1500 bytes. The trace repeats after its last line.

Shapes:
    steps      LOW and HIGH in turn, half a period each
    sine       between LOW and HIGH and back in each period
    walk       a random walk between LOW and HIGH, with a new rate every tenth of a period, as on a cellular link
    handover   HIGH, and nothing in the last twentieth of each period, as when a satellite is replaced")]
pub struct NetTraceArgs {
    /// File to write
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How the rate changes
    #[arg(long, value_enum, default_value = "walk")]
    pub shape: super::shape::Shape,
    /// Lowest rate
    #[arg(long, default_value = "10mbit", value_parser = parse_rate, value_name = "RATE")]
    pub low: Rate,
    /// Highest rate
    #[arg(long, default_value = "100mbit", value_parser = parse_rate, value_name = "RATE")]
    pub high: Rate,
    /// A period
    #[arg(long, default_value = "2s", value_parser = parse_time, value_name = "TIME")]
    pub period: Duration,
    /// Duration of the trace
    #[arg(long, default_value = "60s", value_parser = parse_time, value_name = "TIME")]
    pub time: Duration,
    /// Repeats a random walk
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
}
