//! Samples go in, decisions come out: no packets, buffers or streams.

pub(crate) mod ack_frequency;
pub(crate) mod addresses;
pub(crate) mod clock;
pub(crate) mod constants;
pub(crate) mod cubic;
pub(crate) mod departures;
pub(crate) mod feeding;
pub(crate) mod fragments;
pub(crate) mod guard;
pub(crate) mod ladder;
pub(crate) mod offer;
pub(crate) mod order;
pub(crate) mod pacer;
pub(crate) mod path_mtu;
pub(crate) mod pool;
pub(crate) mod primary_window;
pub(crate) mod shares;
pub(crate) mod verdicts;
pub(crate) mod window;
pub(crate) mod worker_hash;
