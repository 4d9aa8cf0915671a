//! Scenario files: one kind of path each.

use std::{sync::Arc, time::Duration};

use rc3_core::units::Rate;
use rc3_text::{
    document::Document,
    units::{parse_rate, parse_size, parse_time},
};
use serde::{Deserialize, Deserializer, de::Error};

use super::{Cell, Company, Discipline, Memory, Path, Trouble, world};
use crate::{
    random::derive,
    scenario::{Probability, ScenarioError, Share},
};

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("scenarios/", $name, ".toml")))),*]
    };
}

/// Name and file of each scenario that comes with the simulator, in the order of the report.
pub const SCENARIOS: &[(&str, &str)] = scenarios![
    "fifo",
    "fifo-card-1",
    "fifo-card-100",
    "drop-front",
    "codel",
    "flow-fair",
    "cake",
    "policer",
    "background",
    "inverted",
    "bleached",
    "priority",
    "priority-card-100",
    "fifo-known",
    "fifo-stale-fast",
    "fifo-stale-slow",
    "priority-known",
    "fifo-cubic",
    "fifo-newreno",
    "fifo-four-rivals",
    "fifo-load",
    "priority-cubic",
    "loss-0.1",
    "loss-1",
    "rate-halves",
    "rate-doubles",
    "jitter-1",
    "jitter-3",
    "jitter-10",
    "reordering-2",
    "receiver-batches",
];

/// A scenario file: a kind of path, and the values whose product makes its cells.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// What reports call it.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The queue in front of the bottleneck.
    pub queue: Discipline,
    /// Rates of the bottleneck. Default: 20, 100 and 1000 Mbit/s.
    #[serde(default = "rates_default", deserialize_with = "rates")]
    pub rate: Vec<Rate>,
    /// Round-trip times without queues. Default: 20, 60 and 150 ms.
    #[serde(default = "rtts_default", deserialize_with = "times")]
    pub rtt: Vec<Duration>,
    /// Sizes of the queue in bandwidth-delay products. Default: 0.1, 0.5, 1 and 4.
    #[serde(default = "buffers_default", deserialize_with = "factors")]
    pub buffer: Vec<f64>,
    /// Rates of the sender's card, in rates of the bottleneck. Default: 10.
    #[serde(default = "cards_default", deserialize_with = "cards")]
    pub card: Vec<u64>,
    /// Sizes of the flow in bytes. Default: 30 and 100 kB, 300 kB, 1, 3, 10 and 30 MB.
    #[serde(default = "sizes_default", deserialize_with = "sizes")]
    pub size: Vec<u64>,
    /// Probability that a packet is lost, in either direction. Default: 0.
    #[serde(default)]
    pub loss: Probability,
    /// Bound of the extra delay of each packet on the way back. Default: none.
    #[serde(default, deserialize_with = "time")]
    pub jitter: Duration,
    /// The same on the way there, where it reorders data. Default: none.
    #[serde(default, deserialize_with = "time")]
    pub reordering: Duration,
    /// Packets reach the receiver together at multiples of this time. Default: each at its own.
    #[serde(default, deserialize_with = "time")]
    pub aggregation: Duration,
    /// The same for the way back.
    #[serde(default, deserialize_with = "time")]
    pub aggregation_back: Duration,
    /// The receiver reads what has arrived at multiples of this time, as a process that other programs delay. Default: at
    /// once.
    #[serde(default, deserialize_with = "time")]
    pub reads: Duration,
    /// The receiver's kernel stamps packets on arrival, and rc3 reads the stamps. Default: no.
    #[serde(default)]
    pub stamps: bool,
    /// Half way the rate becomes so many times its first value. Default: it stays.
    #[serde(default, deserialize_with = "factor")]
    pub rate_change: Option<f64>,
    /// Long flows beside ours: `cubic` or `newreno`. Default: none.
    #[serde(default)]
    pub rival: Option<String>,
    /// How many of them. Default: 1.
    #[serde(default)]
    pub rivals: Option<u32>,
    /// Short flows beside ours, as a share of the rate. Default: none.
    #[serde(default)]
    pub load: Share,
    /// An earlier flow has taught the sender, when the bottleneck had so many times its rate. Default: none has.
    #[serde(default, deserialize_with = "factor")]
    pub taught_at: Option<f64>,
    /// Runs of each cell, with seeds of their own. Default: 1.
    #[serde(default)]
    pub seeds: Option<u32>,
}

