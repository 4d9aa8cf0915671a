//! Worlds that several experiments have in common, run once.
//!
//! Plain TCP and RC3 on Internet-2 at 30 % load are in most of the papers' figures. The names of schemes, and
//! schemes that a world does not use, make no difference to its results.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use rc3_sim::{
    agent::SchemeId,
    record::Fct,
    scenario::{Label, Run, Scheme},
};

use super::engine::{Cost, Engine, WorldOutcome};

/// An engine that remembers every world another one has run.
#[derive(Debug)]
pub struct RememberingEngine<E> {
    engine: E,
    worlds: Mutex<Vec<Arc<RememberedWorld>>>,
}

/// A world without its names, whether it is traced, and its outcome once it has run.
type RememberedWorld = (Run, bool, OnceLock<Result<WorldOutcome, String>>);

impl<E> RememberingEngine<E> {
    /// Runs with `engine` what it has not run yet.
    pub fn new(engine: E) -> Self {
        Self { engine, worlds: Mutex::default() }
    }

    fn world(&self, run: Run, traced: bool) -> Arc<RememberedWorld> {
        let mut worlds = self.worlds.lock().unwrap_or_else(PoisonError::into_inner);
        let known = worlds.iter().find(|world| world.1 == traced && world.0 == run).cloned();
        known.unwrap_or_else(|| {
            worlds.push(Arc::new((run, traced, OnceLock::new())));
            worlds[worlds.len() - 1].clone()
        })
    }
}

/// Different values, in the order in which they come first.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// How many different worlds these runs are: a scheme that a sweep does not change has one for all of its values.
pub fn distinct_worlds(runs: &[Run]) -> usize {
    distinct(runs.iter().map(|run| anonymous(run).0)).len()
}

