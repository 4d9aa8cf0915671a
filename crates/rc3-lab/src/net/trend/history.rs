//! The file of figures: a line for each measure of each commit.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::net::transport::Result;
use serde::{Deserialize, Serialize};

use super::ratios::Measure;

/// One measure at one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Of the commit, as `2026-11-24`.
    pub(super) date: String,
    pub(super) commit: String,
    pub(super) measure: String,
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) runs: usize,
}

impl Entry {
    /// `None` without values.
    pub(super) fn new(date: &str, commit: &str, measure: Measure, mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let [least, most] = [*values.first()?, *values.last()?].map(rounded);
        Some(Self {
            date: date.to_owned(),
            commit: commit.to_owned(),
            measure: measure.name.to_owned(),
            median: rounded(values[values.len() / 2]),
            least,
            most,
            runs: values.len(),
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, median, least, most, runs, .. } = self;
        write!(f, "{measure:18} {median:8.3} ({least:.3} to {most:.3}, {runs} runs)")
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

/// All entries, in the order in which they were measured.
#[derive(Debug)]
pub(super) struct History {
    file: PathBuf,
    pub(super) entries: Vec<Entry>,
}

impl History {
    /// A file that is not there is an empty history.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = match fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        let entries =
            csv::Reader::from_reader(text.as_slice()).deserialize().collect::<std::result::Result<_, _>>()?;
        Ok(Self { file: file.to_owned(), entries })
    }

    /// Adds an entry, in place of one of the same commit.
    pub(super) fn add(&mut self, entry: Entry) {
        self.entries.retain(|old| (&old.commit, &old.measure) != (&entry.commit, &entry.measure));
        self.entries.push(entry);
    }

    pub(super) fn write(&self) -> Result<()> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        self.entries.iter().try_for_each(|entry| writer.serialize(entry))?;
        fs::write(&self.file, writer.into_inner()?)?;
        Ok(())
    }

    /// The commits, the oldest first.
    pub(super) fn commits(&self) -> Vec<&str> {
        let mut commits: Vec<&str> = Vec::new();
        for entry in &self.entries {
            if !commits.contains(&entry.commit.as_str()) {
                commits.push(&entry.commit);
            }
        }
        commits
    }

    pub(super) fn find(&self, commit: &str, measure: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.commit == commit && entry.measure == measure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::trend::ratios::MEASURES;

    fn entry(commit: &str, values: &[f64]) -> Entry {
        Entry::new("2026-11-24", commit, MEASURES[0], values.to_vec()).expect("values")
    }

    #[test]
    fn an_entry_is_the_median_with_its_extremes() {
        assert_eq!(Entry::new("", "", MEASURES[0], Vec::new()), None);
        let entry = entry("a", &[1.3, 1.1, 1.23456]);
        assert_eq!((entry.least, entry.median, entry.most, entry.runs), (1.1, 1.2346, 1.3, 3));
    }

    #[test]
    fn what_is_written_is_read_and_a_commit_measured_again_has_its_last_figures() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trend.csv");
        let mut history = History::read(&file).unwrap();
        for (commit, value) in [("a", 1.0), ("b", 2.0), ("a", 3.0)] {
            history.add(entry(commit, &[value]));
        }
        history.write().unwrap();
        let again = History::read(&file).unwrap();
        assert_eq!(again.entries, history.entries);
        assert_eq!(again.entries.len(), 2);
        assert_eq!(again.find("a", MEASURES[0].name).map(|entry| entry.median), Some(3.0));
        assert_eq!(again.commits(), ["b", "a"]);
    }
}
