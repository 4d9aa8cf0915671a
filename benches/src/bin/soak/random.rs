//! Random choices, a row of them for each of several users of one seed.

use std::time::Duration;

use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};

/// A seeded generator.
#[derive(Debug)]
pub(crate) struct Random(Pcg64);

impl Random {
    /// The `number`th user's row of choices under `seed`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Whether something happens that does once in so many times.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// From 0 to below `bound`.
    pub(crate) fn share(&mut self, bound: f64) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64 * bound
    }

    /// Below `bound`, to the microsecond.
    pub(crate) fn time(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(bound.as_micros() as u64 + 1))
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
