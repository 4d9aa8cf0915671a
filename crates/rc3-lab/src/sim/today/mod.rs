//! `rc3-lab sim today`: rc3 beside plain QUIC and the ideal on paths of today.
//!
//! The experiments are ordinary ones, each of one flow (`arrivals = "one"`) over a sweep of paths and sizes; this is their
//! common report.

mod ablation;
mod harm;
mod report;

use std::{fmt::Write as _, fs, path::PathBuf, process};

use rc3_cli::output;
use rc3_sim::scenario::Scenario;

pub use self::report::WORST;
use self::{
    ablation::LawVariant,
    harm::HarmPicture,
    report::{ComparedFlow, ReportOrigin},
};
use super::{
    catalogue,
    engine::{Engine, WorldOutcome},
    experiment::{Experiment, ExperimentError, ExperimentPlan, not_written},
    progress::{self, NamedWorld},
    shared::{RememberingEngine, distinct},
    simulator::Simulator,
    work::World,
};

/// The scheme that all others are compared with, and the one that is compared without a wish.
const PLAIN: &str = "plain";
const DEFAULT: &str = "guard";

/// The base of these experiments, which has the schemes.
const BASE: &str = "today";

/// What to compare.
#[derive(Debug)]
pub struct TodayJob {
    names: Vec<String>,
    experiments: Vec<Experiment>,
    /// Cells in the list of the worst.
    worst: usize,
    page: Option<PathBuf>,
    plan: ExperimentPlan,
    /// As it would be typed.
    command: String,
}

impl TodayJob {
    /// Reads experiments; none means all of the group. Without schemes it is rc3's default. Nothing is written to the folder
    /// of `plan`.
    ///
    /// # Errors
    /// If there is no such experiment or scheme, a file cannot be read or is no scenario, or it has more than one flow.
    pub fn new(
        names: &[String],
        schemes: &[String],
        worst: usize,
        page: Option<PathBuf>,
        mut plan: ExperimentPlan,
    ) -> Result<Self, ExperimentError> {
        let all = || catalogue::TODAY.iter().map(|(name, _)| (*name).to_owned()).collect();
        let wanted: Vec<String> = if names.is_empty() { all() } else { distinct(names.to_vec()) };
        let mut words = [&["rc3-lab sim today".to_owned()], names].concat();
        words.extend(plan.quick.then(|| "--quick".to_owned()));
        words.extend(schemes.iter().map(|scheme| format!("--scheme {scheme}")));
        words.extend(plan.changes.iter().map(|change| format!("--set {change}")));
        words.extend(page.iter().map(|page| format!("--page {}", page.display())));
        let default = [DEFAULT.to_owned()];
        let schemes = if schemes.is_empty() { &default } else { schemes };
        plan.changes.insert(0, runs(schemes));
        let experiments = load(&wanted, &plan)?;
        Ok(Self { names: wanted, experiments, worst, page, plan, command: words.join(" ") })
    }

    /// Runs it with progress on standard error and writes the page and its pictures; returns the text to print.
    pub fn run(&self) -> Result<String, ExperimentError> {
        let rows = rows(&self.experiments, self.outcomes()?);
        if let Some(page) = &self.page {
            let specs: Vec<_> = self.experiments.iter().map(|one| one.scenario().spec()).collect();
            let origin = ReportOrigin { commit: commit(), command: self.command.clone() };
            let pictures: Vec<_> =
                specs.iter().filter_map(|spec| HarmPicture::new(&rows, spec, page)).collect();
            for picture in &pictures {
                let path = page.with_file_name(picture.file());
                fs::write(&path, rc3_picture::svg(&picture.chart())).map_err(not_written(&path))?;
            }
            let text = report::page(&rows, &specs, &origin, &pictures);
            fs::write(page, text).map_err(not_written(page))?;
        }
        Ok(report::text(&rows, self.worst))
    }

