//! Connections under random faults for as long as one likes: what arrives must be what was sent, nothing may hang,
//! and memory must not grow.
//!
//! By default real endpoints talk over loopback sockets through a relay that loses, delays, reorders, doubles and
//! damages datagrams, changes its address and falls silent for good; readers dawdle, streams are given up. With
//! `--simulated` whole connections run in virtual time instead, thousands of small worlds one after another.
//!
//! All that is random is drawn from the seed, which is printed. In virtual time a seed repeats a run exactly; on
//! sockets it repeats the faults, not what the scheduler makes of them.
#![forbid(unsafe_code)]

mod peer;
mod relay;
mod simulated;
mod tally;
mod worker;

use std::{
    error::Error,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant, SystemTime},
};

use clap::Parser;
use rc3_link::random::{Random, derive};
use rc3_net::Endpoint;
use tokio::task::JoinSet;

use tally::Tally;

/// What is wrong beyond all that may be.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Resident memory that may come on top of what was needed after the first tenth of the time, in bytes.
const GROWTH_MAX: usize = 128 << 20;

/// Lets connections suffer random faults and says whether they came through.
#[derive(Parser)]
struct Arguments {
    /// How long.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Repeats a run; drawn and printed when left out.
    #[arg(long)]
    seed: Option<u64>,
    /// Sessions at a time.
    #[arg(long, default_value_t = 8)]
    sessions: u64,
    /// In virtual time, without sockets.
    #[arg(long)]
    simulated: bool,
    /// Of the worlds in virtual time only this one, as a failure names it.
    #[arg(long, requires = "simulated")]
    world: Option<u64>,
    /// Writes the input of that world to a file, as the fuzz target `operations` takes it.
    #[arg(long, requires = "world")]
    save: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64
    });
    println!("seed {seed}");
    let until = Instant::now() + Duration::from_secs(arguments.seconds);
    let result = match arguments.simulated {
        true => match arguments.world {
            Some(world) => simulated::run_one(seed, world, arguments.save.as_deref()),
            None => simulated::run(seed, until),
        },
        false => soak(&arguments, seed, until),
    };
    match result {
        Ok(()) => {
            println!("came through");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("FAILED with seed {seed}: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn soak(arguments: &Arguments, seed: u64, until: Instant) -> Result<()> {
    let (client_config, server_config) = worker::configs();
    let server = Endpoint::server(server_config, "127.0.0.1:0".parse()?)?;
    let address = server.local_addr()?;
    let tally = Arc::<Tally>::default();
    let serving = tokio::spawn(peer::serve(server.clone(), tally.clone()));
    let reporting = tokio::spawn(report(tally.clone(), until));

    let mut workers = JoinSet::new();
    for number in 0..arguments.sessions {
        let random = Random::new(derive(seed, number));
        workers.spawn(worker::work(random, address, client_config.clone(), tally.clone(), until));
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let early = reporting.await?;

    // Peers that were killed are given up by now or soon.
    let idle = tokio::time::timeout(worker::IDLE_TIMEOUT * 10, server.wait_idle());
    idle.await.map_err(|_| format!("{} connections are left", server.open_connections()))?;
    server.close(0_u32.into(), b"");
    drop(server);
    serving.await?;
    tally.fault()?;
    println!("{tally:?}");
    if tally.verified.load(Relaxed) == 0 {
        return Err("no stream arrived".into());
    }
    if let (Some(early), Some(late)) = (early, resident()) {
        println!("resident {:.1} MB after a tenth of the time, {:.1} MB at the end", mb(early), mb(late));
        if late > early + GROWTH_MAX {
            return Err("memory grew".into());
        }
    }
    Ok(())
}

/// Prints how it goes; resident memory after the first tenth.
async fn report(tally: Arc<Tally>, until: Instant) -> Option<usize> {
    let step = until.saturating_duration_since(Instant::now()) / 10;
    let mut early = None;
    for _ in 0..10 {
        tokio::time::sleep(step).await;
        let resident = resident();
        early = early.or(resident);
        println!("{tally:?}, resident {:.1} MB", resident.map_or(f64::NAN, mb));
    }
    early
}

/// Resident memory in bytes; `None` where the system does not report it.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()? * 1024)
}

fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
