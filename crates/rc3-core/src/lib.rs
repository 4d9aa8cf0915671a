//! Sans-IO machines of the RC3 transport.
#![forbid(unsafe_code)]

pub mod ledger;
pub mod range_map;
pub mod reassembler;
pub mod rlp;
pub mod send_buffer;
pub mod units;
pub mod wire;
