//! What differs between operating systems.
//!
//! `unix` and `other` export the same functions, so that no other module asks which system it is built for, except where
//! Linux offers more than Unix (ACLs, holes, `syncfs`). `other` is Windows in practice. What it lacks it reports as absent:
//! no permission bits, no owner, no count of free bytes; signals, limits and syncs do nothing there.

#[cfg(any(not(unix), test))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub use other::*;
#[cfg(unix)]
pub use unix::*;
