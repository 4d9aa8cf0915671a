//! Text that people write and read: quantities ([`units`]), and files in TOML (`document`, with the feature of that
//! name).
//!
//! The simulator and the commands read the same words the same way, so this depends on nothing of the transport.
#![forbid(unsafe_code)]

#[cfg(feature = "document")]
pub mod document;
pub mod units;

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
