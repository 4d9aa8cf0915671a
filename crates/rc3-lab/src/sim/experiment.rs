//! One experiment from its scenario to its folder.

use std::{
    fs::{self, File},
    io::{self, BufWriter},
    num::NonZero,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use rc3_sim::{
    registry::Registry,
    scenario::{Arrivals, OfferedLoad, PictureKind, Run, Scenario, ScenarioError, Spec},
    simulation::SimulationError,
    workload,
};
use rc3_text::{document::flatten, units::parse_size};
use thiserror::Error;
use toml::Value;

use super::{
    compare, coverage,
    engine::Engine,
    figures::{self, Network},
    fingerprint::fingerprint,
    links::LinkTable,
    pairs::pair,
    progress::NamedWorld,
    report::{self, Finding, Provenance},
    results::Results,
    table::{self, FlowRow},
    work::{self, World, WorldProgress},
};
use crate::document::Table;

/// Flows measured in each world of a quick run: a tenth of the scenario's, within these bounds.
const QUICK_FLOWS: RangeInclusive<u64> = 100..=500;
/// Flows before them.
const QUICK_WARM_UP: u64 = 500;
/// When measuring begins, at the latest, where it begins at a time.
const QUICK_FROM: Duration = Duration::from_millis(500);
/// Hosts at each router, where the scenario does not say.
const HOSTS: u64 = 10;

/// How worlds run and where results go.
#[derive(Debug, Clone)]
pub struct ExperimentPlan {
    /// Changes of keys, `key=value`, in order.
    pub changes: Vec<String>,
    /// The folder in which each experiment gets one.
    pub out: PathBuf,
    /// Run a small part of each experiment.
    pub quick: bool,
    /// The commit that reports name, if any.
    pub commit: Option<String>,
    /// Worlds that run at a time. Results do not depend on it.
    pub threads: NonZero<usize>,
    /// The names in scenario files.
    pub registry: Registry,
}

impl ExperimentPlan {
    /// No changes, one world at a time; results go into `out`.
    pub fn new(out: PathBuf, registry: &Registry) -> Self {
        let threads = NonZero::<usize>::MIN;
        Self { changes: Vec::new(), out, quick: false, commit: None, threads, registry: registry.clone() }
    }
}

/// Why an experiment has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// See [`ScenarioError`].
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A scenario file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// There is neither such an experiment nor such a file.
    #[error("there is no experiment `{0}`")]
    Unknown(String),
    /// The report of the paths of today has no place for it.
    #[error("`{0}` is not of one flow (`workload.arrivals = \"one\"`)")]
    NotOneFlow(String),
    /// A world could not be run.
    #[error("{label}: {message}")]
    World {
        /// Its label.
        label: String,
        /// The reason.
        message: String,
    },
    /// The world of a trace could not be run.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A result cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// Anything else.
    #[error("{message}")]
    Other {
        /// The reason.
        message: String,
        /// What to do next.
        hint: &'static str,
        /// Whether the fault is in the command line.
        is_usage: bool,
    },
}

impl ExperimentError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scenario(_) => {
                "rc3-lab sim keys prints all keys, rc3-lab sim list --toml NAME a scenario that works"
            }
            Self::Read { .. } => "check the name and the permissions of the file",
            Self::Unknown(_) => "rc3-lab sim list and rc3-lab sim today --list name them; files end in .toml",
            Self::NotOneFlow(_) => "rc3-lab sim run runs it",
            Self::World { .. } | Self::Simulation(_) => {
                "check topology, load and number of flows of the scenario"
            }
            Self::Write { .. } => "check free space and permissions, or choose another --out",
            Self::Other { hint, .. } => hint,
        }
    }

    /// Whether the fault is in the command line or in a scenario.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Scenario(_) | Self::Unknown(_) | Self::NotOneFlow(_) | Self::Simulation(_) => true,
            Self::Other { is_usage, .. } => *is_usage,
            _ => false,
        }
    }
}

/// An experiment with its worlds.
#[derive(Debug, Clone)]
pub struct Experiment {
    scenario: Scenario,
    runs: Vec<Run>,
    command: String,
}

