//! What flows on the paths of today come to, as text and as a page.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    time::Duration,
};

use rc3_core::Verdict;
use rc3_sim::{
    record::FlowRecord,
    scenario::{BufferSize, Run, Spec},
    simulation::Beside,
};
use rc3_text::units::{about_bytes, rate_text, time_text};

use super::harm::HarmPicture;
use crate::{
    document::Table,
    sim::{engine::WorldOutcome, experiment::Experiment, shared::distinct},
    statistics::Z_95,
};

/// A cell above this many times the completion time of plain QUIC is a loss.
const LOSS: f64 = 1.05;

/// The unit of most buffers.
pub(super) const BDP: &str = " BDP";

/// The key whose values are repetitions of a path.
const SEED: &str = "measure.seed";

/// Cells in a list of the worst, unless another number is asked for.
pub const WORST: usize = 10;

/// Up to so many scenarios are also broken down by size, buffer, round trip and rate.
const BROKEN_DOWN: usize = 3;

/// A flow over a path, with each scheme; plain QUIC is the first.
#[derive(Debug)]
pub(super) struct ComparedFlow {
    pub(super) scenario: String,
    /// The flow with plain QUIC.
    pub(super) run: Run,
    /// Size of the queue, see [`BDP`].
    pub(super) buffer: String,
    /// By scheme, in the order of the scenario's runs.
    pub(super) flows: Vec<SchemeFlow>,
}

/// A flow with one scheme.
#[derive(Debug)]
pub(super) struct SchemeFlow {
    scheme: String,
    /// `None` if it never ended.
    record: Option<FlowRecord>,
    pub(super) beside: Beside,
}

impl SchemeFlow {
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Some(self.record.as_ref()?.sent.guard?.verdict)
    }
}

/// The cells of an experiment whose worlds had these outcomes.
pub(super) fn rows(experiment: &Experiment, outcomes: Vec<WorldOutcome>) -> Vec<ComparedFlow> {
    let spec = experiment.scenario().spec();
    let mut rows: Vec<ComparedFlow> = Vec::new();
    for (run, outcome) in experiment.runs().iter().zip(outcomes) {
        let flow = SchemeFlow {
            scheme: run.label.run.clone(),
            record: outcome.records.into_iter().next(),
            beside: outcome.beside.unwrap_or_default(),
        };
        let known = rows.iter_mut().rev().find(|row| {
            row.run.label.is_of_setting(&run.label) && row.run.label.repetition == run.label.repetition
        });
        match known {
            Some(row) => row.flows.push(flow),
            None => rows.push(ComparedFlow {
                scenario: spec.name.clone(),
                run: run.clone(),
                buffer: buffer(spec, run),
                flows: vec![flow],
            }),
        }
    }
    rows
}

fn buffer(spec: &Spec, run: &Run) -> String {
    let swept = run.label.point.iter().find(|(key, _)| key == "queue.buffer");
    let swept = swept.and_then(|(_, value)| BufferSize::try_from(value.clone()).ok());
    match swept.unwrap_or(spec.queue.buffer) {
        BufferSize::Bdp(factor) => format!("{factor}{BDP}"),
        BufferSize::Bytes(bytes) => format!("{bytes} bytes"),
        BufferSize::Packets(packets) => format!("{packets} packets"),
        BufferSize::Unlimited => "unlimited".to_owned(),
    }
}

impl ComparedFlow {
    pub(super) fn bytes(&self) -> u64 {
        self.run.one().map_or(0, |one| one.bytes)
    }

    /// Completion time in seconds; infinite if the flow never ended, `None` without such a scheme.
    fn fct(&self, scheme: usize) -> Option<f64> {
        let record = self.flows.get(scheme)?.record.as_ref();
        Some(record.and_then(|record| record.fct).map_or(f64::INFINITY, |fct| fct.as_secs_f64()))
    }

    /// Completion time with a scheme over that with plain QUIC.
    pub(super) fn ratio_to_plain(&self, scheme: usize) -> Option<f64> {
        Some(self.fct(scheme)? / self.fct(0)?)
    }

    /// Completion time with a scheme over the ideal.
    pub(super) fn ratio_to_ideal(&self, scheme: usize) -> Option<f64> {
        Some(self.fct(scheme)? / self.run.ideal()?.as_secs_f64())
    }

    /// Bytes that others kept beside a scheme, over those beside plain QUIC.
    pub(super) fn kept(&self, scheme: usize) -> Option<f64> {
        let of = |scheme: usize| {
            self.flows.get(scheme).map(|flow| &flow.beside).filter(|beside| beside.window.is_some())
        };
        let (beside, plain) = (of(scheme)?.bytes as f64, of(0)?.bytes as f64);
        (plain > 0.0).then_some(beside / plain)
    }

