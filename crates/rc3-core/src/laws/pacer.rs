//! An optional cap on the RLP loop: the speed of the network card.
//!
//! RLP sends what the card can take beyond the primary (RC3 §2.1: rate of RLP = capacity of the card minus rate of the
//! primary). If the card gives no back pressure, the pacer replaces it: one token bucket from which both loops draw.
//! The primary goes first: it never waits, but leaves a debt that RLP waits out.
//!
//! The arithmetic is exact. The bucket counts in 10⁻⁹ bit, so a rate of r bit/s adds r units per nanosecond. Only
//! results are rounded: budgets down to whole bytes, times up to whole nanoseconds.
//!
//! Units of the interface: bytes and [`Instant`]s. Time that runs backwards counts as standing still.

use std::time::{Duration, Instant};

use crate::units::Rate;

/// Units of the bucket in one byte.
const BYTE: i128 = 8 * SECOND;
/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;
/// Upper bound of the primary's debt, in nanoseconds at full rate.
///
/// The window bounds what the primary has sent and the card has not; congestion control lets it grow to about one round
/// trip at the rate of the card, well below a second. A greater debt only shows that the configured rate is below the
/// card's, and must not stop RLP long after the primary has finished.
const DEBT_MAX: i128 = SECOND;

/// A token bucket shared by both loops, which only RLP waits for.
#[derive(Debug, Clone)]
pub(crate) struct Pacer {
    /// Bits per second, equal to units per nanosecond.
    rate: i128,
    /// Most units the bucket holds.
    burst: i128,
    /// Units in the bucket at `at`; below zero is debt.
    level: i128,
    /// When `level` was true; `None` before the first packet, when the bucket is full.
    at: Option<Instant>,
}

impl Pacer {
    /// A pacer at `rate` that starts with a full bucket of `burst` bytes (at least 1): what RLP may send at once after
    /// a pause.
    ///
    /// The burst should be greater than the largest batch. Tokens beyond a full bucket are lost, so waiting for a full
    /// one loses up to a nanosecond each time; waiting for less loses nothing.
    pub(crate) fn new(rate: Rate, burst: u64) -> Self {
        let burst = i128::from(burst.max(1)) * BYTE;
        Self { rate: i128::from(rate.bits_per_second()), burst, level: burst, at: None }
    }

