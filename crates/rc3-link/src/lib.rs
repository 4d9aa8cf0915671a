//! One direction of a [`Link`], sans-IO: a queue, a transmitter of a fixed rate, a propagation delay, impairments.
//!
//! Times are arguments, randomness comes from a seed. The same link therefore runs in virtual time in a simulation and
//! in real time between sockets.
//!
//! Its queue is one of [`rc3_queue`], over packets of the link: [`Packet`] of [`Stamped`] payloads.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use rc3_units::{Level, Rate};
//! use rc3_link::{Link, LinkConfig, Packet};
//! use rc3_queue::StrictPriority;
//!
//! let rate = Rate::from_bits_per_second(12_000_000);
//! let config = LinkConfig { rate, delay: Duration::from_millis(20), ..LinkConfig::default() };
//! let mut link = Link::new(config, StrictPriority::by_level(3000));
//! let start = Instant::now();
//! let packets =
//!     [(Level::FIRST, "in service"), (Level::MAX, "low"), (Level::PRIMARY, "normal"), (Level::MAX, "dropped")];
//! for (level, payload) in packets {
//!     link.send(start, Packet { size: 1500, level, payload });
//! }
//! assert_eq!(link.poll_timeout(), Some(start + Duration::from_millis(21)));
//! let later = start + Duration::from_millis(23);
//! let arrived: Vec<_> = std::iter::from_fn(|| link.poll_output(later)).collect();
//! assert_eq!(arrived, ["in service", "normal", "low"]);
//! assert_eq!(link.stats().level(Level::MAX).dropped.packets, 1);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

mod bursts;
mod impair;
mod link;
mod packet;
mod poisson_process;
mod policer;
mod propagating;
pub mod random;
mod service;
mod stats;
#[cfg(test)]
mod tests;
mod trace;

pub use bursts::Bursts;
pub use impair::Impairments;
pub use link::{Link, LinkConfig};
pub use packet::{Packet, Stamped, Waiting};
pub use poisson_process::PoissonProcess;
pub use policer::Policer;
pub use stats::{LevelStats, LinkStats};
pub use trace::{Trace, TraceError};

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
