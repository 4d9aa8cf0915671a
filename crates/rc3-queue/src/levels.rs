//! The mapping from classes of service to levels.

/// The level of each class, 0 to 63: code points (RFC 2474), unless packets carry levels themselves.
///
/// By default lower effort (RFC 8622) is the worst level and everything else the best.
///
/// ```
/// use rc3_queue::Levels;
///
/// let levels = Levels::ladder();
/// assert_eq!(levels.of(0), 0, "best effort");
/// assert_eq!(levels.of(4 * 2 - 1), 2, "level 2 of RC3");
/// // CS1 as the worst level, for networks without lower effort.
/// assert_eq!(levels.with(8, 15).of(8), 15);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// Each below [`Levels::COUNT`].
    of: [u8; Self::CODE_POINTS],
}

impl Levels {
    /// How many levels there are; 0 is the best.
    pub const COUNT: usize = 16;
    const CODE_POINTS: usize = 64;
    const LOWER_EFFORT: u8 = 1;

    /// Class *k* is level *k*: for packets that carry levels. Classes that are not levels have the best level.
    pub fn by_number() -> Self {
        (0..Self::COUNT as u8)
            .fold(Self { of: [0; Self::CODE_POINTS] }, |levels, level| levels.with(level, level))
    }

    /// One code point for each low level: 4*k* - 1 for level *k*, from the pool for local use (RFC 2474 §6), as
    /// operators can configure at RC3's endpoints. Lower effort is the worst level.
    pub fn ladder() -> Self {
        (1..Self::COUNT as u8).fold(Self::default(), |levels, level| levels.with(4 * level - 1, level))
    }

    /// The same with another level for one code point.
    ///
    /// # Panics
    /// If `dscp` is above 63 or `level` is not below [`Self::COUNT`].
    pub fn with(mut self, dscp: u8, level: u8) -> Self {
        assert!(usize::from(dscp) < Self::CODE_POINTS, "a code point has six bits, {dscp} does not fit");
        assert!(usize::from(level) < Self::COUNT, "there is no level {level}");
        self.of[usize::from(dscp)] = level;
        self
    }

    /// The level of a code point; only its low six bits count.
    pub fn of(&self, dscp: u8) -> u8 {
        self.of[usize::from(dscp) % Self::CODE_POINTS]
    }
}

impl Default for Levels {
    fn default() -> Self {
        let none = Self { of: [0; Self::CODE_POINTS] };
        none.with(Self::LOWER_EFFORT, Self::COUNT as u8 - 1)
    }
}
