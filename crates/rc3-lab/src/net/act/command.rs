//! The hidden commands of `rc3-lab net act`.

use std::{net::SocketAddr, os::unix::process::CommandExt, path::PathBuf, process::Command, time::Duration};

use clap::Subcommand;
use kickass_tools::{
    forward::run::{self as forward, Event},
    probe::{
        listen,
        sweep::{Plan, sweep},
    },
};
use rc3_text::units::parse_time;

use super::{
    echo, end_with_input,
    load::{self, Traffic},
    saturate::Operation,
};
use crate::net::{
    transport::{Exchange, Result, Setup, Transport, tcp},
    urgency,
};

/// One process.
#[derive(Debug, Clone, Subcommand)]
pub enum Act {
    /// Serve streams of a scheme
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
    /// Make exchanges, one after the other
    Ask {
        /// Which
        #[command(flatten)]
        setup: Setup,
        /// The server
        address: SocketAddr,
        /// Its certificate in hexadecimal
        certificate: String,
        /// What is exchanged
        #[command(flatten)]
        exchange: Exchange,
    },
    /// Hold connections and streams, as standard input orders
    Hold {
        /// Which
        #[command(flatten)]
        setup: Setup,
        /// The server
        address: SocketAddr,
        /// Its certificate in hexadecimal
        certificate: String,
    },
    /// Make as many operations as possible on a server of rc3
    Saturate {
        /// Which
        #[command(flatten)]
        setup: Setup,
        /// The server
        address: SocketAddr,
        /// Its certificate in hexadecimal
        certificate: String,
        /// Of which kind
        operation: Operation,
        /// How many at once
        parallel: usize,
        /// How long
        #[arg(value_parser = parse_time)]
        time: Duration,
    },
    /// Send flows of random sizes at random times
    Load {
        /// The servers
        address: SocketAddr,
        /// The certificate of the one that has one
        certificate: String,
        /// The senders take them in turn
        #[arg(long, value_delimiter = ',', required = true)]
        schemes: Vec<Transport>,
        /// Sizes and times
        #[command(flatten)]
        traffic: Traffic,
    },
    /// Become another program
    Exec {
        /// Which
        program: PathBuf,
        /// Its command line
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Send over one TCP connection without end
    Long {
        /// Congestion control as the kernel names it
        congestion: String,
        /// The server
        address: SocketAddr,
        /// Code point of its packets
        #[arg(long, default_value_t = 0)]
        dscp: u32,
    },
    /// Forward packets as `kickass forward` does, and print its events as JSON
    Forward {
        /// Its configuration
        config: PathBuf,
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
        match self {
            // They end by themselves, or read their standard input.
            Self::Time { .. } | Self::Ask { .. } | Self::Hold { .. } | Self::Exec { .. } => {}
            // It must have one thread only until it has dropped its privileges.
            Self::Forward { .. } => {}
            _ => end_with_input(),
        }
        match self {
            Self::Serve { setup, address } => setup.serve(address),
            Self::Time { setup, address, certificate, bytes, connections } => {
                block_on(async { setup.client(address, &certificate)?.time(bytes, connections).await })
            }
            Self::Ask { setup, address, certificate, exchange } => {
                block_on(async { setup.client(address, &certificate)?.ask(&exchange).await })
            }
            Self::Hold { setup, address, certificate } => {
                block_on(async { setup.client(address, &certificate)?.hold().await })
            }
            Self::Saturate { setup, address, certificate, operation, parallel, time } => {
                let connect = || setup.rc3_endpoint(address, &certificate);
                block_on(operation.saturate(connect, address, parallel, time))
            }
            Self::Load { schemes, address, certificate, traffic } => {
                block_on(load::run(&schemes, address, &certificate, traffic))
            }
            Self::Exec { program, words } => Err(Command::new(program).args(words).exec().into()),
            Self::Long { congestion, address, dscp } => tcp::send_forever(&congestion, address, dscp),
            Self::Forward { config } => Ok(forward::run(&config, print_event)?),
            Self::Answer { address } => {
                let socket = listen::bind(Some(address), address.port())?;
                println!("ready");
                Ok(listen::serve(&socket)?)
            }
            Self::Probe { address, tries, every } => {
                print!("{}", sweep(&Plan { target: address, tries, interval: every })?.json()?);
                Ok(())
            }
            Self::Echo { address } => echo::serve(address),
            Self::Ping { address, every } => echo::ping(address, every),
        }
    }
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}

fn print_event(event: Event<'_>) {
    match event {
        Event::Ready(_) => {
            println!("ready");
            end_with_input();
        }
        Event::Statistics { totals, uptime, .. } => print!("{}", totals.json("statistics", uptime)),
        _ => {}
    }
}
