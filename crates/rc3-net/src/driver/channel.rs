//! One socket as the driver sees it.

use std::{
    io,
    task::{Context, Poll, Waker},
};

use rc3_core::{DatagramMeta, Transmit};

use super::receive_faults::{ReceiveFaults, is_of_a_datagram};
use crate::{
    shared::Shared,
    socket::{Datagram, EndpointSocket, Outgoing, RecvBatch},
    state::EndpointState,
};

/// Datagrams handled under one lock.
const DATAGRAMS_PER_LOCK: usize = 128;

/// How sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendResult {
    /// Something was sent, there may be more.
    More,
    /// Nothing is left to send.
    All,
    /// The socket accepts no more for now.
    Blocked,
}

/// The driver's end of one socket.
#[derive(Default)]
pub(super) struct Channel {
    batch: RecvBatch,
    /// What the socket refused, to be sent first; its bytes are in `buf`.
    pub(super) unsent: Option<Transmit>,
    buf: Vec<u8>,
    pub(super) blocked: bool,
    pub(super) faults: ReceiveFaults,
}

impl Channel {
    /// Handles one received batch, if any; returns its number of datagrams.
    ///
    /// # Errors
    /// When the socket is unusable.
    pub(super) fn receive(
        &mut self,
        cx: &mut Context<'_>,
        shared: &Shared,
        wakers: &mut Vec<Waker>,
        socket: &EndpointSocket,
    ) -> io::Result<usize> {
        if self.faults.retry_at.is_some_and(|at| shared.runtime.now() < at) {
            return Ok(0);
        }
        let messages = match socket.poll_recv(cx, &mut self.batch) {
            Poll::Ready(Err(error)) => return self.receive_failed(shared, error),
            Poll::Ready(Ok(messages)) => messages,
            Poll::Pending => {
                self.faults.on_success();
                return Ok(0);
            }
        };
        self.faults.on_success();
        let mut count = 0;
        loop {
            let taken = shared.with_later(wakers, |state| {
                let mut taken = 0;
                let datagrams = self.batch.datagrams().take(DATAGRAMS_PER_LOCK);
                let datagrams = datagrams.inspect(|_| taken += 1).filter_map(|Datagram { meta, data }| {
                    let meta = DatagramMeta {
                        remote: meta.remote,
                        local_ip: meta.local,
                        ecn: meta.ecn,
                        leading_len: meta.leading_len,
                        arrived: meta.arrived,
                    };
                    shared.member.keep_own((meta, data))
                });
                let now = state.runtime.now();
                state.core.handle_datagrams(now, datagrams);
                taken
            });
            count += taken;
            if taken < DATAGRAMS_PER_LOCK {
                break;
            }
        }
        tracing::trace!(messages, datagrams = count, "received");
        // Only a socket without datagrams wakes the task again, so another check is due in any case.
        Ok(count.max(1))
    }

    /// Decides when to try again. What an error of a datagram leaves in the socket is received at once.
    fn receive_failed(&mut self, shared: &Shared, error: io::Error) -> io::Result<usize> {
        if is_of_a_datagram(&error) {
            return Ok(1);
        }
        if !self.faults.on_error(shared.runtime.now(), &error) {
            return Err(error);
        }
        tracing::debug!(%error, "receiving failed, trying again");
        Ok(0)
    }

    /// Sends refused datagrams first, then those of `poll`.
    pub(super) fn send(
        &mut self,
        shared: &Shared,
        wakers: &mut Vec<Waker>,
        socket: &EndpointSocket,
        poll: impl FnOnce(&mut EndpointState, &mut Vec<u8>) -> Option<Transmit>,
    ) -> io::Result<SendResult> {
        self.blocked = false;
        let transmit = match self.unsent.take() {
            Some(transmit) => transmit,
            None => {
                self.buf.clear();
                match shared.with_later(wakers, |state| poll(state, &mut self.buf)) {
                    Some(transmit) => transmit,
                    None => return Ok(SendResult::All),
                }
            }
        };
        let sent = socket.try_send(&Outgoing {
            destination: transmit.destination,
            source: transmit.source,
            ecn: transmit.ecn,
            dscp: shared.marks.dscp(transmit.level),
            priority: shared.marks.priority(transmit.level),
            contents: &self.buf,
            segment_size: transmit.segment_size,
            dont_fragment: transmit.dont_fragment,
        });
        match sent {
            Ok(()) => {
                tracing::trace!(level = %transmit.level, bytes = transmit.size, "sent");
                Ok(SendResult::More)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.unsent = Some(transmit);
                self.blocked = true;
                Ok(SendResult::Blocked)
            }
            // A destination this socket cannot reach, such as the other family: lost, as on the path.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                tracing::debug!(%error, destination = %transmit.destination, "datagram not sent");
                Ok(SendResult::More)
            }
            Err(error) => Err(error),
        }
    }
}
