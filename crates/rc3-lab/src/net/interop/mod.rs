//! rc3 against other QUIC implementations, in the cases of quic-interop-runner, without containers.

mod case;
mod certificates;
mod check;
mod explained;
mod program;
mod run;

use self::{
    case::InteropCase,
    program::InteropPeer,
    run::{InteropRun, InteropVerdict},
};
use super::{error::NetError, experiment::Options, parallel::in_parallel, run::Lab};
use crate::document::{Document, Table};

/// So many runs at once: they mostly wait.
const PARALLEL: usize = 6;

/// Whether rc3 is the server; the other one is a peer.
type Cell<'a> = (&'a InteropCase, bool, &'a InteropPeer);

/// Looks for the cases of `--cases`, and for the endpoint.
///
/// # Errors
/// If one is not there.
pub(super) fn require(options: &Options) -> Result<(), NetError> {
    case::chosen(&options.args)?;
    InteropPeer::all().map(drop)
}

/// Runs all cases, or those of `--cases`, with all peers in both roles.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let (peers, cases) = (InteropPeer::all()?, case::chosen(&lab.options.args)?);
    let (rc3, out) = (&peers[0], lab.options.args.out.clone());
    let cells: Vec<Cell<'_>> = cases
        .iter()
        .flat_map(|case| [true, false].map(|serves| (case, serves)))
        .flat_map(|(case, serves)| peers.iter().map(move |peer| (case, serves, peer)))
        // rc3 with itself has one role.
        .filter(|(_, serves, peer)| *serves || peer.name != rc3.name)
        .collect();
    let run = |(case, serves, peer): Cell<'_>| {
        let (server, client) = if serves { (rc3, peer) } else { (peer, rc3) };
        let verdict = match (InteropRun { case, server, client, out: &out }).finish() {
            Err(NetError::Interrupted) => return Err(NetError::Interrupted),
            // The others go on.
            Err(error) => InteropVerdict::Failed(error.to_string()),
            Ok(verdict) => verdict,
        };
        let who = if serves { "server" } else { "client" };
        let why = if let InteropVerdict::Failed(why) = &verdict { why } else { &verdict.to_string() };
        eprintln!("{}, rc3 as {who}, {}: {why}", case.name, peer.name);
        Ok(verdict)
    };
    let verdicts = lab.step("interop", || in_parallel(PARALLEL, &cells, run))?;
    Ok(vec![page(&peers, &cases, &cells, &verdicts)])
}

/// The matrix, and a line for each failure.
fn page(
    peers: &[InteropPeer],
    cases: &[InteropCase],
    cells: &[Cell<'_>],
    verdicts: &[InteropVerdict],
) -> Document {
    let columns = peers.iter().map(|peer| peer.name.as_str());
    let mut table = Table::new(["case", "rc3 is"].into_iter().chain(columns));
    let mut failures = Table::new(["case", "rc3 is", "peer", "what happened", "whose it is"]);
    for case in cases {
        for serves in [true, false] {
            let role = if serves { "server" } else { "client" };
            let row = peers.iter().map(|peer| {
                let at = cells
                    .iter()
                    .position(|cell| (cell.0.name, cell.1, &cell.2.name) == (case.name, serves, &peer.name));
                let Some(verdict) = at.and_then(|at| verdicts.get(at)) else { return String::new() };
                match verdict {
                    InteropVerdict::Passed(bits) if explained::is_measurement(case.name) => {
                        format!("{:.2}", bits / 1e6)
                    }
                    verdict => verdict.to_string(),
                }
            });
            table.row(case.name, [role.to_owned()].into_iter().chain(row));
        }
    }
    for ((case, serves, peer), verdict) in cells.iter().zip(verdicts) {
        let role = if *serves { "server" } else { "client" };
        if let InteropVerdict::Failed(why) = verdict {
            let whose = explained::whose(case.name, role, &peer.name);
            failures.row(case.name, [role.to_owned(), peer.name.clone(), why.clone(), whose.to_owned()]);
        }
    }
    let versions: Vec<String> = peers.iter().map(|peer| format!("{}: {}", peer.name, peer.about)).collect();
    Document::new("Interoperability")
        .text(explained::HEAD)
        .text(format!("Peers: {}.", versions.join("; ")))
        .table(table)
        .text("Failures:")
        .table(failures)
        .text(explained::CHECKS)
}
