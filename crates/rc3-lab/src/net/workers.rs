//! One endpoint with several workers beside one with a single worker: connections, exchanges and bits per second, and
//! how many cores the server used.
//!
//! Server and clients are processes of their own, pinned by `taskset`, so that the server is what is measured if the
//! clients have more cores than it. On a smaller machine both share cores.

use std::{process::Command, time::Duration};

use super::{
    act::{Job, Saturation},
    error::NetError,
    process::Process,
    run::Lab,
    streams::Hosts,
    tables,
    transport::{KEPT, Setup, Target, Transport},
};
use crate::document::{Document, Table};

const CORES: &str = "0,1";
/// Bytes of a long stream, and how many a client sends at once.
const STREAM: usize = 4 << 20;
const STREAMS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// Kinds of operations: unit, bytes of a request (`None`: a new connection for each), and what one counts.
const OPERATIONS: [(&str, Option<usize>, f64); 3] = [
    ("connections/s", None, 1.0),
    ("exchanges/s", Some(KEPT), 1.0),
    ("Gbit/s", Some(STREAM), STREAM as f64 * 8e-9),
];

/// Lets the numbers of workers take their turns with each kind of operation.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let (args, time) = (lab.options.args.clone(), lab.options.time(3, 1));
    let workers = if args.workers.is_empty() { vec![1, 2] } else { args.workers };
    let cores = |typed: Option<String>| typed.unwrap_or_else(|| CORES.to_owned());
    let (server_cores, client_cores) = (cores(args.server_cores), cores(args.client_cores));
    let (clients, parallel) = (args.clients.unwrap_or(2), args.parallel.unwrap_or(32));
    // As many with one worker as with several.
    let threads = workers.iter().copied().max();
    let turns: Vec<_> = OPERATIONS
        .iter()
        .flat_map(|operation| workers.iter().map(move |workers| (*operation, *workers)))
        .collect();
    let names: Vec<String> =
        turns.iter().map(|((unit, ..), workers)| format!("{unit} with {workers} workers")).collect();
    let measured = lab.turns(&names, |nth| {
        let ((_, bytes, worth), workers) = turns[nth];
        let setup = Setup { workers: Some(workers), threads, ..Setup::new(Transport::Rc3) };
        let address = Hosts::loopback(None).place().address;
        let target = Target { setup, address, certificate: String::new() };
        let server = start(&server_cores, "server", &Job::Serve(target.clone()))?;
        let target = Target { certificate: server.line()?, ..target };
        let parallel = if bytes == Some(STREAM) { STREAMS } else { parallel };
        let job = Job::Saturate(target, Saturation { bytes, parallel, time });
        let clients =
            (0..clients).map(|_| start(&client_cores, "client", &job)).collect::<Result<Vec<_>, _>>()?;
        // Each says when it begins, and when it has ended how much it did.
        clients.iter().try_for_each(|client| client.line_in(PATIENCE).map(drop))?;
        let before = server.usage()?;
        let mut rate = 0.0;
        for client in &clients {
            rate += client.line_in(time + PATIENCE)?.parse::<f64>().map_err(std::io::Error::other)?;
        }
        Ok([rate * worth, server.usage()?.since(before).0])
    });
    let mut table = Table::new(["unit", "#workers", "#rate", "#cores", "#rate per core"]);
    for (((unit, ..), workers), runs) in turns.iter().zip(&measured) {
        let of = |value: fn(&[f64; 2]) -> f64| tables::estimated(runs.iter().map(value));
        let rates = [of(|[rate, _]| *rate), of(|[_, cores]| *cores), of(|[rate, cores]| rate / cores)];
        table.row(*unit, [workers.to_string()].into_iter().chain(rates));
    }
    let text = format!(
        "server on cores {server_cores}, {clients} clients on cores {client_cores}, {time:?} each; connections with one \
         exchange, exchanges of {KEPT} bytes, streams of 4 MiB to the server:"
    );
    Ok(vec![Document::new("Workers of an endpoint").text(text).table(table)])
}

/// Starts a process on some cores.
fn start(cores: &str, what: &str, job: &Job) -> Result<Process, NetError> {
    let program = std::env::current_exe()?;
    Process::start(what, Command::new("taskset").args(["-c", cores]).arg(program).args(job.words()?))
}
