//! `rc3-lab over-time`: the page of ratios commit by commit, from the rows that benches/over-time.sh adds.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

use crate::document::{Document, Table};

/// The columns before the ratios: how many commits lead to it, its hash, its date.
const KEYS: usize = 3;

/// Rows of the table: the picture and the file have all.
const TABLE_ROWS: usize = 20;

/// `rc3-lab over-time`
#[derive(Debug, Clone, Args)]
pub(crate) struct OverTimeArgs {
    /// Rows of commits,commit,date and ratios; the page and its picture get the same name with other endings
    #[arg(default_value = "docs/results/over-time.csv", value_name = "FILE")]
    pub csv: PathBuf,
}

impl OverTimeArgs {
    /// Writes the page and the picture.
    ///
    /// # Errors
    /// If a file cannot be read or written, or a row is not as above.
    pub fn run(&self) -> io::Result<()> {
        let (page, picture) = draw(&self.csv)?;
        fs::write(self.csv.with_extension("md"), page)?;
        fs::write(self.csv.with_extension("svg"), picture)
    }
}

/// The page and the picture of these rows.
///
/// # Errors
/// If the file cannot be read, or a row is not as [`OverTimeArgs::csv`] says: the error names it.
pub fn draw(csv: &Path) -> io::Result<(String, String)> {
    let mut reader = csv::Reader::from_path(csv)?;
    let head = reader.headers()?.clone();
    let rows = reader.records().collect::<Result<Vec<_>, _>>()?;
    // `None` where a commit was not measured.
    let value = |row: &csv::StringRecord, column: usize| match &row[column] {
        "" => Ok(None),
        text => {
            text.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0).map(Some).ok_or_else(
                || io::Error::other(format!("{}, row of {}: {text:?} is no ratio", csv.display(), &row[1])),
            )
        }
    };
    let mut series = Vec::new();
    for (column, name) in head.iter().enumerate().skip(KEYS) {
        let mut points = Vec::new();
        for row in &rows {
            if let (Some(commits), Some(ratio)) = (value(row, 0)?, value(row, column)?) {
                points.push(Point::new(commits, ratio));
            }
        }
        series.push(Series::new(name, Colour::nth(column - KEYS), Shape::Marked, points));
    }
    let chart = Chart::new(
        "rc3 over what it is compared with, commit by commit",
        "less is better, except of what others keep",
        Axis::new("commits", Scale::Linear, Unit::Number),
        Axis::new("ratio", Scale::Linear, Unit::Number).starting(0.0),
        series,
    );
    let head = head
        .iter()
        .enumerate()
        .map(|(nth, name)| if nth == 0 || nth >= KEYS { format!("#{name}") } else { name.to_owned() });
    let mut table = Table::new(head);
    for row in rows.iter().rev().take(TABLE_ROWS) {
        table.row(&row[0], row.iter().skip(1).map(str::to_owned));
    }
    let stem = csv.file_stem().unwrap_or_default().to_string_lossy();
    let page = Document::new("Performance over time")
        .text(WHAT)
        .picture(stem, chart.clone())
        .text(COLUMNS)
        .table(table)
        .text(NOISE);
    Ok((page.markdown(), rc3_picture::svg(&chart)))
}

const WHAT: &str = "Ratios only: each is of two programs that took turns in one run on one machine. Made by \
    benches/over-time.sh, which CI runs for each push to the main branch and whose rows it commits; all rows are in \
    over-time.csv, the last twenty below.";

const COLUMNS: &str = "FCT and worst FCT: completion time over that of plain QUIC, geometric mean and worst of simulated \
    flows (rc3-lab sim today --quick with the scenarios that the script names). Others keep: bytes that flows beside rc3 get \
    over those beside plain QUIC, mean. CPU: time of both ends for bulk data over loopback in packets of 1500 bytes, over \
    quinn's. Exchange and connection: median time of 64 KB there and back on one connection, and each on a new one, over \
    quinn's, with packets of the length that each program chooses.";

const NOISE: &str = "The same command gives the same simulated ratios, so each difference is of the code. The others are \
    medians of five runs on whatever machine, and scatter: four measurements of one commit on two busy cores gave a CPU of 0.76 \
    to 0.84, an exchange of 0.55 to 0.64 and a connection of 0.82 to 0.89.";
