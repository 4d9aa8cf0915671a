//! How `rc3 copy` gets through network address translators, and what that costs.

mod nat;
mod run;

use self::{
    nat::{NATS, Nat},
    run::{NatOutcome, NatPair},
};
use super::{error::NetError, programs::rc3, run::Lab};
use crate::{
    document::{Document, Table},
    statistics::MedianInterval,
};

/// Pairs of a quick run: without any, through one kind that lets the other end open it and one that does not.
const QUICK: [(Nat, Nat); 4] = [
    (Nat::None, Nat::None),
    (Nat::PortRestricted, Nat::PortRestricted),
    (Nat::None, Nat::Symmetric),
    (Nat::Symmetric, Nat::Symmetric),
];

/// Copies a small file between hosts behind each pair.
///
/// # Errors
/// If the network cannot be made.
pub fn measure(lab: &mut Lab) -> Result<Vec<Document>, NetError> {
    let (path, runs, program) = (lab.options.path_of(10, 80), lab.options.runs(), rc3()?);
    let mut table =
        Table::new(["NAT here, there".to_owned()].into_iter().chain(NATS.map(|nat| nat.to_string())));
    let (mut usual, mut passed, mut passable) = (None, 0, 0);
    for near in NATS {
        let mut cells = Vec::new();
        for far in NATS {
            if lab.options.args.quick && !QUICK.contains(&(near, far)) {
                cells.push(String::new());
                continue;
            }
            let outcomes = lab.step(&format!("{near}, {far}"), || {
                let pair = NatPair::new(near, far, &program)?;
                let _running = pair.start(&path)?;
                (0..runs).map(|_| pair.copy()).collect::<Result<Vec<_>, _>>()
            })?;
            let seconds =
                MedianInterval::of(&outcomes.iter().map(|outcome| outcome.seconds).collect::<Vec<_>>());
            let median = seconds.map_or(f64::NAN, |seconds| seconds.median);
            // The first pair is that without any.
            let more = (median - *usual.get_or_insert(median)) / path.rtt.as_secs_f64();
            if near.is_passable(far) {
                passable += outcomes.len();
                passed += outcomes.iter().filter(|outcome| outcome.is_direct).count();
            }
            cells.push(cell(&outcomes, more));
        }
        table.row(near.to_string(), cells);
    }
    let text = format!(
        "{path}, {runs} copies of 1000 bytes each. Round trips are those from the start of the command until the content is \
         there, beyond the {:.2} s without NAT. Of the copies between NATs that UDP can pass, {passed} of {passable} went \
         directly.",
        usual.unwrap_or_default()
    );
    Ok(vec![Document::new("Copies through NATs").text(text).table(table)])
}

/// The ways that copies took, with the median of what they took longer, in round trips.
fn cell(outcomes: &[NatOutcome], more: f64) -> String {
    let direct = outcomes.iter().filter(|outcome| outcome.is_direct).count();
    match direct {
        0 => format!("ssh, {more:+.1}"),
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
        assert_eq!(cell(&[outcome(true), outcome(true)], 0.04), "direct, +0.0");
        assert_eq!(cell(&[outcome(true), outcome(false)], 1.26), "1 of 2 direct, +1.3");
        assert_eq!(cell(&[outcome(false)], 60.0), "ssh, +60.0");
    }
}
