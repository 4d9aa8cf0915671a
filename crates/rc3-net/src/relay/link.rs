//! The connection of a worker with its predecessor or successor in another process: a Unix socket that keeps messages
//! apart (`SOCK_SEQPACKET`).
//!
//! Invariant: bounded. Datagrams that find no room are dropped, as if the network had lost them.

use std::{
    collections::VecDeque,
    io,
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
    time::Instant,
};

use rc3_core::{Detour, FromPredecessor};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use tokio::{io::ReadBuf, net::UnixDatagram};

use super::{
    RelayReceived,
    message::{self, MESSAGE_MAX, QueuedMessage},
};

/// Most bytes that wait here for room in the kernel's queue.
const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Bytes requested for the kernel's queue, which it may cap.
const SEND_BUFFER: usize = 1 << 20;

/// One end of a link.
#[derive(Debug)]
pub(crate) struct RelayLink {
    /// In fact `SOCK_SEQPACKET`: the calls are the same, and 0 bytes are the end.
    io: UnixDatagram,
    queue: VecDeque<QueuedMessage>,
    queued_bytes: usize,
    /// Longer by a byte than any message.
    received: Vec<u8>,
}

/// Two connected sockets for a link.
///
/// # Errors
/// When the process or the system has no descriptors left.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Prepares a descriptor that another process has sent; `false` if it is no socket for a link.
pub(crate) fn prepare_descriptor(io: &OwnedFd) -> bool {
    sockopt::socket_domain(io) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(io) == Ok(SocketType::SEQPACKET)
        && rustix::io::ioctl_fionbio(io, true).is_ok()
}

impl RelayLink {
    /// `io` is of [`socket_pair`].
    ///
    /// # Errors
    /// When the runtime cannot watch it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn new(io: OwnedFd) -> io::Result<Self> {
        // The kernel's default is enough to work with.
        let _ = sockopt::set_socket_send_buffer_size(&io, SEND_BUFFER);
        Ok(Self {
            io: UnixDatagram::from_std(io.into())?,
            queue: VecDeque::new(),
            queued_bytes: 0,
            received: vec![0; MESSAGE_MAX + 1],
        })
    }

    /// The next message.
    pub(crate) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<RelayReceived> {
        let mut buf = ReadBuf::new(&mut self.received);
        let result = ready!(self.io.poll_recv(cx, &mut buf));
        Poll::Ready(match buf.filled() {
            bytes if result.is_err() || bytes.is_empty() => RelayReceived::Closed,
            bytes if bytes.len() > MESSAGE_MAX => RelayReceived::Malformed,
            bytes => {
                message::parse(bytes, Instant::now()).map_or(RelayReceived::Malformed, RelayReceived::Message)
            }
        })
    }

    /// Adds a datagram for the predecessor; returns whether there was room.
    pub(crate) fn push_detour(&mut self, detour: &Detour) -> bool {
        if self.queued_bytes + detour.datagram.len() > QUEUED_BYTES_MAX {
            return false;
        }
        if !self.queue.back().is_some_and(QueuedMessage::has_room) {
            self.push(QueuedMessage::datagrams(Instant::now()));
        }
        if let Some(message) = self.queue.back_mut() {
            self.queued_bytes -= message.bytes.len();
            message.push(detour);
            self.queued_bytes += message.bytes.len();
        }
        true
    }

    /// Adds a report for the successor. One without room is lost, and the successor decides after a while.
    pub(crate) fn push_report(&mut self, report: FromPredecessor) {
        if self.queued_bytes < QUEUED_BYTES_MAX {
            self.push(QueuedMessage::report(report));
        }
    }

    /// Lets the predecessor know whether a further successor has the port.
    pub(crate) fn push_handed_on(&mut self, handed_on: bool) {
        self.push(QueuedMessage::handed_on(handed_on));
    }

    fn push(&mut self, outgoing: QueuedMessage) {
        self.queued_bytes += outgoing.bytes.len();
        self.queue.push_back(outgoing);
    }

    /// Sends what waits, and wakes the task when there is room for more. Errors appear at [`Self::poll_recv`].
    pub(crate) fn flush(&mut self, cx: &mut Context<'_>) {
        while let Some(outgoing) = self.queue.front() {
            // What cannot be sent to a process that has ended is lost.
            let Poll::Ready(_) = self.io.poll_send(cx, &outgoing.bytes) else { return };
            self.queued_bytes -= outgoing.bytes.len();
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use bytes::BytesMut;
    use rc3_core::DatagramMeta;
    use rustix::net::{SendFlags, send};

    use super::{super::RelayMessage, *};

    fn detour(nth: u64) -> Detour {
        let remote = ([192, 0, 2, 1], 9).into();
        let meta = DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None };
        let mut datagram = BytesMut::zeroed(1_200);
        datagram[0] = if nth.is_multiple_of(2) { 0x41 } else { 0x07 };
        datagram[1..9].copy_from_slice(&nth.to_be_bytes());
        Detour { meta, datagram, offer: None }
    }

    async fn flush(link: &mut RelayLink) {
        poll_fn(|cx| {
            link.flush(cx);
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn datagrams_for_a_process_that_hangs_are_bounded() {
        const SENT: u64 = 20_000;
        let (ours, theirs) = socket_pair().unwrap();
        let (mut ours, mut theirs) = (RelayLink::new(ours).unwrap(), RelayLink::new(theirs).unwrap());
        let mut dropped = 0;
        for nth in 0..SENT {
            dropped += u64::from(!ours.push_detour(&detour(nth)));
            flush(&mut ours).await;
            assert!(ours.queued_bytes <= QUEUED_BYTES_MAX + 100);
        }
        assert!(dropped > SENT / 2, "{dropped}");
        // It goes on. What was not dropped arrives in order.
        let (mut received, mut last) = (0, None);
        while received < SENT - dropped {
            let message = poll_fn(|cx| {
                ours.flush(cx);
                theirs.poll_recv(cx)
            });
            let RelayReceived::Message(RelayMessage::Datagrams(detours)) = message.await else {
                panic!("only datagrams were sent")
            };
            for detour in detours {
                let nth = detour.datagram[1..9].to_vec();
                assert!(last.as_ref().is_none_or(|last| last < &nth));
                (received, last) = (received + 1, Some(nth));
            }
        }
        drop(ours);
        assert!(matches!(poll_fn(|cx| theirs.poll_recv(cx)).await, RelayReceived::Closed));
    }

    #[tokio::test]
    async fn messages_that_are_too_long_or_senseless_are_malformed() {
        let (ours, theirs) = socket_pair().unwrap();
        let mut link = RelayLink::new(theirs).unwrap();
        for junk in [vec![0; 1], vec![3; MESSAGE_MAX + 1], vec![1; 8]] {
            send(&ours, &junk, SendFlags::empty()).unwrap();
            assert!(matches!(poll_fn(|cx| link.poll_recv(cx)).await, RelayReceived::Malformed));
        }
        link.push_report(FromPredecessor::Settled);
        flush(&mut link).await;
        drop(link);
        let mut other = RelayLink::new(ours).unwrap();
        let RelayReceived::Message(message) = poll_fn(|cx| other.poll_recv(cx)).await else {
            panic!("a report")
        };
        assert_eq!(message, RelayMessage::Report(FromPredecessor::Settled));
        // Nobody reads it any more, which is no error here.
        other.push_detour(&detour(1));
        flush(&mut other).await;
        assert_eq!(other.queued_bytes, 0);
    }
}
