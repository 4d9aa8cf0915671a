//! The hidden commands of `rc3-lab net act`.

use std::{net::SocketAddr, os::unix::process::CommandExt, path::PathBuf, process::Command, time::Duration};

use clap::Subcommand;
use rc3_core::units::Rate;
use rc3_text::units::parse_time;

use super::{echo, end_with_input, load, long, probe, sink};
use crate::{
    net::urgency,
    sockets::{
        contenders::{Result, Service, Setup},
        quantity::parse_rate,
    },
};

/// One process.
#[derive(Debug, Clone, Subcommand)]
pub enum Act {
    /// Serve flows of a scheme
    Serve {
        /// Which
        #[command(flatten)]
        setup: Setup,
        /// Where
        address: SocketAddr,
    },
    /// Send flows of a scheme, one after the other
    Time {
        /// Which
        #[command(flatten)]
        setup: Setup,
        /// The server
        address: SocketAddr,
        /// Its certificate in hexadecimal
        certificate: String,
        /// Bytes of each flow
        bytes: u64,
        /// How many flows, each on a new connection
        connections: u32,
    },
    /// Become another program
    Exec {
        /// Which
        program: PathBuf,
        /// Its command line
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Receive TCP flows of others
    Sink {
        /// Where
        address: SocketAddr,
    },
    /// Send over one TCP connection without end
    Long {
        /// Congestion control as the kernel names it
        congestion: String,
        /// The sink
        address: SocketAddr,
        /// Code point of its packets
        #[arg(long, default_value_t = 0)]
        dscp: u32,
    },
    /// Send TCP flows of random sizes at random times
    Load {
        /// Congestion control as the kernel names it
        congestion: String,
        /// The sink
        address: SocketAddr,
        /// Mean of all flows together
        #[arg(long, value_parser = parse_rate)]
        rate: Rate,
        /// Repeats sizes and gaps
        #[arg(long)]
        seed: u64,
    },
    /// Answer probes of lengths
    Answer {
        /// Where
        address: SocketAddr,
    },
    /// Probe lengths and print the result
    Probe {
        /// Who answers
        address: SocketAddr,
        /// How often each length
        #[arg(long)]
        tries: u8,
        /// How often a packet
        #[arg(long, value_parser = parse_time)]
        every: Duration,
    },
    /// Return datagrams
    Echo {
        /// Where
        address: SocketAddr,
    },
    /// Send a small datagram every so often and print how long each took to return
    Ping {
        /// The echo
        address: SocketAddr,
        /// How often
        #[arg(long, value_parser = parse_time)]
        every: Duration,
    },
}

impl Act {
    /// Does it.
    ///
    /// # Errors
    /// If the system or a connection fails.
    pub fn run(self) -> Result<()> {
        urgency::raise();
        if !matches!(self, Self::Time { .. } | Self::Exec { .. }) {
            end_with_input();
        }
        match self {
            Self::Serve { setup, address } => setup.serve(Service::Clock, address),
            Self::Time { setup, address, certificate, bytes, connections } => {
                setup.time(address, &certificate, bytes, connections)
            }
            Self::Exec { program, words } => Err(Command::new(program).args(words).exec().into()),
            Self::Sink { address } => sink::run(address),
            Self::Long { congestion, address, dscp } => long::run(&congestion, address, dscp),
            Self::Load { congestion, address, rate, seed } => load::run(&congestion, address, rate, seed),
            Self::Answer { address } => probe::answer(address),
            Self::Probe { address, tries, every } => probe::ask(address, tries, every),
            Self::Echo { address } => echo::serve(address),
            Self::Ping { address, every } => echo::ping(address, every),
        }
    }
}
