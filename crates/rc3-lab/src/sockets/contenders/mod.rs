//! Transports beside each other: rc3, quinn and kernel TCP, each a server and a client in processes of their own.

mod contender;
mod exchange;
mod quic;
mod tcp;
mod timed;

use std::{error::Error, time::Duration};

pub use self::{
    contender::{Contender, Service, Setup},
    exchange::Exchange,
    tcp::connect as connect_tcp,
    timed::{Answer, Timed},
};

/// What any part of such a process may end with.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What one write hands over, in bytes.
const BLOCK: usize = 1 << 20;

/// Longer streams are bulk, which gets the receiver's CPU seconds for an answer; shorter ones are echoed.
const ECHO_MAX: usize = 1 << 20;

/// CPU time of this process so far.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
