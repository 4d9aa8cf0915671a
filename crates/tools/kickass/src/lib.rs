//! The `kickass` command: rates from routers to endpoints in the lengths of IP fragments.
//!
//! [`codes`] converts between rates and lengths, `forward` is a router between TUN devices, `probe` measures which
//! lengths survive a path. The latter two need Linux. This library serves only the command; other programs use the
//! crate `kickass`.
#![forbid(unsafe_code)]

pub mod args;
pub mod codes;
#[cfg(target_os = "linux")]
pub mod forward;
#[cfg(target_os = "linux")]
pub mod probe;
