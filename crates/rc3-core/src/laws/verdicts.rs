//! What an endpoint remembers of the paths to its destinations, for later connections.

use std::{
    cmp,
    net::{IpAddr, Ipv6Addr},
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use super::guard::{self, Verdict};
use crate::{structures::destination_cache::DestinationCache, units::Rate};

/// Fewer bytes are no sound evidence, however slow the path: messages of an application have as many.
const SOUND_BYTES_MIN: u64 = 256 << 10;
/// A rate with this fraction of another's evidence may replace it.
const COMPARABLE: u64 = 4;
/// The newest paths of a network that count for an unknown one.
pub const NEAR_PATHS_MAX: usize = 16;
/// A path whose round trip is so many times longer has other links: one within a building says nothing about the Internet.
const RTT_RATIO_MAX: u32 = 16;

/// The record of one destination's path: what one connection passes to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinationVerdict {
    /// The destination; all of its ports share a path.
    pub destination: IpAddr,
    /// Whether the path honours priorities.
    pub verdict: Verdict,
    /// The evidence for that: above zero against the path, below zero for it.
    pub score: i32,
    /// The delivery rate and the round trip.
    pub pace: Option<Pace>,
    /// The local network that the path begins in, if known: the local address, of IPv6 its first 64 bits.
    pub network: Option<IpAddr>,
    /// Time of the last evidence.
    pub at: Instant,
    /// When the record expires.
    pub until: Instant,
}

/// The rate of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Rate of UDP payload.
    pub rate: Rate,
    /// The minimum round trip.
    pub rtt_min: Duration,
    /// Bytes by which the rate was measured: the evidence.
    pub measured: u64,
}

impl Pace {
    /// Bytes in flight that fill the path.
    pub(crate) fn bdp(&self) -> u64 {
        self.rate.bytes_in(self.rtt_min)
    }

    /// Whether the path was full for two round trips: jitter and bursts of hosts move such a rate little.
    pub fn is_sound(&self) -> bool {
        self.measured >= self.sound_bytes()
    }

    fn sound_bytes(&self) -> u64 {
        self.bdp().saturating_mul(2).max(SOUND_BYTES_MIN)
    }

    /// The rate to remember after this measurement: this one, unless the `known` one has more evidence by far.
    #[must_use]
    pub fn or_known(self, known: Option<Self>) -> Self {
        let outweighs = |known: &Self| known.measured.min(known.sound_bytes()) / COMPARABLE > self.measured;
        known.filter(|known| !self.is_sound() && outweighs(known)).unwrap_or(self)
    }
}

/// What an earlier process has learned about a path. It comes from outside and is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownPath {
    /// As in [`DestinationVerdict::score`].
    pub score: i32,
    /// The rate and the round trip; ignored outside [`Self::RATES`] and [`Self::ROUND_TRIPS`].
    pub pace: Option<Pace>,
    /// As in [`DestinationVerdict::network`].
    pub network: Option<IpAddr>,
    /// Age of the last evidence.
    pub age: Duration,
}

impl KnownPath {
    /// Possible rates of a path in bits per second, from a modem to a terabit.
    pub const RATES: RangeInclusive<u64> = 1_000..=1_000_000_000_000;
    /// Possible minimum round trips of a path, from within a host to deep space.
    pub const ROUND_TRIPS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(60);

    /// The record it gives at `now`, if such knowledge is valid for `good_for`.
    fn about(self, destination: IpAddr, now: Instant, good_for: Duration) -> Option<DestinationVerdict> {
        let left = good_for.checked_sub(self.age).filter(|left| !left.is_zero())?;
        let believable = |pace: &Pace| {
            Self::RATES.contains(&pace.rate.bits_per_second()) && Self::ROUND_TRIPS.contains(&pace.rtt_min)
        };
        let score = as_sure_as_needed(self.score);
        Some(DestinationVerdict {
            destination,
            verdict: guard::verdict(score),
            score,
            pace: self.pace.filter(believable),
            network: self.network,
            // A host that has run for less time has no earlier instant.
            at: now.checked_sub(self.age).unwrap_or(now),
            until: now.checked_add(left)?,
        })
    }
}

