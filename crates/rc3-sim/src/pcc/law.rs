//! Which rate to try next (PCC §3.2): utilities in, rates out.
//!
//! ```text
//! Starting -- utility falls --> Deciding -- both pairs agree --> Adjusting
//!                                  ^                                |
//!                                  '-------- utility falls ---------'
//! ```
//!
//! Results arrive a round trip after their interval, so each trial carries its purpose. The result of a trial whose question
//! has been answered since is ignored.

use crate::random::Random;

/// First and largest difference of a trial to the rate, and by how much it grows (§3.2).
const STEP: f64 = 0.01;
const STEPS_MAX: u32 = 5;
/// No rate is above, bytes per second.
const RATE_MAX: f64 = 1e11;

/// A rate for one monitor interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateTrial {
    /// Bytes per second.
    pub rate: f64,
    /// What it is for.
    pub role: Role,
    /// The question that its result answers.
    round: u64,
}

/// What an interval is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Twice as fast as the one before.
    Start,
    /// The `n`-th of four trials around a rate.
    Test(usize),
    /// One step further.
    Step,
    /// Nothing: others are waited for.
    Wait,
}

/// The rate of one sender.
#[derive(Debug, Clone)]
pub struct RateSearch {
    phase: SearchPhase,
    round: u64,
    random: Random,
}

#[derive(Debug, Clone)]
enum SearchPhase {
    Starting {
        next: f64,
        /// Rate and utility of the best so far.
        best: Option<(f64, f64)>,
    },
    Deciding {
        rate: f64,
        /// The trials differ by so many steps from the rate.
        steps: u32,
        /// Which trials are above the rate: one of each pair.
        above: [bool; 4],
        begun: usize,
        utilities: [Option<f64>; 4],
    },
    Adjusting {
        /// Upwards 1, downwards -1.
        direction: f64,
        /// Rate and utility before the step.
        before: (f64, f64),
        /// The step that is tried, a multiple of [`STEP`].
        size: u32,
        begun: bool,
    },
}

impl RateSearch {
    /// A law that starts with so many bytes per second.
    pub fn new(rate: f64, seed: u64) -> Self {
        Self { phase: SearchPhase::Starting { next: rate, best: None }, round: 0, random: Random::new(seed) }
    }

    /// What the next interval is for. No trial is around a rate below `floor`, bytes per second.
    pub fn next(&mut self, floor: f64) -> RateTrial {
        let (rate, role) = match &mut self.phase {
            SearchPhase::Starting { next, .. } => {
                let rate = *next;
                *next = rate * 2.0;
                (rate, Role::Start)
            }
            SearchPhase::Deciding { rate, steps, above, begun, .. } => {
                *rate = rate.max(floor);
                match above.get(*begun) {
                    Some(above) => {
                        *begun += 1;
                        let part = STEP * f64::from(*steps) * if *above { 1.0 } else { -1.0 };
                        (*rate * (1.0 + part), Role::Test(*begun - 1))
                    }
                    None => (*rate, Role::Wait),
                }
            }
            SearchPhase::Adjusting { direction, before, size, begun } => {
                let rate = before.0 * (1.0 + STEP * f64::from(*size) * *direction);
                let role = if *begun { Role::Wait } else { Role::Step };
                *begun = true;
                (rate.max(floor), role)
            }
        };
        RateTrial { rate: rate.min(RATE_MAX), role, round: self.round }
    }

    /// Whether the trial belongs to the current question.
    pub fn awaits(&self, trial: RateTrial) -> bool {
        trial.round == self.round
    }

    /// Takes the utility of a trial; `None` if it cannot be judged.
    pub fn on_result(&mut self, trial: RateTrial, utility: Option<f64>) {
        if !self.awaits(trial) || trial.role == Role::Wait {
            return;
        }
        match (&mut self.phase, trial.role, utility) {
            (SearchPhase::Starting { best, .. }, Role::Start, Some(utility)) => match *best {
                Some((rate, most)) if utility <= most => self.decide(rate, 1),
                _ => *best = Some((trial.rate, utility)),
            },
            (SearchPhase::Starting { next, .. }, Role::Start, None) => {
                *next = trial.rate;
                self.round += 1;
            }
            (SearchPhase::Deciding { utilities, .. }, Role::Test(nth), Some(utility)) => {
                utilities[nth] = Some(utility);
                self.conclude();
            }
            (SearchPhase::Deciding { rate, steps, .. }, Role::Test(_), None) => {
                let (rate, steps) = (*rate, *steps);
                self.decide(rate, steps);
            }
            (SearchPhase::Adjusting { before, size, begun, .. }, Role::Step, utility) => {
                let (rate, least) = *before;
                match utility {
                    Some(utility) if utility > least => {
                        *before = (trial.rate, utility);
                        *size += 1;
                        *begun = false;
                        self.round += 1;
                    }
                    _ => self.decide(rate, 1),
                }
            }
            _ => {}
        }
    }

    /// Begins trials around a rate.
    fn decide(&mut self, rate: f64, steps: u32) {
        self.round += 1;
        let [first, second] = [self.random.below(2) == 0, self.random.below(2) == 0];
        let above = [first, !first, second, !second];
        self.phase = SearchPhase::Deciding { rate, steps, above, begun: 0, utilities: [None; 4] };
    }

    /// Moves on once all four trials have been judged.
    fn conclude(&mut self) {
        let SearchPhase::Deciding {
            rate, steps, above, utilities: [Some(a), Some(b), Some(c), Some(d)], ..
        } = self.phase
        else {
            return;
        };
        // Of each pair: the utility above the rate, and the one below.
        let pairs = [(above[0], a, b), (above[2], c, d)].map(|(first, one, two)| match first {
            true => (one, two),
            false => (two, one),
        });
        let up = pairs.iter().all(|(above, below)| above > below);
        let down = pairs.iter().all(|(above, below)| above < below);
        if !up && !down {
            return self.decide(rate, (steps + 1).min(STEPS_MAX));
        }
        let direction = if up { 1.0 } else { -1.0 };
        let utility = pairs.iter().map(|(above, below)| if up { above } else { below }).sum::<f64>() / 2.0;
        let moved = rate * (1.0 + STEP * f64::from(steps) * direction);
        self.round += 1;
        self.phase = SearchPhase::Adjusting { direction, before: (moved, utility), size: 1, begun: false };
    }
}
