//! Spans, their state, and queues: no packets, no clock, and no reasons for changes.

pub(crate) mod blocked_writers;
pub(crate) mod destination_cache;
pub(crate) mod held;
pub(crate) mod ledger;
pub(crate) mod mixing;
pub(crate) mod offset_map;
pub(crate) mod pieces;
pub(crate) mod range_map;
pub(crate) mod reassembler;
pub(crate) mod replay;
pub(crate) mod send_buffer;
pub(crate) mod taken;
pub(crate) mod timers;
pub(crate) mod tournament;
pub(crate) mod undecryptable;
