//! A [`Socket`] that wakes tasks: only tokio's readiness around the same calls.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll, ready},
};

use socket2::SockRef;
use tokio::{io::Interest, net::UdpSocket};

use super::{Capabilities, Outgoing, RecvBatch, Socket, Stats, local_addr, sys, system_calls};

/// A [`Socket`] registered with the current tokio runtime.
///
/// Each direction stores one waker, that of the last poll, so use one task for receiving and one for sending.
#[derive(Debug)]
pub struct AsyncSocket {
    io: UdpSocket,
    state: sys::SocketState,
}

impl AsyncSocket {
    /// Registers `socket`.
    ///
    /// # Errors
    /// An [`io::Error`] if the runtime cannot watch the socket.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one without I/O.
    pub fn new(socket: Socket) -> io::Result<Self> {
        let Socket { io, state } = socket;
        Ok(Self { io: UdpSocket::from_std(io.into())?, state })
    }

    /// [`Socket::try_send`]. After [`io::ErrorKind::WouldBlock`], [`Self::poll_writable`] resolves when to continue; a
    /// caller may also try again earlier, since Linux wakes only when half the send buffer is free.
    ///
    /// # Errors
    /// As [`Socket::try_send`].
    pub fn try_send(&self, out: &Outgoing<'_>) -> io::Result<()> {
        // Inside `try_io`, so that a refusal clears only the readiness it was based on. Even if tokio considers the
        // socket full, the kernel is asked, because it reports readiness only at half a buffer.
        let mut asked = false;
        let result = self.io.try_io(Interest::WRITABLE, || {
            asked = true;
            self.state.send(&SockRef::from(&self.io), out)
        });
        if asked { result } else { self.state.send(&SockRef::from(&self.io), out) }
    }

    /// Waits for datagrams, then works like [`Socket::try_recv`].
    ///
    /// # Errors
    /// An [`io::Error`] if the socket is unusable or the runtime shuts down.
    pub fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let result =
                self.io.try_io(Interest::READABLE, || self.state.recv(&SockRef::from(&self.io), batch));
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    /// Waits until there is room to send. May be ready too early; then [`Self::try_send`] returns `WouldBlock`.
    ///
    /// # Errors
    /// An [`io::Error`] if the runtime shuts down.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_send_ready(cx)
    }

    /// Lets calls fail from now on.
    #[cfg(all(test, target_os = "linux", not(rc3_portable)))]
    pub(crate) fn fail(&self, fault: super::InjectedError) {
        self.state.fail(fault);
    }
}

system_calls!(AsyncSocket);
