//! The report of a run: tables and pictures.

use std::{fs, thread};

use super::{
    cell::{Cell, Company},
    charts,
    results::Results,
    scheme::Scheme,
    simulated, tables,
};
use crate::document::{Block, Document, Table};

/// Processes that wanted to run during the last minute, on average.
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

/// The machine and what was compared on it.
fn versions(schemes: &[Scheme]) -> Table {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = model.map_or("an unknown processor", |(_, name)| name).trim();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let machine = format!("{processor}, {processors} processors, Linux {}", kernel.trim());
    let mut table = Table::new(["what", "which"]);
    table.row("machine", [machine]);
    schemes.iter().for_each(|scheme| table.row(&scheme.name, [scheme.version.clone()]));
    table
}

const HOW: &str = "FCT is the time from the first byte offered on an open connection until the receiver has the last \
    byte; the ideal is half a round trip and the bytes in full packets at the rate of the bottleneck. Each cell of a table \
    has the median, an interval and the rank. Several flows of a scheme in one turn count as one, with their median. The \
    interval holds the true median with 95 % (order statistics); with fewer than six runs it goes from the smallest to the \
    largest value. A rank with = has an interval that overlaps that of the first.";

/// What was done on this machine, and its load when it began and when it ended. `turns`: how many were taken at most,
/// and whether all took as many.
pub fn head(
    command: String,
    [before, after]: [f64; 2],
    schemes: &[Scheme],
    turns: Option<(u32, bool)>,
) -> Document {
    let turns = turns.map_or_else(String::new, |(turns, all)| {
        let most = if all { "" } else { "at most " };
        format!("What is compared took {most}{turns} turns, in another order each time. ")
    });
    let mut document = Document::new("rc3 beside others, on real sockets");
    document.blocks.push(Block::Command(command));
    document
        .text(format!(
            "{turns}Load of the machine (processes that wanted to run): {before:.1} at the start, {after:.1} at the end."
        ))
        .table(versions(schemes))
}

/// With all that was measured. `others` are the parts of experiments that are not of flows.
pub fn document(mut document: Document, results: &Results, others: Vec<Document>) -> Document {
    if !results.cells.is_empty() {
        document = document.text(HOW);
        let ranks = Document::new("Ranks")
            .text("By the geometric mean over the sizes of FCT / ideal, which is in parentheses.")
            .table(tables::overview(results));
        let lateness = Document::new("Lateness of the WAN")
            .text("Flows during which the WAN was later than the limit are repeated, and left out after three times.")
            .table(tables::lateness(results));
        document = document.section(ranks).section(lateness);
    }
    for (title, lines) in [("Failed", &results.failures), ("Left out", &results.left_out)] {
        if !lines.is_empty() {
            document = document.section(lines.iter().fold(Document::new(title), Document::text));
        }
    }
    if !results.checks.is_empty() {
        document = document.section(Document::new("Checks of the WAN").table(tables::checks(results)));
    }
    let cells = results.cells.iter().map(|(experiment, cell)| of_cell(experiment, cell, results));
    cells.chain(others).fold(document, Document::section)
}

fn of_cell(experiment: &str, cell: &Cell, results: &Results) -> Document {
    let mut section = Document::new(format!("{experiment}: {}", cell.name))
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
    if cell.path.recipe.is_some() {
        let text = "Packets that waited in the queue while more than one packet of a worse level left:";
        section = section.text(text).table(tables::waits(results, cell));
    }
    if let Some(table) = tables::cpu(results, cell) {
        section = section
            .text("CPU time of the largest flows, without the kernel's work outside of the processes:")
            .table(table);
    }
    if experiment == "fig15" {
        let both = simulated::beside(results, cell);
        section = section
            .text("FCT / ideal beside the simulation of the same setting, which has no processing time of hosts:")
            .table(tables::simulated(&both, cell));
        if let Some(chart) = charts::completion(&both, cell) {
            section = section.picture(format!("{}-simulated", cell.name), chart);
        }
    }
    section
}

fn company(company: Company) -> String {
    let long = if company.has_long() { ", beside one long flow of kernel TCP (CUBIC)" } else { "" };
    let Some(share) = company.load() else { return long.to_owned() };
    let carrier = if matches!(company, Company::Own(_)) { "the scheme itself" } else { "kernel TCP (CUBIC)" };
    format!("{long}, at {:.0} % load of {carrier}: Poisson arrivals, Pareto sizes", share * 100.0)
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
        let cell = cell("beside-cubic", Company::LongAndLoad(0.3), 1);
        let flows = vec![flow(&cell, "rc3", 10_000, 1, 1.5), flow(&cell, "rc3", 1_000_000, 1, 1.25)];
        let others = OthersSample {
            experiment: "beside".to_owned(),
            cell: cell.name.clone(),
            scheme: NOBODY.to_owned(),
            run: 1,
            ping_median_s: Some(0.08),
            long_share: Some(0.95),
            flows: 123,
            ..OthersSample::default()
        };
        let results = Results {
            cells: vec![("beside".to_owned(), cell)],
            schemes: vec!["rc3".to_owned()],
            flows,
            others: vec![others],
            failures: vec!["beside-cubic, tcp: a flow took too long".to_owned()],
            left_out: vec!["operators-x: kind is unknown".to_owned()],
            ..Results::default()
        };
        let command = "rc3-lab net run beside".to_owned();
        let head = head(command, [0.5, 1.5], &Scheme::all(None), Some((1, false)));
        let chart = charts::completion(&results, &results.cells[0].1).unwrap();
        let other = Document::new("fig16").text("two flows").picture("fig16-1", chart);
        results.write_csv(folder.path()).unwrap();
        document(head, &results, vec![other]).write(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join("report.md")).unwrap();
        for part in [
            "rc3-lab net run beside",
            "processors, Linux",
            "1.25",
            "95.0",
            "at 30 % load of kernel TCP",
            "| 123 |",
            "rc3-net 0.1",
            "0.5 at the start",
            "fig16",
            "took too long",
            "kind is unknown",
            "took at most 1 turns",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        let without =
            document(super::head(String::new(), [0.0; 2], &[], None), &Results::default(), Vec::new());
        let folder_without = tempfile::tempdir().unwrap();
        without.write(folder_without.path()).unwrap();
        let without = fs::read_to_string(folder_without.path().join("report.md")).unwrap();
        assert!(!without.contains("turns") && !without.contains("rc3-net"), "{without}");
        let pictures: Vec<&str> =
            text.lines().filter_map(|line| line.split_once("](")?.1.strip_suffix(')')).collect();
        assert_eq!(pictures, ["beside-cubic.svg", "fig16-1.svg"]);
        assert!(pictures.iter().all(|picture| folder.path().join(picture).exists()));
    }
}
