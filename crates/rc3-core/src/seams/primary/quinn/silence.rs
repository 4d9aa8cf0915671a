//! When to ask a silent peer for an acknowledgement, beside the probe timer of quinn-proto.
//!
//! That timer doubles with each probe (RFC 9002 §6.2.1): after an outage of a minute the next one leaves up to a minute
//! later. And it does not run at all when only padded ACKs are in flight, which quinn-proto 0.11.19 sends while it
//! validates a path: they elicit no acknowledgement, and if they are lost, a small window stays closed for ever.
//!
//! So a connection that has waited for an acknowledgement for [`PATIENCE`] asks four times a round trip, with one PING,
//! and sends nothing else until one is answered. The answer shows what was lost, and that arrives within two round trips
//! of the path's return. A PING takes less than a hundred bytes, and with the length of the silence they become rare: no
//! more than some twenty thousand go to a host that is gone for an hour.

use std::time::{Duration, Instant};

/// What quinn-proto's own timer has to itself. Within it, its probes are never further apart than half of it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same in round trips, where those are long: the longest probe timeout (RFC 9002 §6.2.1) is the smoothed one, four
/// times the variation, which is never more than twice the smoothed one, and one more for delayed ACKs.
const PATIENCE_ROUND_TRIPS: u32 = 10;

/// Least time between two PINGs: the longest time that peers delay their ACKs by default (RFC 9000 §18.2).
const APART_MIN: Duration = Duration::from_millis(25);

/// Most times that the distance of two PINGs fits into the silence before them.
const SHARE: u32 = 4096;

/// Acknowledgements after a silence until the round-trip time is that of the path again. The first ones may be of packets
/// from before it, also while PINGs wait still, and then the sample has the silence in it. Each further sample takes an
/// eighth of that away (RFC 9002 §5.3).
const SAMPLES_DISTRUSTED: u32 = 64;

/// Watches for acknowledgements.
#[derive(Debug)]
pub(super) struct Silence {
    /// When the last acknowledgement came, or what waits for one left.
    since: Instant,
    /// When the first and the last PING left.
    asked: Option<(Instant, Instant)>,
    /// A timer of quinn-proto has fired: the next packet that leaves without a window check may be a probe.
    timed_out: bool,
    /// The round-trip time before the last silence.
    rtt: Duration,
    /// So many acknowledgements give no round-trip time.
    distrusted: u32,
}

impl Silence {
    /// Nothing waits yet.
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, asked: None, timed_out: false, rtt: Duration::ZERO, distrusted: 0 }
    }

    /// What waits for an acknowledgement leaves, when nothing did before.
    pub(super) fn on_sent(&mut self, now: Instant) {
        *self = Self { rtt: self.rtt, distrusted: self.distrusted, ..Self::new(now) };
    }

    /// Acknowledgements came; the newest of all acknowledged packets had left at `sent`. Those of packets from before the
    /// first PING may have been under way before the outage.
    pub(super) fn on_acks(&mut self, now: Instant, sent: Option<Instant>) {
        let left = match self.asked {
            Some((first, _)) if sent.is_none_or(|sent| sent < first) => return,
            Some(_) => SAMPLES_DISTRUSTED,
            None => self.distrusted.saturating_sub(1),
        };
        *self = Self { rtt: self.rtt, distrusted: left, ..Self::new(now) };
    }

    /// Since when there was no acknowledgement, if a PING waits for its answer.
    pub(super) fn asked_since(&self) -> Option<Instant> {
        self.asked.map(|_| self.since)
    }

    /// The round-trip time before the last silence, if that of quinn-proto, `rtt`, has the silence in it.
    pub(super) fn rtt_instead_of(&self, rtt: Duration) -> Option<Duration> {
        (self.distrusted > 0 && rtt > 2 * self.rtt).then_some(self.rtt)
    }

    /// A timer of quinn-proto's has fired.
    pub(super) fn on_timeout(&mut self) {
        self.timed_out = true;
    }

    /// A packet left without a window check. Returns whether it may be a probe.
    pub(super) fn on_exempt(&mut self) -> bool {
        std::mem::take(&mut self.timed_out)
    }

    /// A PING is about to leave. `rtt`: as of quinn-proto.
    pub(super) fn on_asked(&mut self, now: Instant, rtt: Duration) {
        self.rtt = self.rtt_instead_of(rtt).unwrap_or(rtt);
        self.distrusted = SAMPLES_DISTRUSTED;
        self.asked = Some((self.asked.map_or(now, |(first, _)| first), now));
    }

    /// When to ask next. `rtt`: as of quinn-proto.
    pub(super) fn deadline(&self, rtt: Duration) -> Instant {
        let rtt = self.rtt_instead_of(rtt).unwrap_or(rtt);
        match self.asked {
            None => self.since + PATIENCE.max(rtt.saturating_mul(PATIENCE_ROUND_TRIPS)),
            Some((_, last)) => {
                let silence = last.saturating_duration_since(self.since);
                last + (rtt / 4).max(APART_MIN).max(silence / SHARE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_gone_for_an_hour_gets_few_pings() {
        #[expect(clippy::disallowed_methods, reason = "a name for time zero")]
        let start = Instant::now();
        for (rtt, most) in [(0, 20_000), (80, 20_000), (2000, 7200)] {
            let rtt = Duration::from_millis(rtt);
            let mut silence = Silence::new(start);
            let mut pings = 0;
            while let Some(at) =
                Some(silence.deadline(rtt)).filter(|&at| at < start + Duration::from_secs(3600))
            {
                silence.on_asked(at, rtt);
                pings += 1;
            }
            assert!(most / 2 <= pings && pings <= most, "{rtt:?}: {pings}");
        }
    }

    #[test]
    fn only_the_answer_to_a_ping_ends_a_silence_and_its_round_trip_is_not_believed() {
        #[expect(clippy::disallowed_methods, reason = "a name for time zero")]
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let (rtt, wrong) = (Duration::from_millis(80), Duration::from_secs(8));
        let mut silence = Silence::new(start);
        let asked = silence.deadline(rtt);
        assert_eq!(asked, at(1000));
        silence.on_asked(asked, rtt);
        silence.on_acks(at(60_000), Some(start));
        assert_eq!(silence.asked_since(), Some(start), "it is of a packet from before");
        assert_eq!(silence.deadline(wrong), silence.deadline(rtt), "and has the silence in it");
        silence.on_acks(at(60_050), Some(asked));
        assert_eq!(silence.asked_since(), None);
        assert_eq!(silence.rtt_instead_of(wrong), Some(rtt));
        assert_eq!(silence.rtt_instead_of(rtt), None);
        assert_eq!(silence.deadline(wrong), at(61_050));
        (0..SAMPLES_DISTRUSTED).for_each(|_| silence.on_acks(at(60_100), Some(at(60_000))));
        assert_eq!(silence.rtt_instead_of(wrong), None, "the path has become longer");
    }
}
