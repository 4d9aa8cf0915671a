//! One endpoint with several workers beside one with a single worker: connections, exchanges and bits per second, and
//! how many cores the server used.
//!
//! `cargo run --release -p rc3-lab --bin workers -- --server-cores 0,1 --client-cores 2,3`; `--help` lists the rest.
//! Server and clients are processes of their own, pinned by `taskset`, so that the server is what is measured if the
//! clients have more cores than it. On a smaller machine both share cores. There `--part 0.2` makes the server's cores
//! slow, so that clients have time to spare: each of its threads runs for a fifth of the time at most.
#![forbid(unsafe_code)]

mod load;
mod process;
mod server;

use std::{error::Error, net::SocketAddr, time::Duration};

use clap::{Parser, Subcommand};
use rc3_text::units::parse_time;

use self::{
    load::Load,
    process::{Process, Usage},
};

/// What any part of this program may end with.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "One endpoint with several workers beside one with a single worker")]
struct Arguments {
    #[command(subcommand)]
    side: Option<Side>,
    /// Cores of the server, as taskset lists them
    #[arg(long, default_value = "0,1")]
    server_cores: String,
    /// Cores of the clients
    #[arg(long, default_value = "0,1")]
    client_cores: String,
    /// Numbers of workers to compare
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    workers: Vec<usize>,
    /// Client processes
    #[arg(long, default_value_t = 2)]
    clients: usize,
    /// The part of a core that each thread of the server gets, by deadline scheduling (root); it is not pinned then
    #[arg(long, value_parser = parse_share)]
    part: Option<f64>,
    /// Operations that each client has in progress at once
    #[arg(long, default_value_t = 32)]
    parallel: usize,
    /// How long each load lasts
    #[arg(long, value_parser = parse_time, default_value = "3s")]
    time: Duration,
    /// How often each takes its turn
    #[arg(long, default_value_t = 3)]
    runs: usize,
}

#[derive(Subcommand)]
enum Side {
    #[command(hide = true)]
    Serve { workers: usize, threads: usize },
    #[command(hide = true)]
    Load {
        address: SocketAddr,
        certificate: String,
        load: Load,
        parallel: usize,
        #[arg(value_parser = parse_time)]
        time: Duration,
    },
}

impl Arguments {
    /// Threads of the server: as many with one worker as with several.
    fn threads(&self) -> usize {
        self.workers.iter().copied().max().unwrap_or(1)
    }
}

fn parse_share(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("a number above 0 and up to 1".to_owned()),
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.side {
        Some(Side::Serve { workers, threads }) => server::serve(*workers, *threads),
        Some(Side::Load { address, certificate, load, parallel, time }) => {
            load.run(*address, certificate, *parallel, *time)
        }
        None => compare(&arguments),
    }
}

/// The result of one load on one server.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// In the unit of the load.
    per_second: f64,
    /// CPU time of the server per second.
    cores: f64,
}

/// Runs the numbers of workers in turn and prints a table of medians.
fn compare(arguments: &Arguments) -> Result<()> {
    let Arguments { workers, runs, .. } = arguments;
    let mut results = vec![vec![Vec::new(); workers.len()]; Load::ALL.len()];
    for run in 1..=*runs {
        for (load, results) in Load::ALL.into_iter().zip(&mut results) {
            for (&workers, results) in workers.iter().zip(results) {
                let measured = measure(arguments, workers, load)?;
                eprintln!(
                    "run {run} of {runs}: {} with {workers}: {:.2} {}, {:.2} cores",
                    load.name(),
                    measured.per_second,
                    load.unit(),
                    measured.cores
                );
                results.push(measured);
            }
        }
    }
    let server = match arguments.part {
        Some(part) => format!("server on {} cores of which it gets {part}", arguments.threads()),
        None => format!("server on cores {}", arguments.server_cores),
    };
    println!(
        "{server}, {} clients on cores {}, medians of {runs} runs of {:?}:",
        arguments.clients, arguments.client_cores, arguments.time
    );
    println!(
        "{:12} {:>8} {:>12} {:16} {:>6} {:>18}",
        "load", "workers", "rate", "", "cores", "rate per core"
    );
    for (load, results) in Load::ALL.into_iter().zip(&results) {
        for (workers, runs) in workers.iter().zip(results) {
            let per_second = median(runs.iter().map(|run| run.per_second));
            let cores = median(runs.iter().map(|run| run.cores));
            let (name, unit) = (load.name(), load.unit());
            let per_core = per_second / cores;
            println!("{name:12} {workers:>8} {per_second:>12.2} {unit:16} {cores:>6.2} {per_core:>18.2}");
        }
    }
    Ok(())
}

fn measure(arguments: &Arguments, workers: usize, load: Load) -> Result<Measured> {
    let words = ["serve".to_owned(), workers.to_string(), arguments.threads().to_string()];
    let mut server =
        Process::start(arguments.part.is_none().then_some(arguments.server_cores.as_str()), &words)?;
    let (address, certificate) = (server.line()?, server.line()?);
    if let Some(part) = arguments.part {
        server.slow_down(part)?;
    }
    let words = [
        "load".to_owned(),
        address,
        certificate,
        load.name().to_owned(),
        arguments.parallel.to_string(),
        format!("{}ms", arguments.time.as_millis()),
    ];
    let clients: Result<Vec<_>> =
        (0..arguments.clients).map(|_| Process::start(Some(&arguments.client_cores), &words)).collect();
    let mut clients = clients?;
    // Each says when it begins, and when it has ended how much it did.
    for client in &mut clients {
        client.line()?;
    }
    let before = server.usage()?;
    let mut per_second = 0.0;
    for client in &mut clients {
        per_second += client.line()?.parse::<f64>()?;
    }
    let Usage { cpu, wall, .. } = server.usage()?.since(before);
    Ok(Measured { per_second, cores: cpu.as_secs_f64() / wall.as_secs_f64() })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
