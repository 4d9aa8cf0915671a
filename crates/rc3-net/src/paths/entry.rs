//! One line of the file: the record of one destination's path from one network.
//!
//! ```text
//! 192.0.2.7 from=10.0.0.3 at=1790000000 score=-6 rate=93000000 rtt_us=20100 measured=1200000 marks=cs1 marked=1790000100
//! ```
//!
//! A destination, then names with values in any order. Unknown names are ignored, so that a later version may add some.
//! Without a valid value of each of its names, a half of the record is left out; a line without either is skipped.

use std::{collections::HashMap, fmt::Write as _, net::IpAddr, time::Duration};

use rc3_core::{KnownPath, Pace, units::Rate};

use crate::marks::MarkChoice;

/// Seconds that an entry may be ahead of `now`, which is read before the wait for the lock.
const AHEAD_MAX: u64 = 2;

/// The key of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PathKey {
    pub(super) destination: IpAddr,
    /// The local network, see [`super::network`].
    pub(super) network: IpAddr,
}

/// Evidence for a verdict, and a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Seconds since 1970.
    pub(super) at: u64,
    pub(super) score: i32,
    pub(super) pace: Option<Pace>,
}

impl Evidence {
    /// As what endpoints import, `now` seconds after 1970.
    pub(super) fn about(self, now: u64, network: IpAddr) -> KnownPath {
        let age = Duration::from_secs(now.saturating_sub(self.at));
        KnownPath { score: self.score, pace: self.pace, network: Some(network), age }
    }
}

/// The record. Each half has its own time, since different commands learn them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PathEntry {
    pub(super) found: Option<Evidence>,
    /// Useful marks, and when they were found.
    pub(super) marks: Option<(u64, MarkChoice)>,
}

impl PathEntry {
    /// When the record last changed.
    pub(super) fn at(&self) -> u64 {
        let found = self.found.map(|found| found.at);
        found.max(self.marks.map(|(at, _)| at)).unwrap_or(0)
    }

    /// Takes over newer values of `other`.
    pub(super) fn merge(&mut self, other: Self) {
        if other.found.map(|found| found.at) > self.found.map(|found| found.at) {
            let known = self.found.and_then(|found| found.pace);
            let found = other.found.and_then(|found| found.pace);
            let pace = found.map(|found| found.or_known(known)).or(known);
            self.found = other.found.map(|found| Evidence { pace, ..found });
        }
        if other.marks.map(|(at, _)| at) > self.marks.map(|(at, _)| at) {
            self.marks = other.marks;
        }
    }

    /// The valid part at `now`: neither older than `age_max` nor from the future, except for what another process wrote
    /// while this one waited for the lock.
    pub(super) fn good(self, now: u64, age_max: Duration) -> Option<Self> {
        let good = |at: u64| at <= now + AHEAD_MAX && now.saturating_sub(at) < age_max.as_secs();
        let entry = Self {
            found: self.found.filter(|found| good(found.at)),
            marks: self.marks.filter(|&(at, _)| good(at)),
        };
        (entry != Self::default()).then_some(entry)
    }

    /// As a line, without its end.
    pub(super) fn line(&self, key: PathKey) -> String {
        let mut line = format!("{} from={}", key.destination, key.network);
        if let Some(Evidence { at, score, pace }) = self.found {
            let _ = write!(line, " at={at} score={score}");
            if let Some(Pace { rate, rtt_min, measured }) = pace {
                let (rate, rtt) = (rate.bits_per_second(), rtt_min.as_micros());
                let _ = write!(line, " rate={rate} rtt_us={rtt}");
                if measured > 0 {
                    let _ = write!(line, " measured={measured}");
                }
            }
        }
        if let Some((at, marks)) = self.marks {
            let _ = write!(line, " marks={} marked={at}", marks.name());
        }
        line
    }

