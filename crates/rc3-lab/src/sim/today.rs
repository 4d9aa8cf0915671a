//! `rc3-lab sim today`: rc3 beside plain QUIC and the ideal on paths of today.

use std::{
    fmt::Write as _,
    fs,
    io::{self, IsTerminal, Write},
    num::NonZero,
    path::{Path, PathBuf},
    process,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rc3_sim::today::{
    self, Cell, Row, SCENARIOS, Scenario, Scheme,
    report::{self, Origin},
};

use super::experiment::ExperimentError;

/// A line of progress for so many cells, where there is no bar.
const CELLS_PER_LINE: usize = 100;

/// What to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct TodayJob {
    scenarios: Vec<Scenario>,
    quick: bool,
    schemes: Vec<Scheme>,
    /// Cells in the list of the worst.
    worst: usize,
    page: Option<PathBuf>,
    threads: NonZero<usize>,
    /// As it would be typed.
    command: String,
}

impl TodayJob {
    /// Reads scenarios; none means all that come with the program. Without schemes it is rc3's default.
    ///
    /// # Errors
    /// If there is no such scenario, or a file cannot be read or is no scenario.
    pub fn new(
        names: &[String],
        quick: bool,
        schemes: &[Scheme],
        worst: usize,
        page: Option<PathBuf>,
        threads: NonZero<usize>,
    ) -> Result<Self, ExperimentError> {
        let all = || SCENARIOS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let wanted: Vec<String> = if names.is_empty() { all() } else { names.to_vec() };
        let mut command = "rc3-lab sim today".to_owned();
        for name in names {
            let _ = write!(command, " {name}");
        }
        if quick {
            command += " --quick";
        }
        for scheme in schemes {
            let _ = write!(command, " --scheme {scheme}");
        }
        if let Some(page) = &page {
            let _ = write!(command, " --page {}", page.display());
        }
        Ok(Self {
            scenarios: wanted.iter().map(|name| read(name)).collect::<Result<_, _>>()?,
            quick,
            schemes: if schemes.is_empty() { vec![Scheme::Guard] } else { schemes.to_vec() },
            worst,
            page,
            threads,
            command,
        })
    }

    /// Runs it with progress on standard error and writes the page; returns the text to print.
    ///
    /// # Errors
    /// If the page cannot be written.
    pub fn run(&self) -> Result<String, ExperimentError> {
        let cells: Vec<Cell> = self
            .scenarios
            .iter()
            .flat_map(|scenario| if self.quick { scenario.quick() } else { scenario.cells() })
            .collect();
        let mut progress = Progress::new(cells.len());
        let rows = today::run(&cells, &self.schemes, self.threads, |row| progress.on_row(row));
        progress.end();
        if let Some(page) = &self.page {
            let origin = Origin { commit: commit(), command: self.command.clone() };
            let text = report::page(&rows, &self.scenarios, &origin);
            fs::write(page, text).map_err(|error| ExperimentError::Write { path: page.clone(), error })?;
        }
        Ok(report::text(&rows, self.worst))
    }
}

/// A scenario by its name, or the file of that name.
fn read(name: &str) -> Result<Scenario, ExperimentError> {
    if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
        let path = PathBuf::from(name);
        let text = fs::read_to_string(&path).map_err(|error| ExperimentError::Read { path, error })?;
        return Ok(Scenario::parse(&text, name)?);
    }
    Scenario::find(name).ok_or_else(|| ExperimentError::Unknown(name.to_owned()))
}

/// The revision of the source in the current directory, if git knows one, and whether it was changed.
fn commit() -> Option<String> {
    let output = process::Command::new("git").args(["describe", "--always", "--dirty"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Names and titles of the scenarios, then the schemes.
pub fn list() -> String {
    let mut text = String::new();
    for scenario in SCENARIOS.iter().filter_map(|(name, _)| Scenario::find(name)) {
        let _ = writeln!(text, "{:20} {}", scenario.name, scenario.title);
    }
    let _ = writeln!(text, "\nschemes: {}", Scheme::ALL.map(|scheme| scheme.to_string()).join(" "));
    text
}

/// A bar on a terminal, lines elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    done: usize,
    cells: usize,
}

impl Progress {
    fn new(cells: usize) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(cells as u64), ProgressDrawTarget::stderr_with_hz(10));
            let template = "{bar:30} {human_pos}/{human_len} cells, {eta} left  {wide_msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Self { bar, done: 0, cells }
    }

    fn on_row(&mut self, row: &Row) {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.set_message(row.cell.to_string());
                bar.inc(1);
            }
            None if self.done.is_multiple_of(CELLS_PER_LINE) || self.done == self.cells => {
                let _ = writeln!(io::stderr(), "{} of {} cells, {}", self.done, self.cells, row.cell);
            }
            None => {}
        }
    }

    fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(names: &[&str], page: Option<PathBuf>) -> Result<TodayJob, ExperimentError> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        TodayJob::new(&names, true, &[], 1, page, NonZero::<usize>::MIN)
    }

    #[test]
    fn a_page_has_a_row_for_each_scenario_and_the_text_as_many_of_the_worst_as_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("small.toml");
        let text = "name = 'small'\ntitle = 'Small'\nqueue = 'fifo'\nrate = ['20mbit']\nrtt = ['20ms']\nsize = ['30k', '100k']\n";
        fs::write(&file, text).unwrap();
        let page = folder.path().join("page.md");
        let job = job(&[file.to_str().unwrap()], Some(page.clone())).unwrap();
        let text = job.run().unwrap();
        let (_, worst) = text.split_once("guard: the worst 1 cells\n").expect("a list");
        assert!(worst.lines().count() == 1 && worst.contains("small: 20mbit x 20ms"), "{text}");
        let page = fs::read_to_string(page).unwrap();
        assert!(page.contains("## guard: FCT / plain") && page.contains("| small |"), "{page}");
    }

    #[test]
    fn what_is_no_scenario_is_refused() {
        assert!(
            matches!(job(&["fifo", "none"], None), Err(ExperimentError::Unknown(name)) if name == "none")
        );
        assert!(matches!(job(&["/none/x.toml"], None), Err(ExperimentError::Read { .. })));
        assert_eq!(list().lines().count(), SCENARIOS.len() + 2);
    }
}
