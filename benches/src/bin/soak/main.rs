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

mod memory;
mod peer;
mod random;
mod relay;
mod simulated;
mod tally;
mod worker;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use clap::Parser;
use rc3_net::Endpoint;
use tokio::task::JoinSet;

use random::Random;
use tally::Tally;

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
        false => match tokio::runtime::Runtime::new() {
            Ok(runtime) => runtime.block_on(soak(&arguments, seed, until)),
            Err(error) => Err(error.to_string()),
        },
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

async fn soak(arguments: &Arguments, seed: u64, until: Instant) -> Result<(), String> {
    let (client_config, server_config) = worker::configs();
    let any = "127.0.0.1:0".parse().map_err(|error| format!("{error}"))?;
    let server = Endpoint::server(server_config, any).map_err(|error| error.to_string())?;
    let address = server.local_addr().map_err(|error| error.to_string())?;
    let tally = Arc::<Tally>::default();
    let serving = tokio::spawn(peer::serve(server.clone(), tally.clone()));
    let reporting = tokio::spawn(report(tally.clone(), until));

    let mut workers = JoinSet::new();
    for number in 0..arguments.sessions {
        let random = Random::new(seed, number);
        workers.spawn(worker::work(random, address, client_config.clone(), tally.clone(), until));
    }
    while let Some(worker) = workers.join_next().await {
        worker.map_err(|error| error.to_string())??;
    }
    let early = reporting.await.map_err(|error| error.to_string())?;

    // Peers that were killed are given up by now or soon.
    let idle = tokio::time::timeout(worker::IDLE_TIMEOUT * 10, server.wait_idle());
    idle.await.map_err(|_| format!("{} connections are left", server.open_connections()))?;
    server.close(0_u32.into(), b"");
    drop(server);
    serving.await.map_err(|error| error.to_string())?;
    tally.fault()?;
    println!("{tally}");
    if let (Some(early), Some(late)) = (early, memory::resident()) {
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
        let resident = memory::resident();
        early = early.or(resident);
        println!("{tally}, resident {:.1} MB", resident.map_or(f64::NAN, mb));
    }
    early
}

fn mb(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
