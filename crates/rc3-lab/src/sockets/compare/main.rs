//! rc3 beside quinn, s2n-quic and kernel TCP, in one run, alternately: bulk transfer, request/response latency, the
//! completion times of flows, and a few ratios over time.
//!
//! `cargo run --release -p rc3-lab --bin compare -- bulk` (or `latency`; `flows` is for `today.sh`); `--help` has the rest.
//! Each side of each run is a process of its own, so that each has its own CPU time. With `--veth`, as root, the two sit
//! in network namespaces with a veth pair between them, else on loopback.

#![forbid(unsafe_code)]

mod bulk;
mod flows;
mod latency;
mod participant;
mod place;
mod trend;

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, Subcommand};
use rc3_lab::sockets::contenders::{Contender, Exchange, Result, Service, Setup};
use rc3_text::units::parse_size;

use self::{flows::Bottleneck, participant::Participant, place::Place};

#[derive(Parser)]
#[command(about = "rc3 beside quinn and kernel TCP: rates, CPU time and latencies of one run")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One long stream: Gbit/s, and Gbit per CPU-second of both ends together.
    Bulk {
        /// Length of the stream in megabytes.
        #[arg(long, default_value_t = 1000)]
        megabytes: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Requests and responses one after the other: percentiles of the time each takes.
    Latency {
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        exchanges: u32,
        /// Length of each request and each response in bytes.
        #[arg(long, default_value_t = 65_536)]
        bytes: usize,
        /// A connection for each exchange instead of one for all.
        #[arg(long)]
        new_connections: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Flows on new connections through a bottleneck between two network namespaces: how long until the last byte is
    /// there, as multiples of the ideal.
    Flows {
        /// Namespace of the senders.
        client: String,
        /// Namespace of the receivers.
        server: String,
        /// Where the receivers listen.
        address: SocketAddr,
        #[command(flatten)]
        bottleneck: Bottleneck,
        /// Lengths of the flows in bytes.
        #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "100k,300k,1M,3M,10M")]
        sizes: Vec<u64>,
        /// Who takes part.
        #[arg(long, value_delimiter = ',', default_value = "rc3,quinn,quinn-iw32,tcp")]
        contenders: Vec<Contender>,
        /// How often each takes its turn.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// A few ratios of the commit that is checked out, appended to a file that has those of earlier commits, and drawn.
    Trend {
        /// Folder of trend.csv, trend.svg and trend.md.
        #[arg(long, default_value = "docs/trend")]
        folder: PathBuf,
        /// How often each takes its turn.
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
        /// Only make page and picture anew.
        #[arg(long)]
        draw: bool,
    },
    #[command(hide = true)]
    Serve {
        #[command(flatten)]
        setup: Setup,
        address: SocketAddr,
        service: Service,
    },
    #[command(hide = true)]
    Time {
        #[command(flatten)]
        setup: Setup,
        address: SocketAddr,
        certificate: String,
        bytes: u64,
    },
    #[command(hide = true)]
    Send {
        #[command(flatten)]
        setup: Setup,
        address: SocketAddr,
        certificate: String,
        bytes: u64,
    },
    #[command(hide = true)]
    Ask {
        #[command(flatten)]
        setup: Setup,
        address: SocketAddr,
        certificate: String,
        exchanges: u32,
        bytes: usize,
        #[arg(long)]
        new_connections: bool,
    },
}

#[derive(clap::Args)]
struct Common {
    /// Who takes part.
    #[arg(long, value_delimiter = ',')]
    contenders: Vec<Participant>,
    /// How often each takes its turn.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Between two network namespaces instead of on loopback; as root.
    #[arg(long)]
    veth: bool,
    /// MTU of the veth pair, up to which all look for longer packets [default: 1500, and on loopback what each does by
    /// itself]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1280..=65535))]
    mtu: Option<u16>,
    /// Program with QUIC implementations of others [default: rc3-peers beside this program]
    #[arg(long, value_name = "PROGRAM")]
    peers: Option<PathBuf>,
}

impl Common {
    fn participants(&self, default: &[Contender]) -> Vec<Participant> {
        if self.contenders.is_empty() {
            default.iter().copied().map(Participant::from).collect()
        } else {
            self.contenders.clone()
        }
    }

    fn place(&self) -> Result<Place> {
        let place = if self.veth { Place::veth(self.mtu)? } else { Place::loopback(self.mtu) };
        Ok(place.with_peers(self.peers.as_deref()))
    }
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Bulk { megabytes, common } => {
            let participants = common.participants(&Contender::BULK);
            bulk::compare(&common.place()?, &participants, megabytes * 1_000_000, common.runs)
        }
        Command::Latency { exchanges, bytes, new_connections, common } => {
            let participants = common.participants(&[Contender::Rc3, Contender::Quinn]);
            let exchange = Exchange { count: exchanges, bytes, new_connections };
            latency::compare(&common.place()?, &participants, &exchange, common.runs)
        }
        Command::Flows { client, server, address, bottleneck, sizes, contenders, runs } => {
            let place = Place::ready(client, server, address);
            flows::compare(&place, &contenders, bottleneck, &sizes, runs)
        }
        Command::Trend { folder, runs, draw } => trend::trend(&folder, runs.into(), draw),
        Command::Serve { setup, address, service } => setup.serve(service, address),
        Command::Time { setup, address, certificate, bytes } => setup.time(address, &certificate, bytes, 1),
        Command::Send { setup, address, certificate, bytes } => setup.send(address, &certificate, bytes),
        Command::Ask { setup, address, certificate, exchanges, bytes, new_connections } => {
            let exchange = Exchange { count: exchanges, bytes, new_connections };
            setup.ask(address, &certificate, &exchange)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_every_script_are_understood() {
        let words = [
            "compare flows sender receiver 10.91.1.2:4433 --rate 100mbit --rtt 40ms --runs 3 --sizes 100k,1M \
             --contenders rc3,quinn,quinn-iw32,tcp",
            "compare bulk --megabytes 100 --runs 1 --veth --mtu 1500 --contenders rc3,quinn",
            "compare latency --exchanges 10 --bytes 64 --new-connections --contenders rc3,s2n-quic --peers rc3-peers",
            "compare trend --runs 3 --folder docs/trend",
        ];
        for words in words {
            let parsed = Args::try_parse_from(words.split_whitespace());
            assert!(
                parsed.is_ok(),
                "{words}: {}",
                parsed.err().map(|error| error.to_string()).unwrap_or_default()
            );
        }
    }
}
