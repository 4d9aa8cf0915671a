//! Impairments of a link besides queueing: loss, duplication, reordering, jitter.
//!
//! Decided once per packet, in the order of service, by one seeded generator: the same packets and the same seed have
//! the same results on every platform. Units: probabilities from 0 to 1, extra delays as [`Duration`].

use std::time::Duration;

use rc3_units::Level;

use crate::{Bursts, random::Random};

/// Impairments behind the queue. The default is an unimpaired link.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Impairments {
    /// Probability that a packet is lost on the way, whatever its level.
    pub loss: f64,
    /// Loss in bursts, on top of the former.
    pub bursts: Option<Bursts>,
    /// Probability that a packet that is not lost arrives twice.
    pub duplicate: f64,
    /// Probability that an arrival is delayed by [`Self::reorder_delay`], so that later packets overtake it.
    pub reorder: f64,
    /// The extra delay of such an arrival.
    pub reorder_delay: Duration,
    /// Per level, the upper bound of an extra delay drawn uniformly for each arrival. Jitter above the packet spacing
    /// reorders packets.
    pub jitter: [Duration; Level::COUNT],
}

impl Impairments {
    /// Only independent loss, with this probability.
    pub fn loss(loss: f64) -> Self {
        Self { loss, ..Self::default() }
    }
}

/// Draws the impairments of one packet after another.
#[derive(Debug)]
pub(crate) struct Impairer {
    config: Impairments,
    random: Random,
    /// Whether the bursts are in their bad state.
    bad: bool,
}

/// The extra delay of each copy that arrives. Without copies the packet is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Arrives(Duration),
    Twice(Duration, Duration),
}

impl Impairer {
    /// # Panics
    /// If a probability is not within 0 to 1.
    pub(crate) fn new(config: Impairments, seed: u64) -> Self {
        for probability in [config.loss, config.duplicate, config.reorder] {
            assert!(
                (0.0..=1.0).contains(&probability),
                "a probability of {probability} is not within 0 to 1"
            );
        }
        assert!(config.bursts.is_none_or(|bursts| bursts.is_sound()), "{:?} is not of 0 to 1", config.bursts);
        Self { config, random: Random::new(seed), bad: false }
    }

    pub(crate) fn fate(&mut self, level: Level) -> Fate {
        if self.bursts() || self.happens(self.config.loss) {
            return Fate::Lost;
        }
        let extra = self.extra_delay(level);
        if self.happens(self.config.duplicate) {
            Fate::Twice(extra, self.extra_delay(level))
        } else {
            Fate::Arrives(extra)
        }
    }

    /// Whether a packet is lost in a burst.
    fn bursts(&mut self) -> bool {
        let Some(bursts) = self.config.bursts else { return false };
        let change = if self.bad { bursts.leave } else { bursts.enter };
        self.bad ^= self.happens(change);
        self.happens(if self.bad { bursts.bad } else { bursts.good })
    }

    fn extra_delay(&mut self, level: Level) -> Duration {
        let held_back =
            if self.happens(self.config.reorder) { self.config.reorder_delay } else { Duration::ZERO };
        let jitter = self.config.jitter[level.index()];
        if jitter.is_zero() { held_back } else { held_back + jitter.mul_f64(self.random.unit()) }
    }

    /// Draws only if the result is open, so an unimpaired link costs nothing.
    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.unit() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(config: Impairments, seed: u64, count: usize) -> Vec<Fate> {
        let mut impairer = Impairer::new(config, seed);
        (0..count).map(|_| impairer.fate(Level::PRIMARY)).collect()
    }

    #[test]
    fn an_undisturbed_link_delivers_everything_at_once() {
        assert!(
            fates(Impairments::default(), 1, 1000).iter().all(|fate| *fate == Fate::Arrives(Duration::ZERO))
        );
    }

    #[test]
    fn certain_loss_loses_everything() {
        assert!(fates(Impairments::loss(1.0), 1, 1000).iter().all(|fate| *fate == Fate::Lost));
    }

    #[test]
    fn rates_are_met_within_four_standard_deviations() {
        let config = Impairments { loss: 0.02, duplicate: 0.1, ..Default::default() };
        let fates = fates(config, 7, 100_000);
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
        let twice = fates.iter().filter(|fate| matches!(fate, Fate::Twice(..))).count();
        assert!((1823..=2177).contains(&lost), "{lost} of 100,000 lost at 2 %");
        assert!((9424..=10176).contains(&twice), "{twice} of 98,000 doubled at 10 %");
    }

    #[test]
    fn bursts_have_their_share_and_their_length() {
        let config = Impairments { bursts: Some(Bursts::of(0.02, 5.0)), ..Default::default() };
        let fates = fates(config, 9, 200_000);
        let lost = fates.iter().filter(|fate| **fate == Fate::Lost).count();
        let bursts = fates.windows(2).filter(|pair| pair[0] != Fate::Lost && pair[1] == Fate::Lost).count();
        // 800 bursts, whose lengths have a standard deviation of 4.5: four of them are 510 packets.
        assert!((3490..=4510).contains(&lost), "{lost} of 200,000 lost at 2 %");
        let length = lost as f64 / bursts as f64;
        assert!((4.4..5.6).contains(&length), "bursts of {length} packets");
    }

    #[test]
    fn jitter_belongs_to_its_level_and_stays_below_its_bound() {
        let mut config = Impairments::default();
        config.jitter[3] = Duration::from_millis(10);
        let mut impairer = Impairer::new(config, 3);
        let mut sum = Duration::ZERO;
        for _ in 0..10_000 {
            assert_eq!(impairer.fate(Level::PRIMARY), Fate::Arrives(Duration::ZERO));
            let Fate::Arrives(extra) = impairer.fate(Level::new(3).unwrap()) else { panic!("lost") };
            assert!(extra < Duration::from_millis(10));
            sum += extra;
        }
        let mean = sum / 10_000;
        assert!(mean > Duration::from_micros(4880) && mean < Duration::from_micros(5120), "{mean:?}");
    }

    #[test]
    fn a_seed_means_the_same_draws_everywhere() {
        let mut impairer = Impairer::new(Impairments::default(), 42);
        let draws: Vec<u64> = (0..3).map(|_| impairer.random.bits()).collect();
        assert_eq!(draws, [4178418447715145737, 4410739922618931473, 14034899209665866285]);
    }

    #[test]
    #[should_panic(expected = "a probability of 1.5 is not within 0 to 1")]
    fn a_probability_above_one_is_refused() {
        Impairer::new(Impairments::loss(1.5), 0);
    }
}
