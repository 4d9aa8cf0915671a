//! What the driver exchanges with the other workers of its endpoint. With one worker nothing here has work.

use std::{
    iter,
    task::{Context, Poll, Waker},
};

use super::channel::SendResult;
use crate::{
    shared::Shared,
    workers::{Inbox, Member},
};

/// How often RLP asks at once whether the primaries of other workers still send; then it waits.
const ASKED_AT_ONCE_MAX: usize = 8;

/// Messages of other workers in one round.
const MESSAGES_MAX: usize = 128;

/// Handles what other workers have for this one, and lets more of it wake the task; returns the number of messages.
pub(super) fn take_mail(
    cx: &mut Context<'_>,
    shared: &Shared,
    wakers: &mut Vec<Waker>,
    inbox: &mut Inbox,
) -> usize {
    if shared.member.workers() == 1 {
        return 0;
    }
    let mail: Vec<_> = iter::from_fn(|| match inbox.poll(cx) {
        Poll::Ready(mail) => mail,
        Poll::Pending => None,
    })
    .take(MESSAGES_MAX)
    .collect();
    let count = mail.len();
    if count > 0 {
        shared.with_later(wakers, |state| mail.into_iter().for_each(|mail| state.handle_mail(mail)));
    }
    count
}

/// How often RLP had to wait for the primaries of other workers, in a row.
#[derive(Default)]
pub(super) struct RlpTurn {
    asked: usize,
}

impl RlpTurn {
    /// Lets RLP wait while the primaries of another worker have more to send: asks again at once, or after a pause.
    pub(super) fn wait_for_primaries(&mut self, member: &Member) -> Option<SendResult> {
        if !member.must_wait() {
            self.asked = 0;
            return None;
        }
        self.asked += 1;
        if self.asked < ASKED_AT_ONCE_MAX {
            return Some(SendResult::More);
        }
        self.asked = 0;
        Some(SendResult::Blocked)
    }
}
