//! Scenarios of the demonstration: the link, the card, the sizes, and the ideal FCT.
//!
//! Units: sizes are bytes of content; rates count bits on the wire.

use std::time::Duration;

use rc3_core::{Ladder, units::Rate};
use rc3_text::units::{about_time, rate_text, size_text, three_digits, time_text};

use crate::emulator::{Discipline, EmulatorConfig};

/// Most sizes of one demonstration.
pub const SIZES_MAX: usize = 32;
/// Largest size.
pub const SIZE_BYTES_MAX: u64 = 1 << 30;

/// How often each size is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// This number of times.
    Exactly(u32),
    /// As often as fits into a time, at least once.
    AsFit {
        /// Most runs on a fast machine.
        most: u32,
        /// No run begins that would not end within this time.
        budget: Duration,
    },
}

impl Runs {
    /// The default.
    pub const USUAL: Self = Self::AsFit { most: 3, budget: Duration::from_secs(30) };
    /// The default for a second link beside the first.
    pub const BESIDE: Self = Self::AsFit { most: 1, budget: Duration::from_secs(20) };

    /// The upper bound of runs.
    pub fn most(self) -> u32 {
        match self {
            Self::Exactly(runs) | Self::AsFit { most: runs, .. } => runs,
        }
    }
}

/// One demonstration.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoScenario {
    /// The link. Each run adds its number to the seed.
    pub emulated: EmulatorConfig,
    /// Speed of the sender's network card: RLP is paced to it.
    pub nic: Rate,
    /// How rc3 uses low priority.
    pub rlp: rc3_net::RlpMode,
    /// Whether each transfer goes to an unknown host. Otherwise rc3 remembers the link's rate.
    pub forget: bool,
    /// Packets per RLP level.
    pub ladder: Ladder,
    /// Sizes to send, in bytes.
    pub sizes: Vec<u64>,
    /// How often to send each size.
    pub runs: Runs,
}

impl DemoScenario {
    /// The same transfers under conditions that RC3's papers exclude: the card is ten times as fast as the link, the
    /// queue ignores marks and has half the buffer, and rc3 remembers nothing of the link.
    pub fn with_fast_card(&self) -> Self {
        let EmulatorConfig { rate, buffer, .. } = self.emulated;
        Self {
            emulated: EmulatorConfig { buffer: buffer / 2, queue: Discipline::Fifo, ..self.emulated.clone() },
            nic: Rate::from_bits_per_second(rate.bits_per_second().saturating_mul(10)).unwrap_or(rate),
            forget: true,
            runs: if let Runs::AsFit { .. } = self.runs { Runs::BESIDE } else { self.runs },
            ..self.clone()
        }
    }

    /// The shortest possible time from `connect()` to the last of `bytes` at the receiver: one round trip to connect,
    /// half a round trip for the last byte, and N/A for N bits without headers through the capacity A that the
    /// background leaves.
    pub fn ideal(&self, bytes: u64) -> Duration {
        let available = self.emulated.rate.bits_per_second() as f64 * (1.0 - self.emulated.load);
        self.emulated.rtt * 3 / 2 + Duration::from_secs_f64(bytes as f64 * 8.0 / available)
    }

    /// Timeout of a transfer: far beyond what slow start takes and, with loss, beyond what congestion avoidance takes
    /// at that loss (about `MTU / RTT * 1.2 / sqrt(p)`), at most ten minutes.
    pub fn patience(&self, bytes: u64) -> Duration {
        let slow_start = (self.ideal(bytes) * 10 + self.emulated.rtt * 50).max(Duration::from_secs(20));
        let packets = bytes as f64 / 1200.0;
        let avoidance = packets * self.emulated.rtt.as_secs_f64() * self.emulated.loss.sqrt() / 1.2;
        let most = Duration::from_secs(600);
        slow_start + Duration::try_from_secs_f64(4.0 * avoidance).map_or(most, |time| time.min(most))
    }

    /// One line with all conditions of the link and the card.
    pub fn headline(&self) -> String {
        format!("{}, {}", self.link_text(), self.conditions_text())
    }

    /// The link and its queue.
    pub fn link_text(&self) -> String {
        let rate = rate_text(self.emulated.rate.bits_per_second());
        format!("link {rate} x {}, {}", time_text(self.emulated.rtt), self.emulated.queue.words())
    }

    /// Its other conditions, and the card.
    pub fn conditions_text(&self) -> String {
        let card = rate_text(self.nic.bits_per_second());
        let mut text = format!("buffer {}, card {card}", size_text(self.emulated.buffer));
        if self.emulated.loss > 0.0 {
            text += &format!(", loss {} %", three_digits(self.emulated.loss * 100.0));
        }
        if self.emulated.load > 0.0 {
            text += &format!(", background {} %", three_digits(self.emulated.load * 100.0));
        }
        text
    }

    /// What rc3 knows about the link before it sends.
    pub fn memory_text(&self) -> &'static str {
        if self.forget {
            "each transfer goes to a host unknown to rc3"
        } else {
            "rc3 remembers the link from earlier transfers (--forget makes each host unknown)"
        }
    }

    /// How the ideal is computed.
    pub fn ideal_text(&self) -> String {
        let available = if self.emulated.load > 0.0 { "what the background leaves" } else { "the rate" };
        format!(
            "ideal = 1.5 RTT ({}: connect, then half a round trip for the last byte) \
             + bits / {available}, no headers",
            about_time(self.emulated.rtt * 3 / 2),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideal_counts_three_half_round_trips_and_the_bits() {
        let rate = |bits| Rate::from_bits_per_second(bits).unwrap();
        let mut scenario = DemoScenario {
            emulated: EmulatorConfig::new(rate(200_000_000), Duration::from_millis(80)),
            nic: rate(2_000_000_000),
            rlp: rc3_net::RlpMode::default(),
            forget: false,
            ladder: Ladder::default(),
            sizes: vec![1_000_000],
            runs: Runs::USUAL,
        };
        assert_eq!(scenario.ideal(1_000_000), Duration::from_millis(160));
        assert_eq!(scenario.patience(1_000_000), Duration::from_secs(20));
        scenario.emulated.loss = 0.001;
        // 20 MB at 0.1 % loss and 80 ms: about 5.8 Mbit/s for CUBIC, so 28 s.
        assert!(scenario.patience(20_000_000) > Duration::from_secs(100));
        (scenario.emulated.loss, scenario.emulated.load) = (0.0, 0.5);
        assert_eq!(scenario.ideal(1_000_000), Duration::from_millis(200));
        assert_eq!(
            scenario.headline(),
            "link 200mbit x 80ms, strict priority with push-out, buffer 2M, card 2gbit, background 50 %"
        );
        scenario.emulated =
            EmulatorConfig { load: 0.999_999, ..EmulatorConfig::new(rate(1), Duration::ZERO) };
        assert!(scenario.patience(SIZE_BYTES_MAX) > scenario.ideal(SIZE_BYTES_MAX), "not beyond all times");
    }
}
