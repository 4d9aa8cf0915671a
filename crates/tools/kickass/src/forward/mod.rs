//! `kickass forward`: a router between TUN devices. Its ports have a rate, a delay, a queue, and signals in the lengths
//! of fragments.
//!
//! [`forwarder`] is sans-IO: packets and times in, packets and times out. [`run`] drives it between devices. A packet
//! passes, in this order, the routes, the hop limit, the MTU, the queue with the link behind it (a
//! [`kickass::router::Router`] in virtual time) and the [`line`] with its delay.

pub mod config;
pub mod device;
pub mod error;
pub mod forwarder;
mod histogram;
mod icmp;
mod line;
pub mod metrics;
mod passing;
mod pool;
mod port;
mod privileges;
mod queue;
mod routes;
pub mod run;
mod shares;
pub mod statistics;
mod vnet;
