//! Endpoints on loopback. One binary: it links once, and its tests wait side by side.
#![forbid(unsafe_code)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/skip.rs"]
mod skip;

mod application_sockets;
mod balancers;
mod certificates;
mod edges;
mod files;
mod hostile;
mod interop;
mod parity;
mod paths;
mod restart;
mod surface;
mod transport;
mod workers;
mod workers_rebinding;
mod zero_rtt;
