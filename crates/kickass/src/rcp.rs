//! The rate law of RCP: arrivals and queue go in, one rate for every flow on the link comes out.
//!
//! In each interval *T* the router adjusts its rate *R* by the spare capacity and the queue (N. Dukkipati and N.
//! McKeown, *Why Flow-Completion Time is the Right Metric for Congestion Control*, §2):
//!
//! ```text
//! R <- R (1 + (T/d) (alpha (gamma C - y) - beta q/d) / (gamma C))
//! ```
//!
//! *C* is the capacity, *y* the rate of arrivals during the interval, *q* the queue at its end, *d* the mean round
//! trip of the traffic, *T* the lesser of *d* and [`RcpConfig::interval_max`]. What the paper leaves open follows the
//! authors' ns-2 model (`rcp.cc` v4): the mean of *d*, which falls more slowly than it rises, and the bounds of *R*.
//! Unlike in that model, a packet counts fully in the interval in which it arrives, and *d* stays unchanged while no
//! packet indicates a round trip.
//!
//! A router that signals by codes withholds its rate while the queue is too long, see [`RateLaw::set_silent`]. Most traffic
//! that arrives then is no response to *R*, so *R* stays unchanged.
//!
//! No call has to be on time: [`RateLaw::advance`] makes every update that was due, in order. Intervals end at whole
//! nanoseconds, so lateness never adds up.
//!
//! Units: bytes on the wire, bytes per second, seconds in `f64`.

use std::time::{Duration, Instant};

use rc3_units::Rate;

use crate::{code::Code, indicator::INTERVAL, law::RateLaw};

/// Shorter round trips count as this: no packet may make intervals arbitrarily short.
const RTT_MIN: Duration = Duration::from_micros(10);
/// Longer round trips count as this: no packet may make the law arbitrarily slow.
const RTT_MAX: Duration = Duration::from_secs(10);
/// Lower bound of every rate, in bytes per round trip (ns-2: `min_pprtt_` 0.01 packets of 1000 bytes).
const BYTES_PER_RTT_MIN: f64 = 10.0;

/// Parameters of the law. The defaults are those of the authors' ns-2 model; neither paper prints its own.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields, rename_all = "kebab-case"))]
pub struct RcpConfig {
    /// Gain on spare capacity: 0.4. The authors' scripts for completion times use 0.1.
    pub alpha: f64,
    /// Gain on the queue: 0.4. The authors' scripts for completion times use 1.
    pub beta: f64,
    /// Fraction of the capacity to fill: 1.
    pub gamma: f64,
    /// First rate as a fraction of the capacity: 0.05.
    pub initial_fraction: f64,
    /// Longest interval between updates: 10 ms.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "rc3_text::units::deserialize_time"))]
    pub interval_max: Duration,
    /// Mean round trip before the first indication: 200 ms.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "rc3_text::units::deserialize_time"))]
    pub rtt_initial: Duration,
    /// Lower bound of the rate, in bytes per second: 0, and half the lowest code for [`Self::for_codes`].
    #[cfg_attr(feature = "serde", serde(skip))]
    pub floor: f64,
}

impl Default for RcpConfig {
    fn default() -> Self {
        Self {
            alpha: 0.4,
            beta: 0.4,
            gamma: 1.0,
            initial_fraction: 0.05,
            interval_max: Duration::from_millis(10),
            rtt_initial: Duration::from_millis(200),
            floor: 0.0,
        }
    }
}

impl RcpConfig {
    /// The default for routers that signal by codes.
    ///
    /// Below the lowest code such a router signals nothing, and its senders run TCP. While they fill the link and the
    /// queue, the rate falls by some 20 % each round trip. Without a floor it would fall so far that it needs more
    /// round trips of an idle link to reach the lowest code than TCP needs to fill that link: the router would never
    /// signal again.
    pub fn for_codes() -> Self {
        Self { floor: Code::RATE_MIN.bytes_per_second() / 2.0, ..Self::default() }
    }

