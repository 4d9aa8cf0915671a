//! Where lock and wakers meet: who waits for what under the lock, and is woken after it.
//!
//! Three kinds of waiting, and for none may a wake-up be lost, whatever comes between looking and waiting:
//!
//! - one task that does the work ([`Worker`]): it sleeps only if nothing was asked of it since it began to look;
//! - one task per stream and direction ([`remember`]): looks and leaves its waker under one lock;
//! - any number of tasks ([`until`]): begin to listen, then look.

use std::{
    collections::HashMap,
    future::poll_fn,
    hash::Hash,
    pin::{Pin, pin},
    task::{Context, Poll, Waker, ready},
};

use rustc_hash::FxBuildHasher;
use tokio::sync::{Notify, futures::Notified};

use crate::sync::{Mutex, PoisonError};

/// A lock around what collects the wakers of whom a change concerns.
pub(crate) struct Monitor<S>(Mutex<S>);

impl<S> Monitor<S> {
    pub(crate) fn new(state: S) -> Self {
        Self(Mutex::new(state))
    }

    /// Does something with the state; `change` also returns whom to wake, which happens after the lock is free again.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut S) -> (T, Vec<Waker>)) -> T {
        let (result, wakers) = self.with_later(change);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// As [`Self::with`], but whom to wake is left to the caller.
    pub(crate) fn with_later<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        // A panic in a machine leaves its connection odd, not the lock.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state)
    }
}

/// Whether the one task that does the work has some, and its waker while it sleeps.
pub(crate) struct Worker {
    asleep: Option<Waker>,
    work: bool,
}

impl Worker {
    /// Awake, and with something to do.
    pub(crate) fn new() -> Self {
        Self { asleep: None, work: true }
    }

    /// It begins to look for work: whatever is asked of it from here on is new.
    pub(crate) fn begin(&mut self) {
        self.work = false;
    }

    /// Something is asked of it.
    pub(crate) fn wake(&mut self, wakers: &mut Vec<Waker>) {
        self.work = true;
        wakers.extend(self.asleep.take());
    }

    /// It has found nothing more: sleeps, or learns with `false` that something has been asked of it meanwhile.
    pub(crate) fn sleep(&mut self, waker: &Waker) -> bool {
        if !self.work {
            self.asleep = Some(waker.clone());
        }
        !self.work
    }
}

/// Remembers `waker` under `key`, without a clone where it is there already.
pub(crate) fn remember<K: Hash + Eq>(wakers: &mut HashMap<K, Waker, FxBuildHasher>, key: K, waker: &Waker) {
    match wakers.get_mut(&key) {
        Some(known) => known.clone_from(waker),
        None => drop(wakers.insert(key, waker.clone())),
    }
}

/// Tries again whenever `notify` speaks.
pub(crate) async fn until<T>(notify: &Notify, mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut notified = pin!(notify.notified());
    poll_fn(|cx| poll_until(cx, notify, notified.as_mut(), &mut attempt)).await
}

/// The same for futures that have a name; `notified` was made by `notify` before the first attempt.
pub(crate) fn poll_until<'a, T>(
    cx: &mut Context<'_>,
    notify: &'a Notify,
    mut notified: Pin<&mut Notified<'a>>,
    mut attempt: impl FnMut() -> Option<T>,
) -> Poll<T> {
    loop {
        // Made before the attempt, `notified` misses nothing that happens after.
        if let Some(result) = attempt() {
            return Poll::Ready(result);
        }
        ready!(notified.as_mut().poll(cx));
        notified.set(notify.notified());
    }
}
