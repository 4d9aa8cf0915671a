//! What an experiment's documents say.

use std::time::Duration;

use rc3_sim::{
    scenario::{Basis, Bound, Label, Metric, Run, Spec},
    summary::Estimate,
};
use rc3_text::units::{about_bytes, about_time};

use super::{
    compare::{ComparedFigure, FigureVerdict},
    engine::Cost,
    results::Results,
    shared::distinct,
    table::SummaryRow,
};
use crate::document::{Block, Document, Table};

/// The code that a report comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Its commit, if the command named it.
    pub commit: Option<String>,
    /// See [`super::fingerprint`].
    pub fingerprint: String,
}

/// One experiment and what it found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What was asked for.
    pub spec: Spec,
    /// The command that makes it again.
    pub command: String,
    /// Seed and size.
    pub measured: String,
    /// Pictures: file and title.
    pub pictures: Vec<(String, String)>,
    /// Printed figures beside measured ones.
    pub rows: Vec<ComparedFigure>,
    /// Lines of `summary.csv`.
    pub summary: Vec<SummaryRow>,
    /// What was seen of the sampled link.
    pub over_time: Document,
    /// The busiest link, drops and the longest queue of each run.
    pub links: Table,
    /// What all worlds took.
    pub cost: Cost,
}

impl Finding {
    /// How many of its figures have this verdict.
    pub fn count(&self, verdict: FigureVerdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    /// Its own document.
    pub fn document(&self) -> Document {
        let mut document = self.head("");
        if !self.rows.is_empty() {
            let printed = Document::new("Printed and measured").text(RULE).table(comparison(&self.rows));
            document = document.section(printed);
        }
        document = document.section(Document::new("Measured").text(MEANING).table(overall(&self.summary)));
        if !self.over_time.blocks.is_empty() {
            document = document.section(self.over_time.clone());
        }
        if !self.links.rows.is_empty() {
            document = document.section(Document::new("Links").text(LINKS).table(self.links.clone()));
        }
        let sizes = by_size(&self.summary);
        if !sizes.rows.is_empty() {
            document = document.section(Document::new("By flow size").table(sizes));
        }
        document
    }

    /// Source, expectation, command and pictures; files are in `folder`.
    fn head(&self, folder: &str) -> Document {
        let texts = [&self.spec.source, &self.spec.about].into_iter().filter(|text| !text.is_empty());
        let mut blocks: Vec<Block> = texts.map(|text| Block::Text(text.trim().to_owned())).collect();
        blocks.push(Block::Command(self.command.clone()));
        blocks.push(Block::Text(self.measured.clone()));
        blocks.extend(
            self.pictures
                .iter()
                .map(|(file, alt)| Block::Picture { file: format!("{folder}{file}"), alt: alt.clone() }),
        );
        Document { title: self.spec.title.clone(), blocks }
    }
}

const MEANING: &str = "FCT is from connect to the last byte at the receiver unless the setting says otherwise, in \
                       seconds; ± is half of the 95 % confidence interval. Reductions are relative to the first run \
                       of the same setting. Everything else is in summary.csv, each flow in flows.csv.";

/// The one rule by which printed and measured figures are compared.
pub const RULE: &str = "A figure agrees if it differs from the printed one by at most 10 % of the printed value, or \
                        keeps a printed bound. It is uncertain if it does not, but its 95 % confidence interval \
                        holds values that would, and differs otherwise. Figures of a fit (a free number was \
                        chosen to meet printed figures) and of a what-if (a setting other than the papers') are \
                        not scored.";

const LINKS: &str = "Utilisation is of the busiest core link while flows arrive (docs/SCENARIOS.md). Drops of queues count the whole run \
                     and all links, RLP packets apart; the column lost of the tables of flows has the primary loop only. Each link \
                     is in links.csv.";

/// What the same files can be made from again. Cases may have repetitions, a beginning and an end of their own.
pub fn measured(seed: u64, runs: &[Run], provenance: &Provenance) -> String {
    let first = |run: &&Run| run.label.repetition == 0;
    let is_of = |one: &Label, other: &Label| one.run == other.run && one.is_of_setting(other);
    let count = |first: &Run| runs.iter().filter(|run| is_of(&run.label, &first.label)).count();
    let counts = || runs.iter().filter(first).map(count);
    let of = match (counts().min().unwrap_or(1), counts().max().unwrap_or(1)) {
        (1, 1) => "once".to_owned(),
        (fewest, most) if fewest == most => format!("{most} times"),
        (fewest, most) => format!("{fewest} to {most} times"),
    };
    let commit = provenance.commit.as_ref().map(|commit| format!("Commit {commit}, ")).unwrap_or_default();
    let fingerprint = &provenance.fingerprint;
    let begin = if commit.is_empty() { "Fingerprint" } else { "fingerprint" };
    let all = || runs.iter().map(|run| &run.measure);
    let times = |times: Vec<Duration>| times.into_iter().map(about_time).collect::<Vec<_>>().join(" or ");
    let most = match all().map(|measure| measure.flows).max() {
        Some(u64::MAX) => {
            let from = times(distinct(all().map(|measure| measure.from)));
            let until = times(distinct(all().filter_map(|measure| measure.until)));
            let pairs = if all().all(|measure| measure.pair) { ", and in every run" } else { "" };
            format!("Flows that start from {from} on and end by {until}{pairs}")
        }
        most => format!("At most {} flows measured in each world", most.unwrap_or_default()),
    };
    format!("{most}, {of}, seed {seed}. {commit}{begin} {fingerprint}.")
}

/// The document of several experiments.
pub fn overview(findings: &[Finding]) -> Document {
    let names = FigureVerdict::ALL.map(|verdict| format!("#{}", verdict.name()));
    let mut head = vec!["experiment", "source", "#printed"];
    head.extend(names.iter().map(String::as_str));
    let mut verdicts = Table::new(&head);
    for finding in findings {
        let mut row =
            vec![finding.spec.name.clone(), finding.spec.source.clone(), finding.rows.len().to_string()];
        row.extend(FigureVerdict::ALL.map(|verdict| finding.count(verdict).to_string()));
        verdicts.rows.push(row);
    }
    let about = "The figures printed in the RC3 papers (NSDI 2014, HotNets 2013) and in the Kick-Ass report, and the same ones \
                 measured with this implementation in the simulator.";
    let mut document = Document::new("Reproduction of the RC3 papers").text(about).table(verdicts);
    for finding in findings {
        let folder = format!("{}/", finding.spec.name);
        let mut section = finding.head(&folder);
        if !finding.rows.is_empty() {
            section = section.table(comparison(&finding.rows));
        }
        section.blocks.push(Block::Link { text: "All figures".to_owned(), to: format!("{folder}report.md") });
        document = document.section(section);
    }
    document
}

/// Printed figures beside measured ones, as a table.
pub fn comparison(rows: &[ComparedFigure]) -> Table {
    let mut table = Table::default();
    for row in rows {
        table.push([
            ("setting", row.setting.clone()),
            ("run", row.run.clone()),
            ("figure", metric(row.metric).to_owned()),
            ("#printed", printed(row)),
            ("#measured", row.measured.map_or_else(String::new, |measured| amount(row.metric, measured))),
            ("#difference", difference(row)),
            ("verdict", row.verdict().name().to_owned()),
            ("basis", basis(row.basis).to_owned()),
            ("cause", row.cause.clone()),
            ("note", row.note.clone()),
        ]);
    }
    table.without_empty_columns()
}

/// The printed figure with its unit, and the bound if it is one.
pub fn printed(row: &ComparedFigure) -> String {
    let bound = match row.bound {
        None => "",
        Some(Bound::AtLeast) => "≥ ",
        Some(Bound::AtMost) => "≤ ",
    };
    format!("{bound}{:.*} {}", decimals(row.metric), row.printed, row.metric.unit())
}

/// A measured figure with its interval and its unit.
pub fn amount(metric: Metric, measured: Estimate) -> String {
    format!("{} {}", with_margin(Some(measured.value), measured.margin(), decimals(metric)), metric.unit())
}

/// In per cent of the printed value; a bound has none.
fn difference(row: &ComparedFigure) -> String {
    let difference = row.difference().filter(|difference| row.bound.is_none() && difference.is_finite());
    difference.map_or_else(String::new, |difference| {
        // Nothing has no sign.
        let difference = if difference.abs() < 0.05 { 0.0 } else { difference };
        format!("{difference:+.1} %")
    })
}

/// Nothing of an independent figure, so that the column goes where all are.
pub fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Independent => "",
        Basis::Fit => "fit",
        Basis::WhatIf => "what-if",
    }
}

