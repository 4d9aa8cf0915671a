//! What CPU time is compared with: a hash of a full packet. It needs no memory, no kernel, and none of this project's code.

use std::hint::black_box;

use crate::net::transport::cpu_time;

const HASHES: u32 = 200_000;

/// Nanoseconds of CPU time for one hash.
pub(super) fn hash() -> f64 {
    let packet = [7; 1500];
    each(HASHES, || {
        black_box(blake3::hash(black_box(&packet)));
    })
}

/// Nanoseconds of CPU time for each of `count` calls.
pub(super) fn each(count: u32, mut call: impl FnMut()) -> f64 {
    let begun = cpu_time();
    (0..count).for_each(|_| call());
    (cpu_time() - begun).as_nanos() as f64 / f64::from(count)
}
