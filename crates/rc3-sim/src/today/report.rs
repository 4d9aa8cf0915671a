//! What a run comes to, as text and as a page.

use std::{collections::BTreeSet, fmt::Write as _};

use rc3_core::Verdict;
use rc3_text::units::about_bytes;

use super::{Row, Scenario, Scheme};

/// A cell above this many times the completion time of plain QUIC is a loss.
pub const LOSS: f64 = 1.05;

/// Cells in a list of the worst, unless another number is asked for.
pub const WORST: usize = 10;

/// Up to so many scenarios are also broken down by size, buffer, round trip and rate.
const BROKEN_DOWN: usize = 3;

/// What a scheme reaches in a group of cells.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// Cells.
    pub cells: usize,
    /// Completion time over that of plain QUIC.
    pub plain: Ratios,
    /// Completion time over the ideal.
    pub ideal: Ratios,
    /// Cells above [`LOSS`].
    pub above: usize,
    /// Verdicts: right, wrong, none.
    pub verdicts: [usize; 3],
    /// Bytes that others keep, over those beside plain QUIC; `None` where there are no others.
    pub kept: Option<Kept>,
    /// Median and 95th percentile of the completion times of short flows of others, over those beside plain QUIC.
    pub short: Option<(f64, f64)>,
}

/// Ratios of a group.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ratios {
    /// Geometric mean.
    pub mean: f64,
    /// Factor between the mean and either end of its 95 % confidence interval over cells that differ in their seed alone:
    /// 1 if none do.
    pub confidence: f64,
    /// The largest.
    pub worst: f64,
}

/// Bytes that others keep, over those beside plain QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Kept {
    /// Mean.
    pub mean: f64,
    /// The least.
    pub worst: f64,
}

impl Summary {
    /// Of these cells with this scheme.
    pub fn new<'a>(rows: impl IntoIterator<Item = &'a Row>, scheme: Scheme) -> Self {
        let rows: Vec<&Row> = rows.into_iter().collect();
        let mut verdicts = [0; 3];
        for row in &rows {
            let given = row.outcome(scheme).and_then(|outcome| outcome.verdict);
            match given {
                Some(Verdict::Unproven) => verdicts[2] += 1,
                Some(given) if row.cell.path.is_right(given) => verdicts[0] += 1,
                Some(_) => verdicts[1] += 1,
                None => {}
            }
        }
        let kept: Vec<f64> = rows.iter().filter_map(|row| row.kept(scheme)).collect();
        let kept = (!kept.is_empty()).then(|| Kept {
            mean: kept.iter().sum::<f64>() / kept.len() as f64,
            worst: kept.iter().copied().fold(f64::INFINITY, f64::min),
        });
        let above = rows.iter().filter_map(|row| row.ratio_to_plain(scheme)).filter(|&ratio| ratio > LOSS);
        Self {
            cells: rows.len(),
            above: above.count(),
            plain: ratios(&rows, |row| row.ratio_to_plain(scheme)),
            ideal: ratios(&rows, |row| row.ratio_to_ideal(scheme)),
            verdicts,
            kept,
            short: short(&rows, scheme),
        }
    }
}

fn ratios(rows: &[&Row], ratio: impl Fn(&Row) -> Option<f64>) -> Ratios {
    let logs: Vec<f64> = rows.iter().filter_map(|row| Some(ratio(row)?.ln())).collect();
    let count = logs.len().max(1) as f64;
    // Cells that differ in their seed alone stand in a row. What they have in common is no matter of chance.
    let same = |a: &&Row, b: &&Row| (&a.cell.path, a.cell.bytes) == (&b.cell.path, b.cell.bytes);
    let variance: f64 = rows
        .chunk_by(same)
        .map(|group| {
            let logs: Vec<f64> = group.iter().filter_map(|row| Some(ratio(row)?.ln())).collect();
            let n = logs.len() as f64;
            let mean = logs.iter().sum::<f64>() / n;
            let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
            if logs.len() > 1 { squares / (n - 1.0) * n } else { 0.0 }
        })
        .sum();
    Ratios {
        mean: (logs.iter().sum::<f64>() / count).exp(),
        confidence: (1.96 * variance.sqrt() / count).exp(),
        worst: logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp(),
    }
}