    /// Whether other seeds make another flow of it.
    fn is_random(&self) -> bool {
        let queues = &self.run.queues;
        let jitter = queues.jitter.there + queues.jitter.back;
        !self.run.background.is_empty() || queues.loss > 0.0 || !jitter.is_zero()
    }

    /// Whether both differ in their seed at most.
    fn is_same_path(&self, other: &Self) -> bool {
        let (label, other) = (&self.run.label, &other.run.label);
        let [point, others] = [label, other].map(|label| label.point.iter().filter(|(key, _)| key != SEED));
        label.case == other.case && point.eq(others)
    }
}

impl fmt::Display for ComparedFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nominal = self.run.topology.nominal;
        let (rate, rtt) = (rate_text(nominal.rate.bits_per_second()), time_text(nominal.rtt));
        let (scenario, buffer, card) = (&self.scenario, &self.buffer, self.run.card());
        let bytes = about_bytes(self.bytes());
        write!(f, "{scenario}: {rate} x {rtt}, {buffer}, card {card} x, {bytes}")?;
        if self.is_random() { write!(f, ", seed {}", self.run.seed) } else { Ok(()) }
    }
}

/// What a scheme reaches in a group of cells.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct SchemeSummary {
    /// Cells.
    pub(super) cells: usize,
    /// Completion time over that of plain QUIC.
    pub(super) plain: Ratios,
    /// Completion time over the ideal.
    ideal: Ratios,
    /// Cells above [`LOSS`].
    above: usize,
    /// Verdicts: right, wrong, none.
    verdicts: [usize; 3],
    /// Bytes that others keep, over those beside plain QUIC; `None` where there are no others.
    pub(super) kept: Option<Ratios>,
    /// Median and 95th percentile of the completion times of short flows of others, over those beside plain QUIC.
    pub(super) short: Option<(f64, f64)>,
}

/// Ratios of a group: completion times, or bytes that others keep.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Ratios {
    /// Of times the geometric mean.
    pub(super) mean: f64,
    /// From the mean to either end of its 95 % confidence interval over cells that differ in their seed alone: the difference,
    /// of times the factor, which is 1 if none do.
    pub(super) confidence: f64,
    /// The longest time, the fewest bytes.
    pub(super) worst: f64,
}

