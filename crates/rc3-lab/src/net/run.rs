//! `rc3-lab net run`: the plan of a run, and its measurements one after the other.

use std::{
    fs,
    num::NonZero,
    path::PathBuf,
    rc::Rc,
    time::{Duration, Instant},
};

use rc3_link::Trace;

use super::{
    args::NetRunArgs,
    cell::{Cell, Company},
    check,
    error::NetError,
    experiment::{self, Experiment, Options, Work},
    interrupt, namespace,
    path::Path,
    recipe, report,
    results::Results,
    scheme::Scheme,
    session::Session,
    site::Site,
    validate,
};

/// Lines on standard error appear so often at most.
const LINE_EVERY: Duration = Duration::from_secs(10);

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
    /// What it has measured.
    pub results: Results,
    peers: Option<PathBuf>,
    /// Those that flows are measured of.
    schemes: Vec<Scheme>,
    /// Those that were measured, in cells or elsewhere.
    measured: Vec<Scheme>,
    /// Turns of those that took most; none if nothing takes turns.
    turns: u32,
    experiments: Vec<&'static Experiment>,
    site: Option<Rc<Site>>,
    load: f64,
    began: Instant,
    printed: Option<Instant>,
}

impl Lab {
    /// What the command line means on this host, before anything is made.
    ///
    /// # Errors
    /// If it names what does not exist, or the host lacks something.
    pub fn new(args: NetRunArgs) -> Result<Self, NetError> {
        let peers = check::peers(args.peers.as_deref())?;
        let schemes = Scheme::chosen(&args.schemes, peers.as_deref())?;
        let experiments = experiment::chosen(&args.names)?;
        let trace = |file: &PathBuf| {
            let failed = |source| NetError::File { path: file.clone(), source };
            let text = fs::read_to_string(file).map_err(failed)?;
            let trace: Trace = text.parse().map_err(|error| failed(std::io::Error::other(error)))?;
            let rate = NonZero::new(trace.mean_rate().bits_per_second()).ok_or(NetError::NoTrace)?;
            Ok((std::path::absolute(file)?, rate))
        };
        let traces = args.trace.iter().map(trace).collect::<Result<_, NetError>>()?;
        let options = Options { args, traces };
        let is_empty = |experiment: &&Experiment| matches!(experiment.work, Work::Flows(cells) if cells(&options).is_empty());
        if experiments.iter().any(is_empty) {
            return Err(NetError::NoTrace);
        }
        experiments.iter().try_for_each(|experiment| (experiment.require)(&options))?;
        if !experiments.iter().all(|experiment| experiment.is_local()) {
            check::require(&check::requirements(peers.as_deref()))?;
        }
        let names = schemes.iter().map(|scheme| scheme.name.clone()).collect();
        let results = Results { schemes: names, lateness: options.args.lateness, ..Results::default() };
        let (began, load) = (Instant::now(), report::load());
        Ok(Self {
            options,
            results,
            peers,
            schemes,
            measured: Vec::new(),
            turns: 0,
            experiments,
            site: None,
            load,
            began,
            printed: None,
        })
    }

    /// Measures everything. After each cell the measurements so far are in the folder, at the end or after a failure the
    /// report.
    pub fn run(mut self) -> Result<(), NetError> {
        let out = self.options.args.out.clone();
        fs::create_dir_all(&out).map_err(|source| NetError::File { path: out.clone(), source })?;
        if !self.experiments.iter().all(|experiment| experiment.is_local()) {
            for name in namespace::remove_left_over()? {
                self.print_note(&format!(
                    "removed {name}, left over by a laboratory that is no longer running"
                ));
            }
        }
        let mut sections = Vec::new();
        let done = self.experiments.clone().into_iter().try_for_each(|experiment| match experiment.work {
            Work::Flows(cells) => {
                cells(&self.options).iter().try_for_each(|cell| self.cell(experiment.name, cell))
            }
            Work::Local(measure) | Work::Namespaces(measure) => {
                sections.extend(measure(&mut self)?);
                interrupt::check()
            }
        });
        let load = [self.load, report::load()];
        let is_whole = done.is_ok() && self.results.failures.is_empty();
        let turns = (self.turns > 0).then_some((self.turns, is_whole));
        let head = report::head(command(), load, &self.measured, turns);
        if !(self.results.checks.is_empty() && self.results.flows.is_empty()) {
            self.results.write_csv(&out)?;
        }
        report::document(head, &self.results, sections)
            .write(&out)
            .map_err(|source| NetError::File { path: out.clone(), source })?;
        done?;
        self.print_note(&format!("done: {}/report.md", out.display()));
        busy(&self.results)?;
        match self.results.failures.as_slice() {
            [] => Ok(()),
            [.., last] => Err(NetError::Failed { turns: self.results.failures.len(), last: last.clone() }),
        }
    }

    /// The hosts and the router of the WAN, which is checked on the first path of each rate and round-trip time.
    ///
    /// # Errors
    /// If they cannot be made, or the WAN does not do what it should.
    pub fn site(&mut self, path: &Path) -> Result<Rc<Site>, NetError> {
        let site = match &self.site {
            Some(site) => site.clone(),
            None => self.site.insert(Rc::new(Site::new()?)).clone(),
        };
        let plain = Path::new(path.rate, path.rtt);
        let (name, limit) = (plain.to_string(), self.results.lateness_limit(&plain));
        if self.results.checks.iter().all(|check| check.path != name) {
            let checks =
                self.step(&format!("checking {name}"), || validate::validate(&site, &plain, limit))?;
            self.results.checks.extend(checks.clone());
            validate::require(&checks)?;
        }
        Ok(site)
    }

