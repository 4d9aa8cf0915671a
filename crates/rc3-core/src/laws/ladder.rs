//! The number of packets on each level.
//!
//! RLP sends its first packets at level 1 and ten times as many at each worse level, so that a long flow does
//! not crowd out the tail of a short one (RC3 §2.1). The ladder is a pure table over the number of RLP
//! packets sent so far in a busy period. The paper can be read in two ways:
//!
//! - *reading A*: 40, 400, 4000, ... are counts per level: packets 1-40, 41-440, 441-4440 (§2.1, Fig. 12).
//!   The default.
//! - *reading B*: they are thresholds: packets 1-40, 41-400, 401-4000 (§4.1.1). Build it with
//!   `Ladder::new(&[40, 360, 3600])`.
//!
//! Unit: packets.

use thiserror::Error;

use crate::units::Level;

/// The number of levels in the wire format.
const LEVELS_MAX: usize = Level::MAX.index();

/// The sizes of the levels, best first.
///
/// ```
/// use rc3_core::{Ladder, TransportConfig, units::Level};
///
/// // 40 packets at level 1, 400 at level 2, and so on; the seventh level takes the rest.
/// let ladder = Ladder::default();
/// assert_eq!(ladder, Ladder::geometric(40, 10, 7));
/// let (level, left) = ladder.level_of(40).unwrap();
/// assert_eq!((level.get(), left), (2, 400), "the 41st packet is the first of 400 at level 2");
///
/// // The thresholds of RC3 §4.1.1, after which RLP sends nothing more.
/// let thresholds = Ladder::new(&[40, 360, 3600])?;
/// assert_eq!(thresholds.level_of(4000), None);
/// assert_eq!(thresholds.count(Level::FIRST), 40);
///
/// let mut config = TransportConfig::default();
/// config.ladder(thresholds);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ladder {
    /// Packets up to and including level `index + 1`. Strictly rising, except when it saturates.
    ends: [u64; LEVELS_MAX],
    /// The number of used entries of `ends`: 1 to 15.
    levels: u8,
}

impl Ladder {
    /// A ladder with `counts[0]` packets at level 1, `counts[1]` at level 2, and so on. After the last level RLP sends
    /// nothing more.
    ///
    /// # Errors
    /// `LadderError::Empty` without levels, `LadderError::TooManyLevels` with more than 15, `LadderError::NoPackets` for a
    /// level without packets.
    pub fn new(counts: &[u64]) -> Result<Self, LadderError> {
        if counts.is_empty() {
            return Err(LadderError::Empty);
        }
        if counts.len() > LEVELS_MAX {
            return Err(LadderError::TooManyLevels(counts.len()));
        }
        if let Some(at) = counts.iter().position(|&count| count == 0) {
            return Err(LadderError::NoPackets(at + 1));
        }
        Ok(Self::from_counts(counts.iter().copied()))
    }

    /// A ladder of `levels` levels (taken as 1 to 15) that starts with `first` packets (at least 1) and grows
    /// by `factor` (at least 1) from level to level; sizes saturate.
    ///
    /// The last level takes the rest: it is better to send the end of a very long flow at the worst level, where it
    /// only uses idle capacity, than not at all.
    pub fn geometric(first: u64, factor: u64, levels: u8) -> Self {
        let levels = usize::from(levels).clamp(1, LEVELS_MAX);
        let counts =
            std::iter::successors(Some(first.max(1)), |count| Some(count.saturating_mul(factor.max(1))));
        Self::from_counts(counts.take(levels - 1).chain([u64::MAX]))
    }

    /// The level of the next packet after `sent` RLP packets in this busy period, and how many packets (at least 1,
    /// including this one) it still has. `None` if the ladder is used up.
    pub fn level_of(&self, sent: u64) -> Option<(Level, u64)> {
        let ends = self.ends.iter().take(usize::from(self.levels));
        let (number, end) = (1..).zip(ends).find(|&(_, &end)| sent < end)?;
        Some((Level::new(number)?, end - sent))
    }

    /// The number of levels, 1 to 15.
    pub fn levels(&self) -> u8 {
        self.levels
    }

    /// The number of packets at `level`: 0 if the ladder does not have it.
    ///
    /// An unbounded level reports the rest of a `u64`, more than any flow has.
    pub fn count(&self, level: Level) -> u64 {
        let at = level.index().checked_sub(1).filter(|&at| at < usize::from(self.levels));
        at.map_or(0, |at| self.ends[at] - at.checked_sub(1).map_or(0, |before| self.ends[before]))
    }

    /// At most [`LEVELS_MAX`] counts, none of them 0.
    fn from_counts(counts: impl Iterator<Item = u64>) -> Self {
        let mut ladder = Self { ends: [0; LEVELS_MAX], levels: 0 };
        let mut total = 0u64;
        for (end, count) in ladder.ends.iter_mut().zip(counts) {
            total = total.saturating_add(count);
            *end = total;
            ladder.levels += 1;
        }
        ladder
    }
}

