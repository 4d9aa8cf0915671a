//! Derived seeds, and random bits as numbers: the same on every platform.

use std::time::Duration;

use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};

/// The `place`-th seed derived from a seed, unlike its neighbours (the finaliser of SplitMix64; Steele, Lea and Flood,
/// OOPSLA 2014).
pub fn derive(seed: u64, place: u64) -> u64 {
    let mut z = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// 64 random bits as a number in `[0, 1)` with 53 bits, so that every value is exact.
pub fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// A seeded generator. Each draw costs one number of it, so that two runs of a seed stay in step even if they use the numbers
/// differently.
#[derive(Debug, Clone)]
pub struct Random(Pcg64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// Uniform in `0..n`; `n` is not zero. What multiplication is biased by cannot be seen below 2^32.
    pub fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0);
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Exponentially distributed.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        // In (0, 1], so that the logarithm is finite.
        mean.mul_f64(-(1.0 - self.unit()).ln())
    }

    /// Pareto distributed: at least `scale`, with a tail of this exponent.
    pub fn pareto(&mut self, scale: f64, shape: f64) -> f64 {
        scale * (1.0 - self.unit()).powf(-1.0 / shape)
    }
}