/// The lowest score for a verdict: one contradicting trial is enough against a verdict from outside.
fn as_sure_as_needed(score: i32) -> i32 {
    match guard::verdict(score) {
        Verdict::Unproven => score,
        // The score is at the verdict's bound, a few steps from zero.
        verdict => (1..=i32::MAX)
            .map(|size| size * score.signum())
            .find(|&weaker| guard::verdict(weaker) == verdict)
            .unwrap_or(score),
    }
}

/// The network of an address, as far as the address shows it: the first 64 bits of IPv6, of which one host can have all
/// addresses and changes its own (RFC 8981).
pub fn network_of(address: IpAddr) -> IpAddr {
    prefix_of(address, 64)
}

/// The site of an address, all that one subscriber may have: an IPv4 address, or the first 48 bits of IPv6 (RFC 6177).
pub fn site_of(address: IpAddr) -> IpAddr {
    prefix_of(address, 48)
}

/// An IPv4 address, or the first bits of IPv6.
fn prefix_of(address: IpAddr, bits: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - bits))).into(),
        ip @ IpAddr::V4(_) => ip,
    }
}

/// Whether two addresses are probably behind the same access network: they share 24 bits of IPv4, or the site of IPv6.
pub fn are_neighbours(one: IpAddr, other: IpAddr) -> bool {
    match (one.to_canonical(), other.to_canonical()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.to_bits() >> 8 == other.to_bits() >> 8,
        (one, other) => site_of(one) == site_of(other),
    }
}

/// The memory.
pub(crate) type Verdicts = DestinationCache<DestinationVerdict>;

impl Verdicts {
    /// The record of the path to `destination` from the local `network`. What was learned in another one is not about this
    /// path.
    pub(crate) fn recall_from(
        &mut self,
        now: Instant,
        network: Option<IpAddr>,
        destination: IpAddr,
    ) -> Option<DestinationVerdict> {
        let is_other = |known: Option<IpAddr>| known.is_some() && network.is_some() && known != network;
        self.recall(now, destination).filter(|known| !is_other(known.network))
    }

    /// The rate to expect on an unknown path with a round trip of `rtt`, from those that are probably limited by the same link:
    /// three of four had at least as much, since a rate that is too high harms more than one that is too low.
    pub(crate) fn expected_rate(
        &self,
        now: Instant,
        rtt: Duration,
        is_near: impl Fn(&DestinationVerdict) -> bool,
    ) -> Option<Rate> {
        let near = self.iter(now).filter(is_near);
        let paces = near.filter_map(|record| record.pace.map(|pace| (record.at, pace)));
        let mut rates: Vec<_> = paces
            .filter(|(_, pace)| rtt <= pace.rtt_min * RTT_RATIO_MAX)
            .map(|(at, pace)| (at, pace.rate))
            .collect();
        rates.sort_unstable_by_key(|&(at, _)| cmp::Reverse(at));
        rates.truncate(NEAR_PATHS_MAX);
        rates.sort_unstable_by_key(|&(_, rate)| rate.bits_per_second());
        rates.get(rates.len() / 4).map(|&(_, rate)| rate)
    }

    /// Stores what a connection has learned about a path, and keeps its rate if there is no better one. Returns the result.
    pub(crate) fn learn(&mut self, now: Instant, record: DestinationVerdict) -> DestinationVerdict {
        let known = self.recall_from(now, record.network, record.destination).and_then(|known| known.pace);
        let pace = record.pace.map(|found| found.or_known(known)).or(known);
        let record = DestinationVerdict { pace, ..record };
        self.store(record);
        record
    }

    /// Imports what an earlier process has learned about the path to `destination`, valid for `good_for`, unless this
    /// process knows better.
    pub(crate) fn import(&mut self, now: Instant, destination: IpAddr, known: KnownPath, good_for: Duration) {
        let Some(record) = known.about(destination.to_canonical(), now, good_for) else { return };
        let is_newer = |own: DestinationVerdict| now.saturating_duration_since(own.at) <= known.age;
        if !self.recall(now, destination).is_some_and(is_newer) {
            self.store(record);
        }
    }

    /// Takes over what another endpoint of this process has learned, unless this one knows something newer.
    pub(crate) fn adopt(&mut self, now: Instant, learned: &DestinationVerdict) {
        if learned.until > now && self.recall(now, learned.destination).is_none_or(|own| own.at < learned.at)
        {
            self.store(*learned);
        }
    }

