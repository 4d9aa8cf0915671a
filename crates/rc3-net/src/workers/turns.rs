//! Whose primaries send: RC3's order, every primary before any RLP, over several workers.
//!
//! Each worker shows whether its primaries have more to send, and sends RLP only while no other worker shows that. What
//! can still leave out of order is the one batch that a worker had begun before.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rc3_core::WorkerHash;

/// One bit for each worker. Relaxed: a bit that is seen a moment later costs a batch, as one that is set a moment later
/// does. Alone in its cache lines, so that workers disturb each other only when a bit changes.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Turns(AtomicU64);

const _: () = assert!(WorkerHash::WORKERS_MAX <= u64::BITS as usize);

impl Turns {
    pub(super) fn set(&self, worker: usize, sending: bool) {
        let bit = 1 << worker;
        if (self.0.load(Relaxed) & bit != 0) != sending {
            self.0.fetch_xor(bit, Relaxed);
        }
    }

    pub(super) fn is_taken_by_others(&self, worker: usize) -> bool {
        self.0.load(Relaxed) & !(1 << worker) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_primaries_of_others_stop_rlp() {
        let turns = Turns::default();
        turns.set(1, true);
        assert_eq!([0, 1, 2].map(|worker| turns.is_taken_by_others(worker)), [true, false, true]);
        turns.set(2, true);
        turns.set(1, false);
        assert_eq!([0, 1, 2].map(|worker| turns.is_taken_by_others(worker)), [true, true, false]);
    }
}
