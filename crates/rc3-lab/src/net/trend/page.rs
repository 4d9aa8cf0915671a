//! The page: a table of the newest commits, and a picture of all.

use std::{fmt::Write, fs, path::Path};

use crate::net::transport::Result;
use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

use super::{
    history::History,
    ratios::{MEASURES, Measure},
};

/// Columns of the table.
const COMMITS: usize = 6;

/// Writes `trend.md` and `trend.svg`.
pub(super) fn write(history: &History, folder: &Path) -> Result<()> {
    fs::write(folder.join("trend.svg"), rc3_picture::svg(&chart(history)))?;
    fs::write(folder.join("trend.md"), page(history)?)?;
    Ok(())
}

fn page(history: &History) -> Result<String> {
    let commits = history.commits();
    let shown = &commits[commits.len().saturating_sub(COMMITS)..];
    let mut page = String::from(
        "# Performance over time\n\n\
         Ratios of two things that were measured in turn on one machine: median of the runs, and the smallest and largest\n\
         in parentheses. The hash is BLAKE3 of 1500 bytes; time is CPU time. Bulk and exchanges are on loopback with packets\n\
         of at most 1500 bytes. Completion times are simulated, 200 Mbit/s x 80 ms with a card ten times as fast, and have no\n\
         spread.\n\n\
         `cargo run --release -p rc3-lab -- net trend` measures the commit that is checked out, appends to\n\
         [trend.csv](trend.csv), and makes this page.\n\n![Each measure over its oldest figure](trend.svg)\n\n",
    );
    write!(page, "| measure | better |")?;
    for commit in shown {
        let date =
            history.entries.iter().find(|entry| entry.commit == *commit).map(|entry| entry.date.as_str());
        write!(page, " {commit}, {} |", date.unwrap_or_default())?;
    }
    write!(page, "\n|---|---|{}\n", "---:|".repeat(shown.len()))?;
    for measure in MEASURES {
        let better = if measure.more_is_better { "more" } else { "less" };
        write!(page, "| {} | {better} |", measure.title)?;
        for commit in shown {
            match history.find(commit, measure.name) {
                Some(entry) if entry.runs == 1 => write!(page, " {:.3} |", entry.median)?,
                Some(entry) => {
                    write!(page, " {:.3} ({:.3} to {:.3}) |", entry.median, entry.least, entry.most)?
                }
                None => page.push_str(" |"),
            }
        }
        page.push('\n');
    }
    Ok(page)
}

/// Each measure over its oldest figure, upside down where less is better: up is better throughout.
fn chart(history: &History) -> Chart {
    let commits = history.commits();
    let line = |(index, measure): (usize, &Measure)| {
        let figures: Vec<(usize, f64)> = (0..)
            .zip(&commits)
            .filter_map(|(at, commit)| Some((at, history.find(commit, measure.name)?.median)))
            .collect();
        let first = figures.first().map_or(1.0, |(_, median)| *median);
        let gain = |median: f64| if measure.more_is_better { median / first } else { first / median };
        Series {
            name: measure.name.to_owned(),
            colour: Colour::nth(index),
            shape: Shape::Marked,
            points: figures.iter().map(|&(at, median)| Point::new(at as f64, gain(median))).collect(),
        }
    };
    let names = commits.iter().map(|commit| commit.chars().take(7).collect()).collect();
    Chart {
        title: "Performance over time".to_owned(),
        subtitle: "each measure over its oldest figure; up is better".to_owned(),
        x: Axis::new("commit", Scale::Names(names), Unit::Number),
        y: Axis::new("gain", Scale::Linear, Unit::Number),
        series: MEASURES.iter().enumerate().map(line).collect(),
        shaded: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::trend::history::Entry;

    #[test]
    fn the_page_has_every_measure_and_the_newest_commits() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = History::read(&folder.path().join("trend.csv")).unwrap();
        for nth in 0..8 {
            for measure in MEASURES {
                let values = vec![1.0, 1.5, 2.0];
                history.add(Entry::new("2026-11-24", &format!("commit{nth}"), measure, values).unwrap());
            }
        }
        write(&history, folder.path()).unwrap();
        let page = fs::read_to_string(folder.path().join("trend.md")).unwrap();
        assert!(MEASURES.iter().all(|measure| page.contains(measure.title)));
        assert!(page.contains("commit7") && page.contains("commit2") && !page.contains("commit1,"), "{page}");
        assert!(page.contains("1.500 (1.000 to 2.000)"), "{page}");
        assert!(fs::read_to_string(folder.path().join("trend.svg")).unwrap().contains("exchange-p50"));
    }
}