    fn store(&mut self, record: DestinationVerdict) {
        self.remember(record.destination, record.at..record.until, record);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn remote() -> IpAddr {
        [192, 0, 2, 1].into()
    }

    fn record(score: i32, pace: Option<Pace>, at: Instant) -> DestinationVerdict {
        let (destination, verdict, until) = (remote(), guard::verdict(score), at + DAY);
        DestinationVerdict { destination, verdict, score, pace, network: None, at, until }
    }

    fn known(score: i32, bits: u64, rtt_min: Duration, age: Duration) -> KnownPath {
        let pace = Rate::from_bits_per_second(bits).map(|rate| Pace { rate, rtt_min, measured: 0 });
        KnownPath { score, pace, network: None, age }
    }

    fn imported(known: KnownPath) -> Option<DestinationVerdict> {
        let (now, mut memory) = (Instant::now(), Verdicts::default());
        memory.import(now, remote(), known, DAY);
        memory.recall(now, remote())
    }

    #[test]
    fn a_verdict_from_outside_is_one_trial_from_doubt() {
        for (score, verdict) in [(i32::MIN, Verdict::Honoured), (i32::MAX, Verdict::Ignored)] {
            let record = imported(known(score, 1 << 20, DAY / 86_400, DAY / 2)).expect("young enough");
            assert_eq!(record.verdict, verdict);
            assert_eq!(guard::verdict(record.score - record.score.signum()), Verdict::Unproven);
        }
        assert_eq!(imported(known(3, 1 << 20, DAY / 86_400, DAY / 2)).map(|record| record.score), Some(3));
    }

    #[test]
    fn three_of_four_of_the_newest_paths_have_the_expected_rate() {
        let (start, mut memory) = (Instant::now(), Verdicts::default());
        let rtt = Duration::from_millis(50);
        let expected = |memory: &mut Verdicts, nth: u32, megabits: u64, rtt_min| {
            let at = start + Duration::from_secs(nth.into());
            let rate = Rate::from_bits_per_second(megabits * 1_000_000).unwrap();
            let destination = std::net::Ipv4Addr::from(nth).into();
            let pace = Some(Pace { rate, rtt_min, measured: 0 });
            memory.store(DestinationVerdict { destination, ..record(0, pace, at) });
            memory.expected_rate(at, rtt, |_| true).map(|rate| rate.bits_per_second() / 1_000_000)
        };
        assert_eq!(expected(&mut memory, 0, 1000, Duration::from_millis(1)), None, "too near");
        assert_eq!(expected(&mut memory, 1, 50, rtt), Some(50));
        assert_eq!(expected(&mut memory, 2, 20, rtt), Some(20));
        assert_eq!(expected(&mut memory, 3, 90, rtt), Some(20));
        assert_eq!(expected(&mut memory, 4, 80, rtt), Some(50), "the second of four");
        for nth in 0..NEAR_PATHS_MAX as u32 {
            expected(&mut memory, 10 + nth, 7, rtt);
        }
        assert_eq!(memory.expected_rate(start, rtt, |_| true).map(Rate::bits_per_second), Some(7_000_000));
        assert_eq!(memory.expected_rate(start, rtt, |_| false), None);
    }

    #[test]
    fn neighbours_share_a_site() {
        let near = |one: &str, other: &str| are_neighbours(one.parse().unwrap(), other.parse().unwrap());
        assert!(near("192.0.2.1", "192.0.2.200") && near("192.0.2.1", "::ffff:192.0.2.9"));
        assert!(near("2001:db8:1:2::3", "2001:db8:1:ffff::9"));
        assert!(!near("192.0.2.1", "192.0.3.1") && !near("2001:db8:1::", "2001:db8:2::"));
        assert!(!near("192.0.2.1", "2001:db8::"));
    }

    #[test]
    fn what_is_too_old_is_not_taken_and_what_is_newer_stays() {
        assert_eq!(imported(known(-9, 1 << 20, DAY / 86_400, DAY)), None);
        let (now, mut memory) = (Instant::now(), Verdicts::default());
        let own = record(1, None, now);
        memory.store(own);
        memory.import(now, remote(), known(-9, 1 << 20, DAY / 86_400, Duration::from_secs(1)), DAY);
        assert_eq!(memory.recall(now, remote()), Some(own));
    }

    #[test]
    fn a_shared_verdict_counts_as_much_as_an_own_one_unless_that_is_newer() {
        let now = Instant::now();
        let (mut one, mut other) = (Verdicts::default(), Verdicts::default());
        let learned = one.learn(now, record(-40, None, now));
        other.adopt(now, &learned);
        assert_eq!(other.recall(now, remote()), Some(record(-40, None, now)));
        let newer = record(1, None, now + DAY / 2);
        other.store(newer);
        other.adopt(now + DAY / 2, &learned);
        assert_eq!(other.recall(now + DAY / 2, remote()), Some(newer));
        one = Verdicts::default();
        one.adopt(now + DAY, &learned);
        assert_eq!(one.iter(now + DAY).count(), 0, "expired");
    }

    #[test]
    fn a_verdict_without_a_rate_leaves_the_rate_that_was_known() {
        let (now, mut memory) = (Instant::now(), Verdicts::default());
        let pace = known(0, 1 << 20, DAY / 86_400, DAY).pace;
        memory.store(record(0, pace, now));
        let learned = memory.learn(now, record(6, None, now));
        assert_eq!((learned.pace, learned.verdict), (pace, Verdict::Ignored));
    }

    #[test]
    fn a_rate_gives_way_to_one_with_comparable_evidence() {
        let pace = |mbits: u64, measured| Pace {
            rate: Rate::from_bits_per_second(mbits * 1_000_000).expect("not zero"),
            rtt_min: Duration::from_millis(80),
            measured,
        };
        // A megabyte fills 100 Mbit/s for 80 ms.
        let known = pace(100, 10_000_000);
        for (found, replaces) in [
            (pace(7, 8000), false),
            (pace(400, 8000), false),
            (pace(50, 499_000), false),
            (pace(90, 500_000), true),
            // The path was full for two round trips.
            (pace(10, 300_000), true),
        ] {
            assert_eq!(found.or_known(Some(known)) == found, replaces, "{found:?}");
            assert_eq!(found.or_known(None), found);
        }
        // The little that was known first gives way to as little.
        assert_eq!(pace(400, 8000).or_known(Some(pace(7, 30_000))), pace(400, 8000));
        let (now, mut memory) = (Instant::now(), Verdicts::default());
        for pace in [known, pace(7, 8000)] {
            memory.learn(now, record(0, Some(pace), now));
        }
        assert_eq!(memory.recall(now, remote()).and_then(|record| record.pace), Some(known));
    }

    #[test]
    fn what_was_learned_in_another_network_is_not_about_this_path() {
        let (now, mut memory) = (Instant::now(), Verdicts::default());
        let [home, away] = [[192, 168, 0, 7], [10, 0, 0, 7]].map(|ip| Some(IpAddr::from(ip)));
        let pace = known(0, 1 << 20, DAY / 86_400, DAY).pace;
        memory.learn(now, DestinationVerdict { network: home, ..record(-9, pace, now) });
        let of = |memory: &mut Verdicts, network| memory.recall_from(now, network, remote());
        assert_eq!([home, None, away].map(|network| of(&mut memory, network).is_some()), [true, true, false]);
        // Its rate is not that of a record from there either.
        let learned = memory.learn(now, DestinationVerdict { network: away, ..record(3, None, now) });
        assert_eq!((learned.pace, of(&mut memory, home)), (None, None));
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(network_of(ip("2001:db8::1:2:3:4")), network_of(ip("2001:db8::5")));
        assert_ne!(network_of(ip("2001:db8::5")), network_of(ip("2001:db8:0:1::5")));
        assert_eq!(network_of(ip("::ffff:10.0.0.7")), ip("10.0.0.7"));
    }

    proptest! {
        /// No import leads to a panic, an impossible rate, or a score that is hard to overturn.
        #[test]
        fn what_comes_from_outside_is_bounded(score: i32, bits: u64, rtt: Duration, age: Duration) {
            if let Some(record) = imported(known(score, bits, rtt, age)) {
                prop_assert!(age < DAY);
                prop_assert!(record.score.abs() <= 6);
                let possible = |pace: Pace| {
                    KnownPath::RATES.contains(&pace.rate.bits_per_second()) && KnownPath::ROUND_TRIPS.contains(&pace.rtt_min)
                };
                prop_assert!(record.pace.is_none_or(possible));
            }
        }
    }
}
