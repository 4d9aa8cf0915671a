//! What reports hide. A receiver can make up the times in them, but it cannot prove receipt of a packet before it has it:
//! the round trip from departure to proof, by the sender's clock, holds every queue on the way.

use std::time::{Duration, Instant};

use super::{delay::Delay, least::Least};
use crate::laws::constants::Law;

/// Round trips of proved packets beside what was reported of them.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips {
    proved: Delay,
    reported: Delay,
    /// Seconds from reported arrival to proof, including the offset of the two clocks.
    back: Least,
}

impl RoundTrips {
    /// A packet was proved after `round_trip`, and is reported to have arrived after `delay` seconds, relative to any
    /// epoch. Returns by how many seconds reported delays are too short.
    pub(super) fn add(
        &mut self,
        law: &Law,
        now: Instant,
        round_trip: Duration,
        delay: f64,
        rtt: Duration,
    ) -> f64 {
        self.proved.add(law, now, round_trip.as_secs_f64(), rtt);
        self.reported.add(law, now, delay, rtt);
        let (Some(proved), Some(reported)) = (self.proved.recent(), self.reported.recent()) else {
            return 0.0;
        };
        let back = proved - reported;
        (back - self.back.add(now, back) - noise(law, rtt).as_secs_f64()).max(0.0)
    }

    /// By how much recent proofs came later than after the shortest way back.
    pub(crate) fn late(&self) -> Duration {
        let back =
            self.proved.samples().zip(self.reported.samples()).map(|(proved, reported)| proved - reported);
        let late = back.reduce(f64::max).zip(self.back.get()).map_or(0.0, |(longest, least)| longest - least);
        Duration::try_from_secs_f64(late.max(0.0)).unwrap_or_default()
    }
}

/// By how much the time from a packet's arrival to its proof may vary without a lie.
pub(super) fn noise(law: &Law, rtt: Duration) -> Duration {
    (rtt / law.noise_part).max(law.host_jitter)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// What is added, in milliseconds, after a second of packets each millisecond: `wait` is their queue, and `report` what the
    /// receiver makes of when it gets a packet and of that queue. Its clock is ahead by an hour, and it reads `late`.
    fn hidden(wait: fn(u64) -> u64, late: fn(u64) -> u64, report: fn(u64, u64) -> f64) -> f64 {
        let (start, mut trips) = (Instant::now(), RoundTrips::default());
        let mut hidden = 0.0;
        for at in 0..1000 {
            let (wait, late) = (wait(at), late(at));
            let round_trip = RTT + Duration::from_millis(wait + late);
            let delay = 3600.0 + report(at, wait) * 1e-3;
            let now = start + Duration::from_millis(at) + round_trip;
            hidden = trips.add(&Law::default(), now, round_trip, delay, RTT);
        }
        (hidden * 1e3).round()
    }

    #[test]
    fn a_queue_that_is_reported_is_not_counted_twice() {
        assert_eq!(hidden(|at| at / 50, |_| 0, |_, wait| wait as f64), 0.0);
        // Nor is a receiver that reads each eighth millisecond.
        assert_eq!(hidden(|_| 0, |at| 7 - at % 8, |_, wait| wait as f64), 0.0);
    }

    #[test]
    fn a_queue_that_is_not_reported_is_added_except_for_noise() {
        let grows = |at: u64| at / 50;
        let honest = |_: u64| 0;
        let ends_at = 999 / 50;
        let (all, noise) = (f64::from(ends_at), noise(&Law::default(), RTT).as_secs_f64() * 1e3);
        let near = |hidden: f64, of: f64| assert!((hidden - of).abs() <= 2.0, "{hidden}, not {of}");
        near(hidden(grows, honest, |_, _| 0.0), all - noise);
        near(hidden(grows, honest, |at, wait| if at % 10 == 0 { wait as f64 } else { 0.0 }), all - noise);
        // A clock at half the speed: half a second is missing.
        near(hidden(|_| 0, honest, |at, _| at as f64 * -0.5), 500.0 - noise);
    }
}
