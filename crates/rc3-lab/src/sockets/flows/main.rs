//! Flows from on-off senders through a bottleneck, one connection each: the load of `kickass.sh`, and the report of
//! what came of it.
//!
//! `flows serve` is the receiver of all flows, of kernel TCP and of rc3, and prints a line for each that has arrived.
//! `flows send` plays the senders. Both must run on one machine, whose clock they share. `flows report` makes pictures
//! and documents of the lines of several runs and of what the forwarder has counted.
#![forbid(unsafe_code)]

mod flow;
mod load;
mod rc3;
mod report;
mod results;
mod scheme;
mod sender;
mod statistics;
mod tcp;

use std::{error::Error, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use rc3_text::units::{parse_size, parse_time};

use self::{
    load::{Load, Traffic},
    scheme::Scheme,
};

/// What any part of this program may end with.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "On-off senders through a bottleneck, and what becomes of their flows")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Receive flows of every scheme until killed
    Serve {
        address: SocketAddr,
        /// File to write the certificate to
        certificate: PathBuf,
    },
    /// Send flows, and print in which mode those of Kick-Ass were
    Send {
        address: SocketAddr,
        /// File with the certificate
        certificate: PathBuf,
        #[arg(long)]
        load: Load,
        /// All flows have this size, such as 5M [default: drawn]
        #[arg(long, value_parser = parse_size)]
        size: Option<u64>,
        /// The senders take them in turn
        #[arg(long, value_delimiter = ',', required = true)]
        schemes: Vec<Scheme>,
        #[arg(long, default_value_t = 8)]
        senders: u32,
        /// No flow begins later
        #[arg(long, value_parser = parse_time)]
        time: Duration,
        /// Repeats sizes and gaps
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Draw and describe the runs of a folder
    Report {
        results: PathBuf,
        /// Folder in which each figure gets one of its own
        out: PathBuf,
    },
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Serve { address, certificate } => sender::block_on(async {
            tokio::try_join!(tcp::serve(address), rc3::serve(address, &certificate))?;
            Ok(())
        }),
        Command::Send { address, certificate, load, size, schemes, senders, time, seed } => {
            let certificate = std::fs::read(certificate)?;
            sender::block_on(sender::play(
                address,
                &certificate,
                Traffic { load, size, seed },
                &schemes,
                senders,
                time,
            ))
        }
        Command::Report { results, out } => report::write(&results, &out),
    }
}
