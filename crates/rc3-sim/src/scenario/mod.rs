//! Scenario files: a world, what runs in it and what is measured, in TOML.
//!
//! [`Scenario::parse`] reads and checks a file, [`Scenario::set`] changes a key, [`Scenario::expand`] makes the
//! worlds: each case, each point of the sweep, each run, each repetition. [`Spec`] lists the keys.
//!
//! ```
//! use rc3_sim::scenario::Scenario;
//!
//! let text = r#"
//!     name = "load"
//!     title = "Reduction of the FCT at three loads"
//!
//!     [topology]
//!     kind = "internet2"
//!
//!     [workload]
//!     arrivals = "poisson"
//!     sizes = "allman2013"
//!     load = 0.3
//!
//!     [[scheme]]
//!     name = "TCP"
//!     kind = "plain"
//!
//!     [[scheme]]
//!     name = "RC3"
//!     kind = "rc3"
//!
//!     [sweep]
//!     workload.load = [0.1, 0.3, 0.5]
//! "#;
//! let mut scenario = Scenario::parse(text, "load.toml")?;
//! scenario.set("topology.rtt=400ms")?;
//! let runs = scenario.expand()?;
//! assert_eq!(runs.len(), 6);
//! assert_eq!(runs[3].label.to_string(), "workload.load=0.3, RC3");
//! let first = runs[3].flows().next().expect("Poisson arrivals never end");
//! assert_eq!(first, runs[2].flows().next().map(|flow| rc3_sim::agent::Flow { scheme: first.scheme, ..flow }).unwrap());
//! # Ok::<(), rc3_sim::scenario::ScenarioError>(())
//! ```

mod quantity;
mod resolve;
mod run;
mod spec;
#[cfg(test)]
pub(crate) mod tests;

use std::path::{Path, PathBuf};

use rc3_text::document::{Document, DocumentError, Fault, flatten};
use toml::Value;

pub use quantity::{BufferSize, Probability, Rung, Share};
pub use run::{Assignment, Label, Measure, Mix, Mixed, Queues, Run, Sampling, Scheme};
pub use spec::*;

use crate::random::derive;

/// Why a scenario file cannot be used.
pub type ScenarioError = DocumentError;

/// More worlds than this are refused as a mistake.
const RUNS_MAX: usize = 100_000;

/// A scenario file, read.
///
/// ```
/// use rc3_sim::{scenario::Scenario, simulation::Simulation};
///
/// let text = r#"
///     name = "one"
///     title = "One flow"
///     topology = { kind = "dumbbell", hosts = 1 }
///     workload = { arrivals = "poisson", sizes = "allman2013", load = 0.1 }
///     measure = { flows = 3, warm-up = 0 }
///     [[scheme]]
///     name = "RC3"
///     kind = "rc3"
/// "#;
/// let mut scenario = Scenario::parse(text, "one.toml")?;
/// let run = scenario.expand()?.remove(0);
/// let mut simulation = Simulation::new(&run)?;
/// let mut records = Vec::new();
/// while simulation.step()? {
///     records.extend(std::iter::from_fn(|| simulation.poll_record()));
/// }
/// assert_eq!(records.len(), 3);
/// assert!(records.iter().all(|record| record.fct.is_some()));
/// // An error names the key that was meant.
/// let error = scenario.set("workload.lod=0.3").unwrap_err();
/// assert!(error.to_string().contains("load"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    document: Document,
    spec: Spec,
}

impl Scenario {
    /// Reads a file; `file` is its name in errors, and paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it is no TOML, or a key is unknown, missing or has an invalid value. [`Self::expand`] reports whether the
    /// worlds can be made.
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        let document = Document::parse(text, file)?;
        let spec = document.read::<Spec>()?;
        Ok(Self { document, spec })
    }

    /// Sets a key, `workload.load=0.5` or `scheme.RC3.paced=true`. Strings need no quotation marks.
    ///
    /// # Errors
    /// If there is no such key, or the value is invalid; the scenario stays unchanged then.
    pub fn set(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        // A change has no line in the file.
        let fault = |fault: Fault| ScenarioError { line: None, ..self.document.error(fault) };
        let (key, text) = assignment
            .split_once('=')
            .ok_or_else(|| fault(Fault::new(assignment, "no value, write `key=value`")))?;
        let (key, text) = (key.trim(), text.trim());
        let value = text.parse().unwrap_or_else(|_| Value::String(text.to_owned()));
        let mut document = self.document.clone();
        document.set(key, value, None).map_err(fault)?;
        self.spec = document.read::<Spec>()?;
        self.document = document;
        Ok(())
    }

    /// Its keys, changes included.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The file with its changes, without its comments.
    pub fn to_toml(&self) -> String {
        self.document.text()
    }

    /// The worlds: cases, then points of the sweep, then runs, then repetitions, the last fastest.
    ///
    /// # Errors
    /// If a case, the sweep or a resulting world is invalid, or a file cannot be read.
    pub fn expand(&self) -> Result<Vec<Run>, ScenarioError> {
        let mut runs = Vec::new();
        for (case, document) in self.cases()? {
            for (point, document) in points(&self.spec, document)? {
                let spec = document.read::<Spec>()?;
                let here = worlds(&spec, &folder(document.file()), case.as_deref(), &point)
                    .map_err(|fault| document.error(fault))?;
                runs.extend(here);
                if runs.len() > RUNS_MAX {
                    return Err(
                        document.error(Fault::new("sweep", format!("makes more than {RUNS_MAX} worlds")))
                    );
                }
            }
        }
        Ok(runs)
    }

    /// The tree of each case; without cases the only one.
    fn cases(&self) -> Result<Vec<(Option<String>, Document)>, ScenarioError> {
        if self.spec.case.is_empty() {
            return Ok(vec![(None, self.document.clone())]);
        }
        let mut cases = Vec::with_capacity(self.spec.case.len());
        for (n, case) in self.spec.case.iter().enumerate() {
            let mut document = self.document.clone();
            for (key, value) in flatten(&case.set) {
                change(&mut document, &key, value, &[&format!("case.{n}.set.{key}"), &format!("case.{n}")])?;
            }
            cases.push((Some(case.name.clone()), document));
        }
        Ok(cases)
    }
}

