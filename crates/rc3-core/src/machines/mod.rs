//! Who does what when: time and datagrams come in, what should happen comes out. No socket, no task, no lock.

pub(crate) mod connection;
mod connections;
pub(crate) mod endpoint;
mod overlay;
pub(crate) mod rlp;
pub(crate) mod stream;
