//! What a scheme gains against what others lose, by buffer: a picture and a table for each scenario with others.

use std::path::Path;

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};
use rc3_sim::scenario::Spec;
use rc3_text::units::{about_bytes, about_rate, about_time};

use super::report::{BDP, ComparedFlow, SchemeSummary, schemes};
use crate::{
    document::{Document, Table},
    sim::shared::distinct,
};

/// Harm against gain in a scenario.
#[derive(Debug)]
pub(super) struct HarmPicture<'a> {
    scenario: &'a Spec,
    /// Name of the picture's file without its ending.
    stem: String,
    rows: Vec<&'a ComparedFlow>,
    schemes: Vec<(usize, &'a str)>,
}

impl<'a> HarmPicture<'a> {
    /// Of the scenario's rows, for the page in this file; `None` without others or without a scheme beside plain QUIC.
    pub(super) fn new(rows: &'a [ComparedFlow], scenario: &'a Spec, page: &Path) -> Option<Self> {
        let page = page.file_stem().unwrap_or_default().to_string_lossy();
        let stem = format!("{page}-{}", scenario.name);
        let schemes = schemes(rows).collect();
        let rows: Vec<_> = rows.iter().filter(|row| row.scenario == scenario.name).collect();
        let has_others = rows.iter().any(|row| row.kept(1).is_some());
        has_others.then_some(Self { scenario, stem, rows, schemes })
    }

    /// Name of the picture's file, which is beside the page.
    pub(super) fn file(&self) -> String {
        format!("{}.svg", self.stem)
    }

    /// Different values in the order of the rows.
    fn distinct(&self, of: impl Fn(&ComparedFlow) -> String) -> Vec<String> {
        distinct(self.rows.iter().map(|row| of(row)))
    }

    /// What a scheme reaches with each buffer.
    fn by_buffer(&self, scheme: usize) -> impl Iterator<Item = (String, SchemeSummary)> {
        self.distinct(|row| row.buffer.clone()).into_iter().map(move |buffer| {
            let rows = self.rows.iter().copied().filter(|row| row.buffer == buffer);
            let summary = SchemeSummary::new(rows, scheme);
            (buffer, summary)
        })
    }

    /// Rates, round trips, buffers, sizes and the number of cells.
    fn conditions(&self) -> String {
        let sizes = self.distinct(|row| about_bytes(row.bytes()));
        let ends: Vec<&str> =
            [sizes.first(), sizes.last()].into_iter().flatten().map(String::as_str).collect();
        format!(
            "{}; {}; {}; buffers of {} (larger marks for larger ones); {} cells",
            self.distinct(|row| about_rate(row.run.topology.nominal.rate.bits_per_second() as f64))
                .join(", "),
            self.distinct(|row| about_time(row.run.topology.nominal.rtt)).join(", "),
            ends.join(" to "),
            // Once behind several of them.
            self.distinct(|row| row.buffer.clone()).join(", ").replace(&format!("{BDP}, "), ", "),
            self.rows.len(),
        )
    }

    /// A point per buffer for each scheme; plain QUIC is where both axes are 1.
    pub(super) fn chart(&self) -> Chart {
        let series = |&(scheme, name): &(usize, &str)| {
            let point = |(_, SchemeSummary { plain, kept, .. }): (String, SchemeSummary)| {
                let kept = kept?;
                Some(Point { x: plain.mean, y: kept.mean, error: Some(kept.confidence) })
            };
            // Plain QUIC and rc3 have their colours of all pictures.
            let colour = Colour::nth(if scheme < 2 { 1 - scheme } else { scheme });
            Series::new(name, colour, Shape::Growing, self.by_buffer(scheme).filter_map(point))
        };
        Chart::new(
            format!("Harm against gain. {}", self.scenario.title),
            self.conditions(),
            Axis::new("own FCT / plain (geometric mean)", Scale::Linear, Unit::Number),
            Axis::new("bytes that others keep / beside plain (mean)", Scale::Linear, Unit::Number),
            self.schemes.iter().map(series),
        )
    }

    /// The section of the page: the picture and a table of its points.
    pub(super) fn section(&self) -> String {
        let mut table = Table::default();
        for (scheme, name) in self.schemes.iter().filter(|(scheme, _)| *scheme > 0) {
            let all = SchemeSummary::new(self.rows.iter().copied(), *scheme);
            let groups = self.by_buffer(*scheme).chain([("all".to_owned(), all)]);
            for (buffer, SchemeSummary { plain, kept, short, .. }) in groups {
                let (kept, worst) = kept.map_or_else(Default::default, |kept| {
                    (interval(kept.mean, kept.confidence), format!("{:.2}", kept.worst))
                });
                let short = short.map_or(String::new(), |(median, late)| format!("{median:.3}, {late:.3}"));
                table.push([
                    ("scheme", (*name).to_owned()),
                    ("#buffer", buffer.trim_end_matches(BDP).to_owned()),
                    ("#own FCT / plain", interval(plain.mean, plain.mean * (plain.confidence - 1.0))),
                    ("#worst cell", format!("{:.2}", plain.worst)),
                    ("#others keep", kept),
                    ("#worst cell", worst),
                    ("#short flows of others, median and p95", short),
                ]);
            }
        }
        let section = Document::new(format!("{}: harm against gain", self.scenario.name))
            .picture(self.stem.clone(), self.chart())
            .text(format!("{}. Intervals are of 95 %, over seeds.", self.conditions()))
            .table(table.without_empty_columns());
        format!("\n#{}", section.markdown())
    }
}

/// A value and half of its interval, if it has one.
fn interval(value: f64, half: f64) -> String {
    if half > 0.0 { format!("{value:.3} ± {half:.3}") } else { format!("{value:.3}") }
}