    /// Varies numbers of RLP's law, see `LawVariant::of`; prints a line for each value as it comes, and writes the page anew.
    ///
    /// # Errors
    /// If a world fails, or there is no such number.
    pub fn ablate(&self, wanted: &[String]) -> Result<(), ExperimentError> {
        let variants = LawVariant::of(wanted);
        let loaded = variants.iter().map(|variant| {
            let changes = self.plan.changes.iter().cloned().chain(variant.changes()).collect();
            load(&self.names, &ExperimentPlan { changes, ..self.plan.clone() })
        });
        // All first: a mistake in the last one should not show after an hour.
        let loaded = loaded.collect::<Result<Vec<_>, _>>()?;
        let outcomes = self.outcomes()?;
        let product = rows(&self.experiments, outcomes.clone());
        let command = [&[self.command.clone(), "--ablate".to_owned()], wanted].concat().join(" ");
        let origin = ReportOrigin { commit: commit(), command };
        let mut table = String::from(ablation::HEAD);
        output::emit(table.trim_end());
        for (nth, (variant, experiments)) in variants.iter().zip(&loaded).enumerate() {
            let name = format!("{} of {}, {variant}", nth + 1, variants.len());
            let varied = rows(experiments, self.vary(experiments, &outcomes, name)?);
            let line = ablation::line(variant, &product, &varied);
            output::emit(&line);
            table += &(line + "\n");
            if let Some(page) = &self.page {
                fs::write(page, report::ablation_page(&table, &origin)).map_err(not_written(page))?;
            }
        }
        Ok(())
    }

    /// The results of all worlds.
    fn outcomes(&self) -> Result<Vec<WorldOutcome>, ExperimentError> {
        let worlds: Vec<_> = self.experiments.iter().flat_map(Experiment::named_worlds).collect();
        self.simulate("today".to_owned(), &worlds, &RememberingEngine::new(Simulator))
    }

    /// The results of all worlds: of those with another scheme than plain QUIC anew, of the others from `outcomes`.
    fn vary(
        &self,
        experiments: &[Experiment],
        outcomes: &[WorldOutcome],
        name: String,
    ) -> Result<Vec<WorldOutcome>, ExperimentError> {
        let all: Vec<_> = experiments.iter().flat_map(Experiment::named_worlds).collect();
        let is_plain = |world: &World<'_>| world.run.label.run == PLAIN;
        let mut window = None;
        let mut varied = Vec::new();
        for ((scenario, place, world), outcome) in all.iter().zip(outcomes) {
            if is_plain(world) {
                window = outcome.beside.as_ref().and_then(|beside| beside.window);
                continue;
            }
            let mut run = world.run.clone();
            run.measure.window = run.base.take().and(window);
            varied.push((*scenario, *place, run));
        }
        let due: Vec<_> =
            varied.iter().map(|(name, place, run)| (*name, *place, World { run, trace: false })).collect();
        let mut anew = self.simulate(name, &due, &Simulator)?.into_iter();
        let merged =
            all.iter().zip(outcomes).map(
                |((_, _, world), outcome)| {
                    if is_plain(world) { Some(outcome.clone()) } else { anew.next() }
                },
            );
        Ok(merged.flatten().collect())
    }