impl Scenario {
    /// Reads a file; `file` is its name in errors.
    ///
    /// # Errors
    /// If it is no TOML, or a key is unknown, missing or has an invalid value.
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = Document::parse(text, file)?.read()?;
        let fault = |key: &str, message: &str| {
            let (file, key, message) = (file.to_owned(), key.to_owned(), message.to_owned());
            Err(ScenarioError { file, line: None, key, message })
        };
        if scenario.rival.as_deref().is_some_and(|rival| world::congestion(rival).is_none()) {
            return fault("rival", "not a controller, write cubic or newreno");
        }
        if scenario.rivals.is_some() && scenario.rival.is_none() {
            return fault("rivals", "means nothing without `rival`");
        }
        if !(1..=64).contains(&scenario.rivals.unwrap_or(1)) {
            return fault("rivals", "write 1 to 64");
        }
        if scenario.load.get() >= 1.0 || (scenario.load.get() > 0.0 && scenario.rival.is_some()) {
            return fault("load", "a share below 1, and not beside `rival`");
        }
        if !(1..=1000).contains(&scenario.seeds.unwrap_or(1)) {
            return fault("seeds", "write 1 to 1000");
        }
        if scenario.queue == Discipline::Policer && scenario.rate_change.or(scenario.taught_at).is_some() {
            return fault("queue", "a policer's rate does not change");
        }
        Ok(scenario)
    }

    /// The scenario of that name among [`SCENARIOS`].
    pub fn find(name: &str) -> Option<Self> {
        let (_, text) = SCENARIOS.iter().find(|(known, _)| *known == name)?;
        // Every one of them parses: a test.
        Self::parse(text, name).ok()
    }

    /// All cells.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &rate in &self.rate {
            for &rtt in &self.rtt {
                for &buffer in &self.buffer {
                    for &card in &self.card {
                        let trouble = self.trouble();
                        let path = Path { rate, rtt, buffer, card, discipline: self.queue, trouble };
                        cells.extend(self.cells_of(path));
                    }
                }
            }
        }
        cells
    }

    /// A few of the cells, those that run fastest: the smaller rates and round trips, every other buffer, up to 3 MB,
    /// one seed.
    pub fn quick(&self) -> Vec<Cell> {
        fn ends<T: Copy>(values: &[T]) -> Vec<T> {
            values.iter().step_by(2).copied().collect()
        }
        let mut size: Vec<u64> = ends(&self.size).into_iter().filter(|&bytes| bytes <= 3_000_000).collect();
        if size.is_empty() {
            size.extend(self.size.iter().min());
        }
        let quick = Self {
            rate: self.rate.iter().copied().take(2).collect(),
            rtt: self.rtt.iter().copied().take(2).collect(),
            buffer: ends(self.buffer.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&self.buffer)),
            size,
            seeds: None,
            ..self.clone()
        };
        quick.cells()
    }

    fn cells_of(&self, path: Path) -> impl Iterator<Item = Cell> + '_ {
        let scenario: Arc<str> = self.name.as_str().into();
        let seeds = 1..=u64::from(self.seeds.unwrap_or(1));
        self.size.iter().flat_map(move |&bytes| {
            let scenario = scenario.clone();
            seeds.clone().map(move |seed| Cell {
                scenario: scenario.clone(),
                path,
                bytes,
                company: self.company(),
                memory: self.taught_at.map_or(Memory::Nothing, Memory::Taught),
                seed: derive(seed, 0) >> 32,
            })
        })
    }

    fn company(&self) -> Company {
        match self.rival.as_deref().and_then(world::congestion) {
            Some(congestion) => Company::Rivals(self.rivals.unwrap_or(1), congestion),
            None if self.load.get() > 0.0 => Company::Load(self.load.get()),
            None => Company::Nobody,
        }
    }

    fn trouble(&self) -> Trouble {
        let &Self { loss, jitter, reordering, aggregation, aggregation_back, reads, stamps, .. } = self;
        let change = self.rate_change.unwrap_or_default();
        Trouble { loss: loss.get(), jitter, reordering, aggregation, aggregation_back, reads, stamps, change }
    }
}

