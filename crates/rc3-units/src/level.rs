//! The priority of a packet.

use std::fmt;

/// A service level: 0 is the primary loop's normal priority, 1 to 15 are the increasingly worse levels of the RLP loop
/// (RC3 §2.1).
///
/// Ordering follows the number, so a *greater* level is a *worse* service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Level(u8);

impl Level {
    /// Normal priority: everything the primary loop sends.
    pub const PRIMARY: Self = Self(0);
    /// The best low-priority level.
    pub const FIRST: Self = Self(1);
    /// The worst level in the wire format.
    pub const MAX: Self = Self(15);
    /// The number of levels, including the primary's: the size of a table indexed by [`Self::index`].
    pub const COUNT: usize = 16;

    /// The level with this number, or `None` past [`Self::MAX`].
    pub const fn new(number: u8) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// The number of the level, 0 to 15.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The number as an index into a table of [`Self::COUNT`] entries.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this is normal priority.
    pub const fn is_primary(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
