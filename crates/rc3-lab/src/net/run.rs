//! `rc3-lab net run`: the plan of a run, and its measurements one after the other.

use std::{
    fs, io,
    path::{Path as File, PathBuf},
    rc::Rc,
    time::Duration,
};

use rc3_core::units::Rate;
use rc3_link::Trace;

use super::{
    args::NetRunArgs,
    cell::{Cell, Company},
    check,
    error::NetError,
    experiment::{self, Experiment, Options, Work},
    interrupt,
    machine::{self, Machine},
    namespace,
    path::Path,
    peers,
    progress::Progress,
    report::{self, About, Section},
    results::Results,
    scheme::{self, Scheme},
    session::{Outcome, Session},
    site::{Site, Wan},
    validate,
};

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

/// A run: what it measures with, and what it has measured.
#[derive(Debug)]
pub struct Lab {
    /// What the command line changes.
    pub options: Options,
    /// All schemes of this host.
    pub all: Vec<Scheme>,
    /// Those that flows are measured of.
    schemes: Vec<Scheme>,
    experiments: Vec<&'static Experiment>,
    site: Option<Rc<Site>>,
    progress: Progress,
    results: Results,
    sections: Vec<Section>,
    load: f64,
}

impl Lab {
    /// What the command line means on this host, before anything is made.
    ///
    /// # Errors
    /// If it names what does not exist, or the host lacks something.
    pub fn new(args: NetRunArgs) -> Result<Self, NetError> {
        let peers = peers::find(args.peers.as_deref());
        let all = Scheme::all(peers.as_deref());
        let schemes = scheme::chosen(all.clone(), &args.schemes)?;
        let experiments = experiment::chosen(&args.names)?;
        let traces = args.trace.iter().map(|file| trace(file)).collect::<Result<_, _>>()?;
        let options = Options { args, traces };
        let is_empty = |experiment: &&Experiment| matches!(experiment.work, Work::Flows(cells) if cells(&options).is_empty());
        if experiments.iter().any(is_empty) {
            return Err(NetError::NoTrace);
        }
        if experiments.iter().any(|experiment| experiment.needs_namespaces()) {
            check::require(&check::requirements(peers.as_deref()))?;
        }
        let progress = Progress::default();
        let names = schemes.iter().map(|scheme| scheme.name.clone()).collect();
        let results = Results { schemes: names, lateness: options.args.lateness, ..Results::default() };
        let (site, sections, load) = (None, Vec::new(), machine::load());
        Ok(Self { options, all, schemes, experiments, site, progress, results, sections, load })
    }

    /// Measures everything. After each cell the measurements so far are in the folder, at the end or after a failure the
    /// report.
    ///
    /// # Errors
    /// If something fails.
    pub fn run(mut self) -> Result<(), NetError> {
        let out = self.options.args.out.clone();
        fs::create_dir_all(&out).map_err(|source| NetError::File { path: out.clone(), source })?;
        if self.experiments.iter().any(|experiment| experiment.needs_namespaces()) {
            for name in namespace::remove_left_over()? {
                let why = "left over by a laboratory that is no longer running";
                self.progress.note(&format!("removed {name}, {why}"));
            }
        }
        let done = self.measure();
        self.report()?;
        done?;
        self.progress.note(&format!("done: {}/report.md", out.display()));
        busy(&self.results)?;
        match self.results.failures.as_slice() {
            [] => Ok(()),
            [.., last] => Err(NetError::Failed { turns: self.results.failures.len(), last: last.clone() }),
        }
    }

    /// The hosts and the router of the WAN.
    ///
    /// # Errors
    /// If they cannot be made.
    pub fn site(&mut self) -> Result<Rc<Site>, NetError> {
        let site = match self.site.take() {
            Some(site) => site,
            None => Rc::new(Site::new()?),
        };
        Ok(self.site.insert(site).clone())
    }

