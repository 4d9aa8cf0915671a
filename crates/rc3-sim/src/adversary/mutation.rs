//! Random lies, and small changes of lies.

use super::{
    Lie,
    lie::{Draw, LieRule, PARAMETERS, Parameter, VERBS},
};
use crate::random::Random;

/// Rules of a lie at most.
const RULES_MAX: usize = 4;

/// Part of the parameters of a random rule that keep their defaults.
const DEFAULTS: f64 = 0.6;

impl Parameter {
    fn random(&self, random: &mut Random) -> f64 {
        let value = match self.draw {
            Draw::Even(low, high) => low + (high - low) * random.unit(),
            Draw::Log(low, high) => low * (high / low).powf(random.unit()),
            Draw::Signed(low, high) => {
                let sign = if random.unit() < 0.5 { -1.0 } else { 1.0 };
                sign * low * (high / low).powf(random.unit())
            }
        };
        rounded(value)
    }

    /// A value near this one.
    fn near(&self, value: f64, random: &mut Random) -> f64 {
        let step = 2.0 * random.unit() - 1.0;
        let value = match self.draw {
            Draw::Even(low, high) => (value + (high - low) * 0.2 * step).clamp(low, high),
            Draw::Log(low, high) if value != 0.0 => (value * step.exp()).clamp(low, high),
            Draw::Signed(_, high) if value != 0.0 => (value * step.exp()).clamp(-high, high),
            _ => return self.random(random),
        };
        rounded(value)
    }
}

impl LieRule {
    fn random(random: &mut Random) -> Self {
        // Fields have the most to say: six of ten rules change one.
        let [change, others @ ..] = &VERBS;
        let verb = others.get(random.below(10)).unwrap_or(change);
        let mut rule = Self::new(verb, verb.objects[random.below(verb.objects.len())]);
        for place in rule.parameters() {
            if random.unit() >= DEFAULTS {
                rule.values[place] = PARAMETERS[place].random(random);
            }
        }
        rule
    }

    fn mutate(&mut self, random: &mut Random) {
        let parameters: Vec<usize> = self.parameters().collect();
        let place = parameters[random.below(parameters.len())];
        let parameter = &PARAMETERS[place];
        self.values[place] = match random.below(5) {
            0 => parameter.default,
            1 => parameter.random(random),
            _ => parameter.near(self.values[place], random),
        };
    }
}

impl Lie {
    /// One to three random rules.
    pub(super) fn random(random: &mut Random) -> Self {
        let count = 1 + random.below(3);
        Self { rules: (0..count).map(|_| LieRule::random(random)).collect() }
    }

    /// The same with one or two changes; some are rules of `other`.
    pub(super) fn mutated(&self, other: &Self, random: &mut Random) -> Self {
        let mut lie = self.clone();
        for _ in 0..=random.below(2) {
            lie.mutate(other, random);
        }
        lie
    }

    fn mutate(&mut self, other: &Self, random: &mut Random) {
        let rules = &mut self.rules;
        match random.below(8) {
            0 if rules.len() < RULES_MAX => rules.push(LieRule::random(random)),
            1 if rules.len() < RULES_MAX && !other.rules.is_empty() => {
                rules.push(other.rules[random.below(other.rules.len())]);
            }
            2 if rules.len() > 1 => {
                rules.remove(random.below(rules.len()));
            }
            _ if rules.is_empty() => rules.push(LieRule::random(random)),
            _ => {
                let index = random.below(rules.len());
                rules[index].mutate(random);
            }
        }
    }

    /// The simpler lies: without a rule, or with the default of a parameter.
    pub(super) fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        for (nth, rule) in self.rules.iter().enumerate() {
            let mut without = self.clone();
            without.rules.remove(nth);
            simpler.push(without);
            for place in rule.parameters() {
                if rule.values[place] != PARAMETERS[place].default {
                    let mut with_default = self.clone();
                    with_default.rules[nth].values[place] = PARAMETERS[place].default;
                    simpler.push(with_default);
                }
            }
        }
        simpler
    }
}

/// To two digits, so that a lie reads well.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let digits = 1 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_lies_survive_their_text_and_stay_short() {
        let mut random = Random::new(1);
        let mut lie = Lie::random(&mut random);
        for _ in 0..2000 {
            let other = Lie::random(&mut random);
            lie = lie.mutated(&other, &mut random);
            assert!(!lie.rules.is_empty() && lie.rules.len() <= RULES_MAX);
            assert_eq!(lie.to_string().parse(), Ok(lie.clone()));
        }
    }

    #[test]
    fn simpler_lies_end_at_honesty() {
        let mut lie: Lie = "change arrival.micros factor=0.1 from=7; withhold sack".parse().unwrap();
        assert_eq!(lie.simpler().len(), 4);
        while let Some(simpler) = lie.simpler().pop() {
            lie = simpler;
        }
        assert_eq!(lie, Lie::default());
    }
}