/// Decimals a metric is printed with.
fn decimals(metric: Metric) -> usize {
    if metric.unit() == "s" { 4 } else { 2 }
}

/// What a metric is called.
pub fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::Fct => "FCT over flows",
        Metric::FctBytes => "FCT over bytes",
        Metric::Reduction => "reduction over flows",
        Metric::ReductionBytes => "reduction over bytes",
        Metric::Speedup => "times as fast",
        Metric::Delay => "FCT minus the other's",
        Metric::Loss => "packets lost",
        Metric::Utilisation => "utilisation",
        Metric::Fairness => "fairness (Jain)",
        Metric::FlowRate => "rate of a flow",
        Metric::Queueing => "mean wait in the queue",
        Metric::QueueingP99 => "99 % of waits in the queue",
        Metric::KickassMode => "flows in Kick-Ass mode",
    }
}

fn overall(rows: &[SummaryRow]) -> Table {
    let mut table = Table::default();
    for row in rows.iter().filter(|row| row.from_bytes.is_none()) {
        let part = |part: Option<u64>, of: Option<u64>| match (part, of) {
            (Some(part), Some(of)) if part > 0 && of > 0 => {
                format!("{:.2} %", 100.0 * part as f64 / of as f64)
            }
            _ => String::new(),
        };
        let bytes = row.primary_bytes.zip(row.rlp_bytes).map(|(primary, rlp)| primary + rlp);
        table.push([
            ("setting", row.setting.clone()),
            ("run", row.run.clone()),
            ("scheme", row.scheme.clone()),
            ("#flows", row.flows.to_string()),
            ("#unfinished", if row.unfinished > 0 { row.unfinished.to_string() } else { String::new() }),
            ("#FCT over flows", with_margin(row.fct_s, row.fct_margin_s, 4)),
            ("#FCT over bytes", with_margin(row.fct_bytes_s, row.fct_bytes_margin_s, 4)),
            ("#1 %", with_margin(row.p1_s, None, 4)),
            ("#median", with_margin(row.median_s, None, 4)),
            ("#99 %", with_margin(row.p99_s, None, 4)),
            ("#reduction, flows", per_cent(row.reduction_percent, row.reduction_margin)),
            ("#reduction, bytes", per_cent(row.reduction_bytes_percent, row.reduction_bytes_margin)),
            ("#lost", part(row.lost_packets, row.primary_packets)),
            ("#by RLP", part(row.rlp_bytes, bytes)),
        ]);
    }
    table.without_empty_columns()
}

