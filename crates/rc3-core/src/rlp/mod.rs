//! The RLP loop and its parts.

pub mod keys;
pub mod ladder;
pub mod pacer;
pub mod replay;
