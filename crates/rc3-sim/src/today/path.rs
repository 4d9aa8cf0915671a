//! A path with one bottleneck.

use std::{fmt, time::Duration};

use rc3_core::{Verdict, units::Rate};
use rc3_text::units::{rate_text, time_text};

use super::Discipline;

/// No queue holds less, in bytes: ten full packets.
const BUFFER_MIN: u64 = 15_000;

/// Bytes of the application in a full packet, and that packet on the wire: 1452 bytes of UDP payload, as MTU discovery
/// finds on Ethernet.
const PACKET_DATA: f64 = 1415.0;
const PACKET_WIRE: f64 = 1480.0;

/// A path: the sender's card, then the bottleneck, with the same queue in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Round-trip time without queues.
    pub rtt: Duration,
    /// Size of the queue in bandwidth-delay products. No queue holds less than 15,000 bytes.
    pub buffer: f64,
    /// Rate of the sender's card, in rates of the bottleneck.
    pub card: u64,
    /// The queue.
    pub discipline: Discipline,
    /// What else happens on the way.
    pub trouble: Trouble,
}

/// What happens to packets beyond queueing. The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Trouble {
    /// Probability that a packet is lost, in either direction.
    pub loss: f64,
    /// Bound of an extra delay of each packet on the way back, drawn uniformly. It reorders them.
    pub jitter: Duration,
    /// The same on the way there.
    pub reordering: Duration,
    /// Packets reach the receiver together at multiples of this time: aggregation, or a receiver that batches.
    pub aggregation: Duration,
    /// The same on the way back.
    pub aggregation_back: Duration,
    /// The receiver reads what has arrived at multiples of this time.
    pub reads: Duration,
    /// The receiver's kernel stamps packets on arrival.
    pub stamps: bool,
    /// When half of the flow could have arrived, the rate becomes so many times its first value. 0: it stays.
    pub change: f64,
}

impl Path {
    /// Bytes of one bandwidth-delay product.
    pub fn product(&self) -> f64 {
        self.rate.bits_per_second() as f64 / 8.0 * self.rtt.as_secs_f64()
    }

    /// Bytes the queue holds.
    pub fn limit(&self) -> u64 {
        ((self.product() * self.buffer) as u64).max(BUFFER_MIN)
    }

    /// Rate of the sender's card.
    pub fn card_rate(&self) -> Option<Rate> {
        Rate::from_bits_per_second(self.rate.bits_per_second().saturating_mul(self.card))
    }

    /// Whether a verdict is right about it. A card that is no faster than the bottleneck has the queue on the host, which
    /// honours priorities.
    pub fn is_right(&self, verdict: Verdict) -> bool {
        verdict == self.discipline.verdict() || (verdict == Verdict::Honoured && self.card <= 1)
    }

    /// This rate so many times; at least 1 bit/s.
    pub(super) fn rate_times(&self, factor: f64) -> Option<Rate> {
        Rate::from_bits_per_second(((self.rate.bits_per_second() as f64 * factor) as u64).max(1))
    }

    /// The shortest completion time of a flow of this many bytes: one round trip for the handshake, the bytes in full
    /// packets at the rate of the bottleneck, half a round trip for the last one. A policer's bucket is full at first,
    /// and passes at the card's rate.
    pub fn ideal(&self, bytes: u64) -> Duration {
        let wire = bytes as f64 / PACKET_DATA * PACKET_WIRE;
        let rate = self.rate.bits_per_second() as f64 / 8.0;
        let seconds = match self.discipline {
            Discipline::Policer => {
                let card = wire / (rate * self.card.max(1) as f64);
                ((wire - self.limit() as f64) / rate).max(card)
            }
            _ if self.trouble.change > 0.0 => wire / rate / 2.0 * (1.0 + 1.0 / self.trouble.change),
            _ => wire / rate,
        };
        // No parameter makes a flow of a century.
        self.rtt.mul_f64(1.5) + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4)
    }

    /// From connect to when the rate changes, if it does.
    pub(super) fn change_after(&self, bytes: u64) -> Option<Duration> {
        let half = Self { trouble: Trouble::default(), ..*self }.ideal(bytes / 2);
        (self.trouble.change > 0.0).then_some(half)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, rtt, buffer, card, .. } = self;
        write!(f, "{} x {}, {buffer} BDP, card {card} x", rate_text(rate.bits_per_second()), time_text(*rtt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideal_is_handshake_bytes_and_half_a_round_trip() {
        let path = Path {
            rate: Rate::from_bits_per_second(100_000_000).unwrap(),
            rtt: Duration::from_millis(40),
            buffer: 1.0,
            card: 10,
            discipline: Discipline::Fifo,
            trouble: Trouble::default(),
        };
        assert_eq!(path.limit(), 500_000);
        let bits = 0.08 * 1480.0 / 1415.0;
        let ideal = |path: Path| path.ideal(1_000_000).as_secs_f64();
        assert!((ideal(path) - 0.06 - bits).abs() < 1e-9);
        let halves = Path { trouble: Trouble { change: 0.5, ..Trouble::default() }, ..path };
        assert!((ideal(halves) - 0.06 - 1.5 * bits).abs() < 1e-9);
        // Of 1.046 MB on the wire the bucket passes 0.5 MB at once.
        let policed = Path { discipline: Discipline::Policer, ..path };
        assert!((ideal(policed) - 0.06 - (bits - 0.04)).abs() < 1e-9);
    }
}
