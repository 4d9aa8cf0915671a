//! Level -> marks on the packet: the only table of code points and queue priorities.
//!
//! Two marks request the treatment of a packet. The DSCP is in the IP header, for routers on the path; the socket
//! priority (`skb->priority`) stays on the host, for its queue discipline. The level itself is inside the datagram, so
//! marks are never mapped back to levels.
//!
//! Invariant: under the *default* table, no low level is ever served better than level 0, whatever queue
//! discipline the host runs.

use std::array;

use rc3_core::units::Level;
use thiserror::Error;

/// Lower effort: less than best effort, starved while other traffic waits (RFC 8622).
pub const DSCP_LOWER_EFFORT: u8 = 1;

/// Class selector 1: low-priority data before RFC 8622 (RFC 3662), and the class below best effort on many devices that
/// know only three bits.
pub const DSCP_CS1: u8 = 8;

/// Class selector 3: above best effort wherever classes differ, and never served worse by hosts: its upper three bits
/// are not a background class of IEEE 802.11 (1 and 2 are), and its lower ones do not change Linux's queue.
pub const DSCP_CS3: u8 = 24;

/// Non-queue-building traffic (RFC 9956). Never a mark of RLP: a queue that protects its low latency moves or drops packets
/// of flows that build a queue (RFC 9957), and RLP's burst of a window builds one.
pub const DSCP_NON_QUEUE_BUILDING: u8 = 45;

/// Socket priority 1, `TC_PRIO_FILLER`: the worst of Linux's priorities.
///
/// Linux's priorities are names, not ranks. `pfifo_fast`, `prio` and `fq` share one table that puts 1, 2, 3 and 5 into
/// the worst band, 0 and 4 into the middle one and 6 and 7 into the *best*. IEEE 802.1Q, which VLANs and hardware
/// queues follow, ranks only 1 (background) below 0 and everything from 2 up above it. Only 1 is worse than 0 in both.
pub const PRIORITY_FILLER: u32 = 1;

/// The greatest socket priority of an unprivileged process.
pub const PRIORITY_UNPRIVILEGED_MAX: u32 = 6;

/// The marks of each level's datagrams.
///
/// The default gives level 0 DSCP 0 and no priority, and every low level [`DSCP_LOWER_EFFORT`] and [`PRIORITY_FILLER`]:
/// two classes, right on every path and host without configuration. Low levels are separated from each other only where
/// an operator has configured it; see [`MarkChoice::PerLevel`].
///
/// ```
/// use rc3_net::{Level, marks::{DSCP_LOWER_EFFORT, DscpRefused, MarkChoice, Marks, PRIORITY_FILLER}};
///
/// let marks = Marks::default();
/// assert_eq!((marks.dscp(Level::PRIMARY), marks.priority(Level::PRIMARY)), (0, None));
/// assert_eq!((marks.dscp(Level::MAX), marks.priority(Level::MAX)), (DSCP_LOWER_EFFORT, Some(PRIORITY_FILLER)));
/// // Class selector 1 instead of lower effort.
/// assert_eq!(Marks::from(MarkChoice::Cs1).dscp(Level::FIRST), 8);
/// // A code point for each level, with one changed.
/// let table = Marks::from(MarkChoice::PerLevel).with_dscp(Level::FIRST, 10)?;
/// assert_eq!((table.dscp(Level::FIRST), table.dscp(Level::MAX)), (10, 59));
/// assert_eq!(Marks::default().with_dscp(Level::FIRST, 64), Err(DscpRefused::TooLarge(64)));
/// # Ok::<(), DscpRefused>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Each below 64.
    dscp: [u8; Level::COUNT],
    priority: [Option<u32>; Level::COUNT],
}

/// A code point that a level cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DscpRefused {
    /// It exceeds the six bits of the field (RFC 2474 §3).
    #[error("dscp {0} has more than six bits, choose one from 0 to 63")]
    TooLarge(u8),
    /// [`DSCP_NON_QUEUE_BUILDING`] for a low level.
    #[error(
        "dscp 45 is for traffic that builds no queue (RFC 9956), and RLP builds one: choose lower effort (1)"
    )]
    NonQueueBuilding,
}

impl Marks {
    /// The same table with another code point for one level.
    ///
    /// # Errors
    /// [`DscpRefused`] above 63, and for a low level at [`DSCP_NON_QUEUE_BUILDING`].
    pub fn with_dscp(mut self, level: Level, dscp: u8) -> Result<Self, DscpRefused> {
        match dscp {
            64.. => return Err(DscpRefused::TooLarge(dscp)),
            DSCP_NON_QUEUE_BUILDING if level != Level::PRIMARY => return Err(DscpRefused::NonQueueBuilding),
            _ => self.dscp[level.index()] = dscp,
        }
        Ok(self)
    }

    /// The same table with another socket priority for one level; `None` leaves the choice to the kernel.
    ///
    /// More than [`PRIORITY_UNPRIVILEGED_MAX`] needs `CAP_NET_ADMIN`; without it the socket sends without a priority.
    pub fn with_priority(mut self, level: Level, priority: Option<u32>) -> Self {
        self.priority[level.index()] = priority;
        self
    }

    /// The differentiated services code point of a level, 0 to 63.
    pub fn dscp(&self, level: Level) -> u8 {
        self.dscp[level.index()]
    }

    /// The socket priority of a level, or `None` for the kernel's own choice.
    pub fn priority(&self, level: Level) -> Option<u32> {
        self.priority[level.index()]
    }
}

