//! What an endpoint needs of an async runtime, and sockets that an application implements: quinn's traits.
//!
//! With [`TokioRuntime`], sockets of the operating system carry the marks of RLP (docs/PORTING.md, sockets). Through the
//! traits only what quinn's sockets know passes: ECN, but neither code points nor priorities.

mod tokio;
mod udp_poller;

use std::{
    any::Any,
    fmt::Debug,
    future::Future,
    io::{self, IoSliceMut},
    net::{SocketAddr, UdpSocket},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use quinn_udp::{RecvMeta, Transmit};

pub use self::tokio::TokioRuntime;

/// Timers, tasks and sockets of an async runtime.
///
/// Endpoints, connections and their streams need no other one. These parts of the crate need tokio in any case: `file`,
/// [`Listener`](crate::Listener), [`Stream`](crate::Stream) and
/// [`EndpointOptions::path_memory`](crate::EndpointOptions::path_memory).
pub trait Runtime: Any + Send + Sync + Debug {
    /// A timer that expires at `deadline`.
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>>;

    /// Runs `future` in the background.
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Makes a socket of this runtime. For [`TokioRuntime`] endpoints do not call it: they use the socket with marks.
    ///
    /// # Errors
    /// An [`io::Error`] of the system.
    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>>;

    /// The current time. Another clock than the system's makes simulated time possible.
    fn now(&self) -> Instant {
        Instant::now()
    }
}

/// A timer of a runtime.
pub trait AsyncTimer: Send + Debug + 'static {
    /// Moves the deadline.
    fn reset(self: Pin<&mut Self>, deadline: Instant);

    /// Whether the deadline has passed; if not, the task is woken then.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
}

/// A UDP socket that an application implements. It carries both loops: packets of the primary first, then RLP's.
///
/// Its priorities are unknown, so `RlpMode::Guard` treats the path as any path that ignores marks.
pub trait AsyncUdpSocket: Send + Sync + Debug + 'static {
    /// Makes an object by which one task waits for room to send.
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>>;

    /// Sends one or more datagrams to one destination.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room; nothing was sent, and [`UdpPoller::poll_writable`] wakes the
    /// task. After other errors the datagrams count as lost.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()>;

    /// Receives datagrams into `bufs`, described by the same places in `meta`; returns how many places are used. If there
    /// are none, the task is woken later.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionReset`] is ignored; others end the endpoint.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>>;

    /// The bound address.
    ///
    /// # Errors
    /// An [`io::Error`] if it is unknown.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// Most datagrams in one [`Transmit`].
    fn max_transmit_segments(&self) -> usize {
        1
    }

    /// Most datagrams in one place of [`Self::poll_recv`].
    fn max_receive_segments(&self) -> usize {
        1
    }

    /// Whether datagrams may be fragmented on their way. Then connections do not probe for a larger path MTU.
    fn may_fragment(&self) -> bool {
        true
    }
}

/// One task's interest in room to send on a socket.
pub trait UdpPoller: Send + Sync + Debug + 'static {
    /// Waits until [`AsyncUdpSocket::try_send`] may succeed. Can be polled again after it was ready.
    ///
    /// # Errors
    /// An [`io::Error`] if the socket is unusable.
    fn poll_writable(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// The runtime of the calling task: tokio's, or `None` outside tokio.
pub fn default_runtime() -> Option<Arc<dyn Runtime>> {
    ::tokio::runtime::Handle::try_current().ok().map(|_| Arc::new(TokioRuntime) as Arc<dyn Runtime>)
}

/// Whether the runtime is [`TokioRuntime`] itself.
pub(crate) fn is_tokio(runtime: &dyn Runtime) -> bool {
    (runtime as &dyn Any).is::<TokioRuntime>()
}
