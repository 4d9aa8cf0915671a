//! What the round trips and fates of packets show about a path.

use std::time::{Duration, Instant};

/// The fates of packets since the last call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PathSample {
    /// The newest acknowledged packet: its send time, and its round trip without the peer's delay.
    pub(crate) acked: Option<(Instant, Duration)>,
    /// Send time of the newest lost packet.
    pub(crate) lost: Option<Instant>,
    /// Bytes of all acknowledged packets.
    pub(crate) acked_bytes: u64,
}

/// A round trip minus the peer's delay, which quinn-proto does not report: it follows from the change of the smoothed
/// time, an eighth of the difference (RFC 9002 §5.3). If the change does not match, the delay is taken as zero.
pub(super) fn without_ack_delay(raw: Duration, before: Duration, after: Duration) -> Duration {
    /// RFC 9000 §18.2, max_ack_delay.
    const DELAY_MAX: Duration = Duration::from_millis(25);
    /// The estimator rounds down to nanoseconds.
    const ROUNDING: Duration = Duration::from_nanos(8);
    let sample = (after * 8 + ROUNDING).saturating_sub(before * 7);
    if sample < raw && raw <= sample + DELAY_MAX + ROUNDING { sample } else { raw }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn the_peers_delay_follows_from_how_the_smoothed_time_moves() {
        let before = us(40_000);
        // RFC 9002 §5.3 with a sample of 52 ms of which the peer delayed 10 ms, and with one that it did not.
        let after = (before * 7 + us(42_000)) / 8;
        assert!(without_ack_delay(us(52_000), before, after) - us(42_000) < us(1));
        let after = (before * 7 + us(52_000)) / 8;
        assert_eq!(without_ack_delay(us(52_000), before, after), us(52_000));
    }

    #[test]
    fn a_smoothed_time_that_moved_otherwise_shows_no_delay() {
        assert_eq!(without_ack_delay(us(52_000), us(333_000), us(52_000)), us(52_000));
        assert_eq!(without_ack_delay(us(20_000), us(40_000), us(40_000)), us(20_000));
    }
}
