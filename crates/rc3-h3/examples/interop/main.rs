//! An endpoint for [quic-interop-runner](https://github.com/quic-interop/quic-interop-runner): rc3, or with the argument
//! `quinn` the same program over quinn.
//!
//! It serves or fetches files by HTTP/0.9 (`hq-interop`) and HTTP/3, as the environment says: `ROLE`, `TESTCASE`,
//! `REQUESTS`, `SSLKEYLOGFILE`, `QLOGDIR`; files are in `/www`, `/downloads` and `/certs`. It exits with 127 in cases that
//! it does not have. `rc3-lab net run interop` runs it against other implementations (docs/LABORATORY.md).
#![forbid(unsafe_code)]

mod job;
mod over_quinn;
mod over_rc3;
#[cfg(test)]
mod tests;

use std::{env, process::ExitCode, sync::Arc};

use job::{Job, Result};

/// What the runner expects for a case that an endpoint does not have.
const UNSUPPORTED: u8 = 127;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("interop: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode> {
    let Some(job) = Job::of_environment()? else { return Ok(UNSUPPORTED.into()) };
    let is_quinn = env::args().nth(1).as_deref() == Some("quinn");
    match (env::var("ROLE").as_deref(), is_quinn) {
        (Ok("server"), false) => {
            over_rc3::endpoint::serve(over_rc3::endpoint::listen(&job)?, Arc::new(job)).await
        }
        (Ok("server"), true) => {
            over_quinn::endpoint::serve(over_quinn::endpoint::listen(&job)?, Arc::new(job)).await
        }
        (Ok("client"), false) => over_rc3::endpoint::fetch(job).await?,
        (Ok("client"), true) => over_quinn::endpoint::fetch(job).await?,
        _ => return Err("ROLE must be client or server".into()),
    }
    Ok(ExitCode::SUCCESS)
}