    /// Whether a law can use these parameters.
    ///
    /// # Errors
    /// The name of a parameter, and what it must be.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        for (name, number) in [("alpha", self.alpha), ("beta", self.beta), ("floor", self.floor)] {
            if !(number.is_finite() && number >= 0.0) {
                return Err((name, "must be a number of at least 0"));
            }
        }
        for (name, part) in [("gamma", self.gamma), ("initial-fraction", self.initial_fraction)] {
            if !(part > 0.0 && part <= 1.0) {
                return Err((name, "must be a fraction of the rate, above 0 and at most 1"));
            }
        }
        if self.interval_max.is_zero() {
            return Err(("interval-max", "the interval must be above zero"));
        }
        Ok(())
    }
}

/// The law of one link.
#[derive(Debug, Clone)]
pub struct RcpLaw {
    config: RcpConfig,
    /// gamma C.
    target: f64,
    capacity: f64,
    /// R.
    rate: f64,
    /// d, within [`RTT_MIN`] and [`RTT_MAX`].
    rtt: f64,
    /// Beginning of the current interval.
    since: Instant,
    /// Its end.
    until: Instant,
    arrivals: ArrivalSums,
    indications: Indications,
    /// Since when the rate is withheld from senders; `None` while it is signalled.
    silent: Option<Instant>,
}

/// Arrivals in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct ArrivalSums {
    bytes: u64,
    /// Bytes of the packets that indicated a round trip.
    rtt_bytes: u64,
    /// Sum over these packets of round trip in nanoseconds times bytes.
    rtt_sum: u128,
}

/// How often senders indicated their round trips in the last two seconds.
#[derive(Debug, Clone, Copy)]
struct Indications {
    /// Beginning of the current second.
    since: Instant,
    /// Indications in it so far.
    now: u64,
    /// Indications in the second before.
    before: u64,
}

impl Indications {
    const SECOND: Duration = Duration::from_secs(1);

    fn advance(&mut self, now: Instant) {
        if now >= self.since + Self::SECOND {
            *self = Self { since: now, now: 0, before: self.now };
        }
    }

    /// Estimate of the number of senders. A sender indicates its round trip once in an [`INTERVAL`]; in TCP mode, where
    /// packets leave in a burst each round trip `rtt`, once in a round trip.
    fn senders(&self, rtt: Duration) -> f64 {
        self.before as f64 * rtt.max(INTERVAL).as_secs_f64()
    }
}

impl ArrivalSums {
    /// The mean round trip in seconds, by bytes.
    fn rtt(&self) -> Option<f64> {
        (self.rtt_bytes > 0).then(|| {
            let mean = self.rtt_sum as f64 / self.rtt_bytes as f64 / 1e9;
            mean.clamp(RTT_MIN.as_secs_f64(), RTT_MAX.as_secs_f64())
        })
    }
}

impl RcpLaw {
    /// The law of a link of `capacity` bytes per second that is idle since `since`. `first` is the length of the first
    /// interval: give every link a different one, so that they do not all update at the same instants.
    ///
    /// # Panics
    /// If the capacity or the first interval is not above zero, or [`RcpConfig::check`] fails.
    pub fn new(config: RcpConfig, capacity: f64, since: Instant, first: Duration) -> Self {
        if let Err((name, problem)) = config.check() {
            panic!("{name} {problem}");
        }
        assert!(capacity.is_finite() && capacity > 0.0, "a capacity of {capacity} carries nothing");
        assert!(!first.is_zero(), "the interval must not be zero");
        let target = config.gamma * capacity;
        Self {
            rate: (config.initial_fraction * capacity).min(target),
            rtt: config.rtt_initial.clamp(RTT_MIN, RTT_MAX).as_secs_f64(),
            config,
            target,
            capacity,
            since,
            until: since + first,
            arrivals: ArrivalSums::default(),
            indications: Indications { since, now: 0, before: 0 },
            silent: None,
        }
    }

