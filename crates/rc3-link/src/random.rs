//! Derived seeds, and random bits as numbers: the same on every platform.

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