/// What was seen of the sampled link in each epoch: of all flows, and of each scheme where there are several. Of several
/// repetitions it is the first.
pub fn over_time(spec: &Spec, runs: &[Run], results: &Results) -> Document {
    let mut table = Table::default();
    let epochs = spec.measure.sample.as_ref().map_or(&[][..], |sample| &sample.epochs);
    for cell in &results.cells {
        for (&from, &to) in epochs.iter().zip(epochs.iter().skip(1)) {
            let all = cell.sampled.between((from, to));
            let schemes = all.schemes_seen();
            let parts = if schemes.len() > 1 { schemes } else { Vec::new() };
            let parts = parts.into_iter().map(|scheme| (scheme, all.of_scheme(scheme)));
            for (scheme, sampled) in std::iter::once(("", all.clone())).chain(parts) {
                let value = |metric: Metric, decimals: usize, unit: &str, scale: f64| {
                    let value = sampled.metric(metric);
                    value.map(|value| format!("{:.decimals$} {unit}", value * scale)).unwrap_or_default()
                };
                let wait = value(Metric::Queueing, 2, "ms", 1000.0);
                table.push([
                    ("setting", cell.place.setting()),
                    ("run", cell.place.run.clone()),
                    ("scheme", scheme.to_owned()),
                    ("time", format!("{} to {} s", from.as_secs_f64(), to.as_secs_f64())),
                    ("#flows", sampled.flows_seen().to_string()),
                    ("#rate of a flow", value(Metric::FlowRate, 3, "Mbit/s", 1.0)),
                    ("#utilisation", value(Metric::Utilisation, 2, "%", 1.0)),
                    ("#fairness (Jain)", value(Metric::Fairness, 2, "%", 1.0)),
                    (
                        "#mean wait in the queue", // All of them wait in the same queue.
                        if scheme.is_empty() { wait } else { String::new() },
                    ),
                    ("#in Kick-Ass mode", value(Metric::KickassMode, 1, "%", 1.0)),
                ]);
            }
        }
    }
    let several = runs.iter().any(|run| run.label.repetition > 0);
    let document = Document::new(if several { "Over time, first repetition" } else { "Over time" });
    if table.rows.is_empty() { document } else { document.table(table.without_empty_columns()) }
}