impl Experiment {
    /// The experiment of the catalogue with this name, or the file.
    ///
    /// # Errors
    /// See [`ExperimentError`].
    pub fn load(name: &str, plan: &ExperimentPlan) -> Result<Self, ExperimentError> {
        let mut scenario = match super::catalogue::find_with(name, &plan.registry) {
            Some(known) => known?,
            None if name.ends_with(".toml") => {
                let read = fs::read_to_string(name);
                let text = read.map_err(|error| ExperimentError::Read { path: name.into(), error })?;
                Scenario::parse_with(&text, name, &plan.registry)?
            }
            None => return Err(ExperimentError::Unknown(name.to_owned())),
        };
        let small = if plan.quick { quick(&scenario, &plan.registry) } else { Vec::new() };
        for change in small.iter().chain(&plan.changes) {
            scenario.set(change)?;
        }
        let runs = scenario.expand()?;
        let changes: String =
            plan.changes.iter().map(|change| format!(" --set {}", quoted(change))).collect();
        let quick = if plan.quick { " --quick" } else { "" };
        let command = format!("rc3-lab sim run {}{quick}{changes}", quoted(name));
        Ok(Self { scenario, runs, command })
    }

    /// Those of these names and files, all of them first: a mistake in the last one should not show after an hour.
    ///
    /// # Errors
    /// See [`ExperimentError`]; if two have one name, which is that of their folder and in their results.
    pub fn load_all(names: &[String], plan: &ExperimentPlan) -> Result<Vec<Self>, ExperimentError> {
        let mut loaded: Vec<Self> = Vec::new();
        for name in names {
            let next = Self::load(name, plan)?;
            if let Some(place) = loaded.iter().position(|known| known.name() == next.name()) {
                let message = format!("{} and {name} both have the name `{}`", names[place], next.name());
                let hint = "change `name` in one of the files, or run them one by one with an --out each";
                return Err(ExperimentError::Other { message, hint, is_usage: true });
            }
            loaded.push(next);
        }
        Ok(loaded)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.scenario.spec().name
    }

    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The worlds.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// See [`fingerprint`].
    ///
    /// # Errors
    /// See [`ExperimentError`].
    pub fn fingerprint(&self) -> Result<String, ExperimentError> {
        fingerprint(&self.scenario)
    }

    /// About how many flows all worlds have together, see [`flows_of`].
    pub fn flows(&self) -> u64 {
        self.runs.iter().map(flows_of).sum()
    }

    /// The largest load that random arrivals offer to a link in any world.
    pub fn offered_load(&self) -> Option<OfferedLoad> {
        let loads = self.runs.iter().filter_map(Run::offered_load);
        loads.reduce(|most, next| if next.share > most.share { next } else { most })
    }

    /// Runs all worlds and writes everything into the experiment's folder below `plan.out`.
    ///
    /// # Errors
    /// See [`ExperimentError`].
    pub fn run(
        &self,
        engine: &dyn Engine,
        plan: &ExperimentPlan,
        mut report: impl FnMut(&WorldProgress),
    ) -> Result<Finding, ExperimentError> {
        let folder = plan.out.join(&self.scenario.spec().name);
        fs::create_dir_all(&folder).map_err(not_written(&folder))?;
        // Those of an earlier run stay beside its report until all worlds have ended.
        let (flows_path, links_path) = (folder.join("flows.part"), folder.join("links.part"));
        let create = |path: &Path| File::create(path).map(BufWriter::new).map_err(not_written(path));
        let mut flows = csv::Writer::from_writer(create(&flows_path)?);
        let links_failed = |error: csv::Error| not_written(&links_path)(error.into());
        let mut links = LinkTable::new(create(&links_path)?).map_err(links_failed)?;

        let mut results = Results::default();
        let mut unpaired = Vec::new();
        work::run(engine, &self.worlds(), plan.threads, |step| {
            report(&step);
            if let WorldProgress::World(index, outcome) = step {
                let run = &self.runs[index];
                for record in &outcome.records {
                    let row = FlowRow::new(run, record);
                    flows.serialize(row).map_err(io::Error::from).map_err(not_written(&flows_path))?;
                }
                links.add(run, &outcome.links).map_err(links_failed)?;
                unpaired.push((run, *outcome));
                // The worlds of a setting follow one another.
                let next = self.runs.get(index + 1);
                if !run.measure.pair || next.is_none_or(|next| !next.label.is_of_setting(&run.label)) {
                    if run.measure.pair {
                        pair(&mut unpaired);
                    }
                    unpaired.drain(..).for_each(|(run, outcome)| results.add(run, outcome));
                }
            }
            Ok::<(), ExperimentError>(())
        })?;
        flows.flush().map_err(not_written(&flows_path))?;
        drop(flows);
        let links = links.finish().map_err(links_failed)?;
        for part in [&flows_path, &links_path] {
            fs::rename(part, part.with_extension("csv")).map_err(not_written(part))?;
        }
        let provenance = Provenance { commit: plan.commit.clone(), fingerprint: self.fingerprint()? };
        self.write(&folder, &results, links, &provenance)
    }

