//! The `rc3` command: runs the subcommand and turns its result into an exit code.
#![forbid(unsafe_code)]

use std::{io, process::ExitCode, time::Duration};

use clap::{CommandFactory, Parser};
use rc3::{
    NAME,
    bench::{
        error::BenchError,
        listen::{ListenJob, listen},
        picture,
        progress::Progress,
        visit::visit,
    },
    cli::{
        exit::Exit,
        high::{BenchJob, Command},
        low::LowArgs,
        tunnel::TunnelCommand,
        usage,
    },
    copy::{self, copy},
    descriptors,
    transfer::{
        error::TransferError,
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
        Command::Demo { scenarios, json, svg } => demo::run(&scenarios, json, svg.as_deref()),
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
        Command::Doctor(job) => doctor::look(&job),
        Command::DoctorListen(job) => doctor::listen(&job),
        Command::Bench(job) => bench(&job),
        Command::BenchListen(job) => bench_listen(&job),
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
    work: impl AsyncFnOnce(&mut Reporter) -> Result<(), TransferError>,
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

fn bench(job: &BenchJob) -> Exit {
    let mut progress = Progress::new(job.style, &job.visit.plan);
    with_runtime(GRACE, |runtime| {
        let measured = runtime.block_on(visit(&job.visit, &mut progress)).and_then(|report| {
            progress.finish(&report);
            job.picture.as_ref().map_or(Ok(()), |(path, format)| {
                let failed = |error| BenchError::Picture { path: path.clone(), error };
                picture::write(&report, path, *format).map_err(failed)
            })
        });
        ended(measured, |error| progress.error(error))
    })
}

fn bench_listen(job: &ListenJob) -> Exit {
    with_runtime(GRACE, |runtime| {
        ended(runtime.block_on(listen(job)), |error| {
            // Ctrl-C is how a listener ends.
            if !matches!(error, BenchError::Interrupted) {
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

mod doctor {
    use std::io;

    use rc3::{
        NAME,
        bench::listen::ListenJob,
        cli::{exit::Exit, high::DoctorJob},
        doctor::{
            Report, fingerprint, flow::Flows, host::HostReport, listen, path::PathReport, probe::Key,
            progress::Progress, visit,
        },
        transfer::{
            identity::Identity,
            random::random,
            reachable,
            ticket::{Secret, Ticket},
            ticket_file::TicketFile,
        },
    };
    use rc3_cli::output;
    use tokio::{runtime::Runtime, signal};

    pub(super) fn look(job: &DoctorJob) -> Exit {
        let ticket = job.ticket.as_ref();
        if ticket.is_some_and(|ticket| ticket.fingerprint() != fingerprint()) {
            output::complain(
                NAME,
                &"this ticket is not for the doctor",
                "run rc3 doctor --listen on the other host",
            );
            return Exit::Usage;
        }
        let (path, flow) = match ticket.map(|ticket| ask(ticket, job)) {
            None => (None, None),
            Some(Ok(Some((path, flow)))) => (Some(path), flow),
            Some(Ok(None)) => {
                output::complain(
                    NAME,
                    &"the other host did not answer",
                    "check that rc3 doctor --listen runs there and that firewalls pass UDP",
                );
                return Exit::Failure;
            }
            Some(Err(error)) => return failed(&error),
        };
        let shown = HostReport::look().and_then(|host| {
            let report = Report { host, path, flow };
            output::print(&if job.json { report.json()? } else { report.text() })?;
            Ok(report.is_healthy())
        });
        match shown {
            Ok(true) => Exit::Success,
            Ok(false) => Exit::Findings,
            Err(error) => failed(&error),
        }
    }

    fn ask(ticket: &Ticket, job: &DoctorJob) -> io::Result<Option<(PathReport, Option<Flows>)>> {
        let mut progress = Progress::new(job.json);
        let visit = visit::visit(ticket, &job.network, |step| progress.show(step));
        let found = Runtime::new()?.block_on(visit);
        progress.clear();
        found
    }

    pub(super) fn listen(job: &ListenJob) -> Exit {
        match Runtime::new().and_then(|runtime| runtime.block_on(serve(job))) {
            Ok(exit) => exit,
            Err(error) => failed(&error),
        }
    }

    async fn serve(job: &ListenJob) -> io::Result<Exit> {
        let socket = reachable::bind(job.address, listen::bind)?;
        let local = socket.local_addr()?;
        let secret = Secret(random().map_err(io::Error::other)?);
        let ticket = reachable::invite(local, job.advertise.as_ref(), fingerprint(), secret)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        // Removed on drop.
        let written = job.ticket_file.as_deref().map(|path| TicketFile::write(path, &ticket)).transpose()?;
        if written.is_none() {
            output::print(&format!("{ticket}\n"))?;
        }
        let (key, identity) = (Key::new(secret), Identity::generate().map_err(io::Error::other)?);
        tokio::select! {
            served = listen::serve(socket, &key, &identity, &job.network) => served.map(|()| Exit::Success),
            interrupted = signal::ctrl_c() => interrupted.map(|()| Exit::Interrupted),
        }
    }

    fn failed(error: &io::Error) -> Exit {
        output::complain(NAME, error, "check the address and the system's limits");
        Exit::Failure
    }
}

#[cfg(unix)]
mod demo {
    use std::{
        io::{self, IsTerminal, Write},
        path::Path,
    };

    use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
    use rc3::{
        NAME,
        cli::{exit::Exit, terminal},
        demo::{
            bars,
            links::Links,
            report::Report,
            run::{self, DemoError, Step},
            scenario::Scenario,
            svg,
        },
        table::{milliseconds, time},
    };
    use rc3_cli::output;
    use rc3_text::units::about_bytes;

    pub(super) fn run(scenarios: &Links<Scenario>, json: bool, picture: Option<&Path>) -> Exit {
        let mut progress = Progress::new(scenarios, json);
        let outcome = tokio::runtime::Runtime::new()
            .map_err(DemoError::from)
            .and_then(|runtime| runtime.block_on(run_all(scenarios, &mut progress)));
        progress.clear();
        let reports = match outcome {
            Ok(reports) => reports,
            Err(error) => {
                output::complain(NAME, &error, error.hint());
                return Exit::Failure;
            }
        };
        if let Err(error) = show(&reports, json, picture) {
            output::complain(NAME, &error, "check free space and permissions");
            return Exit::Failure;
        }
        if reports.iter().all(Report::verified) {
            return Exit::Success;
        }
        output::complain(NAME, &"a transfer arrived damaged", "this is a bug: please report it");
        Exit::NotVerified
    }

    async fn run_all(
        scenarios: &Links<Scenario>,
        progress: &mut Progress,
    ) -> Result<Links<Report>, DemoError> {
        progress.head(&scenarios.link);
        let link = run::run(&scenarios.link, |step| progress.show(step)).await?;
        let mut fast_card = None;
        if let Some(scenario) = &scenarios.fast_card {
            progress.head(scenario);
            fast_card = Some(run::run(scenario, |step| progress.show(step)).await?);
        }
        Ok(Links { link, fast_card })
    }

    fn show(reports: &Links<Report>, json: bool, picture: Option<&Path>) -> io::Result<()> {
        if let Some(path) = picture {
            svg::write(reports, path)?;
        }
        if json {
            return output::print(&(reports.json()? + "\n"));
        }
        reports.iter().try_for_each(|report| output::print(&text(report)))
    }

    fn text(report: &Report) -> String {
        let runs = match report.runs {
            1 => "one run".to_owned(),
            runs => format!("median of {runs} runs"),
        };
        let verified = if report.verified() { "every transfer verified" } else { "NOT VERIFIED" };
        format!(
            "\n{}\n{}, FCT from connect to the last byte, {runs}, {verified}\n{}\n{}\n\n{}\n{}\n{}\n",
            report.scenario.headline(),
            "plain QUIC and rc3",
            report.scenario.memory_text(),
            report.scenario.ideal_text(),
            report.table(),
            bars::picture(report, terminal::look()),
            report.meaning(),
        )
    }

    /// A bar on a terminal, a line per transfer elsewhere, nothing with JSON.
    enum Progress {
        Bar(ProgressBar),
        Lines,
        None,
    }

    impl Progress {
        fn new(scenarios: &Links<Scenario>, json: bool) -> Self {
            if json {
                return Self::None;
            }
            if !io::stderr().is_terminal() {
                return Self::Lines;
            }
            let steps =
                |scenario: &Scenario| 2 * u64::from(scenario.runs.most()) * scenario.sizes.len() as u64;
            let steps = scenarios.iter().map(steps).sum();
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            Self::Bar(bar)
        }

        /// The next link begins.
        fn head(&mut self, scenario: &Scenario) {
            let text = scenario.headline();
            match self {
                Self::Bar(bar) => bar.println(text),
                Self::Lines => drop(writeln!(io::stderr(), "{text}")),
                Self::None => {}
            }
        }

        fn show(&mut self, step: Step) {
            let scheme = step.scheme.name();
            let (size, fct) = (about_bytes(step.bytes), time(milliseconds(step.fct)));
            let text = format!("run {}: {size} {scheme} {fct}", step.run);
            match self {
                Self::Bar(bar) => {
                    bar.set_message(text);
                    bar.inc(1);
                }
                Self::Lines => drop(writeln!(io::stderr(), "{text}")),
                Self::None => {}
            }
        }

        fn clear(&mut self) {
            if let Self::Bar(bar) = self {
                bar.finish_and_clear();
            }
        }
    }
}