fn short(rows: &[&Row], scheme: Scheme) -> Option<(f64, f64)> {
    let pooled = |scheme| {
        let of =
            |row: &&Row| row.outcome(scheme).map(|outcome| outcome.harm.fcts.clone()).unwrap_or_default();
        let mut fcts: Vec<f64> = rows.iter().flat_map(of).collect();
        fcts.sort_unstable_by(f64::total_cmp);
        fcts
    };
    let (beside, plain) = (pooled(scheme), pooled(Scheme::Plain));
    let percentile = |fcts: &[f64], share: f64| fcts.get((share * fcts.len() as f64) as usize).copied();
    let ratio = |share| Some(percentile(&beside, share)? / percentile(&plain, share)?);
    Some((ratio(0.5)?, ratio(0.95)?))
}

/// Names of the scenarios, in the order of the rows.
fn names(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&&*row.cell.scenario) {
            names.push(&row.cell.scenario);
        }
    }
    names
}

fn schemes(rows: &[Row]) -> BTreeSet<Scheme> {
    rows.iter().flat_map(|row| row.outcomes.iter().map(|(scheme, _)| *scheme)).collect()
}

/// For each scheme a line for each group of cells, then its `count` worst cells.
pub fn text(rows: &[Row], count: usize) -> String {
    let mut text = String::new();
    for scheme in schemes(rows) {
        let _ = writeln!(text, "\n{scheme}: FCT / plain and FCT / ideal, geometric mean and worst\n");
        let _ = writeln!(
            text,
            "{:32} {:>5} {:>6} {:>6} {:>5} {:>6} {:>6}  {:12} others keep, short FCT",
            "group", "cells", "/plain", "worst", ">1.05", "/ideal", "worst", "right/wrong/none"
        );
        for (name, members) in groups(rows) {
            let Summary { cells, plain, ideal, above, verdicts: [right, wrong, none], kept, short } =
                Summary::new(members, scheme);
            let mut line = format!(
                "{name:32} {cells:>5} {:>6.3} {:>6.2} {above:>5} {:>6.3} {:>6.2}  {:16}",
                plain.mean,
                plain.worst,
                ideal.mean,
                ideal.worst,
                format!("{right}/{wrong}/{none}"),
            );
            if let Some(kept) = kept {
                let _ = write!(line, " {:.3}, worst {:.2}", kept.mean, kept.worst);
            }
            if let Some((median, late)) = short {
                let _ = write!(line, "; {median:.3} {late:.3}");
            }
            if plain.confidence > 1.0 {
                let _ = write!(line, "  (mean within {:.1} %)", 100.0 * (plain.confidence - 1.0));
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if scheme != Scheme::Plain {
            text += &worst(rows, scheme, count);
        }
    }
    text
}

/// The worst cells of a scheme, at most `count`.
fn worst(rows: &[Row], scheme: Scheme, count: usize) -> String {
    let mut ratios: Vec<(f64, &Row)> =
        rows.iter().filter_map(|row| Some((row.ratio_to_plain(scheme)?, row))).collect();
    ratios.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut text = format!("\n{scheme}: the worst {} cells\n", count.min(ratios.len()));
    for (ratio, row) in ratios.into_iter().take(count) {
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

/// Each scenario; and of few ones also its sizes, buffers, round trips and rates.
fn groups(rows: &[Row]) -> Vec<(String, Vec<&Row>)> {
    let keys: [fn(&Row) -> String; 5] = [
        |_| String::new(),
        |row| format!(", {}", about_bytes(row.cell.bytes)),
        |row| format!(", {} BDP", row.cell.path.buffer),
        |row| format!(", {} ms", row.cell.path.rtt.as_millis()),
        |row| format!(", {} Mbit/s", row.cell.path.rate.bits_per_second() / 1_000_000),
    ];
    let names = names(rows);
    let keys = if names.len() > BROKEN_DOWN { &keys[..1] } else { &keys };
    let mut groups: Vec<(String, Vec<&Row>)> = Vec::new();
    for name in names {
        let rows: Vec<&Row> = rows.iter().filter(|row| &*row.cell.scenario == name).collect();
        for key in keys {
            let first = groups.len();
            for &row in &rows {
                let group = format!("{name}{}", key(row));
                match groups[first..].iter_mut().find(|(known, _)| *known == group) {
                    Some((_, members)) => members.push(row),
                    None => groups.push((group, vec![row])),
                }
            }
        }
    }
    groups
}

/// Which run a page is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The revision of the source, if known.
    pub commit: Option<String>,
    /// The command.
    pub command: String,
}

/// The page: a table for each scheme with a row for each scenario and a column for each size, then verdicts and harm.
pub fn page(rows: &[Row], scenarios: &[Scenario], origin: &Origin) -> String {
    let mut text = String::from("# rc3 on the networks of today\n\n");
    text += "Simulated flows over one bottleneck. FCT is the time from connect to the last byte at the receiver. Plain is \
             QUIC without RLP (CUBIC). Ideal is one round trip for the handshake, the bytes at the rate of the bottleneck, \
             and half a round trip. Cells of the tables are the geometric mean over rates, round trips, buffers and seeds, \
             with the worst in parentheses.\n\n";
    let _ = writeln!(text, "Made by `{}`", origin.command);
    if let Some(commit) = &origin.commit {
        let _ = writeln!(text, "at commit {commit}");
    }
    text += "from seeded worlds: the same command gives the same page.\n\n## Scenarios\n\n| scenario | path |\n|---|---|\n";
    for scenario in scenarios {
        let _ = writeln!(text, "| {} | {} |", scenario.name, scenario.title);
    }
    for scheme in schemes(rows) {
        if scheme != Scheme::Plain {
            let title = format!("{scheme}: FCT / plain");
            text += &by_size(rows, &title, |row| row.ratio_to_plain(scheme));
        }
        text += &by_size(rows, &format!("{scheme}: FCT / ideal"), |row| row.ratio_to_ideal(scheme));
        text += &verdicts_and_harm(rows, scheme);
    }
    text
}

fn by_size(rows: &[Row], title: &str, ratio: impl Fn(&Row) -> Option<f64>) -> String {
    let sizes: BTreeSet<u64> = rows.iter().map(|row| row.cell.bytes).collect();
    let mut text = format!("\n## {title}\n\n| scenario |");
    for size in &sizes {
        let _ = write!(text, " {} |", about_bytes(*size));
    }
    let _ = writeln!(text, " all |\n|---|{}", "---|".repeat(sizes.len() + 1));
    for name in names(rows) {
        let of = |size: Option<u64>| -> Vec<&Row> {
            let is_of =
                |row: &&Row| &*row.cell.scenario == name && size.is_none_or(|size| row.cell.bytes == size);
            rows.iter().filter(is_of).collect()
        };
        let _ = write!(text, "| {name} |");
        for size in sizes.iter().copied().map(Some).chain([None]) {
            let members = of(size);
            if members.is_empty() {
                text += " |";
                continue;
            }
            let Ratios { mean, confidence, worst } = ratios(&members, &ratio);
            let _ = write!(text, " {mean:.2} ({worst:.2})");
            if confidence > 1.005 {
                let _ = write!(text, " ± {:.0} %", 100.0 * (confidence - 1.0));
            }
            text += " |";
        }
        text.push('\n');
    }
    text
}

fn verdicts_and_harm(rows: &[Row], scheme: Scheme) -> String {
    if scheme == Scheme::Plain {
        return String::new();
    }
    let mut text = format!(
        "\n## {scheme}: losses, verdicts and harm\n\n| scenario | cells | above {LOSS} x plain | verdicts right, wrong, \
         none | others keep, worst | short flows of others, median and p95 |\n|---|---|---|---|---|---|\n"
    );
    for name in names(rows) {
        let Summary { cells, above, verdicts: [right, wrong, none], kept, short, .. } =
            Summary::new(rows.iter().filter(|row| &*row.cell.scenario == name), scheme);
        let kept = kept.map_or(String::new(), |kept| format!("{:.3}, {:.2}", kept.mean, kept.worst));
        let short = short.map_or(String::new(), |(median, late)| format!("{median:.3}, {late:.3}"));
        let verdicts =
            if right + wrong + none > 0 { format!("{right}, {wrong}, {none}") } else { String::new() };
        let _ = writeln!(text, "| {name} | {cells} | {above} | {verdicts} | {kept} | {short} |");
    }
    text
}
