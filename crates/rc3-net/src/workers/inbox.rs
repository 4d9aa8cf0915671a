//! What other workers have for one worker: datagrams, possible resets and verdicts.
//!
//! Invariant: bounded, whatever arrives. What finds no room is dropped, as if the network had lost it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use rc3_core::DestinationVerdict;
use tokio::sync::mpsc;

use super::{Parcel, Reset, copy};

/// Most messages that wait: the worker runs often, and few come this way.
const MESSAGES_MAX: usize = 1024;

/// Room that anything but datagrams leaves: anyone can send junk that looks like a reset. A peer repeats a true one, and
/// verdicts are learned again.
const ROOM_FOR_DATAGRAMS: usize = MESSAGES_MAX / 2;

/// Most bytes of datagrams.
const BYTES_MAX: usize = 1 << 20;

/// A message to a worker.
pub(crate) enum Mail {
    Datagram(Parcel),
    Reset(Reset),
    Verdict(DestinationVerdict),
    /// It should check whether it may end.
    Check,
}

/// The worker's end.
pub(crate) struct Inbox {
    messages: mpsc::Receiver<Mail>,
    bytes: Arc<AtomicUsize>,
}

/// The end of the others.
pub(super) struct InboxSender {
    messages: mpsc::Sender<Mail>,
    /// Of datagrams that wait.
    bytes: Arc<AtomicUsize>,
}

/// Both ends of an inbox.
pub(super) fn inbox() -> (InboxSender, Inbox) {
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    let bytes = Arc::<AtomicUsize>::default();
    (InboxSender { messages: sender, bytes: bytes.clone() }, Inbox { messages: receiver, bytes })
}

impl InboxSender {
    /// Adds a copy of a datagram, which holds no larger buffer; returns whether there was room.
    pub(super) fn push(&self, parcel: &Parcel) -> bool {
        let len = parcel.1.len();
        let room = self.bytes.fetch_add(len, Relaxed) + len <= BYTES_MAX;
        let added = room && self.messages.try_send(Mail::Datagram(copy(parcel))).is_ok();
        if !added {
            self.bytes.fetch_sub(len, Relaxed);
        }
        added
    }

    /// Adds anything else.
    pub(super) fn push_other(&self, mail: Mail) {
        if self.messages.capacity() > ROOM_FOR_DATAGRAMS {
            // If it has ended, it has no use for it.
            let _ = self.messages.try_send(mail);
        }
    }
}

impl Inbox {
    /// The next message; without one, the task is woken later.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Mail>> {
        let mail = self.messages.poll_recv(cx);
        if let Poll::Ready(Some(Mail::Datagram((_, datagram)))) = &mail {
            self.bytes.fetch_sub(datagram.len(), Relaxed);
        }
        mail
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, task::Waker};

    use bytes::BytesMut;
    use rc3_core::DatagramMeta;

    use super::*;

    fn parcel(len: usize) -> Parcel {
        let remote = ([192, 0, 2, 1], 9).into();
        let meta = DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None };
        (meta, BytesMut::zeroed(len))
    }

    fn drain(inbox: &mut Inbox) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let mail = iter::from_fn(|| match inbox.poll(&mut cx) {
            Poll::Ready(mail) => mail,
            Poll::Pending => None,
        });
        mail.count()
    }

    #[test]
    fn a_flood_is_bounded_in_datagrams_and_in_bytes() {
        for len in [29, 1_200, 9_000] {
            let (sender, mut inbox) = inbox();
            let added = (0..2_000).filter(|_| sender.push(&parcel(len))).count();
            assert_eq!(added, MESSAGES_MAX.min(BYTES_MAX / len));
            assert_eq!(drain(&mut inbox), added);
            assert!(sender.push(&parcel(len)), "there is room again");
            assert_eq!(drain(&mut inbox), 1);
        }
    }

    #[test]
    fn junk_like_resets_leaves_room_for_datagrams() {
        let (sender, mut inbox) = inbox();
        for _ in 0..2_000 {
            sender.push_other(Mail::Reset((parcel(29).0, [7; 16])));
        }
        assert!(sender.push(&parcel(29)));
        assert_eq!(drain(&mut inbox), MESSAGES_MAX - ROOM_FOR_DATAGRAMS + 1);
    }
}