    /// The schemes typed, or those of these names that this host has.
    ///
    /// # Errors
    /// If a typed one is not there.
    pub fn schemes(&mut self, usual: &[&str]) -> Result<Vec<Scheme>, NetError> {
        let (typed, peers) = (&self.options.args.schemes, self.peers.as_deref());
        let here = |name: &&str| Scheme::chosen(&[(*name).to_owned()], peers).ok()?.pop();
        let schemes = match typed.as_slice() {
            [] => usual.iter().filter_map(here).collect(),
            typed => Scheme::chosen(typed, peers)?,
        };
        self.note_measured(&schemes);
        Ok(schemes)
    }

    /// The report has their versions.
    fn note_measured(&mut self, schemes: &[Scheme]) {
        for scheme in schemes {
            if !self.measured.contains(scheme) {
                self.measured.push(scheme.clone());
            }
        }
    }

    /// Something is not measured, which the report says.
    fn leave_out(&mut self, what: String) {
        if !self.results.left_out.contains(&what) {
            self.print_note(&format!("left out: {what}"));
            self.results.left_out.push(what);
        }
    }

    /// Prints something to know, with the time since the start.
    fn print_note(&self, text: &str) {
        let seconds = self.began.elapsed().as_secs();
        eprintln!("{}:{:02}: {text}", seconds / 60, seconds % 60);
    }

    /// Does one step of an experiment.
    ///
    /// # Errors
    /// If it fails, or the laboratory is interrupted.
    pub fn step<T>(&mut self, what: &str, step: impl FnOnce() -> Result<T, NetError>) -> Result<T, NetError> {
        interrupt::check()?;
        if self.printed.is_none_or(|at| at.elapsed() >= LINE_EVERY) {
            self.printed = Some(Instant::now());
            self.print_note(what);
        }
        step()
    }

    /// Does one step that others do not need: if it fails, the report says so, and the run goes on. `None` if it fails or
    /// the laboratory is interrupted, which ends the run after the experiment.
    pub fn attempt<T>(&mut self, what: &str, step: impl FnOnce() -> Result<T, NetError>) -> Option<T> {
        let error = match self.step(what, step) {
            Ok(done) => return Some(done),
            Err(NetError::Interrupted) => return None,
            Err(error) => error,
        };
        let failure = format!("{what}: {error}");
        self.print_note(&failure);
        self.results.failures.push(failure);
        None
    }

    /// Lets so many take their turns, in another order each time. Returns what each measured, by run, up to the first turn
    /// that fails.
    pub fn turns<T>(
        &mut self,
        names: &[String],
        mut turn: impl FnMut(usize) -> Result<T, NetError>,
    ) -> Vec<Vec<T>> {
        let runs = self.options.runs();
        let mut measured: Vec<Vec<T>> = names.iter().map(|_| Vec::new()).collect();
        for run in 1..=runs {
            for nth in order(names.len(), run) {
                let what = format!("{}, run {run} of {runs}", names[nth]);
                let Some(value) = self.attempt(&what, || turn(nth)) else { return measured };
                measured[nth].push(value);
                self.turns = self.turns.max(run);
            }
        }
        measured
    }

    /// Lets all schemes take their turns in a cell, and nobody if there are others.
    fn cell(&mut self, experiment: &str, cell: &Cell) -> Result<(), NetError> {
        let site = self.site(&cell.path)?;
        if let Some(why) = cell.path.recipe.is_some().then(|| site.start_wan(&cell.path, 1).err()).flatten() {
            if recipe::is_lacking(&why) {
                self.leave_out(format!("{}: {why}", cell.name));
                return Ok(());
            }
            return Err(why);
        }
        self.results.cells.push((experiment.to_owned(), cell.clone()));
        let lateness = self.results.lateness_limit(&cell.path);
        // Only this program plays flows of others.
        let is_alien = |scheme: &Scheme| scheme.program.is_some() && matches!(cell.company, Company::Own(_));
        let (alien, schemes): (Vec<_>, Vec<_>) = self.schemes.iter().cloned().partition(is_alien);
        for Scheme { name, .. } in alien {
            self.leave_out(format!("{experiment}, {name}: its program plays no load of its own flows"));
        }
        self.note_measured(&schemes);
        let nobody = (!matches!(cell.company, Company::Nobody | Company::Own(_))).then_some(schemes.len());
        for run in 1..=self.options.runs() {
            for nth in order(schemes.len(), run).into_iter().chain(nobody) {
                let scheme = schemes.get(nth);
                let name = scheme.map_or("nobody", |scheme| &scheme.name);
                let what = format!("{}, run {run} of {}, {name}", cell.name, self.options.runs());
                let session = Session { site: &site, experiment, cell, run, lateness };
                // One flow that fails should not end a run of hours.
                if let Some((flows, others)) = self.attempt(&what, || session.run(scheme)) {
                    self.results.flows.extend(flows);
                    self.results.others.extend(others);
                    self.turns = self.turns.max(run);
                }
            }
        }
        self.results.write_csv(&self.options.args.out)?;
        interrupt::check()
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
    fn a_turn_that_fails_leaves_what_was_measured_before() {
        let args = NetRunArgs { names: vec!["memory".to_owned()], runs: Some(2), ..NetRunArgs::default() };
        let mut lab = Lab::new(args).unwrap();
        let mut left = 3;
        let measured = lab.turns(&["a", "b"].map(str::to_owned), |nth| {
            left -= 1;
            if left == 0 { Err(NetError::Invalid("no".to_owned())) } else { Ok(nth) }
        });
        assert_eq!((measured, lab.turns), (vec![vec![0], vec![1]], 1));
        assert_eq!(lab.results.failures, ["b, run 2 of 2: the WAN is not valid: no"]);
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