/// The values of all keys swept.
type Point = Vec<(String, Value)>;

/// The tree at each point of the sweep; without a sweep the only one.
fn points(spec: &Spec, document: Document) -> Result<Vec<(Point, Document)>, ScenarioError> {
    let axes = flatten(&spec.sweep);
    let mut count = 1_usize;
    for (key, values) in &axes {
        let values = values.as_array().filter(|values| !values.is_empty()).ok_or_else(|| {
            let message = "not a list of values, write for example [1, 2]";
            document.error(Fault::new(format!("sweep.{key}"), message))
        })?;
        count = count.saturating_mul(values.len());
    }
    if count > RUNS_MAX {
        return Err(document.error(Fault::new("sweep", format!("makes {count} worlds, {RUNS_MAX} at most"))));
    }

    let mut points = vec![(Point::new(), document)];
    for (key, values) in axes {
        let place = format!("sweep.{key}");
        let mut next = Vec::new();
        for (point, document) in points {
            for (n, value) in values.as_array().into_iter().flatten().enumerate() {
                let mut document = document.clone();
                change(&mut document, &key, value, &[&format!("{place}.{n}"), &place])?;
                let mut point = point.clone();
                point.push((key.clone(), value.clone()));
                next.push((point, document));
            }
        }
        points = next;
    }
    Ok(points)
}

/// Sets a key to a value that stands in the file at the first of `places` that has a line.
fn change(document: &mut Document, key: &str, value: &Value, places: &[&str]) -> Result<(), ScenarioError> {
    let line = places.iter().find_map(|place| document.line(place));
    document.set(key, value.clone(), line).map_err(|fault| {
        let place = places.first().copied().unwrap_or_default();
        ScenarioError { line, ..document.error(Fault::new(place, fault.message)) }
    })
}

/// Runs and repetitions of one point.
fn worlds(spec: &Spec, folder: &Path, case: Option<&str>, point: &Point) -> Result<Vec<Run>, Fault> {
    let schemes = resolve::schemes(&spec.scheme)?;
    let everybody = |scheme: &SchemeSpec| {
        let name = scheme.name.clone();
        RunSpec { name: name.clone(), scheme: name, mix: None, background: None }
    };
    let run_specs: Vec<RunSpec> =
        if spec.run.is_empty() { spec.scheme.iter().map(everybody).collect() } else { spec.run.clone() };

    let mut runs = Vec::new();
    for (n, run) in run_specs.iter().enumerate() {
        if run_specs[..n].iter().any(|other| other.name == run.name) {
            return Err(Fault::new(format!("run.{n}.name"), format!("there is another `{}`", run.name)));
        }
        for repetition in 0..spec.measure.repetitions {
            let seed = derive(spec.measure.seed, u64::from(repetition));
            let topology = resolve::topology(&spec.topology, folder, seed)?;
            let measure = resolve::measure(&spec.measure, spec.workload.arrivals, &topology)?;
            let workload = resolve::workload(&spec.workload, "workload", folder, &topology)?;
            let background = spec.background.iter().enumerate();
            let background = background
                .map(|(n, spec)| resolve::workload(spec, &format!("background.{n}"), folder, &topology))
                .collect::<Result<_, _>>()?;
            runs.push(Run {
                label: Label {
                    case: case.map(str::to_owned),
                    point: point.clone(),
                    run: run.name.clone(),
                    repetition,
                },
                seed,
                queues: resolve::queues(&spec.queue, &topology)?,
                assignment: resolve::assignment(run, n, &schemes, &topology, seed)?,
                topology,
                schemes: schemes.clone(),
                workload,
                background,
                measure,
            });
            if runs.len() > RUNS_MAX {
                return Err(Fault::new("measure.repetitions", format!("makes more than {RUNS_MAX} worlds")));
            }
        }
    }
    Ok(runs)
}

fn folder(file: &str) -> PathBuf {
    Path::new(file).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}
