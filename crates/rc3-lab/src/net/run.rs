//! `rc3-lab net run`: the plan of a run, and its measurements one after the other.

use std::{
    fs, io,
    path::{Path as File, PathBuf},
    time::Duration,
};

use kickass_tools::probe::message::ATTEMPTS_MAX;
use rc3_core::units::Rate;
use rc3_link::Trace;

use super::{
    args::NetRunArgs,
    cell::{Cell, Company},
    check,
    error::NetError,
    experiment::{self, Experiment, Job, Options, Place},
    fragments::{self, Probed},
    interrupt,
    machine::{self, Machine},
    path::Path,
    priorities::{self, First},
    progress::Progress,
    report::{self, About, Figures, Fragments, Priorities},
    results::Results,
    scheme::{self, Scheme},
    session::{Outcome, Session},
    site::{Site, Wan},
    validate,
};
use crate::sockets::peers;

/// Turns of each scheme, unless the command line says otherwise.
const RUNS: u32 = 10;
const RUNS_QUICK: u32 = 3;
/// About how long the checks of a path take.
const CHECKS: Duration = Duration::from_secs(8);

/// A run as typed, before anything is made.
#[derive(Debug)]
pub struct Plan {
    args: NetRunArgs,
    schemes: Vec<Scheme>,
    jobs: Vec<(&'static Experiment, Job)>,
    runs: u32,
}

impl Plan {
    /// What the command line means on this host.
    ///
    /// # Errors
    /// If it names what does not exist, or the host lacks something.
    pub fn new(args: NetRunArgs) -> Result<Self, NetError> {
        let peers = peers::find(args.peers.as_deref());
        let schemes = scheme::chosen(Scheme::all(peers.as_deref()), &args.schemes)?;
        let options = Options {
            rate: args.rate,
            rtt: args.rtt,
            sizes: args.sizes.clone(),
            traces: args.trace.iter().map(|file| trace(file)).collect::<Result<_, _>>()?,
            quick: args.quick,
        };
        let jobs: Vec<_> = experiment::chosen(&args.names)?
            .into_iter()
            .map(|experiment| (experiment, experiment.job(&options)))
            .collect();
        if jobs.iter().any(|(_, job)| *job == Job::Flows(Vec::new())) {
            return Err(NetError::NoTrace);
        }
        check::require(&check::requirements(peers.as_deref()))?;
        let runs = args.runs.unwrap_or(if args.quick { RUNS_QUICK } else { RUNS });
        Ok(Self { args, schemes, jobs, runs })
    }

    /// About how long it takes.
    fn estimate(&self) -> Duration {
        let job = |(_, job): &(&Experiment, Job)| match job {
            Job::Priorities(..) => priorities::estimate() * 2,
            Job::Fragments(paths) => fragments::estimate(self.tries()) * paths.len() as u32,
            Job::Flows(cells) => cells.iter().map(|cell| self.turn(cell) * self.runs).sum(),
        };
        self.jobs.iter().map(job).sum::<Duration>() + CHECKS * self.paths().len() as u32
    }

    /// One turn of everybody in a cell.
    fn turn(&self, cell: &Cell) -> Duration {
        cell.estimate() * (self.schemes.len() + usize::from(cell.company != Company::Nobody)) as u32
    }

    /// How often a probe tries each length.
    fn tries(&self) -> u8 {
        u8::try_from(self.runs.min(u32::from(ATTEMPTS_MAX))).unwrap_or(u8::MAX)
    }

    /// One path for each rate and round-trip time.
    fn paths(&self) -> Vec<Path> {
        let mut paths: Vec<Path> = Vec::new();
        let all = self.jobs.iter().flat_map(|(_, job)| match job {
            Job::Flows(cells) => cells.iter().map(|cell| &cell.path).collect(),
            Job::Priorities(_, path) => vec![path],
            Job::Fragments(paths) => paths.iter().map(|(_, path)| path).collect(),
        });
        for path in all {
            if paths.iter().all(|known| (known.rate, known.rtt) != (path.rate, path.rtt)) {
                paths.push(Path::new(path.rate, path.rtt));
            }
        }
        paths
    }

