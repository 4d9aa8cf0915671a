//! The behaviour over time: time and datagrams go in, actions come out. No sockets, tasks or locks.

pub(crate) mod connection;
mod connections;
pub(crate) mod endpoint;
mod overlay;
pub(crate) mod receivers;
pub(crate) mod rlp;
mod strays;
pub(crate) mod stream;
pub(crate) mod succession;
mod telemetry;
