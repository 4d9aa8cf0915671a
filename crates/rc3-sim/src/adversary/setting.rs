//! The bottlenecks at which lies are tried.

use std::time::Duration;

use rc3_core::units::Rate;

use crate::{DropTail, LinkConfig, Policer, agent::Writes, world::ParcelQueue};

/// Ten packets: fewer would not hold the start of a flow.
const BUFFER_MIN: u64 = 15_000;
/// The rate of the link behind a policer, as a multiple of the policer's.
const POLICED: f64 = 10.0;

/// What a bottleneck does with packets beyond its rate. It ignores priorities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bottleneck {
    /// A queue, first in first out, of this part of a bandwidth-delay product.
    Fifo(f64),
    /// A token bucket of this part of one: it drops and delays nothing.
    Policer(f64),
}

/// A bottleneck, and what the liar asks for behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Rate of the bottleneck in bit/s.
    pub bits_per_second: u64,
    /// Its kind.
    pub bottleneck: Bottleneck,
    /// Round-trip time without queues.
    pub rtt: Duration,
    /// How long the liar receives.
    pub lasts: Duration,
    /// Flows that it receives, one connection each, one after the other in equal parts of that time.
    pub flows: u32,
    /// Bytes of each.
    pub bytes: u64,
    /// When its sender writes them.
    pub writes: Writes,
    /// Seed of the first world.
    pub seed: u64,
    /// Worlds whose mean is an outcome: they differ in the times at which flows begin.
    pub worlds: u64,
}

const fn fifo(name: &'static str, mbits: u64, lasts: u64) -> Setting {
    Setting {
        name,
        bits_per_second: mbits * 1_000_000,
        bottleneck: Bottleneck::Fifo(1.0),
        rtt: Duration::from_millis(40),
        lasts: Duration::from_secs(lasts),
        flows: 1,
        // More than passes in any setting.
        bytes: 1 << 30,
        writes: Writes::AtOnce,
        seed: 1,
        worlds: 2,
    }
}

/// All settings: a long transfer over 10, 2 and 50 Mbit/s, one that pauses, connections of which each remembers the path
/// of the one before, and a long transfer where no queue shows what is lost.
pub const SETTINGS: [Setting; 7] = [
    fifo("middle", 10, 5),
    fifo("slow", 2, 8),
    fifo("fast", 50, 3),
    Setting {
        writes: Writes::Chunked { first: 300_000, chunk: 300_000, every: Duration::from_millis(500) },
        ..fifo("bursts", 10, 5)
    },
    Setting { flows: 4, bytes: 600_000, ..fifo("again", 10, 6) },
    Setting { bottleneck: Bottleneck::Fifo(0.1), ..fifo("shallow", 50, 3) },
    Setting { bottleneck: Bottleneck::Policer(0.3), ..fifo("policer", 50, 3) },
];

impl Setting {
    /// The setting of that name.
    pub fn find(name: &str) -> Option<Self> {
        SETTINGS.into_iter().find(|setting| setting.name == name)
    }

    /// A link like the bottleneck, and what waits for it.
    pub(super) fn link(&self, seed: u64) -> (LinkConfig, ParcelQueue) {
        let (rate, bdp) = (self.share_of_rate(1.0), self.share_of_rate(1.0).bytes_in(self.rtt) as f64);
        let bytes = |part: f64| ((bdp * part) as u64).max(BUFFER_MIN);
        let (rate, queue): (Rate, ParcelQueue) = match self.bottleneck {
            Bottleneck::Fifo(part) => (rate, Box::new(DropTail::new(bytes(part)))),
            Bottleneck::Policer(part) => {
                (self.share_of_rate(POLICED), Box::new(Policer::new(rate, bytes(part))))
            }
        };
        (LinkConfig { rate: Some(rate), delay: self.rtt / 2, seed, ..LinkConfig::default() }, queue)
    }

    /// This part of the rate of the bottleneck.
    ///
    /// # Panics
    /// When the part is no bit per second.
    pub(super) fn share_of_rate(&self, part: f64) -> Rate {
        Rate::from_bits_per_second((self.bits_per_second as f64 * part) as u64).expect("a rate above zero")
    }
}
