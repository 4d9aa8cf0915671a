//! What CPU time is compared with: a hash of a full packet. It needs no memory, no kernel, and none of this project's code.

use std::{hint::black_box, time::Duration};

use rc3_lab::sockets::contenders::Result;
use rustix::time::{ClockId, clock_gettime};

const HASHES: u32 = 200_000;

/// CPU time of this process.
pub(super) fn cpu() -> Result<Duration> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}

/// Nanoseconds of CPU time for one hash.
pub(super) fn hash() -> Result<f64> {
    let packet = [7; 1500];
    let begun = cpu()?;
    for _ in 0..HASHES {
        black_box(blake3::hash(black_box(&packet)));
    }
    Ok((cpu()? - begun).as_nanos() as f64 / f64::from(HASHES))
}
