//! What a grid comes to, as text.

use std::{collections::BTreeSet, fmt::Write as _};

use rc3_core::Verdict;

use super::{Row, Scheme};
use crate::units::about_bytes;

/// A cell above this many times the completion time of plain QUIC is a loss.
pub const LOSS: f64 = 1.05;

/// Cells in the list of the worst.
const WORST: usize = 10;

/// What a scheme reaches in a group of cells.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// Cells.
    pub cells: usize,
    /// Geometric mean of completion time over that of plain QUIC, and the worst.
    pub plain: (f64, f64),
    /// Geometric mean of completion time over the ideal, and the worst.
    pub ideal: (f64, f64),
    /// Cells above [`LOSS`].
    pub above: usize,
    /// Verdicts: right, wrong, none.
    pub verdicts: [usize; 3],
}

impl Summary {
    /// Of these cells with this scheme.
    pub fn new<'a>(rows: impl IntoIterator<Item = &'a Row>, scheme: Scheme) -> Self {
        let rows: Vec<&Row> = rows.into_iter().collect();
        let plain: Vec<f64> = rows.iter().filter_map(|row| row.ratio_to_plain(scheme)).collect();
        let ideal: Vec<f64> = rows.iter().filter_map(|row| row.ratio_to_ideal(scheme)).collect();
        let mut verdicts = [0; 3];
        for row in &rows {
            let given = row.outcome(scheme).and_then(|outcome| outcome.verdict);
            let right = row.cell.path.discipline.verdict();
            match given {
                Some(given) if given == right => verdicts[0] += 1,
                Some(Verdict::Unproven) => verdicts[2] += 1,
                Some(_) => verdicts[1] += 1,
                None => {}
            }
        }
        Self {
            cells: rows.len(),
            above: plain.iter().filter(|&&ratio| ratio > LOSS).count(),
            plain: mean_and_worst(&plain),
            ideal: mean_and_worst(&ideal),
            verdicts,
        }
    }
}

fn mean_and_worst(ratios: &[f64]) -> (f64, f64) {
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    (mean, ratios.iter().copied().fold(0.0, f64::max))
}

/// For each scheme except plain: a line for each group of cells, then the worst cells.
pub fn text(rows: &[Row]) -> String {
    let schemes: BTreeSet<Scheme> =
        rows.iter().flat_map(|row| row.outcomes.iter().map(|(scheme, _)| *scheme)).collect();
    let mut text = String::new();
    for scheme in schemes {
        let _ = writeln!(text, "\n{scheme}: FCT / plain and FCT / ideal, geometric mean and worst\n");
        let _ = writeln!(
            text,
            "{:34} {:>5} {:>6} {:>6} {:>6} {:>6} {:>6}  verdicts right/wrong/none",
            "group", "cells", "/plain", "worst", ">1.05", "/ideal", "worst"
        );
        for (name, members) in groups(rows) {
            let Summary { cells, plain, ideal, above, verdicts: [right, wrong, none] } =
                Summary::new(members, scheme);
            let _ = writeln!(
                text,
                "{name:34} {cells:>5} {:>6.3} {:>6.2} {above:>6} {:>6.3} {:>6.2}  {right}/{wrong}/{none}",
                plain.0, plain.1, ideal.0, ideal.1,
            );
        }
        if scheme != Scheme::Plain {
            text += &worst(rows, scheme);
        }
    }
    text
}

/// The worst cells of a scheme.
fn worst(rows: &[Row], scheme: Scheme) -> String {
    let mut ratios: Vec<(f64, &Row)> =
        rows.iter().filter_map(|row| Some((row.ratio_to_plain(scheme)?, row))).collect();
    ratios.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut text = format!("\n{scheme}: the worst {WORST} cells\n");
    for (ratio, row) in ratios.into_iter().take(WORST) {
        let Some(outcome) = row.outcome(scheme) else { continue };
        let _ = writeln!(
            text,
            "{ratio:6.2} x plain, {:5.2} x ideal  {}  ({} primary, {} lost, {} RLP, {} dropped, {:?})",
            row.ratio_to_ideal(scheme).unwrap_or(f64::NAN),
            row.cell,
            outcome.primary_packets,
            outcome.primary_lost,
            outcome.rlp_packets,
            outcome.dropped,
            outcome.verdict.unwrap_or_default(),
        );
    }
    text
}

/// Per discipline: all of it, then by size, buffer, round trip and rate.
fn groups(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    let keys: [fn(&Row) -> Option<String>; 5] = [
        |_| Some(String::new()),
        |row| Some(format!(", {}", about_bytes(row.cell.bytes))),
        |row| Some(format!(", {} BDP", row.cell.path.buffer)),
        |row| Some(format!(", {} ms", row.cell.path.rtt.as_millis())),
        |row| Some(format!(", {} Mbit/s", row.cell.path.rate.bits_per_second() / 1_000_000)),
    ];
    let disciplines: BTreeSet<_> = rows.iter().map(|row| row.cell.path.discipline).collect();
    for discipline in disciplines {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.cell.path.discipline == discipline).collect();
        for key in keys {
            let first = groups.len();
            for &row in &rows {
                let Some(key) = key(row) else { continue };
                let name = format!("{discipline}{key}");
                match groups[first..].iter_mut().find(|(known, _)| *known == name) {
                    Some((_, members)) => members.push(row),
                    None => groups.push((name, vec![row])),
                }
            }
        }
    }
    groups
}
