//! Connects lock and wakers: waiters are registered under the lock, and woken after it.
//!
//! There are three kinds of waiting. None may lose a wake-up, whatever happens between checking and waiting:
//!
//! - one task that does the work ([`Requests`]): it sleeps only if it got no request since it began to check;
//! - one task per stream and direction ([`remember`]): checks and leaves its waker under one lock;
//! - any number of tasks ([`until`]): begin to listen, then check.

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

/// A lock that also collects the wakers affected by a change.
pub(crate) struct Monitor<S>(Mutex<S>);

impl<S> Monitor<S> {
    pub(crate) fn new(state: S) -> Self {
        Self(Mutex::new(state))
    }

    /// Changes the state; `change` also returns the wakers, which are called after the lock is free again.
    #[inline]
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut S) -> (T, Vec<Waker>)) -> T {
        let (result, wakers) = self.with_later(change);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Like [`Self::with`], but the caller calls the wakers.
    #[inline]
    pub(crate) fn with_later<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        // A panic in a machine breaks its connection, not the lock.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state)
    }
}

/// Whether the working task has requests, and its waker while it sleeps.
pub(crate) struct Requests {
    asleep: Option<Waker>,
    work: bool,
}

impl Requests {
    /// Awake, with requests.
    pub(crate) fn new() -> Self {
        Self { asleep: None, work: true }
    }

    /// The task begins to check for work: requests from here on are new.
    pub(crate) fn take_all(&mut self) {
        self.work = false;
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, wakers: &mut Vec<Waker>) {
        self.work = true;
        wakers.extend(self.asleep.take());
    }

    /// The task has found no more work: sleeps, or returns `false` if there were requests meanwhile.
    pub(crate) fn sleep(&mut self, waker: &Waker) -> bool {
        if !self.work {
            self.asleep = Some(waker.clone());
        }
        !self.work
    }
}

/// Stores `waker` under `key`, without a clone if it is already there.
pub(crate) fn remember<K: Hash + Eq>(wakers: &mut HashMap<K, Waker, FxBuildHasher>, key: K, waker: &Waker) {
    match wakers.get_mut(&key) {
        Some(known) => known.clone_from(waker),
        None => drop(wakers.insert(key, waker.clone())),
    }
}

/// Tries again on every notification of `notify`.
pub(crate) async fn until<T>(notify: &Notify, mut attempt: impl FnMut() -> Option<T>) -> T {
    let mut notified = pin!(notify.notified());
    poll_fn(|cx| poll_until(cx, notify, notified.as_mut(), &mut attempt)).await
}

/// The same for named futures; `notified` was made by `notify` before the first attempt.
pub(crate) fn poll_until<'a, T>(
    cx: &mut Context<'_>,
    notify: &'a Notify,
    mut notified: Pin<&mut Notified<'a>>,
    mut attempt: impl FnMut() -> Option<T>,
) -> Poll<T> {
    loop {
        // Made before the attempt, `notified` misses no later event.
        if let Some(result) = attempt() {
            return Poll::Ready(result);
        }
        ready!(notified.as_mut().poll(cx));
        notified.set(notify.notified());
    }
}
