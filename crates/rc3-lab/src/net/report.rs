//! The report of a run: tables and pictures as Markdown and HTML.

use std::{fs, path::Path};

use rc3_picture::chart::Chart;

use super::{
    cell::{Cell, Company},
    charts,
    error::NetError,
    machine::Machine,
    results::Results,
    scheme::Scheme,
    simulated, tables,
};
use crate::document::{Block, Document, Table};

/// What a report is about, besides the measurements.
#[derive(Debug, Clone)]
pub struct About {
    /// The command line.
    pub command: String,
    /// The machine.
    pub machine: Machine,
    /// Processes that wanted to run when it began, and when it ended.
    pub load: [f64; 2],
    /// What was compared.
    pub schemes: Vec<Scheme>,
    /// How often each scheme took its turn.
    pub runs: u32,
}

/// A part of a report under a heading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// What is in it, in order.
    pub parts: Vec<Part>,
}

/// A part of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// A paragraph.
    Text(String),
    /// A table.
    Table(Table),
    /// A picture, and the name of its files without the ending.
    Picture(String, Box<Chart>),
}

impl Part {
    /// The table, if it is one.
    #[cfg(test)]
    pub(super) fn as_table(&self) -> Option<&Table> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }
}

impl Section {
    /// Nothing under a heading.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), parts: Vec::new() }
    }

    /// With another paragraph.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// With another table.
    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.parts.push(Part::Table(table));
        self
    }

    /// With another picture.
    #[must_use]
    pub fn picture(mut self, stem: &str, chart: Chart) -> Self {
        self.parts.push(Part::Picture(stem.to_owned(), Box::new(chart)));
        self
    }

    fn write(self, out: &Path, blocks: &mut Vec<Block>) -> Result<(), NetError> {
        blocks.push(Block::Heading(self.title));
        for part in self.parts {
            blocks.push(match part {
                Part::Text(text) => Block::Text(text),
                Part::Table(table) => Block::Table(table),
                Part::Picture(stem, chart) => {
                    let file = format!("{stem}.svg");
                    let failed = |source| NetError::File { path: out.join(&file), source };
                    rc3_picture::write(&chart, out, &stem).map_err(failed)?;
                    Block::Picture { file, alt: chart.title }
                }
            });
        }
        Ok(())
    }
}

const HOW: &str = "FCT is the time from the first byte offered on an open connection until the receiver has the last \
    byte; the ideal is half a round trip and the bytes in full packets at the rate of the bottleneck. Each cell of a table \
    has the median, an interval and the rank. The interval holds the true median with 95 % (order statistics); with fewer \
    than six runs it goes from the smallest to the largest value. A rank with = has an interval that overlaps that of the \
    first.";

/// Writes measurements, pictures and report into a folder. `others` are the parts of experiments that are not of flows.
///
/// # Errors
/// If a file cannot be written.
pub fn write(out: &Path, about: &About, results: &Results, others: Vec<Section>) -> Result<(), NetError> {
    fs::create_dir_all(out).map_err(|source| NetError::File { path: out.to_owned(), source })?;
    let mut blocks = vec![Block::Command(about.command.clone())];
    if !results.cells.is_empty() {
        blocks.push(Block::Text(HOW.to_owned()));
    }
    let About { machine, load, schemes, runs, .. } = about;
    blocks.push(Block::Text(format!(
        "Each scheme took {runs} turns, in another order each time. Load of the machine (processes that wanted to run): \
         {:.1} at the start, {:.1} at the end.",
        load[0], load[1]
    )));
    blocks.push(Block::Table(tables::versions(machine, schemes)));
    let mut sections = Vec::new();
    if !results.cells.is_empty() {
        sections.push(
            Section::new("Ranks")
                .text("By the geometric mean over the sizes of FCT / ideal, which is in parentheses.")
                .table(tables::overview(results)),
        );
        sections.push(
            Section::new("Lateness of the WAN")
                .text("Flows during which the WAN was later than the limit are repeated, and left out after three times.")
                .table(tables::lateness(results)),
        );
    }
    if !results.failures.is_empty() {
        sections.push(results.failures.iter().fold(Section::new("Failed turns"), Section::text));
    }
    if !results.checks.is_empty() {
        sections.push(Section::new("Checks of the WAN").table(tables::checks(results)));
    }
    sections.extend(results.cells.iter().map(|(experiment, cell)| of_cell(experiment, cell, results)));
    for section in sections.into_iter().chain(others) {
        section.write(out, &mut blocks)?;
    }
    let document = Document { title: "rc3 beside others, on real sockets".to_owned(), blocks };
    save(&out.join("report.md"), &document.markdown())?;
    save(&out.join("report.html"), &document.html())
}

