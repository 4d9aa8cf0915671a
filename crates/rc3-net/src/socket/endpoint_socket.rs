//! The two kinds of sockets that an endpoint may have.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
};

use super::{ApplicationSocket, AsyncSocket, Capabilities, Outgoing, RecvBatch, Socket, Stats};

/// A socket of an endpoint.
pub(crate) enum EndpointSocket {
    /// The operating system's, with marks.
    System(AsyncSocket),
    /// The operating system's, read by another process: this one only sends. No runtime watches it, so that the
    /// datagrams of the other process wake nobody here.
    #[cfg_attr(any(not(target_os = "linux"), rc3_portable), expect(dead_code, reason = "no hand-overs"))]
    Sending(Socket),
    /// An application's implementation, without.
    Application(ApplicationSocket),
}

/// Calls a method that all kinds have.
macro_rules! call {
    ($endpoint_socket:ident.$method:ident($($argument:expr)?)) => {
        match $endpoint_socket {
            EndpointSocket::System(socket) => socket.$method($($argument)?),
            EndpointSocket::Sending(socket) => socket.$method($($argument)?),
            EndpointSocket::Application(socket) => socket.$method($($argument)?),
        }
    };
}

impl EndpointSocket {
    /// [`super::Socket::try_send`].
    pub(crate) fn try_send(&self, out: &Outgoing<'_>) -> io::Result<()> {
        call!(self.try_send(out))
    }

    /// [`AsyncSocket::poll_recv`].
    pub(crate) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<usize>> {
        match self {
            Self::System(socket) => socket.poll_recv(cx, batch),
            Self::Sending(_) => Poll::Pending,
            Self::Application(socket) => socket.poll_recv(cx, batch),
        }
    }

    /// [`AsyncSocket::poll_writable`]. Without a runtime that watches the socket, the driver tries again after a while.
    pub(crate) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::System(socket) => socket.poll_writable(cx),
            Self::Sending(_) => Poll::Pending,
            Self::Application(socket) => socket.poll_writable(cx),
        }
    }

    /// [`super::Socket::queued_bytes`]; an application's socket does not report it.
    pub(crate) fn queued_bytes(&self) -> usize {
        match self {
            Self::System(socket) => socket.queued_bytes(),
            Self::Sending(socket) => socket.queued_bytes(),
            Self::Application(_) => 0,
        }
    }

    /// The bound address.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        call!(self.local_addr())
    }

    /// [`Capabilities::gso_segments_max`].
    pub(crate) fn segments_max(&self) -> usize {
        call!(self.segments_max())
    }

    /// Whether datagrams may be fragmented on their way, although the core forbids it.
    pub(crate) fn may_fragment(&self) -> bool {
        call!(self.may_fragment())
    }

    /// [`super::Socket::capabilities`].
    pub(crate) fn capabilities(&self) -> Capabilities {
        call!(self.capabilities())
    }

    /// [`super::Socket::stats`].
    pub(crate) fn stats(&self) -> Stats {
        call!(self.stats())
    }

    /// The descriptor, if it is the system's.
    #[cfg(all(target_os = "linux", not(rc3_portable)))]
    pub(crate) fn system_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        match self {
            Self::System(socket) => Some(std::os::fd::AsFd::as_fd(socket)),
            Self::Sending(socket) => Some(std::os::fd::AsFd::as_fd(socket)),
            Self::Application(_) => None,
        }
    }

    /// Whether another process sends by the same socket, whose options it may change.
    pub(crate) fn set_shared(&self, shared: bool) {
        match self {
            Self::System(socket) => socket.set_shared(shared),
            Self::Sending(socket) => socket.set_shared(shared),
            Self::Application(_) => {}
        }
    }

    /// Lets calls fail from now on.
    #[cfg(all(test, target_os = "linux", not(rc3_portable)))]
    pub(crate) fn fail(&self, fault: super::InjectedError) {
        if let Self::System(socket) = self {
            socket.fail(fault);
        }
    }
}