    /// The rate each flow may use, bytes per second: above zero, at most gamma C.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// d, the mean round trip of the traffic.
    pub fn rtt(&self) -> Duration {
        Duration::from_secs_f64(self.rtt)
    }

    fn update(&mut self, queue_bytes: u64) {
        let interval = (self.until - self.since).as_secs_f64();
        let arrivals = std::mem::take(&mut self.arrivals);
        if let Some(sample) = arrivals.rtt() {
            // Weigh a fall by how well the traffic of one interval represents all flows.
            let trust =
                if sample >= self.rtt { 1.0 } else { self.rate / self.capacity * (sample / self.rtt) };
            let gain = (trust * interval / self.rtt).min(1.0);
            self.rtt += gain * (sample - self.rtt);
        }
        if self.silent.is_none() {
            let spare = self.target - arrivals.bytes as f64 / interval;
            let drain = queue_bytes as f64 / self.rtt;
            let correction = (self.config.alpha * spare - self.config.beta * drain) / self.target;
            self.rate =
                (self.rate * (1.0 + interval / self.rtt * correction)).clamp(self.floor(), self.target);
        }
        self.indications.advance(self.until);
        self.since = self.until;
        self.until = self.since + self.interval();
    }

    fn floor(&self) -> f64 {
        (BYTES_PER_RTT_MIN / self.rtt).max(self.config.floor).min(self.target)
    }

    /// T, until the next update.
    fn interval(&self) -> Duration {
        self.rtt().min(self.config.interval_max)
    }

    /// Passes over the whole intervals up to `now`, in each of which the update would change nothing.
    fn skip(&mut self, now: Instant) {
        let interval = self.interval().as_nanos();
        let passed = now.saturating_duration_since(self.since).as_nanos() / interval * interval;
        self.since += Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX));
        self.until = self.since + self.interval();
    }
}

impl RateLaw for RcpLaw {
    /// Once the rate of an idle link is constant, further idle time costs no work.
    fn advance(&mut self, now: Instant, queue_bytes: u64) {
        while self.until <= now {
            let rate = self.rate;
            let idle = self.arrivals == ArrivalSums::default();
            self.update(queue_bytes);
            if idle && self.rate == rate {
                self.skip(now);
            }
        }
    }

    /// The packet counts in the current interval, so call [`RateLaw::advance`] first. A round trip of zero is none.
    fn on_arrival(&mut self, bytes: u64, rtt: Option<Duration>) {
        self.arrivals.bytes = self.arrivals.bytes.saturating_add(bytes);
        if let Some(rtt) = rtt.filter(|rtt| !rtt.is_zero()) {
            self.indications.now += 1;
            let nanos = rtt.min(RTT_MAX).as_nanos();
            self.arrivals.rtt_bytes = self.arrivals.rtt_bytes.saturating_add(bytes);
            self.arrivals.rtt_sum = self.arrivals.rtt_sum.saturating_add(nanos * u128::from(bytes));
        }
    }

    /// At most gamma C.
    fn rate(&self) -> Option<Rate> {
        Rate::nearest(8.0 * self.rate)
    }

    fn rtt(&self) -> Option<Duration> {
        Some(self.rtt())
    }

    /// Sets whether the rate is withheld from senders from `now` on because the queue is too long.
    ///
    /// The rate stays unchanged meanwhile, because the arrivals are no response to it. Otherwise it would fall as long
    /// as senders that ignore signals keep the queue full, and end below all codes. After a round trip or more of
    /// withholding, the rate becomes half of what would be fair to the signalling senders if they were alone on the
    /// link. Their number is known, since each indicates its round trip repeatedly (Kick-Ass §2.2). They can certainly
    /// take that much of the link, and beside as many TCP flows it is their fair share.
    ///
    /// Call it before [`RateLaw::advance`] for the same time.
    fn set_silent(&mut self, now: Instant, silent: bool) {
        let since = match (self.silent, silent) {
            (None, true) => return self.silent = Some(now),
            (Some(since), false) => since,
            _ => return,
        };
        self.silent = None;
        let senders = self.indications.senders(self.rtt());
        if now >= since + self.rtt() && senders > 0.0 {
            self.rate = (self.target / senders / 2.0).clamp(self.floor(), self.target);
        }
    }

