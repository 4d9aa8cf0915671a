//! Every figure and table of the papers: the report that reproduces it and how many printed figures agree, or why there is
//! none.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    compare::{ComparedFigure, FigureVerdict},
    experiment::ExperimentError,
    report::{self, RULE},
};
use crate::document::{Document, Table};

/// The list, in the order of the papers.
const LIST: &str = include_str!("../../experiments/coverage.csv");
/// Differences that are counted, in per cent of the printed value.
const CLASSES: [f64; 3] = [5.0, 10.0, 25.0];

/// A figure, a table or a claim of a paper.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Item {
    /// The paper.
    paper: String,
    /// What the paper calls it.
    item: String,
    /// What it shows.
    shows: String,
    /// Folders of the reports, with spaces between them. Those of `rc3-lab sim run` have the names of their experiments.
    reports: String,
    /// The command, unless it is `rc3-lab sim run` and the reports.
    command: String,
    /// Why there is none.
    absent: String,
}

/// A line of `comparison.csv`: a printed figure and ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Case and point.
    pub setting: String,
    /// Run and scheme.
    pub run: String,
    /// What is printed.
    pub figure: String,
    /// As printed, with its unit.
    pub printed: String,
    /// As measured, with the 95 % confidence interval and its unit.
    pub measured: String,
    /// In per cent of the printed value; empty for a bound and for what was not measured.
    pub difference_percent: Option<f64>,
    /// See [`FigureVerdict`].
    pub verdict: String,
    /// `fit`, `what-if` or empty.
    pub basis: String,
    /// Why it differs, where that is known.
    pub cause: String,
}

/// The lines of `comparison.csv`.
pub fn figures(rows: &[ComparedFigure]) -> Vec<Figure> {
    let figure = |row: &ComparedFigure| Figure {
        setting: row.setting.clone(),
        run: row.run.clone(),
        figure: report::metric(row.metric).to_owned(),
        printed: report::printed(row),
        measured: row.measured.map_or_else(String::new, |measured| report::amount(row.metric, measured)),
        difference_percent: row.difference().filter(|_| row.bound.is_none()).filter(|part| part.is_finite()),
        verdict: row.verdict().name().to_owned(),
        basis: report::basis(row.basis).to_owned(),
        cause: row.cause.clone(),
    };
    rows.iter().map(figure).collect()
}

/// The page of coverage, in Markdown, for the reports in `folder`: how many figures agree, one line for each item of the
/// papers, and one for each printed figure.
///
/// # Errors
/// If there is no report, or the `comparison.csv` of one cannot be read.
pub fn coverage(folder: &Path) -> Result<String, ExperimentError> {
    if !items().iter().any(|item| item.reports.split_whitespace().any(|name| has_run(folder, name))) {
        let message = format!("there is no report of an experiment in {}", folder.display());
        let hint = "name the --out of rc3-lab sim run: each experiment has a folder there";
        return Err(ExperimentError::Other { message, hint, is_usage: true });
    }
    let mut lines = String::from("| figure | shows | made by | printed figures |\n|---|---|---|---|\n");
    let mut every = Table::new(["figure", "of", "printed", "measured", "verdict", "basis", "cause"]);
    let mut counts = [0_usize; COLUMNS.len()];
    let mut causes: BTreeMap<String, [usize; COLUMNS.len()]> = BTreeMap::new();
    let mut counted: Vec<String> = Vec::new();
    for item in items() {
        let mut figures = Vec::new();
        for name in item.reports.split_whitespace() {
            let of_one = read(folder, name)?;
            if !counted.iter().any(|known| known == name) {
                for figure in &of_one {
                    counts[column(figure)] += 1;
                    causes.entry(figure.cause.clone()).or_default()[column(figure)] += 1;
                }
                counted.push(name.to_owned());
            }
            figures.extend(of_one);
        }
        lines += &line(folder, &item, &figures);
        every.rows.extend(figures.iter().map(|figure| row(&item, figure)));
    }
    let mut by_cause = Table::new(["cause of a difference", COLUMNS[2], COLUMNS[3], COLUMNS[5]]);
    for (cause, counts) in causes {
        let cause = if cause.is_empty() { "not known".to_owned() } else { cause };
        let differing = [counts[2], counts[3], counts[5]];
        if differing != [0; 3] {
            by_cause.rows.push([vec![cause], differing.map(|count| count.to_string()).to_vec()].concat());
        }
    }
    let score = score(&counts);
    let counts = Table { rows: vec![counts.map(|count| count.to_string()).into()], ..Table::new(COLUMNS) };
    let mut head = Document::new("Coverage").text(RULE).text(score).table(counts);
    if !by_cause.rows.is_empty() {
        head = head.table(by_cause);
    }
    let (head, list) = (head.markdown(), Document::new("Every printed figure").table(every).markdown());
    Ok(format!("{head}\n{lines}\n#{list}"))
}

