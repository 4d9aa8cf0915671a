//! Lies: rules that change what a receiver states, and their text.
//!
//! A lie is its rules, separated by `;`. A rule is a verb, an object, and parameters that differ from their defaults:
//! `change arrival.micros factor=0.1 from=200; withhold sack chance=0.5`. No rules are honesty.

use std::{fmt, str::FromStr};

use thiserror::Error;

use super::Kind;

/// A way to lie.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lie {
    /// Applied in this order.
    pub rules: Vec<Rule>,
}

/// One rule of a lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// What it does.
    pub act: Act,
    values: [f64; Parameter::ALL.len()],
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// `change`: replaces the value of a field.
    Change(Field),
    /// `withhold`: does not send.
    Withhold(Kind),
    /// `delay`: sends later.
    Delay(Kind),
    /// `replay`: sends an old one with each new one.
    Replay(Kind),
    /// `claim`: adds a frame.
    Claim(Claim),
}

/// A number in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// ARRIVAL, packet number.
    ArrivalNumber,
    /// ARRIVAL, datagrams.
    ArrivalDatagrams,
    /// ARRIVAL, bytes.
    ArrivalBytes,
    /// ARRIVAL, microseconds.
    ArrivalMicros,
    /// ORDER, packet number.
    OrderNumber,
    /// ORDER, datagrams received before.
    OrderCame,
    /// ORDER, datagrams overtaken.
    OrderOvertaken,
    /// SACK, where its first span begins.
    SackStart,
    /// SACK, where its last span ends.
    SackEnd,
    /// SACK, the receipt of its first span.
    SackReceipt,
}

/// A frame that the liar makes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// ORDER: the newest datagram overtook `value` others.
    Order,
    /// COMPLETE of the stream.
    Complete,
    /// MAX_RLP_DATA of `value` bytes.
    Credit,
    /// MAX_RLP_STREAM_DATA of `value` bytes.
    StreamCredit,
    /// RECEIVER_ID number `value`.
    ReceiverId,
    /// PATH number `value`.
    Path,
    /// SIGNAL of a leading fragment of `value` bytes.
    Signal,
}

/// Parameters of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// Factor of the increments of a field.
    Factor,
    /// Factor of that factor in each second.
    Drift,
    /// Added to a field.
    Shift,
    /// Bound of a random number added to a field, of either sign.
    Noise,
    /// Fields are rounded down to multiples.
    Grain,
    /// Part, 0 to 1, of the last value in the next: batches look spread.
    Smooth,
    /// Milliseconds of a delay, or age of a replay.
    By,
    /// Number in a claim.
    Value,
    /// Milliseconds from one claim to the next.
    Every,
    /// Milliseconds from the first statement until the rule holds.
    From,
    /// Milliseconds of a cycle in which the rule holds for a part; 0: it always holds.
    Cycle,
    /// That part, 0 to 1.
    Duty,
    /// Probability, 0 to 1, that it holds for a frame or packet.
    Chance,
}

/// A text that is no lie.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LieError {
    /// The verb is none, or its object is missing or not its own.
    #[error("no act `{0}`; write for example `change arrival.micros` or `withhold sack`")]
    Act(String),
    /// Not a parameter with a number.
    #[error("no parameter `{0}`; write for example `factor=0.1`")]
    Parameter(String),
}

impl Parameter {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 13] = [
        Self::Factor,
        Self::Drift,
        Self::Shift,
        Self::Noise,
        Self::Grain,
        Self::Smooth,
        Self::By,
        Self::Value,
        Self::Every,
        Self::From,
        Self::Cycle,
        Self::Duty,
        Self::Chance,
    ];

    /// The value of a rule that does not name it.
    pub(super) const fn default(self) -> f64 {
        self.traits().1
    }

    /// Its name and default.
    const fn traits(self) -> (&'static str, f64) {
        match self {
            Self::Factor => ("factor", 1.0),
            Self::Drift => ("drift", 1.0),
            Self::Shift => ("shift", 0.0),
            Self::Noise => ("noise", 0.0),
            Self::Grain => ("grain", 0.0),
            Self::Smooth => ("smooth", 0.0),
            Self::By => ("by", 40.0),
            Self::Value => ("value", 1.0),
            Self::Every => ("every", 40.0),
            Self::From => ("from", 0.0),
            Self::Cycle => ("cycle", 0.0),
            Self::Duty => ("duty", 0.5),
            Self::Chance => ("chance", 1.0),
        }
    }
}