fn by_size(rows: &[SummaryRow]) -> Table {
    let mut table = Table::default();
    for row in rows {
        let Some((from, to)) = row.from_bytes.zip(row.to_bytes) else { continue };
        let size = match from == to {
            true => about_bytes(from),
            false => format!("{} to {}", about_bytes(from), about_bytes(to)),
        };
        table.push([
            ("setting", row.setting.clone()),
            ("run", row.run.clone()),
            ("scheme", row.scheme.clone()),
            ("#size", size),
            ("#flows", row.flows.to_string()),
            ("#mean FCT", with_margin(row.fct_s, row.fct_margin_s, 4)),
            ("#1 %", with_margin(row.p1_s, None, 4)),
            ("#median", with_margin(row.median_s, None, 4)),
            ("#99 %", with_margin(row.p99_s, None, 4)),
            ("#reduction", per_cent(row.reduction_percent, row.reduction_margin)),
        ]);
    }
    table.without_empty_columns()
}

fn with_margin(value: Option<f64>, margin: Option<f64>, decimals: usize) -> String {
    let margin = margin.map(|margin| format!(" ± {margin:.decimals$}")).unwrap_or_default();
    value.map(|value| format!("{value:.decimals$}{margin}")).unwrap_or_default()
}

fn per_cent(value: Option<f64>, margin: Option<f64>) -> String {
    let text = with_margin(value, margin, 2);
    if text.is_empty() { text } else { text + " %" }
}

/// What was measured and how it compares, in lines for a terminal.
pub fn text(finding: &Finding) -> String {
    let mut lines = vec![format!("{}: {}", finding.spec.name, finding.spec.title)];
    for row in finding.summary.iter().filter(|row| row.from_bytes.is_none()) {
        let parts = [&row.setting, &row.run, &row.scheme].map(String::as_str);
        let who = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        let fct = with_margin(row.fct_s, row.fct_margin_s, 4);
        let less = match per_cent(row.reduction_percent, row.reduction_margin) {
            reduction if reduction.is_empty() => reduction,
            reduction => format!(", reduction {reduction}"),
        };
        lines.push(format!("  {who}: {} flows, FCT {fct} s{less}", row.flows));
    }
    if !finding.rows.is_empty() {
        let counts = FigureVerdict::ALL.map(|verdict| (finding.count(verdict), verdict.name()));
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, name)| format!("{count} {name}")).collect();
        lines.push(format!("  {} printed figures: {}", finding.rows.len(), counts.join(", ")));
    }
    lines.join("\n") + "\n"
}
