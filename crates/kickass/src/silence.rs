//! When a router stops signalling because its queue is long, and when it signals again (Kick-Ass §2.3.2).
//!
//! The threshold exists because of senders that ignore signals. A long queue alone does not distinguish them from
//! senders that have not received a signal yet; the arrivals one round trip later do. So [`SilenceRule::Ignored`] keeps
//! signalling the rate, which its law lowers, as long as arrivals or queue decrease, and stops when neither does.
//!
//! While senders that ignore signals hold the link, the queue also falls below the threshold, for a few round trips after
//! their losses. A router that signals then takes their share from those that follow. So it signals again only when the
//! queue has been short for several round trips, or is empty. A second threshold near zero would do as well in buffers
//! of at most the bandwidth-delay product; in longer ones TCP mode never leaves so little.
//!
//! Units: bytes; round trips are the mean of the senders' indications.

use std::time::{Duration, Instant};

use crate::signal::{Backlog, SignalConfig};

/// When to stop signalling, once the queue exceeds [`SignalConfig::queue_threshold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum SilenceRule {
    /// At once: the paper's rule, if signals also return below that threshold.
    Threshold,
    /// Once the arrivals show that senders ignore the rate.
    #[default]
    Ignored,
}

/// Whether the router of one link withholds its rate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Silence {
    /// The current round trip, while the queue exceeds the threshold.
    trip: Option<Trip>,
    /// While it does: when the queue last exceeded the threshold.
    silent: Option<Instant>,
}

/// Arrivals in a round trip.
#[derive(Debug, Clone, Copy)]
struct Trip {
    since: Instant,
    /// The queue when it began.
    backlog: u64,
    bytes: u64,
    /// Arrivals in the round trip before, if signals could have affected them; they cannot in the first.
    before: Option<u64>,
}

/// Arrivals must decrease by this fraction in a round trip: an eighth. With half of a buffer of one bandwidth-delay
/// product filled, RCP lowers its rate by about that much.
const LESS: u64 = 8;

impl Silence {
    /// A packet of the best level arrived.
    pub(crate) fn on_arrival(&mut self, bytes: usize) {
        if let Some(trip) = &mut self.trip {
            trip.bytes += bytes as u64;
        }
    }

    /// The queue holds `backlog` at `now`. Without a known round trip `rtt`, the paper's rule holds.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        backlog: Backlog,
        config: &SignalConfig,
        rtt: Option<Duration>,
    ) {
        let long = backlog.bytes as f64 > config.queue_threshold * backlog.limit as f64;
        match self.silent {
            Some(_) if long => self.silent = Some(now),
            Some(long_at) => {
                let pause = rtt.unwrap_or_default().saturating_mul(config.queue_resume);
                if now.saturating_duration_since(long_at) >= pause || backlog.bytes == 0 {
                    *self = Self::default();
                }
            }
            None if long => {
                let ignored = match (config.silence, rtt) {
                    (SilenceRule::Ignored, Some(rtt)) => self.advance_trip(now, backlog.bytes, rtt),
                    _ => true,
                };
                self.silent = ignored.then_some(now);
            }
            None => self.trip = None,
        }
    }

    /// Counts round trips. Returns whether one ends in which neither arrivals nor queue decreased, although senders
    /// could know the rate.
    fn advance_trip(&mut self, now: Instant, backlog: u64, rtt: Duration) -> bool {
        let ended = self.trip.filter(|trip| now >= trip.since + rtt);
        if self.trip.is_none() || ended.is_some() {
            self.trip = Some(Trip { since: now, backlog, bytes: 0, before: ended.map(|trip| trip.bytes) });
        }
        ended.is_some_and(|Trip { bytes, before, backlog: least, .. }| {
            before.is_some_and(|before| bytes >= before - before / LESS && backlog >= least)
        })
    }

    /// Whether the router withholds its rate.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// After round trips with these arrivals, each with the queue at its end, of 1000 bytes at most.
    fn is_silent(silence: SilenceRule, queue_resume: u32, trips: &[(usize, u64)]) -> bool {
        let config = SignalConfig { silence, queue_resume, ..SignalConfig::default() };
        let start = Instant::now();
        let mut silence = Silence::default();
        let mut advance = |trip, bytes, backlog| {
            silence.on_arrival(bytes);
            let backlog = Backlog { bytes: backlog, limit: 1000 };
            silence.advance(start + trip * RTT, backlog, &config, Some(RTT));
        };
        advance(0, 0, 600);
        (1..).zip(trips).for_each(|(trip, &(bytes, backlog))| advance(trip, bytes, backlog));
        silence.is_silent()
    }

    #[test]
    fn a_router_is_ignored_where_neither_load_nor_queue_falls_in_the_second_round_trip() {
        let silent = |trips: &[_]| is_silent(SilenceRule::Ignored, 8, trips);
        assert!(!silent(&[(3000, 1000)]), "no signal has arrived yet");
        assert!(silent(&[(3000, 1000), (3000, 1000)]));
        assert!(!silent(&[(3000, 1000), (2500, 1000), (2000, 1000), (1000, 800)]), "less comes");
        assert!(!silent(&[(1000, 900), (1000, 800), (1000, 700)]), "less waits");
        assert!(silent(&[(1000, 900), (1000, 800), (1100, 900)]));
        assert!(!silent(&[(3000, 1000), (3000, 500), (3000, 1000)]), "the queue was short in between");
    }

    #[test]
    fn signals_return_when_the_queue_has_been_short_for_long_or_is_empty() {
        for (rule, ignored) in
            [(SilenceRule::Ignored, &[(3000, 1000), (3000, 1000)][..]), (SilenceRule::Threshold, &[])]
        {
            let silent = |resume, after: &[u64]| {
                let after: Vec<_> = after.iter().map(|backlog| (1000, *backlog)).collect();
                is_silent(rule, resume, &[ignored, &after].concat())
            };
            assert!(silent(0, &[501]) && !silent(0, &[500]), "{rule:?}: the paper's threshold");
            assert!(silent(3, &[500, 500]) && !silent(3, &[500, 500, 500]), "{rule:?}");
            assert!(silent(3, &[500, 500, 501, 500, 500]), "{rule:?}: it was long in between");
            assert!(silent(3, &[1]) && !silent(3, &[0]), "{rule:?}");
        }
    }

    #[test]
    fn without_indicated_round_trips_the_papers_rule_holds() {
        let (mut silence, now) = (Silence::default(), Instant::now());
        for (bytes, silent) in [(501, true), (500, false)] {
            silence.advance(now, Backlog { bytes, limit: 1000 }, &SignalConfig::default(), None);
            assert_eq!(silence.is_silent(), silent, "{bytes}");
        }
    }
}