/// The score in a sentence, which the README repeats.
fn score(counts: &[usize; COLUMNS.len()]) -> String {
    let scored: usize = counts[..6].iter().sum();
    let agree = counts[0] + counts[1] + counts[4];
    let share = 100.0 * agree as f64 / scored.max(1) as f64;
    format!(
        "Of {scored} printed figures, {agree} ({share:.0} %) are met within 10 % or keep their bound, and {} are missed by \
         more than 25 %.",
        counts[3]
    )
}

fn items() -> Vec<Item> {
    // A test reads all of them.
    csv::Reader::from_reader(LIST.as_bytes()).deserialize().filter_map(Result::ok).collect()
}

/// Whether `folder` has the report of an experiment.
fn has_run(folder: &Path, name: &str) -> bool {
    folder.join(name).join("report.md").exists()
}

/// The figures of an experiment; none where it prints none.
fn read(folder: &Path, name: &str) -> Result<Vec<Figure>, ExperimentError> {
    let path = folder.join(name).join("comparison.csv");
    if !fs::exists(&path).unwrap_or(false) {
        return Ok(Vec::new());
    }
    let failed = |error: csv::Error| ExperimentError::Read { path: path.clone(), error: error.into() };
    let file = File::open(&path).map_err(|error| ExperimentError::Read { path: path.clone(), error })?;
    csv::Reader::from_reader(file).deserialize().collect::<Result<_, _>>().map_err(failed)
}

/// The line of an item: its reports in `folder` as links, those that are missing by name, its command, and how many of its figures have which verdict.
fn line(folder: &Path, item: &Item, figures: &[Figure]) -> String {
    let Item { paper, item: name, shows, reports, command, absent } = item;
    let text = |report: &str| report.rsplit('/').next().unwrap_or_default().to_owned();
    let link = |report: &str| match has_run(folder, report) {
        true => format!("[{}]({report}/report.md)", text(report)),
        false => format!("`{}`", text(report)),
    };
    let mut made_by: Vec<String> = reports.split_whitespace().map(link).collect();
    if !command.is_empty() {
        made_by.push(format!("`{command}`"));
    }
    let count = |verdict: &FigureVerdict| {
        let count = figures.iter().filter(|figure| figure.verdict == verdict.name()).count();
        (count > 0).then(|| format!("{} {count}", verdict.name()))
    };
    let verdicts: Vec<String> = FigureVerdict::ALL.iter().filter_map(count).collect();
    let outcome = match (absent.as_str(), verdicts.as_slice()) {
        ("", [])
            if !reports.is_empty() && !reports.split_whitespace().any(|report| has_run(folder, report)) =>
        {
            "not run".to_owned()
        }
        ("", []) if command.is_empty() => "none".to_owned(),
        ("", []) => "not scored".to_owned(),
        ("", _) => verdicts.join(", "),
        (reason, _) => format!("absent: {reason}"),
    };
    format!("| {paper} {name} | {shows} | {} | {outcome} |\n", made_by.join(", "))
}

/// The line of a printed figure.
fn row(item: &Item, figure: &Figure) -> Vec<String> {
    let parts = [&figure.setting, &figure.run, &figure.figure].map(String::as_str);
    let of = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
    let Figure { printed, measured, verdict, basis, cause, .. } = figure.clone();
    vec![format!("{} {}", item.paper, item.item), of, printed, measured, verdict, basis, cause]
}

