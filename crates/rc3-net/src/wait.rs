//! What the futures of a connection have in common: an attempt, and a [`Notify`] that says when to try again.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::sync::{Notify, futures::Notified};

/// Attempts, and waits for `notify` before each further attempt. `notified` was made by `notify` before the first.
pub(crate) fn poll_until<'a, T>(
    cx: &mut Context<'_>,
    notify: &'a Notify,
    mut notified: Pin<&mut Notified<'a>>,
    mut attempt: impl FnMut() -> Option<T>,
) -> Poll<T> {
    loop {
        // What happens after `notified` was made wakes it: nothing is missed between the two lines.
        if let Some(result) = attempt() {
            return Poll::Ready(result);
        }
        ready!(notified.as_mut().poll(cx));
        notified.set(notify.notified());
    }
}