    /// Measures everything. After each cell the measurements so far are in the folder, at the end or after a failure the
    /// report.
    ///
    /// # Errors
    /// If something fails.
    pub fn run(self) -> Result<(), NetError> {
        let removed = check::clean()?;
        let mut run = Running::new(self)?;
        for name in removed {
            run.progress
                .note(&format!("removed {name}, left over by a laboratory that is no longer running"));
        }
        let done = run.measure();
        run.report()?;
        done?;
        let out = run.plan.args.out.display().to_string();
        run.progress.finish(&out);
        busy(&run.results)?;
        match run.results.failures.as_slice() {
            [] => Ok(()),
            failures => {
                Err(NetError::Failed { turns: failures.len(), last: failures[failures.len() - 1].clone() })
            }
        }
    }
}

/// A trace with its absolute path, which the WAN reads, and its mean rate.
fn trace(file: &File) -> Result<(PathBuf, Rate), NetError> {
    let failed = |source| NetError::File { path: file.to_owned(), source };
    let text = fs::read_to_string(file).map_err(failed)?;
    let trace: Trace = text.parse().map_err(|error| failed(io::Error::other(error)))?;
    Ok((std::path::absolute(file)?, trace.mean_rate()))
}

/// An error if more flows were left out than count.
fn busy(results: &Results) -> Result<(), NetError> {
    let out = results.flows.iter().filter(|flow| !flow.counts);
    let late = out.clone().map(|flow| flow.late_p99_s).fold(0.0, f64::max);
    if out.count() * 2 <= results.flows.len() {
        return Ok(());
    }
    let limit = results.cells.first().map_or(Duration::ZERO, |(_, cell)| results.lateness_limit(&cell.path));
    Err(NetError::Busy { late: Duration::from_secs_f64(late), limit })
}

struct Running {
    plan: Plan,
    site: Site,
    progress: Progress,
    results: Results,
    figures: Figures,
    load: f64,
}

impl Running {
    fn new(plan: Plan) -> Result<Self, NetError> {
        let out = &plan.args.out;
        fs::create_dir_all(out).map_err(|source| NetError::File { path: out.clone(), source })?;
        let progress = Progress::new(plan.estimate(), plan.args.json);
        let schemes = plan.schemes.iter().map(|scheme| scheme.name.clone()).collect();
        let results = Results { schemes, lateness: plan.args.lateness, ..Results::default() };
        Ok(Self {
            site: Site::new()?,
            plan,
            progress,
            results,
            figures: Figures::default(),
            load: machine::load(),
        })
    }

    fn measure(&mut self) -> Result<(), NetError> {
        self.validate()?;
        for (experiment, job) in self.plan.jobs.clone() {
            match job {
                Job::Flows(cells) => cells.iter().try_for_each(|cell| self.cell(experiment, cell))?,
                Job::Priorities(place, path) => self.priorities(experiment, place, &path)?,
                Job::Fragments(paths) => self.fragments(experiment, &paths)?,
            }
        }
        Ok(())
    }

    /// Checks each path before anything is measured on one.
    fn validate(&mut self) -> Result<(), NetError> {
        for path in self.plan.paths() {
            self.progress.begin(&format!("checking {path}"));
            let checks = validate::validate(&self.site, &path, self.results.lateness_limit(&path))?;
            self.results.checks.extend(checks.clone());
            validate::require(&checks)?;
            self.progress.end(CHECKS);
        }
        Ok(())
    }

    /// Lets all schemes take their turns in a cell.
    fn cell(&mut self, experiment: &Experiment, cell: &Cell) -> Result<(), NetError> {
        self.results.cells.push((experiment.name.to_owned(), cell.clone()));
        self.site.set_card(&cell.path)?;
        for run in 1..=self.plan.runs {
            for nth in order(self.plan.schemes.len(), run) {
                let scheme = self.plan.schemes[nth].clone();
                self.turn(experiment, cell, run, Some(&scheme))?;
            }
            if cell.company != Company::Nobody {
                self.turn(experiment, cell, run, None)?;
            }
        }
        self.results.write_csv(&self.plan.args.out)
    }

