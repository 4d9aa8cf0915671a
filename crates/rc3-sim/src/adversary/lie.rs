//! Lies: rules that change what a receiver states, and their text.
//!
//! A lie is its rules, separated by `;`. A rule is a verb, an object, and parameters that differ from their defaults:
//! `change arrival.micros factor=0.1 from=200; withhold sack chance=0.5`. No rules are honesty.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// What a rule can do, and to what.
pub(super) struct Verb {
    pub(super) name: &'static str,
    pub(super) objects: &'static [&'static str],
    /// Names of the [`PARAMETERS`] that make a difference.
    pub(super) parameters: &'static [&'static str],
}

/// All verbs.
pub(super) static VERBS: [Verb; 5] = [
    // Replaces the value of a field.
    Verb {
        name: "change",
        objects: &FIELDS,
        parameters: &[
            "factor", "drift", "shift", "noise", "grain", "smooth", "from", "cycle", "duty", "chance",
        ],
    },
    // Does not send.
    Verb { name: "withhold", objects: &KINDS, parameters: &["from", "cycle", "duty", "chance"] },
    // Sends later.
    Verb { name: "delay", objects: &KINDS, parameters: &["by", "from", "cycle", "duty", "chance"] },
    // Sends an old one with each new one.
    Verb { name: "replay", objects: &KINDS, parameters: &["by", "from", "cycle", "duty", "chance"] },
    // Adds a frame.
    Verb { name: "claim", objects: &CLAIMS, parameters: &["value", "every", "from", "cycle", "duty"] },
];

/// Numbers in frames. Those of a SACK are where its first span begins, where its last one ends, and the receipt of the first.
const FIELDS: [&str; 10] = [
    "arrival.number",
    "arrival.datagrams",
    "arrival.bytes",
    "arrival.micros",
    "order.number",
    "order.came",
    "order.overtaken",
    "sack.start",
    "sack.end",
    "sack.receipt",
];

/// Frames, all frames of RLP, and QUIC packets after the handshake.
const KINDS: [&str; 6] = ["arrival", "order", "sack", "complete", "rlp", "primary"];

/// Frames that the liar makes up: ORDER, by which the newest datagram overtook `value` others, COMPLETE, MAX_RLP_DATA,
/// MAX_RLP_STREAM_DATA, a receiver id, PATH and SIGNAL with `value`.
const CLAIMS: [&str; 7] = ["order", "complete", "credit", "stream-credit", "receiver-id", "path", "signal"];

/// A parameter of rules.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) default: f64,
    pub(super) draw: Draw,
}

/// How random values of a parameter are drawn.
#[derive(Clone, Copy)]
pub(super) enum Draw {
    /// Evenly between these.
    Even(f64, f64),
    /// Their logarithm evenly.
    Log(f64, f64),
    /// The same, of either sign.
    Signed(f64, f64),
}

/// All parameters.
pub(super) static PARAMETERS: [Parameter; 13] = [
    // Factor of the increments of a field, and factor of that factor in each second.
    parameter("factor", 1.0, Draw::Log(0.01, 100.0)),
    parameter("drift", 1.0, Draw::Log(0.3, 3.0)),
    // Added to a field, and bound of a random number added to it, of either sign.
    parameter("shift", 0.0, Draw::Signed(1.0, 1e6)),
    parameter("noise", 0.0, Draw::Log(1.0, 1e5)),
    // Fields are rounded down to multiples.
    parameter("grain", 0.0, Draw::Log(1.0, 1e6)),
    // Part, 0 to 1, of the last value in the next: batches look spread.
    parameter("smooth", 0.0, Draw::Even(0.0, 1.0)),
    // Milliseconds of a delay, or age of a replay.
    parameter("by", 40.0, Draw::Log(1.0, 1000.0)),
    // Number in a claim, and milliseconds from one claim to the next.
    parameter("value", 1.0, Draw::Log(1.0, 1e12)),
    parameter("every", 40.0, Draw::Log(1.0, 1000.0)),
    // Milliseconds from the first statement until the rule holds.
    parameter("from", 0.0, Draw::Even(0.0, 3000.0)),
    // Milliseconds of a cycle in which the rule holds for the part `duty`, 0 to 1; without a cycle it always holds.
    parameter("cycle", 0.0, Draw::Log(1.0, 2000.0)),
    parameter("duty", 0.5, Draw::Even(0.0, 1.0)),
    // Probability, 0 to 1, that it holds for a frame or packet.
    parameter("chance", 1.0, Draw::Even(0.0, 1.0)),
];

