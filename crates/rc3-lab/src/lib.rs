//! The laboratory: experiments with rc3, simulated ([`sim`]) and between real sockets (`net`, [`sockets`]). Nothing of it
//! is part of what people install.
#![forbid(unsafe_code)]

pub mod args;
pub mod document;
#[cfg(target_os = "linux")]
pub mod net;
pub mod sim;
pub mod sockets;

/// The name of the command.
pub const NAME: &str = "rc3-lab";
