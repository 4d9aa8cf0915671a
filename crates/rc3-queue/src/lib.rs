//! Queues in front of a link: one small trait, and the queue disciplines of routers.
//!
//! Sans-IO: times are arguments, packets are any type that is [`Queued`]. Routers of real packets and simulators
//! therefore share one implementation of each discipline.
//!
//! - [`DropTail`]: first in, first out.
//! - [`StrictPriority`]: the queue that RC3 asks of routers (RC3 §2.1, §5.1), with push-out; [`Levels`] maps classes to
//!   levels.
//! - [`FqCodel`]: flow queues under [`CoDel`] with ECN (RFC 8289, RFC 8290).
//!
//! Units: lengths and limits are bytes on the wire, IP headers included. A packet in transmission has left its queue and
//! counts against no limit.
//!
//! ```
//! use std::time::Instant;
//! use rc3_queue::{Queue, Queued, StrictPriority};
//!
//! #[derive(Debug, PartialEq)]
//! struct Packet {
//!     bytes: u64,
//!     level: u8,
//! }
//!
//! impl Queued for Packet {
//!     fn bytes(&self) -> u64 {
//!         self.bytes
//!     }
//!
//!     fn class(&self) -> u8 {
//!         self.level
//!     }
//! }
//!
//! let now = Instant::now();
//! let mut queue = StrictPriority::by_level(3000);
//! let mut dropped = Vec::new();
//! for level in [2, 1, 0] {
//!     queue.enqueue(now, Packet { bytes: 1500, level }, &mut |packet| dropped.push(packet));
//! }
//! assert_eq!(dropped, [Packet { bytes: 1500, level: 2 }], "the worst level makes room");
//! assert_eq!(queue.dequeue(now, &mut |_| unreachable!()), Some(Packet { bytes: 1500, level: 0 }));
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

mod codel;
mod drop_tail;
mod fifo;
mod fq_codel;
mod levels;
mod queue;
mod queued;
mod strict_priority;
mod tally;
#[cfg(test)]
mod tests;

pub use codel::CoDel;
pub use drop_tail::DropTail;
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use levels::Levels;
pub use queue::Queue;
pub use queued::{Queued, Routed};
pub use strict_priority::StrictPriority;
pub use tally::Tally;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
