//! One endpoint with several workers beside one with a single worker: connections, exchanges and bits per second, and
//! how many cores the server used.
//!
//! Server and clients are processes of their own, pinned by `taskset`, so that the server is what is measured if the
//! clients have more cores than it. On a smaller machine both share cores. There `--part 0.2` makes the server's cores
//! slow, so that clients have time to spare: each of its threads runs for a fifth of the time at most.

use std::{fs, process::Command, time::Duration};

use clap::ValueEnum;

use super::{
    act::Operation,
    args::Counts,
    error::NetError,
    experiment::Options,
    process::Process,
    report::Section,
    run::Lab,
    scheme::{Place, Scheme},
    streams::Hosts,
    tables,
    transport::Transport,
};
use crate::document::Table;

const CORES: &str = "0,1";
/// Nanoseconds in which a thread of a slow server runs once.
const PERIOD: u32 = 10_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn workers(options: &Options) -> Vec<usize> {
    match options.args.counts.workers.as_slice() {
        [] => vec![1, 2],
        typed => typed.to_vec(),
    }
}

fn time(options: &Options) -> Duration {
    options.pick(options.args.time, Duration::from_secs(3), Duration::from_secs(1))
}

/// Lets the numbers of workers take their turns with each kind of operation.
///
/// # Errors
/// If a process fails.
pub fn measure(lab: &mut Lab) -> Result<Vec<Section>, NetError> {
    let (counts, time, workers) =
        (lab.options.args.counts.clone(), time(&lab.options), workers(&lab.options));
    let hosts = Hosts::loopback(None);
    let turns: Vec<(Operation, usize)> = Operation::value_variants()
        .iter()
        .flat_map(|operation| workers.iter().map(|workers| (*operation, *workers)))
        .collect();
    let names: Vec<String> =
        turns.iter().map(|(operation, workers)| format!("{} with {workers}", operation.names().0)).collect();
    let load = Measurement {
        place: hosts.place(),
        counts: &counts,
        time,
        threads: workers.iter().copied().max().unwrap_or(1),
    };
    let measured = lab.turns(&names, |nth| load.run(turns[nth].0, turns[nth].1))?;
    let mut table = Table::new(&["operation", "#workers", "#rate", "unit", "#cores", "#rate per core"]);
    for ((operation, workers), runs) in turns.iter().zip(&measured) {
        let of = |value: fn(&[f64; 2]) -> f64| tables::estimated(runs.iter().map(value));
        let (name, unit) = operation.names();
        table.rows.push(vec![
            name.to_owned(),
            workers.to_string(),
            of(|[rate, _]| *rate),
            unit.to_owned(),
            of(|[_, cores]| *cores),
            of(|[rate, cores]| rate / cores),
        ]);
    }
    let server = match counts.part {
        Some(part) => format!("server on {} cores of which it gets {part}", load.threads),
        None => format!("server on cores {}", counts.server_cores.as_deref().unwrap_or(CORES)),
    };
    let clients = counts.client_cores.as_deref().unwrap_or(CORES);
    let text = format!("{server}, {} clients on cores {clients}, {time:?} each:", load.clients());
    Ok(vec![Section::new("Workers of an endpoint").text(text).table(table)])
}

struct Measurement<'a> {
    place: Place<'a>,
    counts: &'a Counts,
    time: Duration,
    /// Of the server: as many with one worker as with several.
    threads: usize,
}

impl Measurement<'_> {
    fn clients(&self) -> usize {
        self.counts.clients.unwrap_or(2)
    }

    /// Starts a process of rc3 on some cores, or on all.
    fn start(&self, cores: Option<&str>, what: &str, words: &[String]) -> Result<Process, NetError> {
        let this = std::env::current_exe()?;
        let command = match cores {
            Some(cores) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cores]).arg(this);
                command
            }
            None => Command::new(this),
        };
        let scheme = Scheme::own(Transport::Rc3)?;
        Process::start(what, scheme.completed(command, what, &self.place, words, &[]))
    }

    /// The rate in the operation's unit, and cores that the server used.
    fn run(&self, operation: Operation, workers: usize) -> Result<[f64; 2], NetError> {
        let Self { counts, time, threads, .. } = *self;
        let cores = |typed: &Option<String>| typed.clone().unwrap_or_else(|| CORES.to_owned());
        let server_cores = cores(&counts.server_cores);
        let words = [format!("--workers={workers}"), format!("--threads={threads}")];
        let server = self.start(counts.part.is_none().then_some(server_cores.as_str()), "serve", &words)?;
        let certificate = server.line()?;
        if let Some(part) = counts.part {
            slow_down(&server, part)?;
        }
        let parallel = counts.parallel.unwrap_or(32).to_string();
        let words =
            [certificate, operation.names().0.to_owned(), parallel, format!("{}ms", time.as_millis())];
        let start = |_| self.start(Some(&cores(&counts.client_cores)), "saturate", &words);
        let clients = (0..self.clients()).map(start).collect::<Result<Vec<_>, _>>()?;
        // Each says when it begins, and when it has ended how much it did.
        clients.iter().try_for_each(|client| client.line_in(PATIENCE).map(drop))?;
        let before = server.usage()?;
        let mut rate = 0.0;
        for client in &clients {
            rate += client.line_in(time + PATIENCE)?.parse::<f64>().map_err(std::io::Error::other)?;
        }
        Ok([rate, server.usage()?.since(before).0])
    }
}

/// Lets each thread that a process has now run for `part` of the time, a hundred times a second. A thread that runs by
/// deadline is stopped when its part of a period is over (sched(7)), so it looks like a core that is slow.
fn slow_down(process: &Process, part: f64) -> Result<(), NetError> {
    let runtime = (part * f64::from(PERIOD)) as u64;
    for thread in fs::read_dir(format!("/proc/{}/task", process.id()))? {
        let status = Command::new("chrt")
            .args(["--deadline", "--sched-runtime", &runtime.to_string()])
            .args(["--sched-deadline", &PERIOD.to_string(), "--sched-period", &PERIOD.to_string()])
            .args(["--pid", "0"])
            .arg(thread?.file_name())
            .status()?;
        if !status.success() {
            return Err(NetError::Missing(vec!["chrt, or root, for --part".to_owned()]));
        }
    }
    Ok(())
}
