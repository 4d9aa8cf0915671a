//! The bottlenecks at which lies are tried.

use std::time::Duration;

use rc3_core::units::Rate;

use crate::agent::Writes;

/// A bottleneck, and what the liar asks for behind it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Rate of the bottleneck in bit/s: a queue of one bandwidth-delay product that ignores priorities.
    pub bits_per_second: u64,
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

/// All settings: a long transfer over 10, 2 and 50 Mbit/s, one that pauses, and connections of which each remembers the
/// path of the one before.
pub const SETTINGS: [Setting; 5] = [
    fifo("middle", 10, 5),
    fifo("slow", 2, 8),
    fifo("fast", 50, 3),
    Setting {
        writes: Writes::Chunked { first: 300_000, chunk: 300_000, every: Duration::from_millis(500) },
        ..fifo("bursts", 10, 5)
    },
    Setting { flows: 4, bytes: 600_000, ..fifo("again", 10, 6) },
];

impl Setting {
    /// The setting of that name.
    pub fn find(name: &str) -> Option<Self> {
        SETTINGS.into_iter().find(|setting| setting.name == name)
    }

    /// This part of the rate of the bottleneck.
    ///
    /// # Panics
    /// When the part is no bit per second.
    pub(super) fn part(&self, part: f64) -> Rate {
        Rate::from_bits_per_second((self.bits_per_second as f64 * part) as u64).expect("a rate above zero")
    }
}
