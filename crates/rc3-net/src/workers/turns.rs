//! Whose primaries send: RC3's order, every primary before any RLP, over several workers.
//!
//! Each worker shows whether its primaries have more to send, and sends RLP only while no other worker shows that. What
//! can still leave out of order is the one batch that a worker had begun before.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// One flag for each worker. Relaxed: a flag that is seen a moment later costs a batch, as one that is set a moment
/// later does.
pub(super) struct Turns(Box<[Turn]>);

/// Alone in its cache lines, so that workers disturb each other only when a flag changes.
#[repr(align(128))]
#[derive(Default)]
struct Turn(AtomicBool);

impl Turns {
    pub(super) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Turn::default()).collect())
    }

    pub(super) fn set(&self, worker: usize, sending: bool) {
        let Turn(flag) = &self.0[worker];
        if flag.load(Relaxed) != sending {
            flag.store(sending, Relaxed);
        }
    }

    pub(super) fn is_taken_by_others(&self, worker: usize) -> bool {
        self.0.iter().enumerate().any(|(other, Turn(flag))| other != worker && flag.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_primaries_of_others_stop_rlp() {
        let turns = Turns::new(3);
        turns.set(1, true);
        assert_eq!([0, 1, 2].map(|worker| turns.is_taken_by_others(worker)), [true, false, true]);
        turns.set(2, true);
        turns.set(1, false);
        assert_eq!([0, 1, 2].map(|worker| turns.is_taken_by_others(worker)), [true, true, false]);
    }
}
