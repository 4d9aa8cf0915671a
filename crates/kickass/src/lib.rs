//! Explicit rates for routers, sans-IO: time and packets come in as arguments, rates come out.
#![forbid(unsafe_code)]
#![cfg_attr(test, expect(clippy::disallowed_methods, reason = "tests need some instant to start from"))]

pub mod code;
pub mod indicator;
pub mod packet;
pub mod queue;
mod rate;
pub mod rcp;
pub mod reassembly;

pub use rate::Rate;
