//! Async RC3 endpoints over tokio and Linux UDP sockets.
#![deny(unsafe_code)]

pub mod marks;
pub mod socket;
