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

mod base;
mod flows;
mod ideal;
pub mod keys;
mod offered;
mod quantity;
mod resolve;
mod run;
mod spec;
#[cfg(test)]
pub(crate) mod tests;

use std::{path::Path, sync::Arc};

use rc3_text::{
    document::{Document, DocumentError, Fault, flatten},
    units::about_rate,
};
use toml::{Table, Value};

pub(crate) use quantity::parse_time;

pub use base::BASES;
pub use offered::OfferedLoad;
pub use quantity::{BufferSize, Factor, Rung, Share};
pub use run::{Assignment, Hosts, Label, Measure, Mix, Mixed, Queues, Run, Sampling, Scheme, short_key};
pub use spec::*;

use self::{flows::FlowTable, resolve::refuse_if};
use crate::{random::derive, registry::Registry};

/// Why a scenario file cannot be used.
pub type ScenarioError = DocumentError;

/// Offered load above which a link is overloaded; rounding may bring a load of 1 a little above it.
const LOAD_MAX: f64 = 1.001;

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
#[derive(Debug, Clone)]
pub struct Scenario {
    document: Document,
    spec: Spec,
    registry: Registry,
}

impl Scenario {
    /// Reads a file; `file` is its name in errors, and paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it is no TOML, or a key is unknown, missing or has an invalid value. [`Self::expand`] reports whether the
    /// worlds can be made.
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        Self::parse_with(text, file, &Registry::default())
    }

    /// Reads a file that may name the congestion controllers, queue disciplines and topologies of a registry.
    ///
    /// # Errors
    /// See [`Self::parse`].
    pub fn parse_with(text: &str, file: &str, registry: &Registry) -> Result<Self, ScenarioError> {
        let document = Document::parse(text, file).map_err(|error| with_per_cent_hint(error, text))?;
        let document = base::on_base(document)?;
        let spec = read(&document, registry)?;
        Ok(Self { document, spec, registry: registry.clone() })
    }

    /// Sets a key, `workload.load=0.5` or `scheme.RC3.paced=true`. Strings need no quotation marks. A key that is swept, or that
    /// cases set, has this value only.
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
        for (n, case) in self.spec.case.iter().enumerate() {
            let mut keys = flatten(&case.set);
            if let Some((_, set)) = keys.iter_mut().find(|(set, _)| set == key) {
                *set = &value;
                let keys: Table = keys.into_iter().map(|(key, value)| (key, value.clone())).collect();
                document.set(&format!("case.{n}.set"), Value::Table(keys), None).map_err(fault)?;
            }
        }
        set_for_all(&mut document, key, value, None).map_err(fault)?;
        self.spec = read(&document, &self.registry)?;
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
        resolve::shown(&self.spec).map_err(|fault| self.document.error(fault))?;
        let mut runs = Vec::new();
        for (case, document) in self.cases()? {
            for (point, document) in points(&self.spec, document)? {
                let spec = read(&document, &self.registry)?;
                let folder = Path::new(document.file()).parent().unwrap_or_else(|| Path::new(""));
                let at = ScenarioPoint { spec: &spec, registry: &self.registry, folder };
                let here = resolve::keys(&spec, document.table(), &self.registry)
                    .and_then(|()| at.worlds(case.as_deref(), &point))
                    .map_err(|fault| document.error(fault))?;
                runs.extend(here);
                let message = format_args!("makes more than {RUNS_MAX} worlds");
                refuse_if(runs.len() > RUNS_MAX, "sweep", message).map_err(|fault| document.error(fault))?;
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
            let place = format!("case.{n}");
            let fault = |fault: Fault| self.document.error(fault);
            let is_known = self.spec.case[..n].iter().any(|other| other.name == case.name);
            let message = format_args!("there is another `{}`", case.name);
            refuse_if(is_known, format!("{place}.name"), message).map_err(fault)?;
            let mut document = self.document.clone();
            for (key, value) in flatten(&case.set) {
                let there = format!("{place}.set.{key}");
                let sweeps = key.starts_with("sweep.") || is_swept(self.document.table(), &key);
                let message = "a sweep is the same in all cases; leave the key to one of both";
                refuse_if(sweeps, &*there, message).map_err(fault)?;
                change(&mut document, &key, value, &[&there, &place])?;
            }
            cases.push((Some(case.name.clone()), document));
        }
        Ok(cases)
    }
}

/// The keys of a file, whose registered names are known.
fn read(document: &Document, registry: &Registry) -> Result<Spec, ScenarioError> {
    let spec = document.read::<Spec>()?;
    resolve::names(&spec, registry).map_err(|fault| document.error(fault))?;
    Ok(spec)
}

/// TOML has no per cent: `0.5%` without quotation marks is a syntax error, which the parser cannot explain.
fn with_per_cent_hint(error: DocumentError, text: &str) -> DocumentError {
    let line = error.line.and_then(|line| text.lines().nth(line - 1)).unwrap_or_default();
    match line.contains('%') {
        true => {
            let message = format!("{}; write 0.5 % as 0.005 or \"0.5%\"", error.message);
            DocumentError { message, ..error }
        }
        false => error,
    }
}

