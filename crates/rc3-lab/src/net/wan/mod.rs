//! The WAN: a process that moves packets between two TUN devices over links of [`rc3_link`] in real time.
//!
//! It reads each packet as soon as it runs, and writes it when the link says. How much later it writes decides whether a
//! measurement counts.

pub mod config;
pub mod meddling;
pub mod middlebox;
pub mod run;
pub mod seen;

pub use run::run;