    fn simulate(
        &self,
        name: String,
        due: &[NamedWorld<'_>],
        engine: &dyn Engine,
    ) -> Result<Vec<WorldOutcome>, ExperimentError> {
        let mut outcomes: Vec<WorldOutcome> = Vec::with_capacity(due.len());
        progress::run_worlds(engine, name, due, self.plan.threads, false, |_, outcome| {
            outcomes.push(outcome);
            Ok(())
        })?;
        Ok(outcomes)
    }
}

/// The cells of experiments whose worlds had these outcomes.
fn rows(experiments: &[Experiment], outcomes: Vec<WorldOutcome>) -> Vec<ComparedFlow> {
    let mut outcomes = outcomes.into_iter();
    let of = |experiment: &Experiment| {
        report::rows(experiment, outcomes.by_ref().take(experiment.runs().len()).collect())
    };
    experiments.iter().flat_map(of).collect()
}

fn load(names: &[String], plan: &ExperimentPlan) -> Result<Vec<Experiment>, ExperimentError> {
    let experiments = Experiment::load_all(names, plan)?;
    let is_of_more = |experiment: &Experiment| experiment.runs().iter().any(|run| run.one().is_none());
    match experiments.iter().position(is_of_more) {
        Some(place) => Err(ExperimentError::NotOneFlow(names[place].clone())),
        None => Ok(experiments),
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
    let scenario = Scenario::parse(&format!("name = 'schemes'\nbase = '{BASE}'"), "today.toml");
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
    use std::num::NonZero;

    use rc3_sim::registry::Registry;

    use super::{report::SchemeSummary, *};

    #[test]
    fn the_list_has_the_schemes_of_the_base() {
        let list = list();
        let line = list.lines().find(|line| line.starts_with("schemes: ")).expect("schemes");
        assert!(["plain", DEFAULT, "suss"].iter().all(|name| line.contains(name)), "{line}");
    }

    #[test]
    fn a_controller_of_another_registry_and_a_scheme_of_the_file_can_be_compared() {
        let folder = tempfile::tempdir().unwrap();
        let mine = "scheme.mine = { kind = 'plain', congestion = 'mine' }";
        let mut plan = quick(&[]);
        plan.registry.congestion.insert("mine".to_owned(), plan.registry.congestion["suss"]);
        let job = TodayJob::new(&[small(&folder, mine)], &["mine".to_owned()], 1, None, plan).unwrap();
        assert!(job.run().unwrap().contains("mine: the worst 1 cells"));
    }

    fn job(names: &[&str], page: Option<PathBuf>) -> Result<TodayJob, ExperimentError> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        TodayJob::new(&names, &[], 1, page, quick(&[]))
    }

    fn quick(changes: &[String]) -> ExperimentPlan {
        let plan = ExperimentPlan::new(PathBuf::new(), &Registry::default());
        ExperimentPlan { quick: true, changes: changes.to_vec(), threads: NonZero::<usize>::MIN, ..plan }
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
        assert!(!page.contains("harm"), "nobody is beside it: {page}");
    }

    #[test]
    fn groups_and_cells_have_the_units_of_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let changes = [
            "sweep.topology.rtt=['500us', '900us']",
            "sweep.queue.buffer=['100packets', 200000]",
            "sweep.workload.size=['30k']",
        ];
        let changes = changes.map(str::to_owned);
        let job = TodayJob::new(&[small(&folder, "")], &[], 1, None, quick(&changes)).unwrap();
        let text = job.run().unwrap();
        for group in ["500us", "900us", "100 packets", "200000 bytes", "20mbit"] {
            assert!(text.contains(&format!("small, {group} ")), "{group}: {text}");
        }
        assert!(!text.contains("BDP"), "{text}");
    }