    fn turn(
        &mut self,
        experiment: &Experiment,
        cell: &Cell,
        run: u32,
        scheme: Option<&Scheme>,
    ) -> Result<(), NetError> {
        interrupt::check()?;
        let name = scheme.map_or("nobody", |scheme| &scheme.name);
        self.progress.begin(&format!("{}, run {run} of {}, {name}", cell.name, self.plan.runs));
        let lateness = self.results.lateness_limit(&cell.path);
        let session = Session { site: &self.site, experiment: experiment.name, cell, run, lateness };
        // A WAN for each turn: its queue, its losses and its trace begin anew, alike for all in this run.
        let mut wan: Wan<'_> = self.site.start_wan(&cell.path, u64::from(run), None)?;
        match session.run(&mut wan, scheme) {
            Ok(Outcome { flows, others }) => {
                self.results.flows.extend(flows);
                self.results.others.extend(others);
            }
            Err(NetError::Interrupted) => return Err(NetError::Interrupted),
            // One flow that fails should not end a run of hours.
            Err(error) => {
                let failure = format!("{}, run {run}, {name}: {error}", cell.name);
                self.progress.note(&failure);
                self.results.failures.push(failure);
            }
        }
        drop(wan);
        self.progress.end(cell.estimate());
        Ok(())
    }

    fn priorities(&mut self, experiment: &Experiment, place: Place, path: &Path) -> Result<(), NetError> {
        let mut measured = Vec::new();
        for first in First::ALL {
            self.progress.begin(&format!("{}, {}", experiment.name, first.about()));
            let file = format!(
                "{}-{}.csv",
                experiment.name,
                if first == First::Low { "low-first" } else { "high-first" }
            );
            let file = std::path::absolute(self.plan.args.out.join(file))?;
            measured.push((first, priorities::run(&self.site, path, first, &file)?));
            self.progress.end(priorities::estimate());
        }
        let what = match place {
            Place::Card => "queue with priorities at the sender's card",
            Place::Router => "queue with priorities at the router",
        };
        self.figures.priorities.push(Priorities {
            name: experiment.name.to_owned(),
            path: format!("{path}; {what}"),
            measured,
        });
        Ok(())
    }

    fn fragments(&mut self, experiment: &Experiment, paths: &[(String, Path)]) -> Result<(), NetError> {
        let tries = self.plan.tries();
        let mut probed = Vec::new();
        for (name, path) in paths {
            self.progress.begin(&format!("{}, {name}", experiment.name));
            let report = fragments::run(&self.site, path, tries)?;
            probed.push(Probed { name: name.clone(), loss: path.loss, report });
            self.progress.end(fragments::estimate(tries));
        }
        let path = paths.first().map_or_else(String::new, |(_, path)| path.to_string());
        self.figures.fragments.push(Fragments { name: experiment.name.to_owned(), path, tries, probed });
        Ok(())
    }

    /// Writes measurements and report.
    fn report(&self) -> Result<(), NetError> {
        let about = About {
            command: command(),
            machine: Machine::this(),
            load: [self.load, machine::load()],
            schemes: self.plan.schemes.clone(),
            runs: self.plan.runs,
        };
        report::write(&self.plan.args.out, &about, &self.results, &self.figures)
    }
}

/// The command line, with the name of the program instead of its path.
fn command() -> String {
    std::iter::once(crate::NAME.to_owned()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ")
}

/// The order of turns in a run: each time another one begins, and every second time it goes backwards.
fn order(count: usize, run: u32) -> Vec<usize> {
    let first = run as usize;
    let forwards = (0..count).map(|nth| (nth + first) % count);
    if run.is_multiple_of(2) { forwards.rev().collect() } else { forwards.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::results::tests::{cell, flow};

    #[test]
    fn everybody_has_a_turn_in_each_run_and_somebody_else_begins() {
        let orders: Vec<Vec<usize>> = (1..=4).map(|run| order(4, run)).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        assert_eq!(orders[0], [1, 2, 3, 0]);
        assert_eq!(orders[1], [1, 0, 3, 2]);
        assert!(order(0, 1).is_empty());
    }

    #[test]
    fn a_run_that_is_mostly_late_is_refused() {
        let cell = cell("idle", Company::Nobody, 1);
        let mut flows: Vec<_> = (1..=4).map(|run| flow(&cell, "rc3", 10_000, run, 1.0)).collect();
        let results = |flows: &[_]| Results {
            cells: vec![("idle".to_owned(), cell.clone())],
            flows: flows.to_vec(),
            ..Results::default()
        };
        for flow in &mut flows[..2] {
            flow.counts = false;
            flow.late_p99_s = 0.007;
        }
        assert!(busy(&results(&flows)).is_ok());
        flows[2].counts = false;
        let error = busy(&results(&flows)).unwrap_err().to_string();
        assert!(error.contains("7 ms late, the limit is 2 ms"), "{error}");
    }
}