fn of_cell(experiment: &str, cell: &Cell, results: &Results) -> Section {
    let mut section = Section::new(format!("{experiment}: {}", cell.name))
        .text(format!("{}{}. FCT / ideal:", cell.path, company(cell.company)))
        .table(tables::completion(results, cell));
    if let Some(chart) = charts::completion(results, cell) {
        section = section.picture(&cell.name, chart);
    }
    if cell.connections > 1 {
        let table = tables::repeated(results, cell);
        section = section.text("From connect to the last byte in milliseconds:").table(table);
    }
    if cell.company != Company::Nobody {
        section = section.text("Others meanwhile:").table(tables::others(results, cell));
    }
    if let Some(table) = tables::cpu(results, cell) {
        section = section
            .text("CPU time of the largest flows, without the kernel's work outside of the processes:")
            .table(table);
    }
    if experiment == "fig15" && simulated::is_possible(cell) {
        let rows = simulated::simulate(results, cell);
        section = section
            .text("Beside the simulation of the same setting. The simulator has no processing time of hosts. FCT from the open connection:")
            .table(simulated::table(&rows))
            .picture(&format!("{}-simulated", cell.name), charts::simulated(cell, &rows));
    }
    section
}

fn company(company: Company) -> String {
    match company {
        Company::Nobody => String::new(),
        Company::Long => ", beside one long flow of kernel TCP (CUBIC)".to_owned(),
        Company::Load(share) => {
            format!(", at {:.0} % load of kernel TCP (CUBIC): Poisson arrivals, Pareto sizes", share * 100.0)
        }
    }
}

fn save(path: &Path, text: &str) -> Result<(), NetError> {
    fs::write(path, text).map_err(|source| NetError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{
        results::tests::{cell, flow},
        sample::{NOBODY, OthersSample},
    };

    #[test]
    fn a_report_names_all_of_it_and_its_pictures_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let cell = cell("beside-cubic", Company::Long, 1);
        let flows = vec![flow(&cell, "rc3", 10_000, 1, 1.5), flow(&cell, "rc3", 1_000_000, 1, 1.25)];
        let others = OthersSample {
            experiment: "beside".to_owned(),
            cell: cell.name.clone(),
            scheme: NOBODY.to_owned(),
            run: 1,
            ping_median_s: Some(0.08),
            ping_p99_s: Some(0.09),
            pings: 100,
            long_share: Some(0.95),
            flows: 0,
            slowdown: None,
            slowdown_p99: None,
        };
        let results = Results {
            cells: vec![("beside".to_owned(), cell)],
            schemes: vec!["rc3".to_owned()],
            flows,
            others: vec![others],
            failures: vec!["beside-cubic, tcp: a flow took too long".to_owned()],
            ..Results::default()
        };
        let machine =
            Machine { processor: "a fast one".to_owned(), processors: 2, kernel: "6.18".to_owned() };
        let command = "rc3-lab net run beside".to_owned();
        let about = About { command, machine, load: [0.5, 1.5], schemes: Scheme::all(None), runs: 1 };
        let chart = charts::completion(&results, &results.cells[0].1).unwrap();
        let other = Section::new("fig16").text("two flows").picture("fig16-1", chart);
        results.write_csv(folder.path()).unwrap();
        write(folder.path(), &about, &results, vec![other]).unwrap();
        let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
        for part in [
            "rc3-lab net run beside",
            "a fast one",
            "1.25",
            "95.0",
            "rc3-net 0.1",
            "0.5 at the start",
            "fig16",
            "took too long",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let pictures: Vec<&str> =
            text.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(')')).collect();
        assert_eq!(pictures, ["beside-cubic.svg", "fig16-1.svg"]);
        assert!(pictures.iter().all(|picture| folder.path().join(picture).exists()));
    }
}
