//! When a router whose queue has grown beyond the threshold falls silent (Kick-Ass §2.3.2).
//!
//! The threshold is there for senders that do not listen. A full queue alone does not tell them from senders that have not
//! heard yet; what comes a round trip later does. So [`Rule::Ignored`] goes on telling the rate, which its law lowers, as
//! long as that makes less come or less wait, and falls silent where it does neither.
//!
//! Units: bytes; round trips are the mean that senders indicate.

use std::time::{Duration, Instant};

/// Which rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rule {
    /// The paper's: as soon as the threshold is passed.
    Threshold,
    /// Once what comes shows that the rate is ignored.
    #[default]
    Ignored,
}

/// Whether the rate is ignored at one link.
#[derive(Debug, Clone, Default)]
pub(crate) struct Silence {
    /// The present round trip, while more waits than the threshold.
    trip: Option<Trip>,
    ignored: bool,
}

/// What came in a round trip.
#[derive(Debug, Clone, Copy)]
struct Trip {
    since: Instant,
    /// What waited then.
    backlog: u64,
    bytes: u64,
    /// What came in the round trip before, if the rate was told below a full queue then: the first answers nothing.
    before: Option<u64>,
}

/// Part of what came that has to be less a round trip later: an eighth. With half of a buffer of one bandwidth-delay
/// product waiting RCP lowers its rate by about that much.
const LESS: u64 = 8;

impl Silence {
    /// A packet of the best level has come.
    pub(crate) fn on_arrival(&mut self, bytes: usize) {
        if let Some(trip) = &mut self.trip {
            trip.bytes += bytes as u64;
        }
    }

    /// `backlog` bytes wait at `now`, `above` the threshold or not. Where the round trip is not known, nobody has listened.
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

    /// Whether senders have been told to send less, and did not.
    pub(crate) fn is_ignored(&self) -> bool {
        self.ignored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// After round trips with so many bytes to come, and then so many that wait.
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
        assert!(!ignored(&[(3000, 1000)]), "nobody has heard yet");
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
    fn where_nobody_tells_round_trips_nobody_listens() {
        let mut silence = Silence::default();
        silence.advance(Instant::now(), 600, true, None);
        assert!(silence.is_ignored());
    }
}
