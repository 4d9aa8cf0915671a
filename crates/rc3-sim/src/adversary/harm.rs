//! How much worse a lie is than honesty.

use super::TrialResult;

/// A kind of harm: the name, how much of it an outcome has, and what counts as none (bytes, shares, seconds).
type Harm = (&'static str, fn(&TrialResult) -> f64, f64);

const HARMS: [Harm; 6] = [
    // RLP bytes that the path did not carry.
    ("flood", |outcome| outcome.rlp_lost as f64, 100_000.0),
    // Cross traffic that was lost.
    ("loss", |outcome| outcome.cross_loss, 0.01),
    // Memory of the sender.
    ("memory", |outcome| outcome.records as f64, 65_536.0),
    // Packets and frames that the sender handled.
    ("work", |outcome| outcome.work as f64, 1.0),
    // Completion time of an honest third.
    ("third", |outcome| outcome.third, f64::MIN_POSITIVE),
    // What the liar gains: its own reading.
    ("gain", |outcome| outcome.read as f64, 1.0),
];

/// All harms of a lie, as ratios to an honest receiver in the same setting. Small values of both ends count as a floor, so
/// that their ratio is about 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Harms(pub(super) [f64; Self::COUNT]);

impl Harms {
    /// Kinds of harm.
    pub const COUNT: usize = HARMS.len();

    /// What `lying` is, compared with `honest`.
    pub fn between(honest: &TrialResult, lying: &TrialResult) -> Self {
        Self(HARMS.map(|(_, of, floor)| of(lying).max(floor) / of(honest).max(floor)))
    }

    /// The ratio of one kind: `flood`, `loss`, `memory`, `work`, `third` or `gain`; NaN of others.
    pub fn of(&self, harm: &str) -> f64 {
        self.iter().find(|(name, _)| *name == harm).map_or(f64::NAN, |(_, ratio)| ratio)
    }

    /// Names and ratios of all kinds.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> {
        HARMS.iter().map(|(name, ..)| *name).zip(self.0)
    }
}
