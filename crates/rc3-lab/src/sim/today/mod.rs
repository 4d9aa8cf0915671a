//! `rc3-lab sim today`: rc3 beside plain QUIC and the ideal on paths of today.
//!
//! The experiments are ordinary ones, each of one flow (`arrivals = "one"`) over a sweep of paths and sizes; this is their
//! common report.

mod report;

use std::{fmt::Write as _, fs, num::NonZero, path::PathBuf, process};

use rc3_sim::{
    registry::Registry,
    scenario::{BASES, Scenario},
};

pub use self::report::WORST;
use self::report::{Origin, Row};
use super::{
    catalogue,
    engine::Outcome,
    experiment::{Experiment, ExperimentError, Plan},
    progress::Progress,
    shared::Shared,
    simulator::Simulator,
    work,
};

/// The scheme that all others are compared with, and the one that is compared without a wish.
const PLAIN: &str = "plain";
const DEFAULT: &str = "guard";

/// What to compare.
#[derive(Debug)]
pub struct TodayJob {
    experiments: Vec<Experiment>,
    /// Cells in the list of the worst.
    worst: usize,
    page: Option<PathBuf>,
    plan: Plan,
    /// As it would be typed.
    command: String,
}

impl TodayJob {
    /// Reads experiments; none means all of the group. Without schemes it is rc3's default.
    ///
    /// # Errors
    /// If there is no such experiment or scheme, a file cannot be read or is no scenario, or it has more than one flow.
    pub fn new(
        names: &[String],
        quick: bool,
        schemes: &[String],
        changes: &[String],
        worst: usize,
        page: Option<PathBuf>,
        threads: NonZero<usize>,
    ) -> Result<Self, ExperimentError> {
        let all = || catalogue::TODAY.iter().map(|(name, _)| (*name).to_owned()).collect();
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
        for change in changes {
            let _ = write!(command, " --set {change}");
        }
        if let Some(page) = &page {
            let _ = write!(command, " --page {}", page.display());
        }
        let default = [DEFAULT.to_owned()];
        let schemes = if schemes.is_empty() { &default } else { schemes };
        let plan = Plan {
            changes: [&[runs(schemes)], changes].concat(),
            quick,
            threads,
            ..Plan::new(PathBuf::new(), &Registry::default())
        };
        let load = |name: &String| match Experiment::load(name, &plan)? {
            one if one.runs().iter().all(|run| run.one().is_some()) => Ok(one),
            _ => Err(ExperimentError::NotOneFlow(name.clone())),
        };
        let experiments = wanted.iter().map(load).collect::<Result<_, _>>()?;
        Ok(Self { experiments, worst, page, plan, command })
    }

    /// Runs it with progress on standard error and writes the page; returns the text to print.
    ///
    /// # Errors
    /// If a world fails, or the page cannot be written.
    pub fn run(&self) -> Result<String, ExperimentError> {
        let mut rows = Vec::new();
        for experiment in &self.experiments {
            rows.extend(self.rows(experiment)?);
        }
        if let Some(page) = &self.page {
            let origin = Origin { commit: commit(), command: self.command.clone() };
            let specs: Vec<_> = self.experiments.iter().map(|one| one.scenario().spec()).collect();
            let text = report::page(&rows, &specs, &origin);
            fs::write(page, text).map_err(|error| ExperimentError::Write { path: page.clone(), error })?;
        }
        Ok(report::text(&rows, self.worst))
    }

    fn rows(&self, experiment: &Experiment) -> Result<Vec<Row>, ExperimentError> {
        let mut progress = Progress::new(experiment, false);
        let engine = Shared::new(Simulator);
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(experiment.runs().len());
        work::run(&engine, &experiment.worlds(), self.plan.threads, |step| {
            progress.on_step(&step);
            if let work::Step::World(_, outcome) = step {
                outcomes.push(*outcome);
            }
            Ok::<(), ExperimentError>(())
        })?;
        progress.clear();
        Ok(report::rows(experiment, outcomes))
    }
}

/// The change of a scenario that runs plain QUIC and these schemes, in the order of the base.
fn runs(schemes: &[String]) -> String {
    let known = self::schemes();
    let place = |name: &String| known.iter().position(|known| known == name);
    let mut wanted: Vec<String> = vec![PLAIN.to_owned()];
    let mut others: Vec<&String> = schemes.iter().filter(|name| *name != PLAIN).collect();
    others.sort_by_key(|name| place(name));
    others.dedup();
    wanted.extend(others.into_iter().cloned());
    let run = |name: &String| format!("{{ name = '{name}', scheme = '{name}', background = 'others' }}");
    format!("run=[{}]", wanted.iter().map(run).collect::<Vec<_>>().join(", "))
}

