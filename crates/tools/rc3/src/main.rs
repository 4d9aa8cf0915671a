//! The `rc3` command: runs the subcommand and turns its result into an exit code.
#![forbid(unsafe_code)]

use std::{io, process::ExitCode, time::Duration};

use clap::{CommandFactory, Parser};
#[cfg(unix)]
use rc3::demo::{DemoJob, demo};
use rc3::{
    NAME,
    check::{
        CheckJob, check,
        error::CheckError,
        listen::{ListenJob, listen},
        progress::Progress,
    },
    cli::{exit::Exit, high::Command, low::LowArgs, tunnel::TunnelCommand, usage},
    copy::{self, copy},
    descriptors,
    error::Error,
    transfer::{
        progress::{Reporter, Style},
        receive::receive,
        send::{Content, send},
    },
    tunnel::{client, error::TunnelError, files::Files, serve},
};
use rc3_cli::{manual, output};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let low = match LowArgs::try_parse() {
        Ok(low) => low,
        Err(error) => return written(usage::misused(&error)).into(),
    };
    // No logs by default: RUST_LOG=debug, RUST_LOG=rc3_core=trace.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let json = low.json();
    let exit = match Command::resolve(low) {
        Ok(command) => run(command),
        Err(error) => {
            usage::complain(json, &error, error.hint());
            Exit::Usage
        }
    };
    written(exit).into()
}

/// The exit code once standard output has taken everything: a program that reads events must not miss any and see a
/// success.
fn written(exit: Exit) -> Exit {
    match finish(output::finish()) {
        Exit::Success => exit,
        failed if exit == Exit::Success => failed,
        _ => exit,
    }
}

fn run(command: Command) -> Exit {
    descriptors::raise();
    match command {
        #[cfg(unix)]
        Command::Demo(job) => show(&job),
        Command::Recv(job, style) => {
            let grace = if job.dir.is_some() { GRACE } else { Duration::ZERO };
            transfer(style, "receiving", grace, async |reporter| receive(*job, reporter).await)
        }
        Command::Send(job, style) => {
            let grace = if matches!(job.content, Content::Paths(..)) { GRACE } else { Duration::ZERO };
            transfer(style, "sending", grace, async |reporter| send(*job, reporter).await)
        }
        Command::Copy(job, style) => {
            transfer(style, "copying", GRACE, async |reporter| copy(*job, reporter).await)
        }
        Command::CopyPeer => with_runtime(Duration::ZERO, |runtime| {
            runtime.block_on(copy::serve());
            Exit::Success
        }),
        Command::Check(job) => check_path(&job),
        Command::CheckListen(job) => check_listen(&job),
        Command::Tunnel(command) => tunnel(&command),
        Command::Completions(shell) => finish(manual::complete(LowArgs::command(), shell)),
        Command::Man(directory) => finish(manual::write(LowArgs::command(), directory.as_deref())),
    }
}

/// A hanging disk must not delay the exit for longer, nor a read or write of a pipe at all.
const GRACE: Duration = Duration::from_secs(1);

fn transfer(
    style: Style,
    verb: &'static str,
    grace: Duration,
    work: impl AsyncFnOnce(&mut Reporter) -> Result<(), Error>,
) -> Exit {
    let mut reporter = Reporter::new(style, verb);
    with_runtime(grace, |runtime| {
        let outcome = runtime.block_on(work(&mut reporter));
        ended(outcome, |error| reporter.error(error))
    })
}

/// The exit code of an outcome, after its error is printed.
fn ended<E>(outcome: Result<(), E>, complain: impl FnOnce(&E)) -> Exit
where
    for<'a> Exit: From<&'a E>,
{
    match outcome {
        Ok(()) => Exit::Success,
        Err(error) => {
            complain(&error);
            Exit::from(&error)
        }
    }
}

#[cfg(unix)]
fn show(job: &DemoJob) -> Exit {
    with_runtime(GRACE, |runtime| match runtime.block_on(demo(job)) {
        Ok(true) => Exit::Success,
        Ok(false) => {
            output::complain(NAME, &"a transfer arrived damaged", "this is a bug: please report it");
            Exit::NotVerified
        }
        Err(error) => {
            output::complain(NAME, &error, error.hint());
            Exit::Failure
        }
    })
}

fn check_path(job: &CheckJob) -> Exit {
    let plan = job.visit.as_ref().and_then(|visit| visit.plan.as_ref());
    let mut progress = Progress::new(job.style, plan);
    with_runtime(GRACE, |runtime| match runtime.block_on(check(job, &mut progress)) {
        Ok(true) => Exit::Success,
        Ok(false) => Exit::Findings,
        Err(error) => {
            progress.error(&error);
            Exit::from(&error)
        }
    })
}

fn check_listen(job: &ListenJob) -> Exit {
    with_runtime(GRACE, |runtime| {
        ended(runtime.block_on(listen(job)), |error| {
            // Ctrl-C is how a listener ends.
            if !matches!(error, CheckError::Interrupted) {
                output::complain(NAME, error, error.hint());
            }
        })
    })
}

fn tunnel(command: &TunnelCommand) -> Exit {
    let work = |runtime: &tokio::runtime::Runtime| match command {
        TunnelCommand::Serve(job) => runtime.block_on(serve::serve(job)),
        TunnelCommand::Connect(job) => runtime.block_on(client::run(job)),
        TunnelCommand::ShowIdentity(files) => show_identity(files),
    };
    // A read of standard input may never end.
    with_runtime(Duration::ZERO, |runtime| {
        ended(work(runtime), |error| {
            // Ctrl-C is how a tunnel ends.
            if !matches!(error, TunnelError::Interrupted) {
                output::complain(NAME, error, error.hint());
            }
        })
    })
}

fn show_identity(files: &Files) -> Result<(), TunnelError> {
    let identity = files.identity()?;
    output::emit(identity.fingerprint().to_string());
    Ok(())
}

fn with_runtime(grace: Duration, work: impl FnOnce(&tokio::runtime::Runtime) -> Exit) -> Exit {
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let exit = work(&runtime);
            runtime.shutdown_timeout(grace);
            exit
        }
        Err(error) => finish(Err(error)),
    }
}

fn finish(result: io::Result<()>) -> Exit {
    match result {
        Ok(()) => Exit::Success,
        Err(error) => {
            output::complain(NAME, &error, output::SYSTEM_HINT);
            Exit::Failure
        }
    }
}