/// Classes of printed figures: by how far ours are off, within each of [`CLASSES`] and beyond, bounds, fits and what-ifs.
const COLUMNS: [&str; 8] = [
    "#within 5 %",
    "#5 to 10 %",
    "#10 to 25 %",
    "#beyond",
    "#bounds kept",
    "#bounds not kept",
    "#fits and what-ifs",
    "#not measured",
];

/// The column of a figure.
fn column(figure: &Figure) -> usize {
    if !figure.basis.is_empty() {
        6
    } else if figure.verdict == FigureVerdict::Missing.name() {
        7
    } else if let Some(difference) = figure.difference_percent {
        CLASSES.iter().position(|&class| difference.abs() <= class).unwrap_or(CLASSES.len())
    } else {
        4 + usize::from(figure.verdict != FigureVerdict::Agrees.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::catalogue, *};

    #[test]
    fn every_item_is_reproduced_or_absent_for_a_reason() {
        let all: Result<Vec<Item>, _> = csv::Reader::from_reader(LIST.as_bytes()).deserialize().collect();
        let all = all.unwrap();
        assert_eq!(all.len(), items().len());
        for item in &all {
            let there = !item.reports.is_empty() || !item.command.is_empty();
            assert!(there == item.absent.is_empty(), "{item:?}");
            for name in item.reports.split_whitespace().filter(|_| item.command.is_empty()) {
                let known = catalogue::EXPERIMENTS.iter().any(|(known, _)| *known == name);
                assert!(known, "{name} of {item:?}");
            }
        }
    }

    #[test]
    fn every_experiment_is_of_some_item() {
        let items = items();
        for (name, _) in catalogue::EXPERIMENTS {
            let is_there = items.iter().any(|item| item.reports.split_whitespace().any(|one| one == *name));
            assert!(is_there, "{name}");
        }
    }

    #[test]
    fn figures_are_counted_once_and_by_their_difference() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("fig8")).unwrap();
        let figure = |difference_percent, verdict: FigureVerdict, basis: &str, cause: &str| Figure {
            setting: "load 0.1".to_owned(),
            run: "rc3".to_owned(),
            figure: "FCT over flows".to_owned(),
            printed: "1.0000 s".to_owned(),
            measured: "1.0400 s".to_owned(),
            difference_percent,
            verdict: verdict.name().to_owned(),
            basis: basis.to_owned(),
            cause: cause.to_owned(),
        };
        let figures = [
            figure(Some(4.0), FigureVerdict::Agrees, "", ""),
            figure(Some(-30.0), FigureVerdict::Differs, "", "another map"),
            figure(None, FigureVerdict::Agrees, "", ""),
            figure(Some(1.0), FigureVerdict::NotScored, "fit", ""),
        ];
        let mut text = Vec::new();
        super::super::table::write(&mut text, &figures).unwrap();
        fs::write(folder.path().join("fig8/comparison.csv"), text).unwrap();
        let nothing = coverage(folder.path()).unwrap_err();
        assert!(nothing.is_usage() && nothing.to_string().starts_with("there is no report"), "{nothing}");
        fs::write(folder.path().join("fig8/report.md"), "").unwrap();
        let page = coverage(folder.path()).unwrap();
        assert!(page.contains("| 1 | 0 | 0 | 1 | 1 | 0 | 1 | 0 |"), "{page}");
        assert!(
            page.contains(
                "Of 3 printed figures, 2 (67 %) are met within 10 % or keep their bound, and 1 are"
            ),
            "{page}"
        );
        assert!(page.contains("| another map | 0 | 1 | 0 |") && !page.contains("not known"), "{page}");
        let item = "| RC3 Fig. 8 | Link load | [fig8](fig8/report.md) | agrees 2, differs 1, not scored 1 |";
        assert!(page.contains(item) && page.contains("| `fig9` | not run |"), "{page}");
        let figure = "| RC3 Fig. 8 | load 0.1, rc3, FCT over flows | 1.0000 s | 1.0400 s | agrees |";
        assert!(page.contains(figure), "{page}");
    }
}
