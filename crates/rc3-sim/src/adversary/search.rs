//! Searches for the lies that do the most harm: random ones first, then changes of the worst so far, `(mu + lambda)` with one
//! survivor for each kind of harm.

use std::{num::NonZero, thread};

use super::{Harms, Lie, Setting, Trial, TrialResult};
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
    pub outcome: TrialResult,
    /// The harms in it.
    pub harms: Harms,
}

/// A search. It is the same for the same seed, whatever the number of threads.
#[derive(Debug)]
pub struct Search {
    settings: Vec<(Setting, TrialResult)>,
    threads: NonZero<usize>,
    random: Random,
    /// By kind of harm, in the order of [`Harms::iter`].
    champions: [Option<Champion>; Harms::COUNT],
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
    pub fn honest(&self) -> &[(Setting, TrialResult)] {
        &self.settings
    }

    /// The worst lies so far with the place of their kind of harm in [`Harms::iter`], one for each kind that any did.
    pub fn champions(&self) -> impl Iterator<Item = (usize, &Champion)> {
        self.champions.iter().enumerate().filter_map(|(harm, champion)| Some((harm, champion.as_ref()?)))
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
        for harm in 0..Harms::COUNT {
            while let Some(simpler) = self.simpler(harm) {
                self.champions[harm] = Some(simpler);
            }
        }
    }

    /// A lie simpler than the champion's, confirmed to do nearly the same harm.
    fn simpler(&self, harm: usize) -> Option<Champion> {
        let champion = self.champions[harm].as_ref()?;
        let enough = |tried: &Champion| tried.harms.0[harm] >= champion.harms.0[harm] * SIMPLER;
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
        let mut any = || self.champions[random.below(Harms::COUNT)].as_ref();
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
        (0..Harms::COUNT).any(|harm| tried.harms.0[harm] > self.worst(harm))
    }

    /// The most harm of a kind so far; an honest receiver does 1.
    fn worst(&self, harm: usize) -> f64 {
        self.champions[harm].as_ref().map_or(1.0, |champion| champion.harms.0[harm])
    }

    fn offer(&mut self, tried: &Champion) {
        for harm in 0..Harms::COUNT {
            if tried.harms.0[harm] > self.worst(harm) {
                self.champions[harm] = Some(tried.clone());
            }
        }
    }

    /// Runs trials in parallel; results are in their order.
    fn run(&self, trials: &[Trial], how: fn(&Trial) -> TrialResult) -> Vec<Champion> {
        let share = trials.len().div_ceil(self.threads.get()).max(1);
        let outcomes = thread::scope(|scope| {
            let shares = trials.chunks(share);
            let threads =
                shares.map(|trials| scope.spawn(move || trials.iter().map(how).collect::<Vec<_>>()));
            let threads: Vec<_> = threads.collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("worlds end")).collect::<Vec<_>>()
        });
        trials.iter().zip(outcomes).map(|(trial, outcome)| self.champion(trial, outcome)).collect()
    }

    fn champion(&self, trial: &Trial, outcome: TrialResult) -> Champion {
        let of = self.settings.iter().find(|(setting, _)| *setting == trial.setting);
        let honest = of.map_or(outcome, |(_, honest)| *honest);
        Champion { trial: trial.clone(), outcome, harms: Harms::between(&honest, &outcome) }
    }
}