impl Act {
    /// Verb and object.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Change(field) => ("change", name(&Field::NAMES, field)),
            Self::Withhold(kind) => ("withhold", name(&Kind::NAMES, kind)),
            Self::Delay(kind) => ("delay", name(&Kind::NAMES, kind)),
            Self::Replay(kind) => ("replay", name(&Kind::NAMES, kind)),
            Self::Claim(claim) => ("claim", name(&Claim::NAMES, claim)),
        }
    }

    fn named(verb: &str, object: &str) -> Option<Self> {
        match verb {
            "change" => named(&Field::NAMES, object).map(Self::Change),
            "withhold" => named(&Kind::NAMES, object).map(Self::Withhold),
            "delay" => named(&Kind::NAMES, object).map(Self::Delay),
            "replay" => named(&Kind::NAMES, object).map(Self::Replay),
            "claim" => named(&Claim::NAMES, object).map(Self::Claim),
            _ => None,
        }
    }

    /// The parameters that make a difference.
    pub(super) fn parameters(self) -> &'static [Parameter] {
        use Parameter::{
            By, Chance, Cycle, Drift, Duty, Every, Factor, From, Grain, Noise, Shift, Smooth, Value,
        };
        match self {
            Self::Change(_) => &[Factor, Drift, Shift, Noise, Grain, Smooth, From, Cycle, Duty, Chance],
            Self::Withhold(_) => &[From, Cycle, Duty, Chance],
            Self::Delay(_) | Self::Replay(_) => &[By, From, Cycle, Duty, Chance],
            Self::Claim(_) => &[Value, Every, From, Cycle, Duty],
        }
    }
}

impl Field {
    /// Names in the text of a lie.
    pub(super) const NAMES: [(&'static str, Self); 10] = [
        ("arrival.number", Self::ArrivalNumber),
        ("arrival.datagrams", Self::ArrivalDatagrams),
        ("arrival.bytes", Self::ArrivalBytes),
        ("arrival.micros", Self::ArrivalMicros),
        ("order.number", Self::OrderNumber),
        ("order.came", Self::OrderCame),
        ("order.overtaken", Self::OrderOvertaken),
        ("sack.start", Self::SackStart),
        ("sack.end", Self::SackEnd),
        ("sack.receipt", Self::SackReceipt),
    ];
}

impl Claim {
    /// Names in the text of a lie.
    pub(super) const NAMES: [(&'static str, Self); 7] = [
        ("order", Self::Order),
        ("complete", Self::Complete),
        ("credit", Self::Credit),
        ("stream-credit", Self::StreamCredit),
        ("receiver-id", Self::ReceiverId),
        ("path", Self::Path),
        ("signal", Self::Signal),
    ];
}

impl Rule {
    /// A rule with the default of each parameter.
    pub fn new(act: Act) -> Self {
        Self { act, values: Parameter::ALL.map(Parameter::default) }
    }

    /// The same with another value of one parameter.
    #[must_use]
    pub fn with(mut self, parameter: Parameter, value: f64) -> Self {
        self.values[parameter as usize] = value;
        self
    }

    /// The value of a parameter.
    pub fn value(&self, parameter: Parameter) -> f64 {
        self.values[parameter as usize]
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, object) = self.act.words();
        write!(f, "{verb} {object}")?;
        for &parameter in self.act.parameters() {
            let (name, default) = parameter.traits();
            let value = self.value(parameter);
            if value != default {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, rule) in self.rules.iter().enumerate() {
            let separator = if nth > 0 { "; " } else { "" };
            write!(f, "{separator}{rule}")?;
        }
        Ok(())
    }
}

impl FromStr for Rule {
    type Err = LieError;

    fn from_str(text: &str) -> Result<Self, LieError> {
        let mut words = text.split_whitespace();
        let act = words.next().zip(words.next()).and_then(|(verb, object)| Act::named(verb, object));
        let mut rule = Self::new(act.ok_or_else(|| LieError::Act(text.trim().into()))?);
        for word in words {
            let (parameter, value) = parameter(word).ok_or_else(|| LieError::Parameter(word.into()))?;
            rule = rule.with(parameter, value);
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

fn parameter(word: &str) -> Option<(Parameter, f64)> {
    let (name, value) = word.split_once('=')?;
    let parameter = Parameter::ALL.into_iter().find(|parameter| parameter.traits().0 == name)?;
    Some((parameter, value.parse().ok().filter(|value: &f64| value.is_finite())?))
}

fn name<T: PartialEq + Copy>(names: &[(&'static str, T)], of: T) -> &'static str {
    names.iter().find(|(_, named)| *named == of).map_or("", |(name, _)| name)
}

fn named<T: Copy>(names: &[(&'static str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, named)| *named)
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
        assert_eq!(lie.rules[0].value(Parameter::Factor), 0.1);
        assert_eq!("".parse(), Ok(Lie::default()));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["change", "change sack", "doubt sack", "withhold arrival.micros"] {
            assert_eq!(text.parse::<Lie>(), Err(LieError::Act(text.into())));
        }
        for word in ["factor", "factor=", "factor=x", "factor=inf", "wit=1"] {
            let text = format!("change sack.end {word}");
            assert_eq!(text.parse::<Lie>(), Err(LieError::Parameter(word.into())));
        }
    }
}