    /// The link carries `capacity` bytes per second from now on. Later updates adapt the rate, which never exceeds
    /// gamma C.
    ///
    /// # Panics
    /// If the capacity is not above zero.
    fn set_capacity(&mut self, capacity: f64) {
        assert!(capacity.is_finite() && capacity > 0.0, "a capacity of {capacity} carries nothing");
        self.capacity = capacity;
        self.target = self.config.gamma * capacity;
        self.rate = self.rate.min(self.target);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const MBIT: f64 = 125_000.0;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Long flows as a fluid: each sends at the rate the law had one round trip ago, and the queue takes what exceeds
    /// the link.
    struct Fluid {
        law: RcpLaw,
        now: Instant,
        capacity: f64,
        rtt: Duration,
        queue: f64,
        /// Rates on their way to the senders, which come back as traffic.
        rates: VecDeque<f64>,
        /// Fractions of bytes not passed to the law yet.
        owed: f64,
    }

    impl Fluid {
        const STEP: Duration = Duration::from_micros(500);

        fn new(config: RcpConfig, capacity: f64, rtt: Duration) -> Self {
            let now = Instant::now();
            let law = RcpLaw::new(config, capacity, now, millis(10));
            let delay = rtt.as_nanos() / Self::STEP.as_nanos();
            let rates = (0..delay).map(|_| law.rate()).collect();
            Self { law, now, capacity, rtt, queue: 0.0, rates, owed: 0.0 }
        }

        fn run(&mut self, flows: f64, time: Duration) {
            let step = Self::STEP.as_secs_f64();
            let end = self.now + time;
            while self.now < end {
                self.law.advance(self.now, self.queue as u64);
                self.rates.push_back(self.law.rate());
                let inflow = flows * self.rates.pop_front().unwrap() * step;
                self.owed += inflow;
                let wait = Duration::from_secs_f64(self.queue / self.capacity);
                self.law.on_arrival(self.owed as u64, Some(self.rtt + wait));
                self.owed -= self.owed.floor();
                self.queue = (self.queue + inflow - self.capacity * step).max(0.0);
                self.now += Self::STEP;
            }
        }
    }

    #[test]
    fn one_update_is_the_formula_of_the_paper() {
        let start = Instant::now();
        let mut law = RcpLaw::new(RcpConfig::default(), 1e6, start, millis(10));
        // 4000 bytes in 10 ms are 0.4 C, the queue is 1000 bytes, d is 200 ms, and this traffic indicates the same.
        law.on_arrival(4000, Some(millis(200)));
        law.advance(start + millis(10), 1000);
        let expected = 50_000.0 * (1.0 + 0.05 * (0.4 * 0.6 - 0.4 * (1000.0 / 0.2) / 1e6));
        assert!((law.rate() / expected - 1.0).abs() < 1e-12, "{}", law.rate());
    }

    #[test]
    fn the_mean_round_trip_rises_faster_than_it_falls() {
        let start = Instant::now();
        let law = RcpLaw::new(RcpConfig::default(), 1e6, start, millis(10));
        let after = |rtt| {
            let mut law = law.clone();
            law.on_arrival(1500, Some(rtt));
            law.advance(start + millis(10), 0);
            law.rtt().as_secs_f64()
        };
        assert!((after(millis(400)) - 0.21).abs() < 1e-9);
        let gain = 0.05 * 0.5 * 0.05;
        assert!((after(millis(100)) - (0.2 - gain * 0.1)).abs() < 1e-9);
        assert_eq!(after(Duration::ZERO), 0.2);
    }

    #[test]
    fn flows_that_come_and_go_are_followed() {
        let capacity = 150.0 * MBIT;
        let mut fluid = Fluid::new(RcpConfig::default(), capacity, millis(100));
        for flows in [10.0, 11.0, 30.0, 3.0] {
            fluid.run(flows, Duration::from_secs(30));
            let fair = capacity / flows;
            assert!((fluid.law.rate() / fair - 1.0).abs() < 0.01, "{flows}: {}", fluid.law.rate() / fair);
            assert!(fluid.queue < 1500.0, "{}", fluid.queue);
        }
    }

    #[test]
    fn a_link_that_changes_its_capacity_is_followed() {
        let mut fluid = Fluid::new(RcpConfig::default(), 150.0 * MBIT, millis(100));
        fluid.run(10.0, Duration::from_secs(30));
        fluid.capacity = 30.0 * MBIT;
        fluid.law.set_capacity(fluid.capacity);
        assert!(fluid.law.rate() <= fluid.capacity);
        fluid.run(10.0, Duration::from_secs(30));
        assert!((fluid.law.rate() / (3.0 * MBIT) - 1.0).abs() < 0.01, "{}", fluid.law.rate());
    }

    #[test]
    fn with_a_floor_the_lowest_code_is_signalled_again_within_five_round_trips_of_a_half_idle_link() {
        let capacity = 150.0 * MBIT;
        let after = |config: RcpConfig| {
            let start = Instant::now();
            let mut law = RcpLaw::new(config, capacity, start, millis(10));
            // Other flows fill the link and 60 ms of queue for 20 s; then they use half the link.
            for interval in 0..2000 {
                law.on_arrival((capacity / 100.0) as u64, Some(millis(160)));
                law.advance(start + millis(10) * (interval + 1), (capacity * 0.06) as u64);
            }
            let fallen = law.rate();
            let round_trips = (1..).find(|trip| {
                let now = law.until;
                for nth in 0..16 {
                    law.on_arrival((capacity / 200.0) as u64, Some(millis(160)));
                    law.advance(now + millis(10) * nth, 0);
                }
                law.rate() >= Code::RATE_MIN.bytes_per_second() || *trip == 100
            });
            (fallen, round_trips.unwrap())
        };
        let (fallen, round_trips) = after(RcpConfig::default());
        assert!(fallen < 100.0 && round_trips > 25, "{fallen} bytes per second, {round_trips} round trips");
        let (fallen, round_trips) = after(RcpConfig::for_codes());
        assert!(fallen == 7500.0 && round_trips <= 5, "{fallen} bytes per second, {round_trips} round trips");
    }

    #[test]
    fn in_silence_the_rate_stands_still_and_then_is_half_of_what_is_fair_to_those_who_listen() {
        let capacity = 150.0 * MBIT;
        let start = Instant::now();
        let mut law = RcpLaw::new(RcpConfig::for_codes(), capacity, start, millis(10));
        // Senders that indicate 500 round trips a second, and other flows, fill the link and 60 ms of queue.
        let run = |law: &mut RcpLaw, intervals: u32, silent: bool| {
            for _ in 0..intervals {
                let now = law.until;
                law.set_silent(now, silent);
                law.advance(now, (capacity * 0.06) as u64);
                (0..5).for_each(|_| law.on_arrival(600, Some(millis(160))));
                law.on_arrival((capacity / 100.0) as u64, None);
            }
            law.rate()
        };
        let signalled = run(&mut law, 10, false);
        assert_eq!(run(&mut law, 2000, true), signalled);
        let again = run(&mut law, 1, false);
        let senders = 500.0 * law.rtt().as_secs_f64();
        assert!((again / (capacity / senders / 2.0) - 1.0).abs() < 0.05, "{again}");
        // Withholding for less than a round trip has no effect.
        let before = run(&mut law, 2, true);
        assert!(run(&mut law, 1, false) < before);
    }

    #[test]
    fn a_century_of_silence_costs_nothing() {
        let start = Instant::now();
        let mut law = RcpLaw::new(RcpConfig::default(), 1e6, start, millis(7));
        let century = Duration::from_secs(100 * 365 * 86_400);
        law.advance(start + century, 0);
        assert_eq!(law.rate(), 1e6);
        assert!(law.until > start + century);
        assert!(law.until <= start + century + millis(10));
        assert_eq!((law.until - start - millis(7)).as_nanos() % 10_000_000, 0);
    }

    #[test]
    #[should_panic(expected = "carries nothing")]
    fn a_link_without_capacity_has_no_law() {
        let _ = RcpLaw::new(RcpConfig::default(), 0.0, Instant::now(), millis(10));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn long_flows_get_equal_parts_of_the_link(
            flows in 1..100_u32,
            megabits in 10.0..10_000.0,
            rtt in 10..200_u64,
            authors_fct in any::<bool>(),
        ) {
            let capacity = megabits * MBIT;
            let mut config = RcpConfig::default();
            if authors_fct {
                (config.alpha, config.beta) = (0.1, 1.0);
            }
            let mut fluid = Fluid::new(config, capacity, millis(rtt));
            fluid.run(f64::from(flows), Duration::from_secs(90));
            let fair = capacity / f64::from(flows);
            prop_assert!((fluid.law.rate() / fair - 1.0).abs() < 0.01, "{}", fluid.law.rate() / fair);
        }
    }

    #[derive(Debug, Clone)]
    struct Step {
        gap: u64,
        bytes: u64,
        rtt: u64,
        queue: u64,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let gap = prop_oneof![0..30_000_u64, 0..100_000_000_u64, 0..20_000_000_000_u64];
        let rtt = prop_oneof![Just(0), 1..1_000_000_000_u64, any::<u64>()];
        let queue = prop_oneof![Just(0), 0..1_000_000_u64, any::<u64>()];
        let bytes = prop_oneof![0..1500_u64, 0..1_000_000_u64, any::<u64>()];
        let step =
            (gap, bytes, rtt, queue).prop_map(|(gap, bytes, rtt, queue)| Step { gap, bytes, rtt, queue });
        prop::collection::vec(step, 0..100)
    }

    proptest! {
        #[test]
        fn the_rate_stays_within_bounds(
            steps in steps(),
            capacity in 1.0..1e11,
            alpha in 0.0..10.0,
            beta in 0.0..10.0,
            gamma in 0.01..1.0,
            fraction in 0.01..1.0,
        ) {
            let mut now = Instant::now();
            let config = RcpConfig { alpha, beta, gamma, initial_fraction: fraction, ..RcpConfig::default() };
            let mut law = RcpLaw::new(config, capacity, now, millis(5));
            for step in steps {
                now += Duration::from_nanos(step.gap);
                law.advance(now, step.queue);
                law.on_arrival(step.bytes, Some(Duration::from_nanos(step.rtt)));
                prop_assert!(law.rate() > 0.0 && law.rate() <= gamma * capacity, "{}", law.rate());
                prop_assert!(law.rtt() >= RTT_MIN && law.rtt() <= RTT_MAX, "{:?}", law.rtt());
                prop_assert!(law.until > now);
            }
        }

        #[test]
        fn lazy_updates_are_those_made_on_time(steps in steps(), first in 1..20_u64) {
            let start = Instant::now();
            let config = RcpConfig { rtt_initial: millis(50), ..RcpConfig::default() };
            let mut lazy = RcpLaw::new(config, 12.5e6, start, millis(first));
            let mut prompt = lazy.clone();
            let mut now = start;
            for step in steps {
                now += Duration::from_nanos(step.gap);
                while prompt.until <= now {
                    prompt.advance(prompt.until, step.queue);
                }
                lazy.advance(now, step.queue);
                for law in [&mut lazy, &mut prompt] {
                    law.on_arrival(step.bytes, Some(Duration::from_nanos(step.rtt)));
                }
                prop_assert_eq!(lazy.rate(), prompt.rate());
                prop_assert_eq!(lazy.rtt(), prompt.rtt());
                prop_assert_eq!(lazy.until, prompt.until);
            }
        }
    }
}