    /// Reads a line.
    pub(super) fn parse(line: &str) -> Option<(PathKey, Self)> {
        let mut words = line.split_ascii_whitespace();
        let destination = words.next()?.parse::<IpAddr>().ok()?.to_canonical();
        let values: HashMap<_, _> = words.filter_map(|word| word.split_once('=')).collect();
        let number = |name| values.get(name)?.parse::<u64>().ok();
        let network = values.get("from")?.parse::<IpAddr>().ok()?.to_canonical();
        let pace = || {
            let rate = number("rate").filter(|rate| KnownPath::RATES.contains(rate))?;
            let rate = Rate::from_bits_per_second(rate)?;
            let rtt_min = Duration::from_micros(number("rtt_us")?);
            let measured = number("measured").unwrap_or(0);
            KnownPath::ROUND_TRIPS.contains(&rtt_min).then_some(Pace { rate, rtt_min, measured })
        };
        let score = values.get("score").and_then(|score| score.parse().ok());
        let found = number("at").zip(score).map(|(at, score)| Evidence { at, score, pace: pace() });
        let marks = number("marked").zip(values.get("marks").and_then(|name| MarkChoice::named(name)));
        let entry = Self { found, marks };
        (entry != Self::default()).then_some((PathKey { destination, network }, entry))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    pub(in super::super) fn entries() -> impl Strategy<Value = (PathKey, PathEntry)> {
        let pace =
            (KnownPath::RATES, 1..60_000_000_u64, any::<u64>()).prop_map(|(rate, rtt, measured)| Pace {
                rate: Rate::from_bits_per_second(rate).expect("not zero"),
                rtt_min: Duration::from_micros(rtt),
                measured,
            });
        let found = (any::<u64>(), any::<i32>(), proptest::option::of(pace))
            .prop_map(|(at, score, pace)| Evidence { at, score, pace });
        let marks = (any::<u64>(), proptest::sample::select(MarkChoice::ALL.as_slice()));
        (any::<IpAddr>(), any::<IpAddr>(), proptest::option::of(found), proptest::option::of(marks))
            .prop_filter("something", |(.., found, marks)| found.is_some() || marks.is_some())
            .prop_map(|(destination, network, found, marks)| {
                let key =
                    PathKey { destination: destination.to_canonical(), network: network.to_canonical() };
                (key, PathEntry { found, marks })
            })
    }

    #[test]
    fn the_line_of_the_documentation_is_read() {
        let line = "192.0.2.7 from=10.0.0.3 at=1790000000 score=-6 rate=93000000 rtt_us=20100 measured=1200000 marks=cs1 marked=1790000100";
        let (key, entry) = PathEntry::parse(line).expect("a line");
        assert_eq!(entry.line(key), line);
        assert_eq!(entry.marks, Some((1_790_000_100, MarkChoice::Cs1)));
        let later = line.replace("score", "colour=blue score");
        assert_eq!(PathEntry::parse(&later), Some((key, entry)), "a later version may have more");
    }

    #[test]
    fn lines_that_cannot_be_are_none() {
        for line in [
            "",
            "# a remark",
            "192.0.2.7",
            "192.0.2.7 at=1 score=1",
            "192.0.2.7 from=10.0.0.3",
            "192.0.2.7 from=10.0.0.3 at=1 score=much",
            "192.0.2.7 from=10.0.0.3 at=-1 score=1",
            "192.0.2.7 from=10.0.0.3 marks=best marked=1",
            "example.org from=10.0.0.3 at=1 score=1",
        ] {
            assert_eq!(PathEntry::parse(line), None, "{line}");
        }
    }

    #[test]
    fn absurd_rates_are_left_out_and_verdicts_stay() {
        for pace in ["rate=0 rtt_us=5", "rate=99999999999999999 rtt_us=5", "rate=5000 rtt_us=0", "rate=5000"]
        {
            let line = format!("192.0.2.7 from=10.0.0.3 at=1 score=6 {pace}");
            let (_, entry) = PathEntry::parse(&line).expect("a verdict");
            assert_eq!(entry.found, Some(Evidence { at: 1, score: 6, pace: None }), "{pace}");
        }
    }

    #[test]
    fn the_newer_of_each_half_stays_and_a_rate_until_there_is_another() {
        let pace =
            PathEntry::parse("::1 from=:: at=5 score=1 rate=5000 rtt_us=7 marks=le marked=9").unwrap().1;
        let mut entry = PathEntry::parse("::1 from=:: at=6 score=2 marks=cs1 marked=8").unwrap().1;
        let newer = entry;
        entry = pace;
        entry.merge(newer);
        let Some(Evidence { at: 6, score: 2, pace: Some(_) }) = entry.found else { panic!("{entry:?}") };
        assert_eq!(entry.marks, Some((9, MarkChoice::LowerEffort)));
        let before = entry;
        entry.merge(pace);
        assert_eq!(entry, before, "nothing newer");
    }

    #[test]
    fn what_is_old_or_of_the_future_is_no_good() {
        let (_, entry) = PathEntry::parse("::1 from=:: at=1000 score=1 marks=le marked=500000").unwrap();
        assert_eq!(entry.good(1000, DAY).map(|good| (good.found.is_some(), good.marks)), Some((true, None)));
        // Another process wrote it while this one, which had read its clock, waited for the lock.
        assert_eq!(entry.good(1000 - AHEAD_MAX, DAY).map(|good| good.found.is_some()), Some(true));
        assert_eq!(entry.good(999 - AHEAD_MAX, DAY), None);
        assert_eq!(entry.good(1000 + 86_400, DAY), None);
    }

    proptest! {
        #[test]
        fn an_entry_survives_its_line((key, entry) in entries()) {
            prop_assert_eq!(PathEntry::parse(&entry.line(key)), Some((key, entry)));
        }

        #[test]
        fn any_text_is_read_without_a_panic(line in "\\PC*") {
            let _ = PathEntry::parse(&line);
        }
    }
}
