//! What the processes of a measurement do, each in its network namespace or on this host: a [`Job`] as JSON.
//!
//! All of them except clients end with their standard input, so none outlives a laboratory that was killed.

mod echo;
mod files;
pub mod load;
mod saturate;
mod shell;
pub mod watch;

use std::{
    io, net::SocketAddr, os::unix::process::CommandExt, path::PathBuf, process::Command, thread,
    time::Duration,
};

use kickass_tools::{
    forward::run::{self as forward, ForwarderEvent},
    probe::{
        listen,
        sweep::{SweepPlan, sweep},
    },
};
use serde::{Deserialize, Serialize};

use self::load::Traffic;
pub use self::saturate::Saturation;
use super::{
    transport::{Result, Target, Task, Transport, tcp},
    urgency, wan,
    wan::config::WanConfig,
};

/// One process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Serves streams of a scheme. A target without a certificate.
    Serve(Target),
    /// Does something with a server.
    Client(Target, Task),
    /// Makes as many operations as possible on a server of rc3.
    Saturate(Target, Saturation),
    /// Sends flows of random sizes at random times. The senders take the transports in turn.
    Load(Target, Vec<Transport>, Traffic),
    /// Becomes another program with this command line.
    Exec(PathBuf, Vec<String>),
    /// Sends over one TCP connection (CUBIC) without end, with this code point.
    Long(SocketAddr, u8),
    /// Forwards packets as `kickass forward` with this configuration does, and prints its events as JSON.
    Forward(PathBuf),
    /// Answers probes of lengths.
    Answer(SocketAddr),
    /// Probes lengths so often each, a packet every so often, and prints the result.
    Probe(SocketAddr, u8, Duration),
    /// Returns datagrams.
    Echo(SocketAddr),
    /// Sends a small datagram every so often and prints how long each took to return.
    Ping(SocketAddr, Duration),
    /// The WAN.
    Wan(WanConfig),
    /// Watches a queue between devices: packets come from the first ones and leave by the last one.
    Watch(Vec<String>, String),
    /// Sends a file over TCP.
    Upload(SocketAddr, PathBuf),
    /// Writes what comes over one TCP connection into a file.
    Collect(SocketAddr, PathBuf),
    /// Runs what comes as the first line of a TCP connection.
    Shell(SocketAddr),
    /// Connects standard input and output to a shell.
    Dial(SocketAddr),
    /// Prints when packets with content arrive at a device after a pause.
    Arrivals(String),
}

impl Job {
    /// The words of `rc3-lab` that do it.
    ///
    /// # Errors
    /// If an address or a path is no text.
    pub fn words(&self) -> serde_json::Result<[String; 3]> {
        Ok(["net".to_owned(), "act".to_owned(), serde_json::to_string(self)?])
    }

    /// Does it.
    pub fn run(self) -> Result<()> {
        urgency::raise();
        match self {
            // They end by themselves, or read their standard input.
            Self::Client(..) | Self::Exec(..) | Self::Wan(_) | Self::Watch(..) | Self::Dial(_) => {}
            // It must have one thread only until it has dropped its privileges.
            Self::Forward(_) => {}
            _ => end_with_input(),
        }
        match self {
            Self::Serve(target) => target.serve(),
            Self::Client(target, task) => block_on(async { target.client()?.run(task).await }),
            Self::Saturate(target, saturation) => block_on(saturation.run(&target)),
            Self::Load(target, transports, traffic) => block_on(load::run(&target, &transports, traffic)),
            Self::Exec(program, words) => Err(Command::new(program).args(words).exec().into()),
            Self::Long(address, dscp) => tcp::send_forever(address, dscp),
            Self::Forward(config) => Ok(forward::run(&config, print_event)?),
            Self::Answer(address) => {
                let socket = listen::bind(Some(address), address.port())?;
                println!("ready");
                Ok(listen::serve(&socket)?)
            }
            Self::Probe(target, tries, interval) => {
                print!("{}", sweep(&SweepPlan { target, tries, interval })?.json()?);
                Ok(())
            }
            Self::Echo(address) => echo::serve(address),
            Self::Ping(address, every) => echo::ping(address, every),
            Self::Wan(config) => Ok(wan::run(&config)?),
            Self::Watch(from, to) => watch::run(&from, &to),
            Self::Upload(address, file) => files::upload(address, &file),
            Self::Collect(address, file) => files::collect(address, &file),
            Self::Shell(address) => shell::serve(address),
            Self::Dial(address) => shell::dial(address),
            Self::Arrivals(device) => files::arrivals(&device),
        }
    }
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(future)
}

fn print_event(event: ForwarderEvent<'_>) {
    match event {
        ForwarderEvent::Ready(_) => {
            println!("ready");
            end_with_input();
        }
        ForwarderEvent::Statistics { totals, uptime, .. } => print!("{}", totals.json("statistics", uptime)),
        _ => {}
    }
}

/// Ends this process with its standard input.
fn end_with_input() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
}