/// A table of marks by name. No single one is right on every path: some devices know only [`Self::LowerEffort`], some
/// only [`Self::Cs1`], some clear marks, and some networks have nothing below best effort. `rc3 check` measures which
/// one a path honours. The order is that of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MarkChoice {
    /// The primary is 0, level *k* of RLP 4*k* - 1, that is 3, 7, 11, ... 59: the pool for experimental and local use (RFC
    /// 2474 §6). Only for networks configured for it (`docs/OPERATORS.md`): devices that read the upper three bits serve
    /// the levels from 5 on above best effort.
    PerLevel,
    /// RLP is [`DSCP_LOWER_EFFORT`], the primary 0: [`Marks::default`].
    #[default]
    LowerEffort,
    /// RLP is [`DSCP_CS1`], the primary 0.
    Cs1,
    /// RLP is 0, the primary [`DSCP_CS3`]: for networks whose lowest class is best effort.
    Raised,
    /// No marks on the wire. The socket priority still applies on this host.
    None,
}

impl MarkChoice {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::PerLevel, Self::LowerEffort, Self::Cs1, Self::Raised, Self::None];

    /// Its name in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerLevel => "per-level",
            Self::LowerEffort => "le",
            Self::Cs1 => "cs1",
            Self::Raised => "raised",
            Self::None => "none",
        }
    }

    /// The table of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }

    fn dscp(self, level: u8) -> u8 {
        match (self, level) {
            (Self::Raised, 0) => DSCP_CS3,
            (_, 0) | (Self::None | Self::Raised, _) => 0,
            (Self::LowerEffort, _) => DSCP_LOWER_EFFORT,
            (Self::Cs1, _) => DSCP_CS1,
            (Self::PerLevel, level) => 4 * level - 1,
        }
    }
}

impl From<MarkChoice> for Marks {
    fn from(choice: MarkChoice) -> Self {
        Self {
            // There are fewer than 256 levels.
            dscp: array::from_fn(|level| choice.dscp(level as u8)),
            priority: array::from_fn(|level| (level != Level::PRIMARY.index()).then_some(PRIORITY_FILLER)),
        }
    }
}

impl Default for Marks {
    fn default() -> Self {
        MarkChoice::default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux's `prio2band` (net/sched/sch_generic.c), shared by pfifo_fast, prio and fq: 0 is served first.
    const BAND: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

    fn low_levels() -> impl Iterator<Item = Level> {
        (1..=Level::MAX.get()).filter_map(Level::new)
    }

    #[test]
    fn default_low_levels_are_worse_than_the_primary_under_the_default_queue() {
        let marks = Marks::default();
        let primary = BAND[marks.priority(Level::PRIMARY).unwrap_or(0) as usize];
        for level in low_levels() {
            let low = marks.priority(level).expect("low levels have a priority");
            assert!(BAND[low as usize] > primary, "level {level}");
            assert_eq!(marks.dscp(level), DSCP_LOWER_EFFORT);
        }
        assert_eq!(marks.dscp(Level::PRIMARY), 0);
    }

    #[test]
    fn every_choice_keeps_low_levels_below_the_primary_on_this_host() {
        assert_eq!(Marks::from(MarkChoice::default()), Marks::default());
        for choice in MarkChoice::ALL {
            assert_eq!(MarkChoice::named(choice.name()), Some(choice));
            let marks = Marks::from(choice);
            let tos = marks.dscp(Level::PRIMARY) << 2;
            // Linux's `ip_tos2prio`: none of these bits changes the priority from 0.
            assert_eq!((marks.priority(Level::PRIMARY), tos & 0x1e), (None, 0));
            assert!(low_levels().all(|level| marks.priority(level) == Some(PRIORITY_FILLER)));
        }
    }

    #[test]
    fn marks_per_level_differ_and_stay_in_the_local_pool() {
        let marks = Marks::from(MarkChoice::PerLevel);
        let mut seen = vec![marks.dscp(Level::PRIMARY)];
        for level in low_levels() {
            let dscp = marks.dscp(level);
            assert!(dscp < 64 && dscp & 0b11 == 0b11, "level {level} leaves the local pool: {dscp}");
            // Where the socket priority is not taken, Linux derives the queue from these bits.
            assert_ne!((dscp << 2) & 0x18, 0x10, "level {level} would be served first on its own host");
            assert!(!seen.contains(&dscp));
            seen.push(dscp);
        }
    }

    #[test]
    fn no_setting_puts_rlp_into_a_protected_queue_of_low_latency() {
        for marks in MarkChoice::ALL.map(Marks::from) {
            for level in low_levels() {
                assert_ne!(marks.dscp(level), DSCP_NON_QUEUE_BUILDING, "{marks:?}");
                let refused = marks.clone().with_dscp(level, DSCP_NON_QUEUE_BUILDING);
                assert_eq!(refused, Err(DscpRefused::NonQueueBuilding));
            }
        }
    }

    #[test]
    fn a_code_point_of_seven_bits_is_refused() {
        assert_eq!(Marks::default().with_dscp(Level::FIRST, 64), Err(DscpRefused::TooLarge(64)));
        let marks = Marks::default().with_dscp(Level::FIRST, 63).expect("six bits");
        assert_eq!(marks.dscp(Level::FIRST), 63);
        assert_eq!(marks.dscp(Level::MAX), DSCP_LOWER_EFFORT);
        assert_eq!(marks.with_priority(Level::FIRST, None).priority(Level::FIRST), None);
    }
}