impl<E: Engine> Engine for RememberingEngine<E> {
    /// As the engine below; a world that has run before costs nothing.
    fn simulate(
        &self,
        run: &Run,
        trace: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<WorldOutcome, String> {
        let (mut anonymous, names) = anonymous(run);
        if let (Some(base), None) = (&run.base, run.measure.window) {
            let base = self.simulate(base, false, &mut |_| ())?;
            anonymous.measure.window = base.beside.and_then(|beside| beside.window);
        }
        let world = self.world(anonymous, trace);
        let mut ran = false;
        let outcome = world.2.get_or_init(|| {
            ran = true;
            self.engine.simulate(&world.0, trace, progress)
        });
        let mut outcome = outcome.clone()?;
        if !ran {
            progress(outcome.cost.flows);
            outcome.cost = Cost::default();
        }
        let samples = outcome.samples.iter_mut().flat_map(|sample| &mut sample.flows);
        let samples = samples.map(|flow| &mut flow.scheme);
        for scheme in outcome.records.iter_mut().map(|record| &mut record.scheme).chain(samples) {
            *scheme = names.get(scheme).copied().unwrap_or(*scheme);
        }
        Ok(outcome)
    }
}

/// The run without its names and its definition of FCT, with only the schemes that carry its flows; and the numbers of those
/// schemes in the run itself.
fn anonymous(run: &Run) -> (Run, BTreeMap<SchemeId, SchemeId>) {
    let mut anonymous = run.clone();
    anonymous.label = Label { case: None, point: Vec::new(), run: String::new(), repetition: 0 };
    anonymous.measure.fct = Fct::default();
    anonymous.measure.pair = false;
    anonymous.base = None;
    anonymous.schemes.clear();
    let (mut there, mut back) = (BTreeMap::new(), BTreeMap::new());
    let mut take = |scheme: &mut SchemeId| {
        *scheme = *there.entry(*scheme).or_insert_with_key(|&before| {
            let now = SchemeId(u16::try_from(anonymous.schemes.len()).expect("no more than before"));
            if let Some(scheme) = run.schemes.get(usize::from(before.0)) {
                anonymous.schemes.push(Scheme { name: String::new(), ..scheme.clone() });
            }
            back.insert(now, before);
            now
        });
    };
    let assignment = &mut anonymous.assignment;
    take(&mut assignment.scheme);
    if let Some(mix) = &mut assignment.mix {
        take(&mut mix.scheme);
    }
    if run.background.is_empty() {
        assignment.background = assignment.scheme;
    } else {
        take(&mut assignment.background);
    }
    (anonymous, back)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use rc3_sim::{record::FlowRecord, scenario::Scenario};

    use super::{super::tests, *};

    /// Distinguishes worlds: each has one flow, of as many bytes as worlds ran before it, by the
    /// second scheme if there is one.
    #[derive(Default)]
    struct Counting(AtomicU64);

    impl Engine for Counting {
        fn simulate(
            &self,
            run: &Run,
            _: bool,
            progress: &mut dyn FnMut(u64),
        ) -> Result<WorldOutcome, String> {
            progress(1);
            let assignment = &run.assignment;
            let bytes = self.0.fetch_add(1, Ordering::Relaxed);
            let scheme = assignment.mix.as_ref().map_or(assignment.scheme, |mix| mix.scheme);
            let record = FlowRecord { bytes, scheme, ..tests::record(0) };
            let cost = Cost { flows: 1, events: 1, link_packets: 1 };
            Ok(WorldOutcome { records: vec![record], cost, ..WorldOutcome::default() })
        }
    }

    fn runs(schemes: &str) -> Vec<Run> {
        let text = tests::scenario("", &format!("{schemes}[measure]\nflows = 10\n"));
        Scenario::parse(&text, "x.toml").unwrap().expand().unwrap()
    }

    #[test]
    fn worlds_that_differ_in_names_alone_run_once() {
        let first =
            runs("[[scheme]]\nname = 'plain'\nkind = 'plain'\n[[scheme]]\nname = 'rc3'\nkind = 'rc3'\n");
        let second = runs(
            "[[scheme]]\nname = 'IW 10'\nkind = 'plain'\ninitial-window = 10\n\
             [[scheme]]\nname = 'RC3'\nkind = 'rc3'\n[[scheme]]\nname = 'TCP'\nkind = 'plain'\n",
        );
        let shared = RememberingEngine::new(Counting::default());
        let mut flows = 0;
        let mut ask = |run: &Run, trace| {
            let outcome = shared.simulate(run, trace, &mut |ended| flows += ended).unwrap();
            (outcome.records[0].bytes, outcome.records[0].scheme, outcome.cost.flows)
        };
        assert_eq!(ask(&first[0], false), (0, SchemeId(0), 1));
        assert_eq!(ask(&first[1], false), (1, SchemeId(1), 1));
        assert_eq!(ask(&second[0], false), (2, SchemeId(0), 1), "another window");
        assert_eq!(ask(&second[1], false), (1, SchemeId(1), 0));
        assert_eq!(ask(&second[2], false), (0, SchemeId(2), 0), "with the place it has here");
        assert_eq!(ask(&first[0], true), (3, SchemeId(0), 1), "nothing was traced before");
        assert_eq!(flows, 6, "progress counts all");
    }

    #[test]
    fn a_sweep_of_one_scheme_repeats_no_world_of_the_other() {
        let runs = runs(
            "[[scheme]]\nname = 'plain'\nkind = 'plain'\n[[scheme]]\nname = 'rc3'\nkind = 'rc3'\n\
             [sweep]\nscheme.rc3.initial-window = [4, 8, 16]\n",
        );
        assert_eq!((runs.len(), distinct_worlds(&runs)), (6, 4));
        let shared = RememberingEngine::new(Counting::default());
        runs.iter().for_each(|run| drop(shared.simulate(run, false, &mut |_| ())));
        assert_eq!(shared.engine.0.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn seeds_and_second_schemes_make_other_worlds() {
        let schemes = "[[scheme]]\nname = 'a'\nkind = 'plain'\n[[scheme]]\nname = 'b'\nkind = 'rc3'\n";
        let mixed = |share: &str, of: &str| {
            let run = format!(
                "{schemes}[[run]]\nname = 'r'\nscheme = 'b'\nmix = {{ scheme = 'a', share = {share}, of = '{of}' }}\n"
            );
            runs(&run).remove(0)
        };
        let plain = runs(schemes).remove(0);
        let other_seed = Run { seed: plain.seed + 1, ..plain.clone() };
        let worlds =
            [plain.clone(), other_seed, mixed("0.5", "hosts"), mixed("0.5", "flows"), mixed("0.4", "flows")];
        let shared = RememberingEngine::new(Counting::default());
        for (index, run) in worlds.iter().chain(&worlds).enumerate() {
            let outcome = shared.simulate(run, false, &mut |_| ()).unwrap();
            assert_eq!(outcome.records[0].bytes as usize, index % worlds.len());
            assert_eq!(outcome.records[0].scheme, SchemeId(0));
        }
    }
}