impl SchemeSummary {
    /// Of these cells with this scheme.
    pub(super) fn new<'a>(rows: impl IntoIterator<Item = &'a ComparedFlow>, scheme: usize) -> Self {
        let rows: Vec<&ComparedFlow> = rows.into_iter().collect();
        let mut verdicts = [0; 3];
        for row in &rows {
            match row.flows.get(scheme).and_then(SchemeFlow::verdict) {
                Some(Verdict::Unproven) => verdicts[2] += 1,
                Some(given) if row.run.is_right(given) => verdicts[0] += 1,
                Some(_) => verdicts[1] += 1,
                None => {}
            }
        }
        let kept: Vec<f64> = rows.iter().filter_map(|row| row.kept(scheme)).collect();
        let kept = (!kept.is_empty()).then(|| Ratios {
            mean: kept.iter().sum::<f64>() / kept.len() as f64,
            confidence: confidence(&rows, |row| row.kept(scheme)),
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

fn ratios(rows: &[&ComparedFlow], ratio: impl Fn(&ComparedFlow) -> Option<f64>) -> Ratios {
    let log = |row: &ComparedFlow| Some(ratio(row)?.ln());
    let logs: Vec<f64> = rows.iter().filter_map(|row| log(row)).collect();
    Ratios {
        mean: (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp(),
        confidence: confidence(rows, log).exp(),
        worst: logs.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp(),
    }
}

/// Half the width of the 95 % confidence interval of the mean of a value. What cells that differ in their seed alone have in
/// common is no matter of chance.
fn confidence(rows: &[&ComparedFlow], value: impl Fn(&ComparedFlow) -> Option<f64>) -> f64 {
    let mut groups: Vec<(&ComparedFlow, Vec<f64>)> = Vec::new();
    for &row in rows {
        let Some(value) = value(row) else { continue };
        match groups.iter_mut().rev().find(|(first, _)| first.is_same_path(row)) {
            Some((_, values)) => values.push(value),
            None => groups.push((row, vec![value])),
        }
    }
    let (mut variance, mut count) = (0.0, 0.0f64);
    for (_, values) in groups {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        variance += if values.len() > 1 { squares / (n - 1.0) * n } else { 0.0 };
        count += n;
    }
    Z_95 * variance.sqrt() / count.max(1.0)
}

fn short(rows: &[&ComparedFlow], scheme: usize) -> Option<(f64, f64)> {
    let pooled = |scheme: usize| {
        let flows = rows.iter().filter_map(|row| row.flows.get(scheme));
        let mut fcts: Vec<f64> =
            flows.flat_map(|flow| &flow.beside.fcts).map(Duration::as_secs_f64).collect();
        fcts.sort_unstable_by(f64::total_cmp);
        fcts
    };
    let (beside, plain) = (pooled(scheme), pooled(0));
    let percentile = |fcts: &[f64], share: f64| fcts.get((share * fcts.len() as f64) as usize).copied();
    let ratio = |share| Some(percentile(&beside, share)? / percentile(&plain, share)?);
    Some((ratio(0.5)?, ratio(0.95)?))
}

/// Names of the scenarios, in the order of the rows.
pub(super) fn names(rows: &[ComparedFlow]) -> Vec<&str> {
    distinct(rows.iter().map(|row| row.scenario.as_str()))
}

/// The schemes, which are the same in all rows.
pub(super) fn schemes(rows: &[ComparedFlow]) -> impl Iterator<Item = (usize, &str)> {
    rows.first().into_iter().flat_map(|row| row.flows.iter().map(|flow| flow.scheme.as_str()).enumerate())
}

/// For each scheme a line for each group of cells, then its `count` worst cells.
pub(super) fn text(rows: &[ComparedFlow], count: usize) -> String {
    let mut text = String::new();
    for (scheme, name) in schemes(rows) {
        let _ = writeln!(text, "\n{name}: FCT / plain and FCT / ideal, geometric mean and worst\n");
        let _ = writeln!(
            text,
            "{:32} {:>5} {:>6} {:>6} {:>5} {:>6} {:>6}  {:12} others keep, short FCT",
            "group", "cells", "/plain", "worst", ">1.05", "/ideal", "worst", "right/wrong/none"
        );
        for (group, members) in groups(rows) {
            let SchemeSummary { cells, plain, ideal, above, verdicts: [right, wrong, none], kept, short } =
                SchemeSummary::new(members, scheme);
            let mut line = format!(
                "{group:32} {cells:>5} {:>6.3} {:>6.2} {above:>5} {:>6.3} {:>6.2}  {:16}",
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
        if scheme > 0 {
            text += &worst(rows, (scheme, name), count);
        }
    }
    text
}

/// The worst cells of a scheme, at most `count`.
fn worst(rows: &[ComparedFlow], (scheme, name): (usize, &str), count: usize) -> String {
    let mut ratios: Vec<(f64, &ComparedFlow)> =
        rows.iter().filter_map(|row| Some((row.ratio_to_plain(scheme)?, row))).collect();
    ratios.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let mut text = format!("\n{name}: the worst {} cells\n", count.min(ratios.len()));
    for (ratio, row) in ratios.into_iter().take(count) {
        let Some(flow) = row.flows.get(scheme) else { continue };
        let sent = flow.record.as_ref().map(|record| record.sent).unwrap_or_default();
        let _ = writeln!(
            text,
            "{ratio:6.2} x plain, {:5.2} x ideal  {}  ({} primary, {} lost, {} RLP, {} dropped, {:?})",
            row.ratio_to_ideal(scheme).unwrap_or(f64::NAN),
            row,
            sent.primary_packets,
            sent.lost_packets,
            sent.rlp_packets,
            flow.beside.dropped,
            flow.verdict().unwrap_or_default(),
        );
    }
    text
}

/// Each scenario; and of few ones also its sizes, buffers, round trips and rates.
fn groups(rows: &[ComparedFlow]) -> Vec<(String, Vec<&ComparedFlow>)> {
    let keys: [fn(&ComparedFlow) -> String; 5] = [
        |_| String::new(),
        |row| format!(", {}", about_bytes(row.bytes())),
        |row| format!(", {}", row.buffer),
        |row| format!(", {}", time_text(row.run.topology.nominal.rtt)),
        |row| format!(", {}", rate_text(row.run.topology.nominal.rate.bits_per_second())),
    ];
    let names = names(rows);
    let keys = if names.len() > BROKEN_DOWN { &keys[..1] } else { &keys };
    let mut groups: Vec<(String, Vec<&ComparedFlow>)> = Vec::new();
    for name in names {
        let rows: Vec<&ComparedFlow> = rows.iter().filter(|row| row.scenario == name).collect();
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
pub(super) struct ReportOrigin {
    /// The revision of the source, if known.
    pub(super) commit: Option<String>,
    /// The command.
    pub(super) command: String,
}

impl fmt::Display for ReportOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Made by `{}`", self.command)?;
        if let Some(commit) = &self.commit {
            writeln!(f, "at commit {commit}")?;
        }
        write!(f, "from seeded worlds: the same command gives the same page.")
    }
}

/// The page of an ablation with this table.
pub(super) fn ablation_page(table: &str, origin: &ReportOrigin) -> String {
    format!(
        "# What the numbers of RLP's law bring\n\nGuard mode with another value of a number, on the networks of [today](report.md). \
         *Mean* is FCT over plain QUIC's, as multiples of the product's, the geometric mean over the scenarios; *most* the scenario \
         that moves most; *worst cell* FCT over plain QUIC's in the scenario whose worst cell gets worse most, the product's and the \
         variant's; *others keep* the bytes of cross traffic, where there is any, as multiples of those beside the product, mean and \
         least. Simulated hosts are punctual, so what lateness of hosts costs does not show.\n\n{origin}\n\n{table}"
    )
}

/// The page: what each scenario with others has in [`harm`], then a table for each scheme with a row for each scenario and
/// a column for each size, then verdicts.
pub(super) fn page(
    rows: &[ComparedFlow],
    scenarios: &[&Spec],
    origin: &ReportOrigin,
    harm: &[HarmPicture<'_>],
) -> String {
    let mut text = String::from("# rc3 on the networks of today\n\n");
    text += "Simulated flows over one bottleneck. FCT is the time from connect to the last byte at the receiver. Plain is \
             QUIC without RLP (CUBIC). Ideal is one round trip for the handshake, the bytes at the rate of the bottleneck, \
             and half a round trip. Cells of the tables are the geometric mean over rates, round trips, buffers and seeds, \
             with the worst in parentheses.\n\n";
    let _ = writeln!(text, "{origin}");
    let mut paths = Table::new(["scenario", "path"]);
    scenarios.iter().for_each(|scenario| paths.row(&scenario.name, [scenario.title.clone()]));
    text += &section("Scenarios", &paths);
    harm.iter().for_each(|picture| text += &picture.section());
    for (scheme, name) in schemes(rows) {
        if scheme > 0 {
            text += &by_size(rows, &format!("{name}: FCT / plain"), |row| row.ratio_to_plain(scheme));
        }
        text += &by_size(rows, &format!("{name}: FCT / ideal"), |row| row.ratio_to_ideal(scheme));
        if scheme > 0 {
            text += &verdicts(rows, (scheme, name));
        }
    }
    text
}

/// A part of the page.
fn section(title: &str, table: &Table) -> String {
    format!("\n## {title}\n\n{}", table.markdown())
}

fn by_size(rows: &[ComparedFlow], title: &str, ratio: impl Fn(&ComparedFlow) -> Option<f64>) -> String {
    let sizes: BTreeSet<u64> = rows.iter().map(|row| row.bytes()).collect();
    let columns: Vec<Option<u64>> = sizes.into_iter().map(Some).chain([None]).collect();
    let heads = columns.iter().map(|size| size.map_or_else(|| "all".to_owned(), about_bytes));
    let mut table = Table::new(std::iter::once("scenario".to_owned()).chain(heads));
    for name in names(rows) {
        let cell = |size: &Option<u64>| {
            let is_of =
                |row: &&ComparedFlow| row.scenario == name && size.is_none_or(|size| row.bytes() == size);
            let members: Vec<&ComparedFlow> = rows.iter().filter(is_of).collect();
            let Ratios { mean, confidence, worst } = ratios(&members, &ratio);
            match (members.is_empty(), confidence > 1.005) {
                (true, _) => String::new(),
                (_, true) => format!("{mean:.2} ({worst:.2}) ± {:.0} %", 100.0 * (confidence - 1.0)),
                (_, false) => format!("{mean:.2} ({worst:.2})"),
            }
        };
        table.row(name, columns.iter().map(cell));
    }
    section(title, &table)
}

fn verdicts(rows: &[ComparedFlow], (scheme, name): (usize, &str)) -> String {
    let above = format!("above {LOSS} x plain");
    let mut table = Table::new(["scenario", "cells", &above, "verdicts right, wrong, none"]);
    for name in names(rows) {
        let SchemeSummary { cells, above, verdicts: [right, wrong, none], .. } =
            SchemeSummary::new(rows.iter().filter(|row| row.scenario == name), scheme);
        let verdicts =
            if right + wrong + none > 0 { format!("{right}, {wrong}, {none}") } else { String::new() };
        table.row(name, [cells.to_string(), above.to_string(), verdicts]);
    }
    section(&format!("{name}: losses and verdicts"), &table)
}
