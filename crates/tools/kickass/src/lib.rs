//! The `kickass` command: rates from routers to ends in the lengths of IP fragments.
//!
//! [`codes`] says which length tells which rate, `forward` is a router between TUN devices, `probe` says which lengths
//! survive a path. Both need Linux. It is the command's library, not one for other programs: those want the crate
//! `kickass`.
#![forbid(unsafe_code)]

pub mod args;
pub mod codes;
#[cfg(target_os = "linux")]
pub mod forward;
#[cfg(target_os = "linux")]
pub mod probe;