    /// Writes the summary, the scenario, the pictures and the documents.
    fn write(
        &self,
        folder: &Path,
        results: &Results,
        links: Table,
        provenance: &Provenance,
    ) -> Result<Finding, ExperimentError> {
        let spec = self.scenario.spec();
        let write = |name: &str, contents: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, contents).map_err(not_written(&path))
        };
        let summary = table::summary(results, &table::buckets(results));
        write("summary.csv", &csv_text(&summary, folder)?)?;
        write("scenario.toml", self.scenario.to_toml().as_bytes())?;

        let rows = compare::compare(spec, results);
        write("comparison.csv", &csv_text(&coverage::figures(&rows), folder)?)?;
        let mut pictures = Vec::new();
        for (index, wanted) in spec.picture.iter().enumerate() {
            let Some(chart) = figures::chart(wanted, spec, results, self.network()) else { continue };
            let stem = if index == 0 { spec.name.clone() } else { format!("{}-{}", spec.name, index + 1) };
            rc3_picture::write(&chart, folder, &stem).map_err(not_written(&folder.join(&stem)))?;
            pictures.push((format!("{stem}.svg"), chart.title));
        }
        let finding = Finding {
            spec: spec.clone(),
            command: self.command.clone(),
            measured: report::measured(spec.measure.seed, &self.runs, provenance),
            pictures,
            rows,
            summary,
            over_time: report::over_time(spec, &self.runs, results),
            links,
            cost: results.cost,
        };
        finding.document().write(folder).map_err(not_written(folder))?;
        Ok(finding)
    }

    /// Its worlds, as [`work::run`] takes them.
    pub fn worlds(&self) -> Vec<World<'_>> {
        let trace = self.is_traced();
        self.runs.iter().map(|run| World { run, trace }).collect()
    }

    /// The same, each with the experiment's name and its place there.
    pub fn named_worlds(&self) -> impl Iterator<Item = NamedWorld<'_>> {
        self.worlds().into_iter().enumerate().map(|(place, world)| (self.name(), place, world))
    }

    /// Whether a picture shows the packets of the first flow.
    fn is_traced(&self) -> bool {
        let traced = |kind| matches!(kind, PictureKind::TimeLine | PictureKind::PacketsByRound);
        self.scenario.spec().picture.iter().any(|picture| traced(picture.kind))
    }

    fn network(&self) -> Network {
        let nominal = self.runs.first().map(|run| run.topology.nominal);
        Network {
            rate: nominal.map_or(125e6, |nominal| nominal.rate.bits_per_second() as f64 / 8.0),
            rtt: nominal.map_or(Duration::from_millis(40), |nominal| nominal.rtt),
            load: self.scenario.spec().workload.load.map_or(0.0, |load| load.get()),
        }
    }
}

/// About how many flows a world has: those measured and those before them. Flows beside them, and those that arrive while the
/// last ones end, are not known beforehand.
pub fn flows_of(run: &Run) -> u64 {
    let wanted = run.measure.flows.saturating_add(run.measure.warm_up);
    let by_then = run.measure.until.and_then(|until| match &run.workload.arrivals {
        workload::ArrivalProcess::Poisson(poisson) => {
            Some(until.div_duration_f64(poisson.mean_gap(&run.topology)?) as u64)
        }
        _ => None,
    });
    wanted.min(run.workload.count().or(by_then).unwrap_or(wanted))
}

