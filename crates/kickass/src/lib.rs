//! Explicit rates for routers, sans-IO: time and packets come in as arguments, rates come out.
//!
//! Here now: [`rcp`], the law by which a router finds the one rate that each flow through a link may use (Rate
//! Control Protocol, Dukkipati and McKeown).
//!
//! Not here yet: how Kick-Ass (Northwestern EECS-16-09) brings that rate to the ends in the lengths of fragments,
//! and the router and the forwarder around it.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use kickass::rcp::{Config, Law};
//!
//! let start = Instant::now();
//! // A link of 100 Mbit/s, in bytes per second.
//! let mut law = Law::new(Config::default(), 12.5e6, start, Duration::from_millis(10));
//! // Each packet that comes, with the round trip its sender measured.
//! law.on_arrival(1500, Duration::from_millis(40));
//! // Before each packet that comes or goes: the time, and the bytes that have waited until then.
//! law.advance(start + Duration::from_millis(25), 0);
//! assert!(law.rate() > 0.05 * 12.5e6);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

pub mod rcp;
