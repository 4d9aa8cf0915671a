//! Pseudorandom numbers from other numbers. Not secret: anyone can compute them.

/// Mixes `bytes` into `state`, eight at a time.
pub fn absorb(state: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words.iter().fold(state, |state, &word| mix(state ^ u64::from_le_bytes(word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(state ^ u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
