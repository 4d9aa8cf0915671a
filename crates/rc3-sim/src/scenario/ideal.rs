//! The shortest time in which one flow could be done.

use std::time::Duration;

use rc3_core::Verdict;

use super::Run;
use crate::{
    registry::QueueLimit,
    workload::{ArrivalProcess, One},
};

/// Bytes of the application in a full packet, and that packet on the wire: 1452 bytes of UDP payload, as MTU discovery
/// finds on Ethernet.
const PACKET_DATA: f64 = 1415.0;
const PACKET_WIRE: f64 = 1480.0;

impl Run {
    /// The flow that is measured, if it is one.
    pub fn one(&self) -> Option<&One> {
        match &self.workload.arrivals {
            ArrivalProcess::One(one) => Some(one),
            _ => None,
        }
    }

    /// Rate of the sender's card in rates of the bottleneck.
    pub fn card(&self) -> u64 {
        let card = self.topology.hosts.first().and_then(|host| host.access.uplink);
        let rate = self.topology.nominal.rate;
        card.unwrap_or(rate).bits_per_second() / rate.bits_per_second()
    }

    /// The shortest completion time of its one flow: one round trip for the handshake, the bytes in full packets at the rate
    /// of the bottleneck, half a round trip for the last one. The bucket of a policer is full at first, and passes at the card's
    /// rate. `None` of a workload of more flows.
    pub fn ideal(&self) -> Option<Duration> {
        let one = self.one()?;
        Some(self.shortest(one.bytes, one.rate_change))
    }

    /// From connect to when the rate changes, if it does.
    pub(crate) fn change_after(&self) -> Option<Duration> {
        let one = self.one()?;
        one.rate_change.map(|_| self.shortest(one.bytes / 2, None))
    }

    fn shortest(&self, bytes: u64, rate_change: Option<f64>) -> Duration {
        let nominal = self.topology.nominal;
        let wire = bytes as f64 / PACKET_DATA * PACKET_WIRE;
        let rate = nominal.rate.bits_per_second() as f64 / 8.0;
        let seconds = match (self.queues.buffer, rate_change) {
            (QueueLimit::Bytes(bucket), _) if self.queues.discipline.entry.is_policer => {
                let card = wire / (rate * self.card().max(1) as f64);
                ((wire - bucket as f64) / rate).max(card)
            }
            (_, Some(change)) => wire / rate / 2.0 * (1.0 + 1.0 / change),
            _ => wire / rate,
        };
        // No parameter makes a flow of a century.
        nominal.rtt.mul_f64(1.5) + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4)
    }

    /// Whether a verdict is right about its path. A card that is no faster than the bottleneck has the queue on the host, which
    /// honours priorities.
    pub fn is_right(&self, verdict: Verdict) -> bool {
        let honours = self.queues.discipline.entry.honours_levels;
        verdict == if honours { Verdict::Honoured } else { Verdict::Ignored }
            || (verdict == Verdict::Honoured && self.card() <= 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scenario;

    /// Seconds of 1 MB over 100 Mbit/s x 40 ms.
    fn ideal(keys: &str) -> f64 {
        let sweep = "topology.rate = ['100Mbit']\ntopology.rtt = ['40ms']\nqueue.buffer = ['1bdp']\n\
                     workload.size = ['1M']\n";
        let text = format!("name = 'x'\nbase = 'today'\n{keys}\n[sweep]\n{sweep}");
        let run = Scenario::parse(&text, "x.toml").unwrap().expand().unwrap().remove(0);
        run.ideal().unwrap().as_secs_f64()
    }

    #[test]
    fn ideal_is_handshake_bytes_and_half_a_round_trip() {
        let bits = 0.08 * 1480.0 / 1415.0;
        assert!((ideal("") - 0.06 - bits).abs() < 1e-9);
        assert!((ideal("workload.rate-change = 0.5") - 0.06 - 1.5 * bits).abs() < 1e-9);
        // Of 1.046 MB on the wire the bucket passes 0.5 MB at once.
        assert!((ideal("queue.discipline = 'policer'") - 0.06 - (bits - 0.04)).abs() < 1e-9);
    }
}
