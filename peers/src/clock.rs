//! Clocks of this machine, and what is measured by them.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Nanoseconds of the monotonic clock, the same in all processes.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU seconds of this process so far.
pub(crate) fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// What a receiver answers: when the last byte was there, and CPU seconds since the connection was open.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) last: u64,
    pub(crate) cpu: f64,
}

/// A flow that began to connect at `begun`: seconds until the connection was open, until the receiver had the last byte from then
/// on, and of CPU time.
#[derive(Debug, Serialize)]
pub(crate) struct Timed {
    pub(crate) begun: u64,
    pub(crate) connect: f64,
    pub(crate) flow: f64,
    pub(crate) sender_cpu: f64,
    pub(crate) receiver_cpu: f64,
}
