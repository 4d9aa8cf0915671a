//! The `rc3` command: runs the subcommand and turns its result into an exit code.
#![forbid(unsafe_code)]

use std::{io, process::ExitCode, time::Duration};

use clap::{CommandFactory, Parser};
use rc3::demo::demo;
use rc3::{
    NAME,
    check::{CheckJob, check, listen::listen, progress::CheckProgress},
    cli::{
        exit::Exit,
        low::{LowArgs, LowCommand},
        usage,
    },
    copy::{self, copy_until},
    error::{Error, ErrorKind, Result},
    log, metrics, rendezvous, system,
    transfer::{
        interrupted,
        progress::{Reporter, Style},
        receive::receive,
        send::{Content, send_until},
    },
    tunnel::{client, serve},
};
use rc3_cli::{manual, output};

fn main() -> ExitCode {
    let low = match LowArgs::try_parse() {
        Ok(low) => low,
        Err(error) => return written(usage::misused(&error)).into(),
    };
    log::init();
    let exit = run(low.command).unwrap_or_else(|error| {
        usage::complain(usage::wants_json(), &error, error.hint());
        Exit::Usage
    });
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

/// Runs a command if its flags fit together.
fn run(command: LowCommand) -> Result<Exit> {
    system::raise_descriptor_limit();
    // Ctrl-C is how a listener and a tunnel end.
    let until_stopped = |error: &Error| {
        if error.kind() != ErrorKind::Interrupted {
            complain(error);
        }
    };
    Ok(match command {
        LowCommand::Demo(args) => with_runtime(GRACE, demo(&args.resolve()?), complain),
        LowCommand::Recv(args) => {
            let (style, address, job) = (args.output.style(), args.metrics, args.resolve()?);
            let grace = if job.dir.is_some() { GRACE } else { Duration::ZERO };
            transfer(style, "receiving", grace, async |reporter| {
                metrics::serve(address)?;
                receive(job, reporter).await
            })
        }
        LowCommand::Send(args) => {
            let (style, job) = (args.output.style(), args.resolve()?);
            let grace = if matches!(job.content, Content::Paths(..)) { GRACE } else { Duration::ZERO };
            transfer(style, "sending", grace, async |reporter| send_until(interrupted(), job, reporter).await)
        }
        LowCommand::Meet(args) => with_runtime(GRACE, rendezvous::serve::serve(args), until_stopped),
        LowCommand::Copy(args) => {
            let (style, job) = (args.output.style(), args.resolve()?);
            transfer(style, "copying", GRACE, async |reporter| copy_until(interrupted(), job, reporter).await)
        }
        LowCommand::CopyPeer { listening } => {
            let work = async {
                copy::serve(listening).await;
                Ok(())
            };
            with_runtime(Duration::ZERO, work, complain)
        }
        LowCommand::Check(args) if args.listen => with_runtime(GRACE, listen(&args), until_stopped),
        LowCommand::Check(args) => check_path(&args.resolve()?),
        LowCommand::Tunnel(args) if args.show_identity => {
            let shown = args.files().and_then(|files| files.identity());
            let work = async { shown.map(|identity| output::emit(identity.fingerprint().to_string())) };
            with_runtime(Duration::ZERO, work, complain)
        }
        LowCommand::Tunnel(args) if args.listen => {
            with_runtime(Duration::ZERO, serve::serve(&args), until_stopped)
        }
        LowCommand::Tunnel(args) => {
            let peer = args.peer()?;
            // A read of standard input may never end.
            with_runtime(Duration::ZERO, client::run(&args, &peer), until_stopped)
        }
        LowCommand::Completions { shell } => finish(manual::complete(LowArgs::command(), shell)),
        LowCommand::Man { out } => finish(manual::write(LowArgs::command(), out.as_deref())),
    })
}

/// A hanging disk must not delay the exit for longer, nor a read or write of a pipe at all.
const GRACE: Duration = Duration::from_secs(1);

fn transfer(
    style: Style,
    verb: &'static str,
    grace: Duration,
    work: impl AsyncFnOnce(&mut Reporter) -> Result<()>,
) -> Exit {
    let mut reporter = Reporter::new(style, verb);
    let work = async { work(&mut reporter).await.inspect_err(|error| reporter.error(error)) };
    with_runtime(grace, work, |_| {})
}

fn check_path(job: &CheckJob) -> Exit {
    let plan = job.visit.as_ref().and_then(|visit| visit.plan.as_ref());
    let mut progress = CheckProgress::new(job.style, plan);
    let mut is_healthy = true;
    let work = async {
        is_healthy = check(job, &mut progress).await.inspect_err(|error| progress.error(error))?;
        Ok(())
    };
    match with_runtime(GRACE, work, |_| {}) {
        Exit::Success if !is_healthy => Exit::Findings,
        exit => exit,
    }
}

fn complain(error: &Error) {
    log::line(format_args!("{NAME}: {error}\nhint: {}", error.hint()));
}

/// The exit code of this work, after its error is printed. What the runtime still does may take `grace` longer.
fn with_runtime(
    grace: Duration,
    work: impl Future<Output = Result<()>>,
    complain: impl FnOnce(&Error),
) -> Exit {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return finish(Err(error)),
    };
    let exit = match runtime.block_on(work) {
        Ok(()) => Exit::Success,
        Err(error) => {
            complain(&error);
            Exit::from(&error)
        }
    };
    runtime.shutdown_timeout(grace);
    exit
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