impl Default for Ladder {
    /// 40, 400, 4000, 40,000, 400,000 and 4,000,000 packets, the rest at level 7: as many levels as Linux distinguishes
    /// for an unprivileged socket.
    fn default() -> Self {
        Self::geometric(40, 10, 7)
    }
}

/// Why a list of counts is not a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LadderError {
    /// There are no levels.
    #[error("the ladder has no level, give the packets of at least one")]
    Empty,
    /// The wire format cannot name that many levels.
    #[error("the ladder has {0} levels, give at most 15")]
    TooManyLevels(usize),
    /// The level with this number has no packets.
    #[error("level {0} of the ladder has no packets, give at least 1 or leave the level out")]
    NoPackets(usize),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The level of the `nth` packet, counted from 1 as in the paper.
    fn level(ladder: &Ladder, nth: u64) -> Option<u8> {
        ladder.level_of(nth - 1).map(|(level, _)| level.get())
    }

    #[test]
    fn default_follows_the_paper_read_as_counts() {
        // RC3 §2.1, Fig. 12: 40, 400 and 4000 packets at levels 1, 2 and 3.
        let ladder = Ladder::default();
        let table =
            [(1, 1), (40, 1), (41, 2), (440, 2), (441, 3), (4_440, 3), (4_441, 4), (44_440, 4), (44_441, 5)];
        for (nth, number) in table {
            assert_eq!(level(&ladder, nth), Some(number), "packet {nth}");
        }
    }

    #[test]
    fn thresholds_of_the_paper_can_be_built_too() {
        // RC3 §4.1.1: the same numbers as thresholds.
        let ladder = Ladder::new(&[40, 360, 3600]).unwrap();
        for (nth, number) in [(1, 1), (40, 1), (41, 2), (400, 2), (401, 3), (4_000, 3)] {
            assert_eq!(level(&ladder, nth), Some(number), "packet {nth}");
        }
        assert_eq!(level(&ladder, 4_001), None);
    }

    #[test]
    fn remaining_counts_down_to_one() {
        let ladder = Ladder::new(&[2, 3]).unwrap();
        let walk: Vec<_> =
            (0..6).map(|sent| ladder.level_of(sent).map(|(level, left)| (level.get(), left))).collect();
        assert_eq!(walk, [Some((1, 2)), Some((1, 1)), Some((2, 3)), Some((2, 2)), Some((2, 1)), None]);
    }

    #[test]
    fn last_geometric_level_takes_all_the_rest() {
        let ladder = Ladder::default();
        assert_eq!(ladder.levels(), 7);
        assert_eq!(level(&ladder, 1 << 62), Some(7));
        assert!(ladder.count(Level::new(7).unwrap()) > 1 << 62);
        let one = Ladder::geometric(40, 10, 1);
        assert_eq!((one.levels(), level(&one, 1 << 62)), (1, Some(1)));
    }

    #[test]
    fn counts_of_levels_outside_the_ladder_are_zero() {
        let ladder = Ladder::new(&[7, 9]).unwrap();
        let counts: Vec<u64> = (0..4).map(|number| ladder.count(Level::new(number).unwrap())).collect();
        assert_eq!(counts, [0, 7, 9, 0]);
    }

    #[test]
    fn sizes_saturate_instead_of_wrapping() {
        let ladder = Ladder::geometric(u64::MAX / 2, u64::MAX, 15);
        assert_eq!(ladder.levels(), 15);
        assert_eq!(level(&ladder, u64::MAX / 2), Some(1));
        assert_eq!(level(&ladder, u64::MAX / 2 + 1), Some(2));
        assert_eq!(Ladder::geometric(0, 0, 0).levels(), 1);
        assert_eq!(Ladder::geometric(0, 0, 200).count(Level::FIRST), 1);
    }

    #[test]
    fn bad_ladders_are_refused_with_the_reason() {
        assert_eq!(Ladder::new(&[]), Err(LadderError::Empty));
        assert_eq!(Ladder::new(&[1; 16]), Err(LadderError::TooManyLevels(16)));
        assert_eq!(Ladder::new(&[1, 0]), Err(LadderError::NoPackets(2)));
        assert!(Ladder::new(&[1; 15]).is_ok());
    }

    proptest! {
        #[test]
        fn walking_a_ladder_sends_each_count_once(counts in prop::collection::vec(1..30u64, 1..=15)) {
            let ladder = Ladder::new(&counts).unwrap();
            let mut walked = vec![0; counts.len()];
            let mut sent = 0;
            while let Some((level, left)) = ladder.level_of(sent) {
                let at = level.index() - 1;
                prop_assert_eq!(left, counts[at] - walked[at]);
                prop_assert_eq!(ladder.count(level), counts[at]);
                walked[at] += 1;
                sent += 1;
            }
            prop_assert_eq!(walked, counts);
        }
    }
}
