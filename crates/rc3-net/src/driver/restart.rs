//! The driver's part of a graceful restart: its ends of the links to the processes that have the port before and after
//! this one. Without a restart nothing here has work.

use std::{
    iter,
    task::{Context, Poll, Waker},
};

use rc3_core::Detour;
use tokio::sync::oneshot;

use crate::{
    handed_over::HandedOver,
    relay::{RelayLink, RelayMessage, RelayReceived, SuccessorLink},
    shared::Shared,
    state::EndpointState,
};

/// Messages of a link in one round: as many datagrams as in a batch of a socket, about.
const MESSAGES_MAX: usize = 4;

/// Most processes have neither.
#[derive(Default)]
pub(super) struct Relays {
    predecessor: Option<RelayLink>,
    successor: Option<SuccessorLink>,
    /// Waits for this process to read the sockets no longer.
    stopped: Option<oneshot::Sender<()>>,
}

impl Relays {
    /// This process takes over from the one at the other end.
    #[cfg(all(target_os = "linux", not(rc3_portable)))]
    pub(super) fn set_predecessor(&mut self, link: RelayLink) {
        self.predecessor = Some(link);
    }

    /// Handles what both processes have sent; returns the number of datagrams and messages.
    pub(super) fn receive(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        wakers: &mut Vec<Waker>,
    ) -> usize {
        let mut count = 0;
        for _ in 0..MESSAGES_MAX {
            let Some(link) = &mut self.predecessor else { break };
            let Poll::Ready(received) = link.poll_recv(cx) else { break };
            count += 1;
            match received {
                RelayReceived::Message(RelayMessage::Report(report)) => {
                    shared.with_later(wakers, |state| state.core.handle_from_predecessor(report));
                }
                RelayReceived::Closed => {
                    tracing::info!("the process that had the port before has no connections left");
                    self.predecessor = None;
                    shared.with_later(wakers, |state| state.on_predecessor_gone(&shared.waiters));
                }
                RelayReceived::Message(_) | RelayReceived::Malformed => on_malformed(),
            }
        }
        for _ in 0..MESSAGES_MAX {
            let Some(successor) = &mut self.successor else { break };
            let Poll::Ready(received) = successor.link.poll_recv(cx) else { break };
            count += 1;
            match received {
                RelayReceived::Message(RelayMessage::Datagrams(detours)) => {
                    count += take_detours(shared, wakers, detours)
                }
                RelayReceived::Message(RelayMessage::HandedOn(handed_on)) => successor.handed_on = handed_on,
                RelayReceived::Closed => self.on_successor_gone(),
                RelayReceived::Message(RelayMessage::Report(_)) | RelayReceived::Malformed => on_malformed(),
            }
        }
        count
    }

    fn on_successor_gone(&mut self) {
        let Some(SuccessorLink { gone, handed_on, .. }) = self.successor.take() else { return };
        if handed_on {
            // Two readers would take each other's datagrams.
            tracing::error!(
                "the next process has ended, but not its own successor: connections here time out"
            );
        } else {
            // The first worker's message is enough.
            let _ = gone.try_send(());
        }
    }

    /// Follows changes of the state.
    pub(super) fn follow_state(&mut self, state: &mut EndpointState) {
        if let Some(mut successor) = state.restart.successor.take() {
            self.stopped = successor.stopped.take();
            self.successor = Some(successor);
            self.report_handed_on(true);
        }
        if self.successor.is_some() && !state.is_handed_over() {
            self.successor = None;
            self.report_handed_on(false);
        }
        if self.successor.is_some() && state.is_done() {
            self.successor = None;
        }
        if let Some(link) = &mut self.predecessor {
            let counts = &mut state.restart.detours.to_predecessor;
            iter::from_fn(|| state.core.poll_detour()).for_each(|detour| {
                if link.push_detour(&detour) {
                    counts.count(&detour.datagram);
                } else {
                    counts.dropped += 1;
                }
            });
        }
        if let Some(SuccessorLink { link, .. }) = &mut self.successor {
            iter::from_fn(|| state.core.poll_for_successor()).for_each(|report| link.push_report(report));
        }
    }

    fn report_handed_on(&mut self, handed_on: bool) {
        if let Some(link) = &mut self.predecessor {
            link.push_handed_on(handed_on);
        }
    }

    /// Sends what [`Self::follow_state`] has found. By then the driver uses the sockets of the state.
    pub(super) fn send(&mut self, cx: &mut Context<'_>) {
        if let Some(stopped) = self.stopped.take() {
            // If nobody waits for it any more, the hand-over was given up.
            let _ = stopped.send(());
        }
        let successor = self.successor.as_mut().map(|successor| &mut successor.link);
        self.predecessor.as_mut().into_iter().chain(successor).for_each(|link| link.flush(cx));
    }
}

/// Handles datagrams that the successor has received; returns their number.
fn take_detours(shared: &Shared, wakers: &mut Vec<Waker>, detours: Vec<Detour>) -> usize {
    let count = detours.len();
    let mut counts = HandedOver::default();
    detours.iter().for_each(|detour| counts.count(&detour.datagram));
    shared.with_later(wakers, |state| {
        let now = state.runtime.now();
        state.restart.detours.from_successor += counts;
        state.core.handle_detours(now, detours);
    });
    count
}

/// Only a program with other code or a broken one sends such; the port is more important.
fn on_malformed() {
    tracing::warn!("a message of the other process with the port makes no sense, it is ignored");
}
