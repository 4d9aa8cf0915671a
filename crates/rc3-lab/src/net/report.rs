//! The report of a run: tables and pictures as Markdown and HTML.

use std::{fs, path::Path};

use rc3_picture::chart::Chart;

use super::{
    cell::{Cell, Company},
    charts,
    error::NetError,
    fragments::{self, Probed},
    machine::Machine,
    priorities::{self, First, Goodput},
    results::Results,
    scheme::Scheme,
    simulated, tables,
};
use crate::document::{Block, Document};

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

/// Two flows with different marks, as measured for one figure.
#[derive(Debug, Clone)]
pub struct Priorities {
    /// The experiment.
    pub name: String,
    /// The path.
    pub path: String,
    /// Both orders.
    pub measured: Vec<(First, Goodput)>,
}

/// Probes of paths with different boxes.
#[derive(Debug, Clone)]
pub struct Fragments {
    /// The experiment.
    pub name: String,
    /// The path without a box.
    pub path: String,
    /// How often each length was tried.
    pub tries: u8,
    /// A result for each path.
    pub probed: Vec<Probed>,
}

/// Figures that are not of flows.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Two flows with different marks.
    pub priorities: Vec<Priorities>,
    /// Probes.
    pub fragments: Vec<Fragments>,
}

const HOW: &str = "FCT is the time from the first byte offered on an open connection until the receiver has the last \
    byte; the ideal is half a round trip and the bytes in full packets at the rate of the bottleneck. Each cell of a table \
    has the median, an interval and the rank. The interval holds the true median with 95 % (order statistics); with fewer \
    than six runs it goes from the smallest to the largest value. A rank with = has an interval that overlaps that of the \
    first.";

/// Writes measurements, pictures and report into a folder.
///
/// # Errors
/// If a file cannot be written.
pub fn write(out: &Path, about: &About, results: &Results, figures: &Figures) -> Result<(), NetError> {
    fs::create_dir_all(out).map_err(|source| NetError::File { path: out.to_owned(), source })?;
    results.write_csv(out)?;
    let mut page = Page { out, blocks: Vec::new() };
    page.head(about, results);
    for (experiment, cell) in &results.cells {
        page.cell(experiment, cell, results)?;
    }
    for figure in &figures.priorities {
        page.priorities(figure)?;
    }
    for figure in &figures.fragments {
        page.fragments(figure)?;
    }
    let document = Document { title: "rc3 beside others, on real sockets".to_owned(), blocks: page.blocks };
    save(&out.join("report.md"), &document.markdown())?;
    save(&out.join("report.html"), &document.html())
}

struct Page<'a> {
    out: &'a Path,
    blocks: Vec<Block>,
}

impl Page<'_> {
    fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }

    fn head(&mut self, about: &About, results: &Results) {
        let About { command, machine, load, schemes, runs } = about;
        self.blocks.push(Block::Command(command.clone()));
        self.text(HOW);
        self.text(format!(
            "Each scheme took {runs} turns, in another order each time. Load of the machine (processes that wanted to \
             run): {:.1} at the start, {:.1} at the end.",
            load[0], load[1]
        ));
        self.blocks.push(Block::Table(tables::versions(machine, schemes)));
        if !results.cells.is_empty() {
            self.heading("Ranks");
            self.text("By the geometric mean over the sizes of FCT / ideal, which is in parentheses.");
            self.blocks.push(Block::Table(tables::overview(results)));
            self.heading("Lateness of the WAN");
            self.text("Flows during which the WAN was later than the limit are repeated, and left out after three times.");
            self.blocks.push(Block::Table(tables::lateness(results)));
        }
        if !results.failures.is_empty() {
            self.heading("Failed turns");
            results.failures.iter().for_each(|failure| self.text(failure.clone()));
        }
        self.heading("Checks of the WAN");
        self.blocks.push(Block::Table(tables::checks(results)));
    }

    fn cell(&mut self, experiment: &str, cell: &Cell, results: &Results) -> Result<(), NetError> {
        self.heading(format!("{experiment}: {}", cell.name));
        self.text(format!("{}{}. FCT / ideal:", cell.path, company(cell.company)));
        self.blocks.push(Block::Table(tables::completion(results, cell)));
        if let Some(chart) = charts::completion(results, cell) {
            self.picture(&chart, &cell.name)?;
        }
        if cell.connections > 1 {
            self.text("From connect to the last byte in milliseconds:");
            self.blocks.push(Block::Table(tables::repeated(results, cell)));
        }
        if cell.company != Company::Nobody {
            self.text("Others meanwhile:");
            self.blocks.push(Block::Table(tables::others(results, cell)));
        }
        if let Some(table) = tables::cpu(results, cell) {
            self.text("CPU time of the largest flows, without the kernel's work outside of the processes:");
            self.blocks.push(Block::Table(table));
        }
        if experiment == "fig15" && simulated::is_possible(cell) {
            let rows = simulated::simulate(results, cell);
            self.text("Beside the simulation of the same setting. The simulator has no processing time of hosts. FCT from the open connection:");
            self.blocks.push(Block::Table(simulated::table(&rows)));
            self.picture(&charts::simulated(cell, &rows), &format!("{}-simulated", cell.name))?;
        }
        Ok(())
    }

    fn priorities(&mut self, figure: &Priorities) -> Result<(), NetError> {
        let Priorities { name, path, measured } = figure;
        self.heading(name.clone());
        self.text(format!(
            "{path}. Kernel TCP with CUBIC; low priority is lower effort. Mean rates behind the bottleneck:"
        ));
        self.blocks.push(Block::Table(priorities::table(measured)));
        for (nth, (first, goodput)) in (1..).zip(measured) {
            let chart = charts::goodput(&format!("{name}: {}", first.about()), path, goodput);
            self.picture(&chart, &format!("{name}-{nth}"))?;
        }
        Ok(())
    }

    fn fragments(&mut self, figure: &Fragments) -> Result<(), NetError> {
        let Fragments { name, path, tries, probed } = figure;
        self.heading(name.clone());
        self.text(format!(
            "{path}. Each code of a rate as the length of a whole packet with Don't Fragment, and as that of the leading \
             fragment of a packet of 1500 bytes, {tries} times each. The receiver watches lengths before its kernel \
             reassembles."
        ));
        self.blocks.push(Block::Table(fragments::table(probed)));
        self.picture(&fragments::kept_chart(path, probed), name)?;
        if let Some(table) = fragments::drops(probed) {
            self.text("A fragmented packet is two packets, and lost if one of them is:");
            self.blocks.push(Block::Table(table));
        }
        if let Some(chart) = fragments::lossy_chart(path, probed) {
            self.picture(&chart, &format!("{name}-loss"))?;
        }
        Ok(())
    }

    fn picture(&mut self, chart: &Chart, stem: &str) -> Result<(), NetError> {
        let file = format!("{stem}.svg");
        let failed = |source| NetError::File { path: self.out.join(&file), source };
        rc3_picture::write(chart, self.out, stem).map_err(failed)?;
        self.blocks.push(Block::Picture { file, alt: chart.title.clone() });
        Ok(())
    }
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
        let goodput = Goodput { high: vec![1e6; 90], low: vec![2e6; 90] };
        let measured = vec![(First::Low, goodput)];
        let figure = Priorities { name: "fig16".to_owned(), path: "100mbit".to_owned(), measured };
        let figures = Figures { priorities: vec![figure], fragments: Vec::new() };
        write(folder.path(), &about, &results, &figures).unwrap();
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
