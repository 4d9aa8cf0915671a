//! The quantities that the crates of rc3 share, each with only the operators that make sense: [`Rate`], whole bits per
//! second above zero, and [`Level`], the priority of a packet (RC3 §2.1). Times are [`std::time::Duration`], sizes are
//! bytes in `u64`.
//!
//! ```
//! use std::time::Duration;
//! use rc3_units::{Level, Rate};
//!
//! let rate = Rate::from_bits_per_second(100_000_000).unwrap();
//! assert_eq!(rate.time_for(1500), Duration::from_micros(120));
//! assert!(Level::FIRST > Level::PRIMARY, "a greater level is a worse service");
//! ```
#![forbid(unsafe_code)]

mod level;
mod rate;

pub use level::Level;
pub use rate::Rate;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
