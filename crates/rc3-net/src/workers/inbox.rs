//! What other workers have for one worker: datagrams and verdicts.
//!
//! Invariant: bounded, whatever arrives. What finds no room is dropped and counted, as if the network had lost it.

use std::{
    mem,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::Waker,
};

use rc3_core::DestinationVerdict;

use super::{Parcel, Reset, copy};
use crate::sync::{Mutex, PoisonError};

/// Most datagrams that wait: the worker runs often, and few come this way.
pub(super) const DATAGRAMS_MAX: usize = 1024;

/// Most bytes of them.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Most verdicts that wait. Later ones are learned again.
const VERDICTS_MAX: usize = 256;

/// Most possible resets that wait: anyone can send junk that looks like one. A peer repeats a true one.
const RESETS_MAX: usize = 64;

/// The inbox of one worker.
#[derive(Default)]
pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    /// Whether something waits. Set under the lock, read without it in each round of the driver.
    any: AtomicBool,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    mail: Mail,
    bytes: usize,
    asleep: Option<Waker>,
}

/// The content of an inbox.
#[derive(Default)]
pub(crate) struct Mail {
    pub(crate) datagrams: Vec<Parcel>,
    pub(crate) resets: Vec<Reset>,
    pub(crate) verdicts: Vec<DestinationVerdict>,
}

impl Inbox {
    /// Adds a copy of a datagram; returns the worker's waker if it sleeps.
    pub(super) fn push(&self, parcel: &Parcel) -> Option<Waker> {
        self.add(|waiting| {
            let len = parcel.1.len();
            let room = waiting.mail.datagrams.len() < DATAGRAMS_MAX && waiting.bytes + len <= BYTES_MAX;
            if room {
                waiting.bytes += len;
                waiting.mail.datagrams.push(copy(parcel));
            } else {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
            room
        })
    }

    /// Adds what may be a stateless reset, likewise.
    pub(super) fn push_reset(&self, reset: &Reset) -> Option<Waker> {
        self.add(|waiting| {
            let room = waiting.mail.resets.len() < RESETS_MAX;
            waiting.mail.resets.extend(room.then_some(*reset));
            room
        })
    }

    /// Adds a verdict, likewise.
    pub(super) fn push_verdict(&self, learned: &DestinationVerdict) -> Option<Waker> {
        self.add(|waiting| {
            let room = waiting.mail.verdicts.len() < VERDICTS_MAX;
            waiting.mail.verdicts.extend(room.then_some(*learned));
            room
        })
    }

    /// `push` returns whether it has added something.
    fn add(&self, push: impl FnOnce(&mut Waiting) -> bool) -> Option<Waker> {
        self.with(|waiting| {
            if !push(waiting) {
                return None;
            }
            self.any.store(true, Ordering::Release);
            waiting.asleep.take()
        })
    }

    /// Everything that waits; `None` if nothing does.
    pub(super) fn collect(&self) -> Option<Mail> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.with(|waiting| {
            self.any.store(false, Ordering::Release);
            waiting.bytes = 0;
            Some(mem::take(&mut waiting.mail))
        })
    }

    /// The worker sleeps until something arrives. `false`: something has.
    pub(super) fn sleep(&self, waker: &Waker) -> bool {
        self.with(|waiting| {
            let any = self.any.load(Ordering::Acquire);
            if !any {
                waiting.asleep = Some(waker.clone());
            }
            !any
        })
    }

    /// The waker of a worker that should check whether it may end.
    pub(super) fn wake(&self) -> Option<Waker> {
        self.with(|waiting| waiting.asleep.take())
    }

    /// Datagrams that found no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    fn with<T>(&self, change: impl FnOnce(&mut Waiting) -> T) -> T {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use bytes::BytesMut;
    use rc3_core::DatagramMeta;

    use super::*;

    fn parcel(len: usize) -> Parcel {
        let remote = ([192, 0, 2, 1], 9).into();
        let meta = DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None };
        (meta, BytesMut::zeroed(len))
    }

    #[test]
    fn a_flood_is_bounded_in_datagrams_and_in_bytes() {
        for len in [29, 1_200, 9_000] {
            let inbox = Inbox::default();
            for _ in 0..2_000 {
                inbox.push(&parcel(len));
            }
            let waiting = inbox.collect().unwrap().datagrams.len();
            assert_eq!(waiting, DATAGRAMS_MAX.min(BYTES_MAX / len));
            assert_eq!(inbox.dropped(), 2_000 - waiting as u64);
            assert!(inbox.collect().is_none());
            inbox.push(&parcel(len));
            assert_eq!(inbox.collect().unwrap().datagrams.len(), 1, "there is room again");
        }
    }

    #[test]
    fn a_worker_does_not_sleep_over_mail() {
        let inbox = Inbox::default();
        assert!(inbox.sleep(Waker::noop()));
        assert!(inbox.push(&parcel(29)).is_some(), "it is woken");
        assert!(inbox.push(&parcel(29)).is_none(), "once");
        assert!(!inbox.sleep(Waker::noop()));
        assert_eq!(inbox.collect().unwrap().datagrams.len(), 2);
        assert!(inbox.sleep(Waker::noop()));
        assert!(inbox.wake().is_some());
    }
}
