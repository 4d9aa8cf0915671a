//! The path between sender and receiver, and what else is on it.

use std::{fmt, num::NonZero, path::PathBuf, time::Duration};

use rc3_core::units::Rate;
use rc3_text::units::{rate_text, time_text};
use serde::{Deserialize, Serialize};

use super::wan::middlebox::Middlebox;

/// Content of a full packet of Ethernet: 20 bytes of IPv4 and 32 of TCP with time stamps are not.
pub const CONTENT: u64 = 1448;
/// A full packet of Ethernet, with its IP header, in bytes.
pub const PACKET: u64 = 1500;

/// No queue holds less, in bytes: ten full packets.
const BUFFER_MIN: u64 = 10 * PACKET;

/// The queue in front of the link towards the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First in, first out; drops what arrives at a full queue.
    DropTail,
    /// First in, first out; drops what has waited longest.
    DropFront,
    /// One queue under CoDel (RFC 8289).
    Codel,
    /// A queue per flow under CoDel (RFC 8290).
    FqCodel,
    /// CAKE's Bulk and Best Effort tins, 64 : 1024.
    Cake,
    /// A token bucket without a queue; its depth is the buffer.
    Policer,
    /// Strict priority with push-out, as RC3 asks of routers.
    Priority,
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The sender's network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Card {
    /// A veth without a rate.
    Fast,
    /// The recipe `htb` of `docs/OPERATORS.md` at the rate of the bottleneck.
    AsLink,
}

/// Packets that are lost behind the queue.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Loss {
    /// Share of the packets, from 0 to 1.
    pub share: f64,
    /// Mean number of packets in a burst; 1 is independent loss.
    pub burst: f64,
}

/// A path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Rate of the bottleneck, in bits per second.
    pub rate: NonZero<u64>,
    /// Round-trip time without queues.
    pub rtt: Duration,
    /// Size of the queue in bandwidth-delay products. No queue holds less than 15,000 bytes.
    pub buffer: f64,
    /// The queue.
    pub discipline: Discipline,
    /// The sender's interface.
    pub card: Card,
    /// Packets lost towards the receiver.
    pub loss: Loss,
    /// A trace that replaces the rate of the bottleneck.
    pub trace: Option<PathBuf>,
    /// A box in front of the bottleneck, towards the receiver.
    pub middlebox: Middlebox,
    /// Whether the senders' interfaces take super-packets (GSO, TSO).
    pub offload: bool,
    /// The recipe of `docs/OPERATORS.md` that makes the queue and the bottleneck, on the router in front of the WAN.
    pub recipe: Option<String>,
}

impl Path {
    /// Drop-tail with one bandwidth-delay product and a fast card.
    pub fn new(rate: NonZero<u64>, rtt: Duration) -> Self {
        Self {
            rate,
            rtt,
            buffer: 1.0,
            discipline: Discipline::DropTail,
            card: Card::Fast,
            loss: Loss::default(),
            trace: None,
            middlebox: Middlebox::None,
            offload: true,
            recipe: None,
        }
    }

    /// The same of a rate above zero in Mbit/s and a round trip in ms.
    pub fn of(megabits: u64, millis: u64) -> Self {
        let rate = NonZero::new(megabits * 1_000_000).expect("a rate above zero");
        Self::new(rate, Duration::from_millis(millis))
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.rate.get() as f64 / 8.0
    }

    /// Time that so many bytes take at the bottleneck.
    pub fn time_for(&self, bytes: u64) -> Duration {
        Rate::from(self.rate).time_for(bytes)
    }

    /// Bytes of one bandwidth-delay product.
    pub fn product(&self) -> f64 {
        self.bytes_per_second() * self.rtt.as_secs_f64()
    }

    /// Bytes the queue holds.
    pub fn limit(&self) -> u64 {
        ((self.product() * self.buffer) as u64).max(BUFFER_MIN)
    }

    /// The shortest time from the first byte offered on an open connection until the receiver has the last: half a round
    /// trip, and the bytes in full packets of TCP at the rate of the bottleneck. The bucket of a policer is full at
    /// first.
    pub fn ideal(&self, bytes: u64) -> Duration {
        let wire = bytes + bytes.div_ceil(CONTENT) * (PACKET - CONTENT);
        let free = if self.discipline == Discipline::Policer { self.limit() } else { 0 };
        self.rtt / 2 + self.time_for(wire.saturating_sub(free))
    }

    /// How late packets may leave the WAN: a twentieth of the round trip, at least one millisecond.
    pub fn lateness_limit(&self) -> Duration {
        (self.rtt / 20).max(Duration::from_millis(1))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = rate_text(self.rate.get());
        match &self.trace {
            Some(_) => write!(f, "trace of {rate} on average")?,
            None => write!(f, "{rate}")?,
        }
        write!(f, " x {}, {}, {} BDP", time_text(self.rtt), self.discipline, self.buffer)?;
        if self.loss.share > 0.0 {
            write!(f, ", {} % loss", self.loss.share * 100.0)?;
            if self.loss.burst > 1.0 {
                write!(f, " in bursts of {}", self.loss.burst)?;
            }
        }
        if self.card == Card::AsLink {
            write!(f, ", card as fast as the link")?;
        }
        if let Some(recipe) = &self.recipe {
            write!(f, ", queue by the recipe {recipe}")?;
        }
        if self.offload { Ok(()) } else { write!(f, ", no segmentation offload") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Path {
        Path::of(100, 40)
    }

    #[test]
    fn ideal_is_half_a_round_trip_and_the_bytes_with_headers() {
        assert_eq!(path().limit(), 500_000);
        // 100 packets of 1500 bytes take 12 ms.
        assert_eq!(path().ideal(144_800), Duration::from_millis(32));
        let policed = Path { discipline: Discipline::Policer, ..path() };
        assert_eq!(policed.ideal(144_800), Duration::from_millis(20));
    }

    #[test]
    fn a_path_prints_what_is_special_about_it() {
        let loss = Loss { share: 0.01, burst: 5.0 };
        let path = Path { loss, card: Card::AsLink, ..path() };
        let text = "100mbit x 40ms, drop-tail, 1 BDP, 1 % loss in bursts of 5, card as fast as the link";
        assert_eq!(path.to_string(), text);
    }
}
