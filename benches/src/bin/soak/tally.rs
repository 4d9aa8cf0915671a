//! What happened, counted by everybody.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::Result;

/// Counters, and the first thing that went wrong.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Connections made.
    pub(crate) sessions: AtomicU64,
    /// Connections whose path fell silent for good.
    pub(crate) killed: AtomicU64,
    /// Times a path changed its address.
    pub(crate) moves: AtomicU64,
    /// Streams that arrived whole and unchanged.
    pub(crate) verified: AtomicU64,
    /// Their bytes.
    pub(crate) bytes: AtomicU64,
    /// Streams given up on purpose.
    pub(crate) given_up: AtomicU64,
    fault: Mutex<Option<String>>,
}

impl Tally {
    pub(crate) fn count(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Relaxed);
    }

    /// Something is wrong that must not be.
    pub(crate) fn report(&self, fault: String) {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    /// What was reported first, if anything.
    pub(crate) fn fault(&self) -> Result<()> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        fault.map_or(Ok(()), |fault| Err(fault.into()))
    }
}