/// Changes that make a scenario quick: one repetition of a tenth of the flows, 500 at most, and fewer hosts at each router.
///
/// The bottleneck of a path is the uplink of its host, so that fewer hosts give the same completion times with fewer
/// flows per second, and less to simulate until the last measured flow has ended.
fn quick(scenario: &Scenario, registry: &Registry) -> Vec<String> {
    let (spec, measure) = (scenario.spec(), &scenario.spec().measure);
    if spec.workload.arrivals == Arrivals::One {
        return quick_paths(spec);
    }
    let fewer = spec.topology.hosts.is_none() && has_ten_hosts(&spec.topology.kind, registry);
    let mut changes = vec!["measure.repetitions=1".to_owned()];
    if measure.until.is_none() {
        let tenth = (measure.flows() / 10).clamp(*QUICK_FLOWS.start(), *QUICK_FLOWS.end());
        changes.push(format!("measure.flows={}", measure.flows().min(tenth)));
    }
    if fewer {
        changes.push(format!("topology.hosts={}", measure.quick_hosts));
    }
    // Cases with ends of their own have long round trips.
    let ends = spec.case.iter().any(|case| flatten(&case.set).iter().any(|(key, _)| key == "measure.until"));
    if let (Some(from), Some(until), false) = (measure.from, measure.until, ends) {
        // As long, and sooner.
        let earlier = from.saturating_sub(QUICK_FROM);
        changes.push(format!("measure.from={}us", (from - earlier).as_micros()));
        changes.push(format!("measure.until={}us", (until - earlier).as_micros()));
    }
    match measure.warm_up {
        // The same time at fewer flows per second.
        Some(flows) if fewer => {
            changes.push(format!("measure.warm-up={}", flows * u64::from(measure.quick_hosts) / HOSTS));
        }
        None if spec.workload.arrivals == Arrivals::Poisson && measure.from.is_none() => {
            changes.push(format!("measure.warm-up={QUICK_WARM_UP}"));
        }
        _ => {}
    }
    changes
}

/// Changes that leave a few of the paths of a sweep, those that run fastest: the smaller rates and round trips, every other
/// buffer, up to 3 MB, one seed.
fn quick_paths(spec: &Spec) -> Vec<String> {
    let fewer = |(key, values): (String, &Value)| {
        let values = values.as_array()?.as_slice();
        let rest = values.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(values);
        let is_small = |value: &&Value| {
            value.as_str().and_then(|size| parse_size(size).ok()).is_some_and(|bytes| bytes <= 3_000_000)
        };
        let few: Vec<Value> = match key.as_str() {
            "topology.rate" | "topology.rtt" => values.iter().take(2).cloned().collect(),
            "queue.buffer" => rest.iter().step_by(2).cloned().collect(),
            "workload.size" => values.iter().step_by(2).filter(is_small).cloned().collect(),
            "measure.seed" => values.iter().take(1).cloned().collect(),
            _ => return None,
        };
        // Of large sizes alone the first remains.
        let few = if few.is_empty() { values.iter().take(1).cloned().collect() } else { few };
        Some(format!("sweep.{key}={}", Value::Array(few)))
    };
    flatten(&spec.sweep).into_iter().filter_map(fewer).collect()
}

/// Whether routers of this topology have ten hosts by default. A fat tree, whose key is `ports`, has a number of its own.
fn has_ten_hosts(kind: &str, registry: &Registry) -> bool {
    let known = registry.topologies.get(kind);
    known.is_some_and(|kind| kind.keys.contains(&"hosts") && !kind.keys.contains(&"ports"))
}

/// Rows as the text of a file in `folder`.
fn csv_text<T: serde::Serialize>(rows: &[T], folder: &Path) -> Result<Vec<u8>, ExperimentError> {
    let mut text = Vec::new();
    table::write(&mut text, rows).map_err(io::Error::from).map_err(not_written(folder))?;
    Ok(text)
}

/// The error of a file that cannot be written.
pub(super) fn not_written(path: &Path) -> impl Fn(io::Error) -> ExperimentError + use<> {
    let path = path.to_owned();
    move |error| ExperimentError::Write { path: path.clone(), error }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "._-/=,".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
