//! What an endpoint needs of an async runtime, and sockets that an application implements: quinn's traits.
//!
//! With [`TokioRuntime`], sockets of the operating system carry the marks of RLP (docs/PORTING.md, sockets). Through the
//! traits only what quinn's sockets know passes: ECN, but neither code points nor priorities.

use std::{any::Any, fmt::Debug, future::Future, io, net::UdpSocket, pin::Pin, sync::Arc, time::Instant};

/// A socket carries both loops: packets of the primary first, then RLP's. Its priorities are unknown, so `RlpMode::Guard`
/// treats the path as any path that ignores marks.
pub use quinn::AsyncUdpSocket;
use quinn::Runtime as _;
pub use quinn::{AsyncTimer, UdpPoller};

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

/// The tokio runtime of the calling task.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioRuntime;

impl Runtime for TokioRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        quinn::TokioRuntime.new_timer(deadline)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        quinn::TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        quinn::TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        quinn::TokioRuntime.now()
    }
}

/// The runtime of the calling task: tokio's, or `None` outside tokio.
pub fn default_runtime() -> Option<Arc<dyn Runtime>> {
    tokio::runtime::Handle::try_current().ok().map(|_| Arc::new(TokioRuntime) as Arc<dyn Runtime>)
}

/// Whether the runtime is [`TokioRuntime`] itself.
pub(crate) fn is_tokio(runtime: &dyn Runtime) -> bool {
    (runtime as &dyn Any).is::<TokioRuntime>()
}
