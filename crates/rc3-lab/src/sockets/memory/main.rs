//! Memory of many connections and streams, and what an endpoint with idle connections costs: rc3 beside quinn.
//!
//! `cargo run --release -p rc3-lab --bin memory`; `--help` lists the settings. Server and client are processes of their
//! own with one endpoint each, so one socket each. A figure is the growth of a process's resident memory since its first
//! connection, divided by the connections or streams; it includes the program's own task for each connection. There is
//! no idle timeout and no keep-alive.
#![forbid(unsafe_code)]

mod ends;
mod limits;
mod process;
mod table;
mod transport;
mod unread;

use std::{error::Error, net::SocketAddr, time::Duration};

use clap::{Parser, Subcommand};
use rc3_text::units::parse_time;

use self::{
    limits::Limits,
    process::{Process, Resident},
    transport::Transport,
};

/// Streams of exchanges that may count as open for a while.
const ENDED: usize = 16;

/// What any part of this program may end with.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "Memory of many connections and streams: rc3 beside quinn")]
struct Arguments {
    #[command(subcommand)]
    side: Option<Side>,
    /// Transports to compare
    #[arg(long, value_delimiter = ',', default_value = "rc3,rc3-off,quinn")]
    transports: Vec<Transport>,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    connections: Vec<usize>,
    /// Idle streams to open on each of them
    #[arg(long, default_value_t = 10)]
    streams: usize,
    /// Streams over few connections: how many in total; 0 omits this part
    #[arg(long, default_value_t = 100_000)]
    many_streams: usize,
    /// How many connections carry them
    #[arg(long, default_value_t = 100)]
    carriers: usize,
    /// Time after each step before memory is read
    #[arg(long, value_parser = parse_time, default_value = "3s")]
    settle: Duration,
    /// Clients whose data the server never reads; 0 omits this part
    #[arg(long, default_value_t = 20)]
    unread: usize,
    /// How long they write before memory is read
    #[arg(long, value_parser = parse_time, default_value = "10s")]
    unread_time: Duration,
    /// How long CPU time and wake-ups of the idle server are counted
    #[arg(long, value_parser = parse_time, default_value = "10s")]
    idle: Duration,
}

#[derive(Subcommand)]
enum Side {
    #[command(hide = true)]
    Serve {
        transport: Transport,
        #[command(flatten)]
        limits: Limits,
    },
    #[command(hide = true)]
    Hold {
        transport: Transport,
        address: SocketAddr,
        certificate: String,
        #[command(flatten)]
        limits: Limits,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.side {
        Some(Side::Serve { transport, limits }) => transport.serve(*limits),
        Some(Side::Hold { transport, address, certificate, limits }) => {
            transport.hold(*address, certificate, *limits)
        }
        None => compare(&arguments),
    }
}

/// Measures all and prints the tables.
fn compare(arguments: &Arguments) -> Result<()> {
    let mut rows = Vec::new();
    for &count in &arguments.connections {
        for &transport in &arguments.transports {
            rows.push(connections(arguments, transport, count)?);
        }
    }
    if !rows.is_empty() {
        table::print_connections(&rows, arguments.streams);
    }
    if arguments.many_streams > 0 {
        let mut rows = Vec::new();
        for &transport in &arguments.transports {
            rows.push(streams(arguments, transport)?);
        }
        table::print_streams(&rows, arguments.many_streams, arguments.carriers);
    }
    if arguments.unread > 0 {
        table::print_unread(&unread::measure(arguments)?);
    }
    Ok(())
}

/// One number of connections of one transport: bytes for each, idle cost of the server.
struct Connections {
    transport: Transport,
    count: usize,
    after_handshake: Resident,
    after_exchange: Resident,
    with_streams: Resident,
    /// CPU time of the idle server per second.
    cores: f64,
    /// How often a thread of the idle server went to sleep, per second.
    wake_ups: f64,
}

fn connections(arguments: &Arguments, transport: Transport, count: usize) -> Result<Connections> {
    let mut pair = Pair::start(transport, Limits::streams(arguments.streams + ENDED), arguments.settle)?;
    let mut step = |command: &str| -> Result<Resident> {
        let per_connection = pair.step(command)?.over(count);
        eprintln!("{}, {count} connections, {command}: {per_connection}", transport.name());
        Ok(per_connection)
    };
    let after_handshake = step(&format!("connect {count}"))?;
    let after_exchange = step("exchange")?;
    let with_streams = step(&format!("open {}", arguments.streams))?;
    let before = pair.server.usage()?;
    std::thread::sleep(arguments.idle);
    let idle = pair.server.usage()?.since(before);
    eprintln!("{}, {count} connections, idle: {idle}", transport.name());
    Ok(Connections {
        transport,
        count,
        after_handshake,
        after_exchange,
        with_streams,
        cores: idle.cores(),
        wake_ups: idle.wake_ups(),
    })
}

/// Bytes of one of many streams.
struct Streams {
    transport: Transport,
    each: Resident,
}

fn streams(arguments: &Arguments, transport: Transport) -> Result<Streams> {
    let each = arguments.many_streams / arguments.carriers;
    let mut pair = Pair::start(transport, Limits::streams(each + ENDED), arguments.settle)?;
    let without = pair.step(&format!("connect {}", arguments.carriers))?;
    let with = pair.step(&format!("open {each}"))?;
    let each = with.minus(without).over(arguments.many_streams);
    eprintln!("{}, {} streams: {each}", transport.name(), arguments.many_streams);
    Ok(Streams { transport, each })
}

/// Server and client.
struct Pair {
    server: Process,
    client: Process,
    settle: Duration,
    before: Resident,
}

impl Pair {
    /// Starts both, with one connection that the figures do not count.
    fn start(transport: Transport, limits: Limits, settle: Duration) -> Result<Self> {
        let with_limits =
            |words: &[&str]| words.iter().map(ToString::to_string).chain(limits.words()).collect::<Vec<_>>();
        let mut server = Process::start(with_limits(&["serve", transport.name()]))?;
        let (address, certificate) = (server.line()?, server.line()?);
        let mut client = Process::start(with_limits(&["hold", transport.name(), &address, &certificate]))?;
        for command in ["connect 1", "exchange"] {
            client.ask(command)?;
        }
        std::thread::sleep(settle);
        let before = Resident { server: server.resident()?, client: client.resident()? };
        Ok(Self { server, client, settle, before })
    }

    /// Has the client do it; returns how much memory has grown since the start, in bytes.
    fn step(&mut self, command: &str) -> Result<Resident> {
        self.client.ask(command)?;
        std::thread::sleep(self.settle);
        let now = Resident { server: self.server.resident()?, client: self.client.resident()? };
        Ok(now.minus(self.before))
    }
}