    #[test]
    fn beside_others_a_page_has_a_picture_with_plain_where_both_axes_are_one() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        let beside = "topology.hosts = 2\n[[background]]\narrivals = 'long'\ncount = 1";
        let job = job(&[&small(&folder, beside)], Some(page.clone())).unwrap();
        job.run().unwrap();
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.contains("![Harm against gain. Small](page-small.svg)"), "{text}");
        assert!(text.contains("; buffers of 0.5, 4 BDP (larger marks"), "{text}");
        assert!(
            ["0.5", "4", "all"].iter().all(|group| text.contains(&format!("| guard | {group} | "))),
            "{text}"
        );
        let svg = fs::read_to_string(folder.path().join("page-small.svg")).unwrap();
        let svg = roxmltree::Document::parse(&svg).unwrap();
        let marks = svg.descendants().filter(|node| node.has_tag_name("circle"));
        assert_eq!(marks.count(), 4, "two schemes, two buffers");

        let rows = rows(&job.experiments, job.outcomes().unwrap());
        let spec = job.experiments[0].scenario().spec();
        let chart = HarmPicture::new(&rows, spec, &page).expect("a picture").chart();
        let [plain, guard] = &chart.series[..] else { panic!("two schemes") };
        assert!(plain.points.iter().all(|point| (point.x, point.y, point.error) == (1.0, 1.0, Some(0.0))));
        assert!(guard.points.iter().all(|point| point.x != 1.0), "{guard:?}");
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
            let rows = rows(&job.experiments, job.outcomes().unwrap());
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
            let job = TodayJob::new(&names, &[], 1, None, quick(&changes))?;
            let rows = rows(&job.experiments, job.outcomes()?);
            Ok::<_, ExperimentError>(rows.iter().map(|row| row.ratio_to_plain(1)).collect::<Vec<_>>())
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

    #[test]
    fn an_ablation_has_a_line_for_each_value_and_a_number_beside_itself_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        let beside = "topology.hosts = 2\n[[background]]\narrivals = 'long'\ncount = 1";
        let job = job(&[&small(&folder, beside)], Some(page.clone())).unwrap();
        let wanted = ["train".to_owned(), "train=16,trickle_max=96".to_owned(), "trickle_max=0".to_owned()];
        job.ablate(&wanted).unwrap();
        let page = fs::read_to_string(page).unwrap();
        let line = |variant: &str| page.lines().find(|line| line.starts_with(&format!("| {variant} |")));
        assert!(line("train=8").is_some() && line("train=32").is_some(), "{page}");
        let same = line("train=16, trickle_max=96").expect("a line");
        assert!(
            same.contains("| 1.000 | 1.00 small |") && same.contains("| 1.000 | 1.000 small |"),
            "{same}"
        );
        assert!(!line("trickle_max=0").expect("a line").contains("| 1.000 | 1.00 small |"), "{page}");
        let refused = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            job.ablate(&words).unwrap_err().to_string()
        };
        assert!(refused(&["sample_part=0"]).contains("not above zero"));
        assert!(refused(&["trian=2"]).contains("constants.trian"));
    }

    /// The cells of a quick run with guard mode whose sizes and paths are among the first.
    fn few(name: &str, changes: &[&str]) -> Vec<ComparedFlow> {
        let changes = changes.iter().map(|&change| change.to_owned()).collect();
        let mut job = job(&[name], None).unwrap();
        job.plan.changes.extend::<Vec<String>>(changes);
        job.plan.threads = NonZero::new(2).unwrap();
        job.experiments = load(&job.names, &job.plan).unwrap();
        rows(&job.experiments, job.outcomes().unwrap())
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

    #[test]
    fn an_interval_is_over_seeds_alone_wherever_they_stand_in_the_sweep() {
        let folder = tempfile::tempdir().unwrap();
        let beside = "topology.hosts = 2\n[[background]]\narrivals = 'short'\nload = 0.3";
        let names = [small(&folder, beside)];
        let rows = |sweep: &str| {
            let changes = [format!("sweep.{sweep}"), "sweep.workload.size=['30k']".to_owned()];
            let job = TodayJob::new(&names, &[], 1, None, quick(&changes)).unwrap();
            rows(&job.experiments, job.outcomes().unwrap())
        };
        let confidence = |rows: &[ComparedFlow]| SchemeSummary::new(rows, 1).plain.confidence;
        assert_eq!(confidence(&rows("queue.aggregation.there=['2ms', '5ms']")), 1.0);
        let mut seeds = rows("measure.seed=[1, 2, 3]");
        let inside = confidence(&seeds);
        seeds.sort_by_key(|row| row.run.seed);
        assert!(inside > 1.0 && (confidence(&seeds) - inside).abs() < 1e-9, "{inside}");
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
        let is_ignored = |row: &ComparedFlow| row.flows[1].verdict() == Some(rc3_core::Verdict::Ignored);
        assert!(rows.iter().any(is_ignored), "{rows:#?}");
    }

    #[test]
    fn what_is_no_scenario_is_refused() {
        assert!(
            matches!(job(&["fifo", "none"], None), Err(ExperimentError::Unknown(name)) if name == "none")
        );
        assert!(matches!(job(&["/none/x.toml"], None), Err(ExperimentError::Read { .. })));
        assert!(matches!(job(&["fig8"], None), Err(ExperimentError::Scenario(_))));
        assert_eq!(job(&["fifo", "fifo"], None).unwrap().experiments.len(), 1);
        let folder = tempfile::tempdir().unwrap();
        let file = small(&folder, "");
        let copy = file.replace("small.toml", "copy.toml");
        fs::copy(&file, &copy).unwrap();
        let twice = job(&[&file, &copy], None).unwrap_err().to_string();
        assert_eq!(twice, format!("{file} and {copy} both have the name `small`"));
        let unknown = TodayJob::new(&[], &["bbr".to_owned()], 1, None, quick(&[]));
        assert!(unknown.unwrap_err().to_string().contains("there is no scheme `bbr`"));
        assert_eq!(list().lines().count(), catalogue::TODAY.len() + 2);
    }
}
