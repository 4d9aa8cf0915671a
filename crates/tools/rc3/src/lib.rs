//! The `rc3` command: verified file transfer, checks of hosts and paths, and a WAN demonstration.
//!
//! This library serves the command and the Python package (`python/`); other programs use the crate `rc3-net`.
#![forbid(unsafe_code)]

pub mod check;
pub mod cli;
pub mod copy;
pub mod demo;
pub mod emulator;
pub mod error;
pub mod figures;
pub mod identity;
pub mod log;
pub mod metrics;
mod notify;
mod picture;
pub mod rendezvous;
pub mod scheme;
#[cfg(test)]
#[path = "../tests/cli/skip.rs"]
mod skip;
mod sparse;
mod steps;
pub mod system;
pub mod table;
pub mod transfer;
pub mod tunnel;

/// The name of the command.
pub const NAME: &str = "rc3";
