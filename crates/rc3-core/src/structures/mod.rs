//! Spans, their books, and what waits: no packet, no clock of its own, and not why a span moves.

pub(crate) mod early;
pub mod held;
pub mod ledger;
pub(crate) mod memory;
pub(crate) mod mixing;
pub(crate) mod pieces;
pub mod range_map;
pub mod reassembler;
pub mod replay;
pub mod send_buffer;
pub(crate) mod taken;
pub(crate) mod timers;
#[cfg_attr(not(feature = "simulation"), expect(unreachable_pub, reason = "public there"))]
pub mod tournament;
