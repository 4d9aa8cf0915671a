//! What was typed after `rc3-lab net`: one definition per flag, which feeds help.

use std::{num::NonZero, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, value_parser};
use rc3_text::units::{parse_rate, parse_size, parse_time};

use super::error::EXIT_CODES;

/// `rc3-lab net`
#[derive(Debug, Clone, Subcommand)]
pub enum NetCommand {
    /// List the experiments and what each measures
    List,
    /// Check what this host lacks for the laboratory, and remove what earlier runs left over
    #[command(after_help = EXIT_CODES)]
    Check {
        /// Program with QUIC implementations of others [default: rc3-peers beside this program]
        #[arg(long, value_name = "PROGRAM")]
        peers: Option<PathBuf>,
    },
    /// Run experiments and write measurements, pictures and a report
    Run(Box<NetRunArgs>),
    /// A process of a run
    #[command(hide = true)]
    Act {
        /// What it does, as JSON
        job: String,
    },
}

/// `rc3-lab net run`
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = format!("{NET_RUN_HELP}\n\n{EXIT_CODES}"))]
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
    pub rate: Option<NonZero<u64>>,
    /// Round-trip time without queues [default: that of each experiment]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub rtt: Option<Duration>,
    /// Trace for the experiment `trace`: a file with a delivery time in ms per line; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// How late 99 % of the packets may leave the WAN [default: a twentieth of the round trip, at least 1ms]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub lateness: Option<Duration>,
    /// How long each load lasts, of `each-second`, `workers`, `forwarder` and Kick-Ass [default: that of each experiment]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Longest IP packet of bulk transfers and exchanges [default: 1500; on loopback what each scheme does by itself]
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u16).range(1280..=65535))]
    pub mtu: Option<u16>,
    /// Cases of `interop`, such as handshake,retry [default: all]
    #[arg(long, value_name = "CASES", value_delimiter = ',')]
    pub cases: Vec<String>,
    /// Exchanges of each run [default: 2000]
    #[arg(long, value_name = "N")]
    pub exchanges: Option<u32>,
    /// Connections to hold, such as 1000,10000
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub connections: Vec<usize>,
    /// Workers of the server, such as 1,2 [default: 1,2]
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub workers: Vec<usize>,
    /// Clients of the server with workers [default: 2]
    #[arg(long, value_name = "N")]
    pub clients: Option<usize>,
    /// Operations that each of them has in progress at once [default: 32]
    #[arg(long, value_name = "N")]
    pub parallel: Option<usize>,
    /// Cores of that server, as taskset lists them [default: 0,1]
    #[arg(long, value_name = "CORES")]
    pub server_cores: Option<String>,
    /// Cores of its clients [default: 0,1]
    #[arg(long, value_name = "CORES")]
    pub client_cores: Option<String>,
    /// Fewer sizes and runs
    #[arg(long)]
    pub quick: bool,
    /// Program with QUIC implementations of others [default: rc3-peers beside this program]
    #[arg(long, value_name = "PROGRAM")]
    pub peers: Option<PathBuf>,
}

const NET_RUN_HELP: &str = "\
Needs Linux, and root except for experiments on loopback. Sender, another sender, router and receiver are network \
namespaces; the WAN is a process of this program. The schemes take turns, in another order in each run. A flow counts \
only if the WAN was in time; otherwise it is repeated, and after three times left out.

The folder gets flows.csv, others.csv, checks.csv, pictures as SVG and PNG, report.md and report.html.";
