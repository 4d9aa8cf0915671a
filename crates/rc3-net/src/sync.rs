//! The lock of `wake.rs`, under its own name: `tests/interleavings.rs` replaces it by one that tries orders of events
//! that the real one hardly ever sees.

pub(crate) use std::sync::{Mutex, PoisonError};
