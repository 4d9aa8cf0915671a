//! Loss in bursts: a link is in a good or in a bad state and changes between them at random (Gilbert 1960, Elliott 1963).

/// Probabilities of the Gilbert-Elliott model, from 0 to 1. The state changes, or not, before each packet.
///
/// ```
/// use rc3_link::Bursts;
///
/// // One packet in a hundred, in bursts of five on average.
/// let bursts = Bursts::of(0.01, 5.0);
/// assert!((bursts.leave - 0.2).abs() < 1e-12);
/// assert!((bursts.enter / (bursts.enter + bursts.leave) - 0.01).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// Of the change from the good state to the bad one.
    pub enter: f64,
    /// Of the change back.
    pub leave: f64,
    /// Of loss in the good state.
    pub good: f64,
    /// Of loss in the bad state.
    pub bad: f64,
}

impl Bursts {
    /// Gilbert's model, in which the bad state loses everything and the good one nothing: this share of all packets, in
    /// bursts of so many packets on average.
    ///
    /// # Panics
    /// If the share is not within 0 to 1, or no bursts of that length lead to it.
    pub fn of(share: f64, length: f64) -> Self {
        let leave = 1.0 / length;
        let bursts = Self { enter: share * leave / (1.0 - share), leave, good: 0.0, bad: 1.0 };
        assert!(bursts.is_sound(), "a share of {share} in bursts of {length} packets makes no probabilities");
        bursts
    }

    /// Whether all are probabilities.
    pub(crate) fn is_sound(&self) -> bool {
        [self.enter, self.leave, self.good, self.bad].iter().all(|share| (0.0..=1.0).contains(share))
    }
}
