//! Streams: one rc3 stream is one QUIC stream plus whatever the RLP loop brings ahead of it.

mod receipts;
pub(crate) mod recv;
pub(crate) mod send;
pub(crate) mod set;
pub(crate) mod writers;
