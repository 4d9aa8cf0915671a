//! A path with one bottleneck, and the world it is in.

use std::{fmt, sync::Arc, time::Duration};

use rc3_core::{Verdict, units::Rate};

use crate::{
    Crypto, DropTail, LinkConfig, StrictPriority,
    agent::HostId,
    host::{Host, HostConfig},
    units::rate_text,
    world::{LinkId, ParcelQueue, World},
};

use super::Scheme;

/// No queue holds less, in bytes: ten full packets.
const BUFFER_MIN: u64 = 15_000;

/// Bytes of the application in a full packet, and that packet on the wire: 1452 bytes of UDP payload, as MTU discovery
/// finds on Ethernet.
const PACKET_DATA: f64 = 1415.0;
const PACKET_WIRE: f64 = 1480.0;

/// What the queue in front of the bottleneck does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Discipline {
    /// First in, first out; arrivals that do not fit are dropped. Marks are ignored.
    Fifo,
    /// Strict priority by level, with push-out.
    Priority,
}

impl Discipline {
    /// The verdict that is right about it.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Fifo => Verdict::Ignored,
            Self::Priority => Verdict::Honoured,
        }
    }

    fn queue(self, limit: u64) -> ParcelQueue {
        match self {
            Self::Fifo => Box::new(DropTail::new(limit)),
            Self::Priority => Box::new(StrictPriority::new(limit)),
        }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Priority => "priority",
        })
    }
}

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

    /// The shortest completion time of a flow of this many bytes: one round trip for the handshake, the bytes in full
    /// packets at the rate of the bottleneck, half a round trip for the last one.
    pub fn ideal(&self, bytes: u64) -> Duration {
        let wire = bytes as f64 / PACKET_DATA * PACKET_WIRE;
        self.rtt.mul_f64(1.5) + Duration::from_secs_f64(8.0 * wire / self.rate.bits_per_second() as f64)
    }

    /// Two hosts, 0 and 1, with the bottleneck between them; the first scheme of the world is `scheme`.
    pub(super) fn world(&self, scheme: Scheme, seed: u64) -> World {
        const CORES: u32 = 0;
        const HOSTS: u32 = 2;
        // Both directions of the bottleneck, then uplink and downlink of each host.
        let mut world = World::new(Box::new(|from, to| {
            [LinkId(HOSTS + 2 * from.0), LinkId(CORES + from.0 % 2), LinkId(HOSTS + 2 * to.0 + 1)].into()
        }));
        for direction in 0..2 {
            let config = LinkConfig {
                rate: Some(self.rate),
                delay: self.rtt / 2,
                seed: seed.wrapping_add(direction),
                ..LinkConfig::default()
            };
            world.add_link(config, self.discipline.queue(self.limit()));
        }
        let config = HostConfig::new([scheme.transport(self)], scheme.transport(self), Crypto::None, seed);
        let config = Arc::new(config);
        for host in [HostId(0), HostId(1)] {
            let card = LinkConfig { rate: self.card_rate(), ..LinkConfig::default() };
            let uplink = world.add_link(card, Box::new(StrictPriority::new(u64::MAX)));
            world.add_link(LinkConfig::default(), Box::new(DropTail::new(u64::MAX)));
            world.add_host(Box::new(Host::new(host, config.clone())), uplink);
        }
        world
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, rtt, buffer, card, discipline } = self;
        write!(f, "{discipline}, {} x {} ms, {buffer} BDP, card {card} x", rate_text(*rate), rtt.as_millis())
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
        };
        assert_eq!(path.limit(), 500_000);
        let ideal = path.ideal(1_000_000).as_secs_f64();
        assert!((ideal - 0.06 - 0.08 * 1480.0 / 1415.0).abs() < 1e-9, "{ideal}");
    }
}
