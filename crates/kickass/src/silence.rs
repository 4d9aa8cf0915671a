//! When a router whose queue exceeds the threshold stops signalling (Kick-Ass §2.3.2).
//!
//! The threshold exists because of senders that ignore signals. A long queue alone does not distinguish them from
//! senders that have not received a signal yet; the arrivals one round trip later do. So [`Rule::Ignored`] keeps
//! signalling the rate, which its law lowers, as long as arrivals or queue decrease, and stops when neither does.
//!
//! Units: bytes; round trips are the mean of the senders' indications.

use std::time::{Duration, Instant};

/// When to stop signalling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Rule {
    /// The paper's rule: as soon as the queue exceeds the threshold.
    Threshold,
    /// Once the arrivals show that senders ignore the rate.
    #[default]
    Ignored,
}

/// Whether the rate is ignored at one link.
#[derive(Debug, Clone, Default)]
pub(crate) struct Silence {
    /// The current round trip, while the queue exceeds the threshold.
    trip: Option<Trip>,
    ignored: bool,
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

    /// `backlog` bytes are queued at `now`, `above` the threshold or not. Without a known round trip, the rate counts
    /// as ignored.
    pub(crate) fn advance(&mut self, now: Instant, backlog: u64, above: bool, rtt: Option<Duration>) {
        let begin = |before| Trip { since: now, backlog, bytes: 0, before };
        if !above {
            return *self = Self::default();
        }
        let Some(rtt) = rtt else { return self.ignored = true };
        match self.trip {
            None => self.trip = Some(begin(None)),
            Some(trip) if now >= trip.since + rtt => {
                let less = |before| trip.bytes < before - before / LESS;
                self.ignored |= trip.before.is_some_and(|before| !less(before) && backlog >= trip.backlog);
                self.trip = Some(begin(Some(trip.bytes)));
            }
            Some(_) => {}
        }
    }

    /// Whether senders were signalled a lower rate and did not follow it.
    pub(crate) fn is_ignored(&self) -> bool {
        self.ignored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// After round trips with these arrivals, each with the queue at its end.
    fn ignored(trips: &[(usize, u64)]) -> bool {
        let start = Instant::now();
        let mut silence = Silence::default();
        silence.advance(start, 600, true, Some(RTT));
        for (trip, (bytes, backlog)) in (1..).zip(trips) {
            silence.on_arrival(*bytes);
            silence.advance(start + trip * RTT, *backlog, *backlog > 500, Some(RTT));
        }
        silence.is_ignored()
    }

    #[test]
    fn a_router_is_ignored_where_neither_load_nor_queue_falls_in_the_second_round_trip() {
        assert!(!ignored(&[(3000, 1000)]), "no signal has arrived yet");
        assert!(ignored(&[(3000, 1000), (3000, 1000)]));
        assert!(!ignored(&[(3000, 1000), (2500, 1000), (2000, 1000), (1000, 800)]), "less comes");
        assert!(!ignored(&[(1000, 900), (1000, 800), (1000, 700)]), "less waits");
        assert!(ignored(&[(1000, 900), (1000, 800), (1100, 900)]));
    }

    #[test]
    fn it_stays_ignored_until_less_waits_than_the_threshold() {
        assert!(ignored(&[(3000, 1000), (3000, 1000), (1000, 600)]));
        assert!(!ignored(&[(3000, 1000), (3000, 1000), (1000, 500)]));
    }

    #[test]
    fn without_indicated_round_trips_the_rate_counts_as_ignored() {
        let mut silence = Silence::default();
        silence.advance(Instant::now(), 600, true, None);
        assert!(silence.is_ignored());
    }
}
