//! Searches for the lies that do the most harm: random ones first, then changes of the worst so far, `(mu + lambda)` with one
//! survivor for each kind of harm.

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{Harm, Harms, Lie, Outcome, Setting, Trial};
use crate::random::Random;

/// Trials of a generation.
const GENERATION: usize = 8;

/// Generations in which all lies are random, and the part of random lies later.
const RANDOM_GENERATIONS: u64 = 6;
const RANDOM_PART: f64 = 0.15;

/// A simpler lie does, if it does this part of the harm.
const SIMPLER: f64 = 0.95;

/// The worst lie so far of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Champion {
    /// The lie, and where it was told.
    pub trial: Trial,
    /// What everybody got.
    pub outcome: Outcome,
    /// The harms in it.
    pub harms: Harms,
}

/// A search. It is the same for the same seed, whatever the number of threads.
#[derive(Debug)]
pub struct Search {
    settings: Vec<(Setting, Outcome)>,
    threads: NonZero<usize>,
    random: Random,
    champions: [Option<Champion>; Harm::ALL.len()],
    generations: u64,
}

impl Search {
    /// A search in these settings, at least one.
    pub fn new(settings: &[Setting], threads: NonZero<usize>, seed: u64) -> Self {
        let honest = |&setting: &Setting| (setting, Trial::honest(setting).confirm());
        Self {
            settings: settings.iter().map(honest).collect(),
            threads,
            random: Random::new(seed),
            champions: Default::default(),
            generations: 0,
        }
    }

    /// What everybody gets beside an honest receiver, for each setting.
    pub fn honest(&self) -> &[(Setting, Outcome)] {
        &self.settings
    }

    /// The worst lies so far, one for each kind of harm that any did.
    pub fn champions(&self) -> impl Iterator<Item = (Harm, &Champion)> {
        Harm::ALL
            .into_iter()
            .zip(&self.champions)
            .filter_map(|(harm, champion)| Some((harm, champion.as_ref()?)))
    }

    /// Trials so far.
    pub fn trials(&self) -> u64 {
        self.generations * GENERATION as u64
    }

    /// Tries one generation more; returns those of it that seemed worse than any before, confirmed.
    pub fn step(&mut self) -> Vec<Champion> {
        let trials: Vec<Trial> = (0..GENERATION).map(|_| self.candidate()).collect();
        self.generations += 1;
        let seemed = self.run(&trials, Trial::run).into_iter().filter(|tried| self.is_worse(tried));
        let seemed: Vec<Trial> = seemed.map(|tried| tried.trial).collect();
        let confirmed = self.run(&seemed, Trial::confirm);
        confirmed.iter().for_each(|champion| self.offer(champion));
        confirmed
    }

    /// Replaces each champion by the simplest lie that does nearly the same harm.
    pub fn simplify(&mut self) {
        for harm in Harm::ALL {
            while let Some(simpler) = self.simpler(harm) {
                self.champions[harm as usize] = Some(simpler);
            }
        }
    }

    /// A lie simpler than the champion's, confirmed to do nearly the same harm.
    fn simpler(&self, harm: Harm) -> Option<Champion> {
        let champion = self.champions[harm as usize].as_ref()?;
        let enough = |tried: &Champion| tried.harms.of(harm) >= champion.harms.of(harm) * SIMPLER;
        let setting = champion.trial.setting;
        let lies = champion.trial.lie.simpler().into_iter().filter(|lie| !lie.rules.is_empty());
        let simpler = lies.map(|lie| Trial { setting, lie });
        let seemed = self.run(&simpler.collect::<Vec<_>>(), Trial::run).into_iter().filter(enough);
        let mut confirmed = seemed.map(|tried| self.champion(&tried.trial, tried.trial.confirm()));
        confirmed.find(enough)
    }

    fn candidate(&mut self) -> Trial {
        let random = &mut self.random;
        let (setting, _) = self.settings[random.below(self.settings.len())];
        let mut any = || self.champions[random.below(Harm::ALL.len())].as_ref();
        let (Some(parent), Some(other)) = (any(), any()) else {
            return Trial { setting, lie: Lie::random(random) };
        };
        if self.generations < RANDOM_GENERATIONS || random.unit() < RANDOM_PART {
            return Trial { setting, lie: Lie::random(random) };
        }
        let setting = if random.unit() < 0.5 { setting } else { parent.trial.setting };
        Trial { setting, lie: parent.trial.lie.mutated(&other.trial.lie, random) }
    }

    fn is_worse(&self, tried: &Champion) -> bool {
        Harm::ALL.into_iter().any(|harm| tried.harms.of(harm) > self.worst(harm))
    }

    /// The most harm of a kind so far; an honest receiver does 1.
    fn worst(&self, harm: Harm) -> f64 {
        self.champions[harm as usize].as_ref().map_or(1.0, |champion| champion.harms.of(harm))
    }

    fn offer(&mut self, tried: &Champion) {
        for harm in Harm::ALL {
            if tried.harms.of(harm) > self.worst(harm) {
                self.champions[harm as usize] = Some(tried.clone());
            }
        }
    }

    /// Runs trials in parallel; results are in their order.
    fn run(&self, trials: &[Trial], how: fn(&Trial) -> Outcome) -> Vec<Champion> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(vec![None; trials.len()]);
        thread::scope(|scope| {
            for _ in 0..self.threads.get().min(trials.len()) {
                scope.spawn(|| {
                    while let Some((index, trial)) = pick(trials, &next) {
                        let outcome = how(trial);
                        results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(outcome);
                    }
                });
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let tried = trials.iter().zip(results).filter_map(|(trial, outcome)| Some((trial, outcome?)));
        tried.map(|(trial, outcome)| self.champion(trial, outcome)).collect()
    }

    fn champion(&self, trial: &Trial, outcome: Outcome) -> Champion {
        let of = self.settings.iter().find(|(setting, _)| *setting == trial.setting);
        let honest = of.map_or(outcome, |(_, honest)| *honest);
        Champion { trial: trial.clone(), outcome, harms: Harms::between(&honest, &outcome) }
    }
}

fn pick<'a>(trials: &'a [Trial], next: &AtomicUsize) -> Option<(usize, &'a Trial)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    trials.get(index).map(|trial| (index, trial))
}
