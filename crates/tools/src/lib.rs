//! The rc3 command: a WAN demonstration and verified file transfer.
#![forbid(unsafe_code)]

#[cfg(unix)]
pub mod emulator;
#[cfg(unix)]
pub mod demo;
pub mod transfer;
pub mod units;