    /// Sets `rate`, and a bucket of `burst` bytes (at least 1). Its content stays, as far as it fits.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate, burst: u64) {
        self.refill(now);
        self.rate = i128::from(rate.bits_per_second());
        self.burst = i128::from(burst.max(1)) * BYTE;
        self.level = self.level.min(self.burst);
    }

    /// Forgives all debt.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.refill(now);
        self.level = self.level.max(0);
    }

    /// The primary sent `bytes`; it needs no budget.
    pub(crate) fn on_primary_sent(&mut self, now: Instant, bytes: u64) {
        self.refill(now);
        // The bound forgives only what this packet adds: it never reduces an existing deeper debt.
        let floor = self.level.min(-(DEBT_MAX * self.rate));
        self.level = (self.level - i128::from(bytes) * BYTE).max(floor);
    }

    /// RLP sent `bytes`; it must wait out what exceeds its budget.
    pub(crate) fn on_rlp_sent(&mut self, now: Instant, bytes: u64) {
        self.refill(now);
        self.level = self.level.saturating_sub(i128::from(bytes) * BYTE);
    }

    /// How many bytes RLP may send at `now`: 0 while in debt, never more than the burst.
    pub(crate) fn budget(&self, now: Instant) -> u64 {
        u64::try_from(self.level_at(now).max(0) / BYTE).unwrap_or(u64::MAX)
    }

    /// The earliest time from `now` on at which the budget reaches `bytes`, or the burst if that is less.
    pub(crate) fn ready_at(&self, now: Instant, bytes: u64) -> Instant {
        let missing = (i128::from(bytes) * BYTE).min(self.burst) - self.level_at(now);
        if missing <= 0 {
            return now;
        }
        let nanos = (missing + self.rate - 1) / self.rate;
        let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        // Beyond the range of the clock: a day is as good as never, and the caller asks again.
        now.checked_add(wait).unwrap_or_else(|| now + Duration::from_secs(86_400))
    }

    fn refill(&mut self, now: Instant) {
        self.level = self.level_at(now);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }

    fn level_at(&self, now: Instant) -> i128 {
        let elapsed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let nanos = i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX);
        self.level.saturating_add(nanos.saturating_mul(self.rate)).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mbit(megabits: u64) -> Rate {
        Rate::from_bits_per_second(megabits * 1_000_000).unwrap()
    }

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn packets_leave_exactly_every_116_160_nanoseconds() {
        let start = Instant::now();
        let mut pacer = Pacer::new(mbit(100), 1452);
        let mut now = start;
        for nth in 0..100_000 {
            now = pacer.ready_at(now, 1452);
            assert_eq!(now - start, Duration::from_nanos(116_160 * nth));
            assert!(pacer.budget(now) >= 1452);
            pacer.on_rlp_sent(now, 1452);
        }
    }

    #[test]
    fn an_odd_rate_does_not_drift() {
        // 7 bytes at 3 bit/s take 18.67 s: rounding up to a nanosecond must not add up.
        let start = Instant::now();
        let mut pacer = Pacer::new(Rate::from_bits_per_second(3).unwrap(), 8);
        let mut now = start;
        for nth in 1..=3_000 {
            now = pacer.ready_at(now, 7);
            pacer.on_rlp_sent(now, 7);
            let bits: u64 = (7 * nth - 8u64.min(7 * nth)) * 8;
            assert_eq!(now - start, Duration::from_nanos((bits * 1_000_000_000).div_ceil(3)));
        }
    }

    #[test]
    fn primary_is_not_asked_but_rlp_waits_for_it() {
        let now = Instant::now();
        let mut pacer = Pacer::new(mbit(8), 1000);
        pacer.on_primary_sent(now, 3000);
        assert_eq!(pacer.budget(now), 0);
        assert_eq!(pacer.budget(now + micros(2000)), 0);
        assert_eq!(pacer.budget(now + micros(2001)), 1);
        assert_eq!(pacer.ready_at(now, 500), now + micros(2500));
        assert_eq!(pacer.ready_at(now, u64::MAX), now + micros(3000));
        assert_eq!(pacer.budget(now + micros(1_000_000)), 1000);
    }

    #[test]
    fn debt_of_the_primary_is_worth_at_most_a_second() {
        let now = Instant::now();
        let mut pacer = Pacer::new(mbit(8), 1000);
        for _ in 0..10 {
            pacer.on_primary_sent(now, u64::MAX);
        }
        assert_eq!(pacer.ready_at(now, 1), now + micros(1_000_001));
    }

    #[test]
    fn rlp_beyond_its_budget_is_not_forgiven() {
        let now = Instant::now();
        let mut pacer = Pacer::new(mbit(8), 1000);
        pacer.on_rlp_sent(now, 1000 + 3_000_000);
        pacer.on_primary_sent(now, 1000);
        assert_eq!(pacer.ready_at(now, 1), now + micros(3_000_001));
    }

    #[test]
    fn time_that_runs_backwards_gives_nothing() {
        let now = Instant::now() + micros(1000);
        let mut pacer = Pacer::new(mbit(8), 1000);
        pacer.on_rlp_sent(now, 1000);
        pacer.on_rlp_sent(now - micros(500), 0);
        assert_eq!(pacer.budget(now - micros(500)), 0);
        assert_eq!(pacer.budget(now + micros(500)), 500);
    }

    #[test]
    fn extreme_numbers_do_not_overflow() {
        let now = Instant::now();
        let mut pacer = Pacer::new(Rate::from_bits_per_second(1).unwrap(), u64::MAX);
        assert_eq!(pacer.budget(now), u64::MAX);
        for _ in 0..3 {
            pacer.on_rlp_sent(now, u64::MAX);
        }
        assert!(pacer.ready_at(now, u64::MAX) > now);
        let mut fast = Pacer::new(Rate::from_bits_per_second(u64::MAX).unwrap(), 1);
        fast.on_primary_sent(now, u64::MAX);
        assert_eq!(fast.budget(now + Duration::from_secs(1 << 32)), 1);
    }

    proptest! {
        #[test]
        fn rlp_never_exceeds_rate_and_burst_in_any_interval(
            bits in 1..20_000_000_000u64,
            burst in 1..100_000u64,
            steps in prop::collection::vec(
                (0..300_000u64, 0..20_000u64, any::<bool>(), any::<bool>()),
                1..60,
            ),
        ) {
            let start = Instant::now();
            let mut pacer = Pacer::new(Rate::from_bits_per_second(bits).unwrap(), burst);
            let mut now = start;
            let mut sent: Vec<(u128, u128)> = Vec::new();
            for (gap, bytes, primary, wait) in steps {
                now += Duration::from_nanos(gap);
                if primary {
                    pacer.on_primary_sent(now, bytes);
                    continue;
                }
                if wait {
                    now = pacer.ready_at(now, bytes);
                    prop_assert!(pacer.budget(now) >= bytes.min(burst), "ready at the reported time");
                }
                let bytes = bytes.min(pacer.budget(now));
                pacer.on_rlp_sent(now, bytes);
                sent.push(((now - start).as_nanos(), u128::from(bytes)));
            }
            for (at, &(from, _)) in sent.iter().enumerate() {
                let mut total = 0;
                for &(to, bytes) in &sent[at..] {
                    total += bytes;
                    let allowed = u128::from(bits) * (to - from) + u128::from(burst) * 8_000_000_000;
                    prop_assert!(total * 8_000_000_000 <= allowed);
                }
            }
        }

        #[test]
        fn ready_at_is_the_earliest_time(
            bits in 1..20_000_000_000u64,
            burst in 1..100_000u64,
            debt in 0..200_000u64,
            bytes in 1..100_000u64,
        ) {
            let now = Instant::now();
            let mut pacer = Pacer::new(Rate::from_bits_per_second(bits).unwrap(), burst);
            pacer.on_rlp_sent(now, debt);
            let ready = pacer.ready_at(now, bytes);
            prop_assert!(pacer.budget(ready) >= bytes.min(burst));
            if ready > now {
                prop_assert!(pacer.budget(ready - Duration::from_nanos(1)) < bytes.min(burst));
            }
        }
    }
}
