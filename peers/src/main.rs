//! s2n-quic for `rc3-lab net`: a server and a client over its public API with default settings. Its cryptography takes
//! longer to build than the rest of rc3.
//!
//! `rc3-peers version` prints what it has. [`rc3-peers interop`](interop) is an endpoint of quic-interop-runner.
//! `rc3-peers JOB` does a job that is JSON, as `rc3-lab net act` does its own:
//!
//! - `{"serve": TARGET}` prints its certificate on a line, and serves until standard input ends. A stream whose first byte
//!   is 1 is sent back. To another one that has ended it answers when its last byte was there, and its own CPU seconds.
//! - `{"client": [TARGET, {"time": [BYTES, CONNECTIONS]}]}` sends one stream over each of so many new connections, and prints
//!   a line of JSON for each.
//! - `{"client": [TARGET, {"ask": EXCHANGE}]}` makes exchanges, and prints the microseconds of each in one line.
#![forbid(unsafe_code)]

mod clock;
mod interop;
mod s2n;

use std::{error::Error, io, net::SocketAddr, process::ExitCode, thread};

use serde::Deserialize;

/// What any part of this program may end with.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The name for which the certificate is.
const HOST: &str = "localhost";
/// What one write hands over, in bytes.
const BLOCK: usize = 1 << 20;

/// First byte of a stream that is sent back.
const ECHO: u8 = 1;
/// Longer streams are not sent back, in bytes.
const ECHO_MAX: usize = 4 << 20;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Job {
    Serve(Target),
    Client(Target, Task),
}

#[derive(Debug, Deserialize)]
struct Target {
    setup: Setup,
    address: SocketAddr,
    /// What the server has printed.
    certificate: String,
}

#[derive(Debug, Deserialize)]
struct Setup {
    /// The longest IP packet, in bytes.
    mtu: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Task {
    Time(u64, u32),
    Ask(Exchange),
}

#[derive(Debug, Deserialize)]
struct Exchange {
    count: u32,
    bytes: usize,
    new_connections: bool,
}

fn main() -> ExitCode {
    match run(&std::env::args().nth(1).unwrap_or_default()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "rc3-peers: {error}\nhint: this program is started by rc3-lab net, see docs/LABORATORY.md"
            );
            ExitCode::FAILURE
        }
    }
}

fn run(job: &str) -> Result<()> {
    if job == "version" {
        println!("s2n-quic {}", version("s2n-quic").unwrap_or("of an unknown version"));
        return Ok(());
    }
    if job == "interop" {
        return interop::run();
    }
    match serde_json::from_str(job)? {
        Job::Serve(target) => {
            end_with_input();
            s2n::serve(target)
        }
        Job::Client(target, Task::Time(bytes, connections)) => s2n::time(target, bytes, connections),
        Job::Client(target, Task::Ask(exchange)) => s2n::ask(target, exchange),
    }
}

/// The version of a package in Cargo.lock.
fn version(package: &str) -> Option<&'static str> {
    let mut lines = include_str!("../Cargo.lock").lines();
    let name = format!("name = \"{package}\"");
    lines.find(|line| *line == name)?;
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// Ends this process with its standard input: nobody is left to end it otherwise.
fn end_with_input() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
}