/// The schemes that can be compared.
pub fn schemes() -> Vec<String> {
    let (_, text) = BASES[0];
    // A base lacks a name only.
    let scenario = Scenario::parse(&format!("name = 'today'\n{text}"), "today.toml");
    let schemes = scenario.into_iter().flat_map(|scenario| scenario.spec().scheme.clone());
    schemes.map(|scheme| scheme.name).filter(|name| name != "others").collect()
}

/// The revision of the source in the current directory, if git knows one, and whether it was changed.
fn commit() -> Option<String> {
    let output = process::Command::new("git").args(["describe", "--always", "--dirty"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}

/// Names and titles of the experiments, then the schemes.
pub fn list() -> String {
    let mut text = String::new();
    for (name, _) in catalogue::TODAY {
        if let Some(Ok(scenario)) = catalogue::find(name) {
            let _ = writeln!(text, "{name:20} {}", scenario.spec().title);
        }
    }
    let _ = writeln!(text, "\nschemes: {}", schemes().join(" "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(names: &[&str], page: Option<PathBuf>) -> Result<TodayJob, ExperimentError> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        TodayJob::new(&names, true, &[], &[], 1, page, NonZero::<usize>::MIN)
    }

    /// A scenario of two flows with these schemes, in a folder of its own.
    fn small(folder: &tempfile::TempDir, keys: &str) -> String {
        let file = folder.path().join("small.toml");
        let text = format!(
            "name = 'small'\ntitle = 'Small'\nbase = 'today'\n{keys}\n[sweep]\ntopology.rate = ['20Mbit']\n\
             topology.rtt = ['20ms']\nworkload.size = ['30k', '100k']\n"
        );
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_page_has_a_row_for_each_scenario_and_the_text_as_many_of_the_worst_as_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        let job = job(&[&small(&folder, "")], Some(page.clone())).unwrap();
        let text = job.run().unwrap();
        let (_, worst) = text.split_once("guard: the worst 1 cells\n").expect("a list");
        assert!(worst.lines().count() == 1 && worst.contains("small: 20mbit x 20ms"), "{text}");
        let page = fs::read_to_string(page).unwrap();
        assert!(page.contains("## guard: FCT / plain") && page.contains("| small |"), "{page}");
    }

    /// A scheme that is plain QUIC under another name is as fast, and leaves others as much, to the last digit.
    #[test]
    fn a_scheme_beside_itself_has_the_ratio_one() {
        let folder = tempfile::tempdir().unwrap();
        for beside in ["", "arrivals = 'long'\ncount = 1", "arrivals = 'short'\nload = 0.3"] {
            let beside = if beside.is_empty() { String::new() } else { format!("[[background]]\n{beside}") };
            let keys = format!(
                "topology.hosts = 2\nscheme.guard = {{ name = 'guard', kind = 'plain', defaults = 'library' }}\n{beside}"
            );
            let job = job(&[&small(&folder, &keys)], None).unwrap();
            let rows = job.rows(&job.experiments[0]).unwrap();
            assert!(!rows.is_empty());
            for row in rows {
                let null = [row.ratio_to_plain(1), row.kept(1)].into_iter().flatten();
                assert!(null.into_iter().all(|ratio| ratio == 1.0), "{row}: {row:?}");
                assert_eq!(row.kept(1).is_some(), !beside.is_empty());
            }
        }
    }

    #[test]
    fn a_number_of_the_law_has_an_effect_and_an_unknown_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let names = [small(&folder, "")];
        let run = |changes: &[&str]| {
            let changes: Vec<String> = changes.iter().map(|&change| change.to_owned()).collect();
            let job = TodayJob::new(&names, true, &[], &changes, 1, None, NonZero::<usize>::MIN)?;
            Ok::<_, ExperimentError>(
                job.rows(&job.experiments[0])?.iter().map(|row| row.ratio_to_plain(1)).collect::<Vec<_>>(),
            )
        };
        let product = run(&[]).unwrap();
        assert_eq!(run(&["scheme.guard.constants.train=16"]).unwrap(), product);
        assert_ne!(
            run(&["scheme.guard.constants.train=2", "scheme.guard.constants.trickle_max=0"]).unwrap(),
            product
        );
        let unknown = run(&["scheme.guard.constants.trian=2"]).unwrap_err().to_string();
        assert!(unknown.contains("constants.trian"), "{unknown}");
    }

    /// The cells of a quick run with guard mode whose sizes and paths are among the first.
    fn few(name: &str, changes: &[&str]) -> Vec<Row> {
        let changes = changes.iter().map(|&change| change.to_owned()).collect();
        let mut job = job(&[name], None).unwrap();
        job.plan.changes.extend::<Vec<String>>(changes);
        job.plan.threads = NonZero::new(2).unwrap();
        job.rows(&Experiment::load(name, &job.plan).unwrap()).unwrap()
    }

    #[test]
    fn nobody_is_faster_than_the_ideal_and_the_oracle_is_near_it() {
        let oracle = runs(&["guard".to_owned(), "oracle".to_owned()]);
        for name in ["fifo", "priority"] {
            for row in few(name, &[&oracle]) {
                let [plain, guard, oracle] = [0, 1, 2].map(|scheme| row.ratio_to_ideal(scheme).unwrap());
                assert!(plain.min(guard).min(oracle) > 0.99, "{row}: {plain}, {guard}, {oracle}");
                assert!(oracle < 1.1 && row.ratio_to_plain(2).unwrap() < 1.05, "{row}: {oracle}");
            }
        }
    }

    #[test]
    fn guard_loses_nothing_on_strict_priority() {
        let ratios: Vec<f64> =
            few("priority", &[]).iter().map(|row| row.ratio_to_plain(1).unwrap()).collect();
        let mean = crate::statistics::geometric_mean(&ratios).unwrap();
        assert!(mean < 0.75 && ratios.iter().all(|&ratio| ratio <= 1.05), "{mean}: {ratios:?}");
    }

    #[test]
    fn every_path_runs() {
        for (name, _) in catalogue::TODAY {
            let small = ["sweep.topology.rate=['20Mbit']", "sweep.workload.size=['100k']"];
            for row in few(name, &small) {
                assert!(
                    [0, 1].iter().all(|&scheme| row.ratio_to_ideal(scheme).unwrap().is_finite()),
                    "{row}"
                );
            }
        }
    }

    /// Behind four flows ours has less of the link than behind one.
    #[test]
    fn all_rivals_are_there() {
        let one_path = [
            "sweep.topology.rate=['20Mbit']",
            "sweep.topology.rtt=['20ms']",
            "sweep.queue.buffer=['0.5bdp']",
            "sweep.workload.size=['1M']",
            "sweep.measure.seed=[1, 2, 3]",
        ];
        let fct = |name| {
            let rows = few(name, &one_path);
            rows.iter().map(|row| row.ratio_to_ideal(0).unwrap()).sum::<f64>()
        };
        let (one, four) = (fct("fifo-cubic"), fct("fifo-four-rivals"));
        assert!(1.2 * one < four, "{one} beside one, {four} beside four");
    }

    #[test]
    fn what_others_keep_is_counted_over_the_same_time() {
        let small = ["sweep.topology.rate=['20Mbit']", "sweep.workload.size=['300k']"];
        for row in few("fifo-cubic", &small) {
            let [plain, guard] = &row.flows[..] else { panic!("two schemes") };
            let window = plain.beside.window.expect("a time");
            assert_eq!(Some(window), guard.beside.window);
            // The rival has most of the link.
            let share = 8.0 * plain.beside.bytes as f64 / window.as_secs_f64() / 20e6;
            assert!((0.5..=1.01).contains(&share), "{row}: {share}");
            assert!(row.kept(1).is_some_and(|kept| (0.5..1.5).contains(&kept)));
        }
    }

    #[test]
    fn a_destination_that_was_taught_is_remembered() {
        let one_path = ["sweep.topology.rate=['20Mbit']", "sweep.topology.rtt=['20ms']"];
        let rows = few("fifo-known", &one_path);
        let is_ignored = |row: &Row| row.flows[1].verdict() == Some(rc3_core::Verdict::Ignored);
        assert!(rows.iter().any(is_ignored), "{rows:#?}");
    }

    #[test]
    fn what_is_no_scenario_is_refused() {
        assert!(
            matches!(job(&["fifo", "none"], None), Err(ExperimentError::Unknown(name)) if name == "none")
        );
        assert!(matches!(job(&["/none/x.toml"], None), Err(ExperimentError::Read { .. })));
        assert!(matches!(job(&["fig8"], None), Err(ExperimentError::Scenario(_))));
        let unknown = TodayJob::new(&[], true, &["bbr".to_owned()], &[], 1, None, NonZero::<usize>::MIN);
        assert!(unknown.unwrap_err().to_string().contains("there is no scheme `bbr`"));
        assert_eq!(list().lines().count(), catalogue::TODAY.len() + 2);
    }
}
