//! What carries the schemes of this program: rc3, quinn and kernel TCP, each a server and a client in processes of their
//! own. The first byte of a stream says what the server does with it ([`ECHO`] and so on).

mod quic;
mod setup;
pub mod tcp;
mod timed;

use std::{error::Error, time::Duration};

pub(crate) use self::quic::rc3;
pub use self::{
    setup::{Exchange, Setup, Target, Task, Transport},
    timed::{Modes, ReceiverReport, Timed},
};

/// What any part of such a process may end with.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The server answers with an [`ReceiverReport`] when it has all of the stream.
pub const CLOCK: u8 = 0;
/// The server sends the stream back.
pub const ECHO: u8 = 1;
/// The server sends [`KEPT`] bytes back, and the stream stays open.
pub const KEEP: u8 = 2;
/// The server prints how much has arrived, every 10 ms: kernel TCP only.
pub const PROGRESS: u8 = 3;

/// Bytes of a stream that stays open, in each direction.
pub const KEPT: usize = 64;

/// An [`ReceiverReport`] and a stream that is sent back by [`ECHO`] to a short request have no more bytes.
pub const ANSWER_MAX: usize = 2 * KEPT;

/// What one write hands over, in bytes.
const BLOCK: usize = 1 << 20;

/// What streams of flows consist of.
static CONTENT: [u8; BLOCK] = [CLOCK; BLOCK];

/// The server sends no more than this back, in bytes.
const ECHO_MAX: usize = 4 << 20;

/// CPU time of this process so far.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
