//! Text for users: quantities ([`units`]), and TOML files (`document`, with the feature of that name).
//!
//! The simulator and the commands share these parsers, so this crate does not depend on the transport.
//!
//! ```
//! use std::time::Duration;
//! use rc3_text::units::{UnitError, parse_rate, parse_size, parse_time, rate_text};
//!
//! let rate = parse_rate("2.5gbit")?;
//! assert_eq!(rate.get(), 2_500_000_000);
//! assert_eq!(rate_text(rate.get()), "2500mbit", "text that parses to the same rate");
//! assert_eq!(parse_size("1.5GiB")?, 3 << 29);
//! assert_eq!(parse_time("80ms")?, Duration::from_millis(80));
//! assert_eq!(parse_rate("10Mbps"), Err(UnitError::Ambiguous("Mbps".into())), "bits or bytes?");
//! # Ok::<(), UnitError>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "document")]
pub mod document;
pub mod units;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
