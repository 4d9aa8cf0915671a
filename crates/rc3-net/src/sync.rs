//! The lock of `wake.rs`, by a name of ours: `tests/interleavings.rs` puts another in its place, which tries orders of
//! events that the real one hardly ever sees.

pub(crate) use std::sync::{Mutex, PoisonError};
