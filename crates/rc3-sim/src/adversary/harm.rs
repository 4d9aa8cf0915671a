//! How much worse a lie is than honesty.

use super::Outcome;

/// Differences below these count as none: seconds, shares, bytes.
const LOSS_FLOOR: f64 = 0.01;
const BYTES_FLOOR: f64 = 100_000.0;
const RECORDS_FLOOR: f64 = 65_536.0;

/// A kind of harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Harm {
    /// RLP bytes that the path did not carry.
    Flood,
    /// Cross traffic that was lost.
    Loss,
    /// Memory of the sender.
    Memory,
    /// Packets and frames that the sender handled.
    Work,
    /// Completion time of an honest third.
    Third,
    /// What the liar gains: its own reading.
    Gain,
}

impl Harm {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Flood, Self::Loss, Self::Memory, Self::Work, Self::Third, Self::Gain];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flood => "flood",
            Self::Loss => "loss",
            Self::Memory => "memory",
            Self::Work => "work",
            Self::Third => "third",
            Self::Gain => "gain",
        }
    }
}

/// All harms of a lie, as ratios to an honest receiver in the same setting. Small values of both ends count as a floor, so
/// that their ratio is about 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Harms([f64; Harm::ALL.len()]);

impl Harms {
    /// What `lying` is, compared with `honest`.
    pub fn between(honest: &Outcome, lying: &Outcome) -> Self {
        let ratio = |of: fn(&Outcome) -> f64, floor: f64| of(lying).max(floor) / of(honest).max(floor);
        Self(Harm::ALL.map(|harm| match harm {
            Harm::Flood => ratio(|outcome| outcome.rlp_lost as f64, BYTES_FLOOR),
            Harm::Loss => ratio(|outcome| outcome.cross_loss, LOSS_FLOOR),
            Harm::Memory => ratio(|outcome| outcome.records as f64, RECORDS_FLOOR),
            Harm::Work => ratio(|outcome| outcome.work as f64, 1.0),
            Harm::Third => ratio(|outcome| outcome.third, f64::MIN_POSITIVE),
            Harm::Gain => ratio(|outcome| outcome.read as f64, 1.0),
        }))
    }

    /// The ratio of one kind.
    pub fn of(&self, harm: Harm) -> f64 {
        self.0[harm as usize]
    }
}
