//! How `rc3 copy`, and `rc3 send` by a code, get through network address translators, and what that costs.

mod gateway;
mod nat;
mod run;
mod shared;

use self::{
    nat::{NATS, Nat},
    run::{BY_CODE, NatOutcome, NatPair},
    shared::SHARED,
};
use super::{error::NetError, path::Path, programs::rc3, run::Lab};
use crate::{
    document::{Document, Table},
    statistics::MedianInterval,
};

/// Pairs of a quick run: without any, through one kind that lets the other end open it and one that does not.
const QUICK: [(Nat, Nat); 5] = [
    (Nat::None, Nat::None),
    (Nat::PortRestricted, Nat::PortRestricted),
    (Nat::None, Nat::Symmetric),
    (Nat::Symmetric, Nat::Symmetric),
    (Nat::Mapping, Nat::PortRestricted),
];

/// All that this host can make, except those of `without`.
fn nats(without: &[Nat]) -> Vec<Nat> {
    let is_there = |nat: &Nat| *nat != Nat::Mapping || gateway::is_installed();
    NATS.into_iter().filter(|nat| is_there(nat) && !without.contains(nat)).collect()
}

/// Copies a small file between hosts behind each pair.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let (path, runs, program) = (lab.options.path_of(10, 80), lab.options.runs(), rc3()?);
    let of_pair = |near, far| {
        let pair = NatPair::new(near, far, &program)?;
        let _running = pair.start(&path)?;
        (0..runs).map(|_| pair.copy()).collect()
    };
    let (table, tally) = pairs(lab, &nats(&[]), &path, "ssh", of_pair)?;
    let text = format!(
        "{path}, {runs} copies of 1000 bytes each. Round trips are those from the start of the command until the content is \
         there, beyond the {:.2} s without NAT. Of the copies between NATs that UDP can pass, {} of {} went directly.",
        tally.usual, tally.passed, tally.passable
    );
    Ok(vec![Document::new("Copies through NATs").text(text).table(table)])
}

/// Sends a small file by a code between hosts behind each pair. The rendezvous is on a third host, as far from either as
/// they are from each other, and has a relay.
pub fn meet(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let (path, runs, program) = (lab.options.path_of(10, 80), lab.options.runs(), rc3()?);
    let of_pair = |near, far| NatPair::new(near, far, &program)?.send_files(&path, runs, BY_CODE);
    // Without UDP nobody reaches the rendezvous.
    let (table, tally) = pairs(lab, &nats(&[Nat::Blocked]), &path, "relay", of_pair)?;
    let by_ticket = || NatPair::new(Nat::None, Nat::None, &program)?.send_files(&path, runs, &[]);
    let ticket = median(&lab.attempt("ticket", by_ticket).unwrap_or_default());
    let text = format!(
        "{path} between any two of sender, receiver and rendezvous, {runs} files of 1000 bytes each. Round trips are those \
         from the start of rc3 send until the content is there, beyond the {:.2} s without NAT; with a ticket {ticket:.2} s. \
         Of the files between NATs that UDP can pass, {} of {} went directly.",
        tally.usual, tally.passed, tally.passable
    );
    let mut behind_one = Table::new(["both behind one NAT".to_owned(), "way".to_owned()]);
    for shared in SHARED {
        let of_pair = || NatPair::shared(shared, &program)?.send_files(&path, runs, BY_CODE);
        let Some(outcomes) = lab.attempt(&shared.to_string(), of_pair) else { continue };
        let more = (median(&outcomes) - tally.usual) / path.rtt.as_secs_f64();
        behind_one.row(shared.to_string(), [cell(&outcomes, more, "relay")]);
    }
    let document = Document::new("Files by codes through NATs").text(text).table(table);
    Ok(vec![document.table(behind_one)])
}

/// What all pairs took together.
struct Tally {
    /// Seconds without NAT.
    usual: f64,
    /// Of those that UDP can pass, those that went directly.
    passed: usize,
    passable: usize,
}

/// A table of the ways between each two of these, and of what they took; `otherwise` is the way that is not direct.
fn pairs(
    lab: &mut Lab,
    nats: &[Nat],
    path: &Path,
    otherwise: &str,
    of_pair: impl Fn(Nat, Nat) -> Result<Vec<NatOutcome>, NetError>,
) -> Result<(Table, Tally), NetError> {
    let names = nats.iter().map(ToString::to_string);
    let mut table = Table::new(["NAT here, there".to_owned()].into_iter().chain(names));
    let (mut usual, mut passed, mut passable) = (None, 0, 0);
    for &near in nats {
        let mut cells = Vec::new();
        for &far in nats {
            if lab.options.args.quick && !QUICK.contains(&(near, far)) {
                cells.push(String::new());
                continue;
            }
            let Some(outcomes) = lab.attempt(&format!("{near}, {far}"), || of_pair(near, far)) else {
                usual.get_or_insert(f64::NAN);
                cells.push("-".to_owned());
                continue;
            };
            let median = median(&outcomes);
            // The first pair is that without any.
            let more = (median - *usual.get_or_insert(median)) / path.rtt.as_secs_f64();
            if near.is_passable(far) {
                passable += outcomes.len();
                passed += outcomes.iter().filter(|outcome| outcome.is_direct).count();
            }
            cells.push(cell(&outcomes, more, otherwise));
        }
        table.row(near.to_string(), cells);
    }
    Ok((table, Tally { usual: usual.unwrap_or_default(), passed, passable }))
}

/// The median of what files took, in seconds.
fn median(outcomes: &[NatOutcome]) -> f64 {
    let seconds: Vec<_> = outcomes.iter().map(|outcome| outcome.seconds).collect();
    MedianInterval::of(&seconds).map_or(f64::NAN, |seconds| seconds.median)
}

/// The ways that files took, with the median of what they took longer, in round trips.
fn cell(outcomes: &[NatOutcome], more: f64, otherwise: &str) -> String {
    let direct = outcomes.iter().filter(|outcome| outcome.is_direct).count();
    match direct {
        0 => format!("{otherwise}, {more:+.1}"),
        all if all == outcomes.len() => format!("direct, {more:+.1}"),
        some => format!("{some} of {} direct, {more:+.1}", outcomes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_which_way_copies_took() {
        let outcome = |is_direct| NatOutcome { is_direct, seconds: 1.0 };
        assert_eq!(cell(&[outcome(true), outcome(true)], 0.04, "ssh"), "direct, +0.0");
        assert_eq!(cell(&[outcome(true), outcome(false)], 1.26, "ssh"), "1 of 2 direct, +1.3");
        assert_eq!(cell(&[outcome(false)], 60.0, "ssh"), "ssh, +60.0");
    }
}