    /// Does one step of an experiment.
    ///
    /// # Errors
    /// If it fails, or the laboratory is interrupted.
    pub fn step<T>(&mut self, what: &str, step: impl FnOnce() -> Result<T, NetError>) -> Result<T, NetError> {
        interrupt::check()?;
        self.progress.begin(what);
        step()
    }

    /// Lets so many take their turns, in another order each time. Returns what each measured, by run.
    ///
    /// # Errors
    /// If a turn fails.
    pub fn turns<T>(
        &mut self,
        names: &[String],
        mut turn: impl FnMut(usize) -> Result<T, NetError>,
    ) -> Result<Vec<Vec<T>>, NetError> {
        let runs = self.options.runs();
        let mut measured: Vec<Vec<T>> = names.iter().map(|_| Vec::new()).collect();
        for run in 1..=runs {
            for nth in order(names.len(), run) {
                let what = format!("{}, run {run} of {runs}", names[nth]);
                measured[nth].push(self.step(&what, || turn(nth))?);
            }
        }
        Ok(measured)
    }

    fn measure(&mut self) -> Result<(), NetError> {
        self.validate()?;
        for experiment in self.experiments.clone() {
            match experiment.work {
                Work::Flows(cells) => {
                    cells(&self.options).iter().try_for_each(|cell| self.cell(experiment, cell))?;
                }
                Work::Other { measure, .. } => {
                    let sections = measure(self)?;
                    self.sections.extend(sections);
                }
            }
        }
        Ok(())
    }

    /// Checks each path before anything is measured on one.
    fn validate(&mut self) -> Result<(), NetError> {
        for path in paths(&self.experiments, &self.options) {
            let (site, limit) = (self.site()?, self.results.lateness_limit(&path));
            let checks =
                self.step(&format!("checking {path}"), || validate::validate(&site, &path, limit))?;
            self.results.checks.extend(checks.clone());
            validate::require(&checks)?;
        }
        Ok(())
    }

    /// Lets all schemes take their turns in a cell.
    fn cell(&mut self, experiment: &Experiment, cell: &Cell) -> Result<(), NetError> {
        self.results.cells.push((experiment.name.to_owned(), cell.clone()));
        self.site()?.set_card(&cell.path)?;
        for run in 1..=self.options.runs() {
            for nth in order(self.schemes.len(), run) {
                let scheme = self.schemes[nth].clone();
                self.turn(experiment, cell, run, Some(&scheme))?;
            }
            if cell.company != Company::Nobody {
                self.turn(experiment, cell, run, None)?;
            }
        }
        self.results.write_csv(&self.options.args.out)
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
        self.progress.begin(&format!("{}, run {run} of {}, {name}", cell.name, self.options.runs()));
        let (site, lateness) = (self.site()?, self.results.lateness_limit(&cell.path));
        let session = Session { site: &site, experiment: experiment.name, cell, run, lateness };
        // A WAN for each turn: its queue, its losses and its trace begin anew, alike for all in this run.
        let mut wan: Wan<'_> = site.start_wan(&cell.path, u64::from(run), None)?;
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
        Ok(())
    }

    /// Writes measurements and report.
    fn report(&mut self) -> Result<(), NetError> {
        let about = About {
            command: command(),
            machine: Machine::this(),
            load: [self.load, machine::load()],
            schemes: self.schemes.clone(),
            runs: self.options.runs(),
        };
        let out = &self.options.args.out;
        if !self.results.checks.is_empty() {
            self.results.write_csv(out)?;
        }
        report::write(out, &about, &self.results, std::mem::take(&mut self.sections))
    }
}

/// One path for each rate and round-trip time that the WAN has.
fn paths(experiments: &[&Experiment], options: &Options) -> Vec<Path> {
    let mut paths: Vec<Path> = Vec::new();
    for path in experiments.iter().flat_map(|experiment| experiment.paths(options)) {
        if paths.iter().all(|known| (known.rate, known.rtt) != (path.rate, path.rtt)) {
            paths.push(Path::new(path.rate, path.rtt));
        }
    }
    paths
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