fn rates_default() -> Vec<Rate> {
    [20, 100, 1000].into_iter().filter_map(|mbit| Rate::from_bits_per_second(mbit * 1_000_000)).collect()
}

fn rtts_default() -> Vec<Duration> {
    [20, 60, 150].map(Duration::from_millis).into()
}

fn buffers_default() -> Vec<f64> {
    [0.1, 0.5, 1.0, 4.0].into()
}

fn cards_default() -> Vec<u64> {
    [10].into()
}

fn sizes_default() -> Vec<u64> {
    [30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000].into()
}

/// At least one, each read by `parse`.
fn list<'de, D: Deserializer<'de>, T, E: std::fmt::Display>(
    from: D,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    if texts.is_empty() {
        return Err(D::Error::custom("at least one"));
    }
    texts.iter().map(|text| parse(text).map_err(D::Error::custom)).collect()
}

fn rates<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Rate>, D::Error> {
    list(from, |text| parse_rate(text).map(Rate::from))
}

fn times<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Duration>, D::Error> {
    list(from, within_a_minute)
}

fn sizes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    list(from, parse_size)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    within_a_minute(&String::deserialize(from)?).map_err(D::Error::custom)
}

fn within_a_minute(text: &str) -> Result<Duration, String> {
    let time = parse_time(text).map_err(|error| error.to_string())?;
    if time > Duration::from_secs(60) { Err(format!("`{text}` is longer than 60s")) } else { Ok(time) }
}

/// Within a factor of a thousand, so that no product of them is out of range.
fn check(factor: f64) -> Result<f64, String> {
    if (0.001..=1000.0).contains(&factor) {
        Ok(factor)
    } else {
        Err(format!("{factor} is not within 0.001 to 1000"))
    }
}

fn factor<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    check(f64::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

fn factors<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let factors = Vec::<f64>::deserialize(from)?;
    if factors.is_empty() {
        return Err(D::Error::custom("at least one"));
    }
    factors.into_iter().map(|factor| check(factor).map_err(D::Error::custom)).collect()
}

fn cards<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let cards = Vec::<u64>::deserialize(from)?;
    let fits = |card: &u64| (1..=1000).contains(card);
    if cards.is_empty() || !cards.iter().all(fits) {
        return Err(D::Error::custom("at least one, 1 to 1000 each"));
    }
    Ok(cards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_makes_cells_and_is_named_like_its_file() {
        for (name, text) in SCENARIOS {
            let scenario = Scenario::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(scenario.name, *name);
            assert!(
                !scenario.quick().is_empty() && scenario.quick().len() <= scenario.cells().len(),
                "{name}"
            );
        }
        assert_eq!(Scenario::find("fifo").unwrap().cells().len(), 252);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let head = "name = 'x'\ntitle = 'x'\nqueue = 'fifo'\n";
        for (line, message) in [
            ("rate = ['fast']", "does not start with a number"),
            ("rate = []", "at least one"),
            ("rtt = ['2h']", "is not a unit"),
            ("rtt = ['90s']", "longer than 60s"),
            ("buffer = [-1.0]", "not within 0.001 to 1000"),
            ("buffer = [nan]", "not within 0.001 to 1000"),
            ("card = [0]", "1 to 1000 each"),
            ("loss = 2.0", "not within 0 to 1"),
            ("rate-change = 0.0", "not within 0.001 to 1000"),
            ("rival = 'bbr'", "write cubic or newreno"),
            ("rivals = 2", "means nothing without"),
            ("load = 1.0", "a share below 1"),
            ("seeds = 0", "write 1 to 1000"),
            ("unknown = 1", "unknown key"),
        ] {
            let error = Scenario::parse(&format!("{head}{line}\n"), "x.toml").unwrap_err().to_string();
            assert!(error.contains(message), "{line}: {error}");
        }
    }
}
