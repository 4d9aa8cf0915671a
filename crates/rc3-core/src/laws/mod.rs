//! Samples in, decisions out: no packet, no buffer, no stream.

pub(crate) mod addresses;
pub mod clock;
pub(crate) mod departures;
pub(crate) mod feeding;
pub(crate) mod fragments;
pub mod guard;
pub mod ladder;
pub mod pacer;
pub mod primary_window;
pub(crate) mod shares;
pub mod verdicts;
pub(crate) mod window;