const fn parameter(name: &'static str, default: f64, draw: Draw) -> Parameter {
    Parameter { name, default, draw }
}

/// The place of a parameter in [`PARAMETERS`].
pub(super) fn place(parameter: &str) -> Option<usize> {
    PARAMETERS.iter().position(|known| known.name == parameter)
}

/// A way to lie.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lie {
    /// Applied in this order.
    pub(super) rules: Vec<LieRule>,
}

/// One rule of a lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LieRule {
    pub(super) verb: &'static str,
    pub(super) object: &'static str,
    /// Of all [`PARAMETERS`].
    pub(super) values: [f64; PARAMETERS.len()],
}

/// A text that is no lie.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no rule or parameter; write for example `change arrival.micros factor=0.1` or `withhold sack`"
)]
pub struct LieError(String);

impl LieRule {
    /// A rule with the default of each parameter.
    pub(super) fn new(verb: &Verb, object: &'static str) -> Self {
        Self { verb: verb.name, object, values: PARAMETERS.each_ref().map(|parameter| parameter.default) }
    }

    /// The value of a parameter.
    pub(super) fn value(&self, parameter: &str) -> f64 {
        place(parameter).map_or(0.0, |place| self.values[place])
    }

    /// The places of the parameters that make a difference.
    pub(super) fn parameters(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let verb = VERBS.iter().find(|verb| verb.name == self.verb);
        verb.into_iter().flat_map(|verb| verb.parameters).filter_map(|name| place(name))
    }
}

impl fmt::Display for LieRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.object)?;
        for place in self.parameters() {
            let (Parameter { name, default, .. }, value) = (&PARAMETERS[place], self.values[place]);
            if value != *default {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<String> = self.rules.iter().map(LieRule::to_string).collect();
        f.write_str(&rules.join("; "))
    }
}

impl FromStr for LieRule {
    type Err = LieError;

    fn from_str(text: &str) -> Result<Self, LieError> {
        let mut words = text.split_whitespace();
        let act = words.next().zip(words.next()).and_then(|(verb, object)| {
            let verb = VERBS.iter().find(|known| known.name == verb)?;
            Some(Self::new(verb, verb.objects.iter().find(|known| **known == object)?))
        });
        let mut rule = act.ok_or_else(|| LieError(text.trim().to_owned()))?;
        for word in words {
            let set = word.split_once('=').and_then(|(name, value)| {
                rule.values[place(name)?] = value.parse().ok().filter(|value: &f64| value.is_finite())?;
                Some(())
            });
            set.ok_or_else(|| LieError(word.to_owned()))?;
        }
        Ok(rule)
    }
}

impl FromStr for Lie {
    type Err = LieError;

    fn from_str(text: &str) -> Result<Self, LieError> {
        let rules = text.split(';').filter(|rule| !rule.trim().is_empty());
        Ok(Self { rules: rules.map(str::parse).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_lie_is_the_lie() {
        let text =
            "change arrival.micros factor=0.1 from=200; withhold sack chance=0.5; claim order value=16";
        let lie: Lie = text.parse().unwrap();
        assert_eq!(lie.to_string(), text);
        assert_eq!(lie.rules[0].value("factor"), 0.1);
        assert_eq!("".parse(), Ok(Lie::default()));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["change", "change sack", "doubt sack", "withhold arrival.micros"] {
            assert_eq!(text.parse::<Lie>(), Err(LieError(text.into())));
        }
        for word in ["factor", "factor=", "factor=x", "factor=inf", "wit=1"] {
            let text = format!("change sack.end {word}");
            assert_eq!(text.parse::<Lie>(), Err(LieError(word.into())));
        }
    }

    #[test]
    fn verbs_name_parameters_that_there_are() {
        assert!(VERBS.iter().flat_map(|verb| verb.parameters).all(|name| place(name).is_some()));
    }
}