/// Whether `[sweep]` has values for this key, which replace any other.
fn is_swept(table: &Table, key: &str) -> bool {
    let sweep = table.get("sweep").and_then(Value::as_table);
    sweep.is_some_and(|sweep| flatten(sweep).iter().any(|(swept, _)| swept == key))
}

/// Sets a key, also if it is swept: then this is its only value.
fn set_for_all(document: &mut Document, key: &str, value: Value, line: Option<usize>) -> Result<(), Fault> {
    match is_swept(document.table(), key) {
        true => document.set(&format!("sweep.{key}"), Value::Array(vec![value]), line),
        false => document.set(key, value, line),
    }
}

/// The values of all keys swept.
type SweepPoint = Vec<(String, Value)>;

/// The tree at each point of the sweep; without a sweep the only one.
fn points(spec: &Spec, document: Document) -> Result<Vec<(SweepPoint, Document)>, ScenarioError> {
    let axes = flatten(&spec.sweep);
    let mut count = 1_usize;
    for (key, values) in &axes {
        let values = values.as_array().filter(|values| !values.is_empty()).ok_or_else(|| {
            let message = "not a list of values, write for example [1, 2]";
            document.error(Fault::new(format!("sweep.{key}"), message))
        })?;
        for (n, value) in values.iter().enumerate() {
            let message = format_args!("there is another {value}");
            refuse_if(values[..n].contains(value), format!("sweep.{key}.{n}"), message)
                .map_err(|fault| document.error(fault))?;
        }
        count = count.saturating_mul(values.len());
    }
    let message = format_args!("makes {count} worlds, {RUNS_MAX} at most");
    refuse_if(count > RUNS_MAX, "sweep", message).map_err(|fault| document.error(fault))?;

    let mut points = vec![(SweepPoint::new(), document)];
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

/// A point of a scenario: each key has one value.
struct ScenarioPoint<'a> {
    spec: &'a Spec,
    registry: &'a Registry,
    folder: &'a Path,
}

impl ScenarioPoint<'_> {
    /// Its runs and repetitions.
    fn worlds(&self, case: Option<&str>, point: &SweepPoint) -> Result<Vec<Run>, Fault> {
        let Self { spec, registry, .. } = *self;
        let schemes = resolve::schemes(&spec.scheme, registry)?;
        let run_specs = spec.runs();

        let mut runs = Vec::new();
        for (n, run) in run_specs.iter().enumerate() {
            let is_known = run_specs[..n].iter().any(|other| other.name == run.name);
            let message = format_args!("there is another `{}`", run.name);
            refuse_if(is_known, format!("run.{n}.name"), message)?;
            for repetition in 0..spec.measure.repetitions {
                let (case, point) = (case.map(str::to_owned), point.clone());
                let label = Label { case, point, run: run.name.clone(), repetition };
                let mut world = self.world(&schemes, (n, run), label)?;
                if n > 0 && !spec.background.is_empty() && spec.workload.arrivals == Arrivals::One {
                    let base: &Run = &runs[repetition as usize];
                    world.base = Some(Arc::new(base.clone()));
                }
                runs.push(world);
                let message = format_args!("makes more than {RUNS_MAX} worlds");
                refuse_if(runs.len() > RUNS_MAX, "measure.repetitions", message)?;
            }
        }
        Ok(runs)
    }

    /// One world: the `n`-th run, in one repetition.
    fn world(&self, schemes: &[Scheme], (n, run): (usize, &RunSpec), label: Label) -> Result<Run, Fault> {
        let Self { spec, registry, folder } = *self;
        let mut seed = derive(spec.measure.seed, u64::from(label.repetition));
        if spec.workload.arrivals == Arrivals::One {
            // Reports name it.
            seed >>= 32;
        }
        let topology = resolve::topology(&spec.topology, registry, folder, seed)?;
        let flows = |spec, key| FlowTable { spec, key, folder, topology: &topology }.workload();
        let workload = flows(&spec.workload, "workload".to_owned())?;
        let background = spec.background.iter().enumerate();
        let background = background.map(|(n, spec)| flows(spec, format!("background.{n}")));
        let background = background.collect::<Result<_, _>>()?;
        let queues = resolve::queues(&spec.queue, registry, &topology)?;
        resolve::one(spec, &queues)?;
        let run = Run {
            label,
            seed,
            queues,
            hosts: resolve::hosts(&spec.topology)?,
            assignment: resolve::assignment(run, n, schemes, &topology, seed)?,
            measure: resolve::measure(&spec.measure, &workload, &topology)?,
            topology,
            schemes: schemes.to_vec(),
            workload,
            background,
            base: None,
        };
        check_load(&run)?;
        Ok(run)
    }
}

/// Refuses more traffic than a link carries, unless the world ends at a given time: otherwise its queues and flows under way
/// would grow without end.
fn check_load(run: &Run) -> Result<(), Fault> {
    match run.offered_load() {
        Some(OfferedLoad { site, rate, share }) if share > LOAD_MAX && run.measure.until.is_none() => {
            let rate = about_rate(rate.bits_per_second() as f64);
            let message = format!(
                "offers {site} {share:.2} times its {rate}; lower `workload.load`, set `topology.rate` to the \
                 bottleneck's, or end the world with `measure.until`"
            );
            Err(Fault::new("workload", message))
        }
        _ => Ok(()),
    }
}
