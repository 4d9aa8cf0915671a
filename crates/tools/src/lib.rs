//! The rc3 command: a WAN demonstration and verified file transfer. The kickass command: codes of rates.
#![forbid(unsafe_code)]

pub mod cli;
pub mod codes;
#[cfg(unix)]
pub mod demo;
pub mod doctor;
#[cfg(unix)]
pub mod emulator;
pub mod figures;
pub mod font;
#[cfg(target_os = "linux")]
pub mod forward;
mod mtu;
#[cfg(target_os = "linux")]
pub mod probe;
pub mod sim;
pub mod transfer;
pub use rc3_sim::units;
