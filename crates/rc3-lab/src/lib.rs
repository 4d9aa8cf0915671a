//! The laboratory: experiments with rc3, simulated ([`sim`]) and between real sockets ([`sockets`]). Nothing of it is
//! part of what people install.
#![forbid(unsafe_code)]

pub mod args;
pub mod document;
pub mod sim;
pub mod sockets;

/// The name of the command.
pub const NAME: &str = "rc3-lab";
