//! Graceful restart: a new process takes a server's port over while the old one serves the connections that it has
//! until they end ([`Endpoint::hand_over`]).
//!
//! The sockets themselves move, so no datagram is lost: both processes send through them, and the new one alone reads.
//! It passes on what none of its connections owns, over a [link](crate::relay) for each worker; rc3-core decides what that is
//! ([`rc3_core::Detour`]).

#[cfg(all(target_os = "linux", not(rc3_portable)))]
mod greeting;
#[cfg(all(target_os = "linux", not(rc3_portable)))]
mod process;

#[cfg(unix)]
use std::io;

#[cfg(unix)]
use rc3_core::ServerConfig;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::oneshot;

#[cfg(unix)]
use crate::endpoint::{Endpoint, EndpointOptions};

/// The process that has taken a port over, as the old process sees it. Dropping it changes nothing.
#[derive(Debug)]
pub struct Successor {
    gone: oneshot::Receiver<()>,
}

impl Successor {
    /// Waits until the new process has ended while this one still had connections. This endpoint then reads the port
    /// itself again, its connections go on, [`Endpoint::accept`](crate::Endpoint::accept) returns peers again, and
    /// [`Endpoint::hand_over`](crate::Endpoint::hand_over) may be called again.
    ///
    /// Never returns if the last connection ends first.
    pub async fn lost(self) {
        if self.gone.await.is_err() {
            std::future::pending().await
        }
    }
}

#[cfg(unix)]
impl Endpoint {
    /// Hands the port over to the process at the other end of `to`, which calls [`Self::take_over`] at the same time.
    ///
    /// When this returns, the new process reads the port and accepts all new peers. This endpoint still yields the peers
    /// that waited in [`Self::accept`], then `None`; [`Self::connect`] fails. Its connections, also those with a
    /// handshake in progress, go on until they end: the new process passes their datagrams on, and they are sent from
    /// here. So continue as usual, await [`Self::wait_idle`], and exit. [`EndpointStats::from_successor`] counts the
    /// datagrams.
    ///
    /// If the new process ends first, this endpoint takes the port back, see [`Successor::lost`]. So to stop the service,
    /// stop the old process first. A restart may follow before this process has ended: then each process serves its own
    /// connections, and the one in the middle stays until the first has ended.
    ///
    /// The process at the other end of `to` gets the sockets, and with them all datagrams of the port. So it must run as
    /// this process's user or as root when it connects or listens there (`SO_PEERCRED`, unix(7)). A directory that only
    /// this user can enter also keeps others from delaying a hand-over.
    ///
    /// ```
    /// # #[cfg(target_os = "linux")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use rc3_net::{Endpoint, EndpointOptions};
    /// use tokio::net::UnixStream;
    ///
    /// # let (_, server_config) = rc3_sim::identity::identity(&["example"]);
    /// let old = Endpoint::server(server_config.clone(), "127.0.0.1:0".parse()?)?;
    /// // Of two processes, one listens at a path that the other one connects to.
    /// let (to_new, to_old) = UnixStream::pair()?;
    /// let taking = Endpoint::take_over(EndpointOptions::default(), Some(server_config), to_old);
    /// let (successor, new) = tokio::try_join!(old.hand_over(to_new), taking)?;
    ///
    /// assert_eq!(new.local_addr()?, old.local_addr()?);
    /// assert!(old.accept().await.is_none());
    /// tokio::select! {
    ///     () = old.wait_idle() => println!("no connection is left, this process may exit"),
    ///     () = successor.lost() => println!("the new process has ended, accept again"),
    /// }
    /// # Ok(()) }
    /// # #[cfg(not(target_os = "linux"))]
    /// # fn main() {}
    /// ```
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] on other systems than Linux and with sockets that the application implements,
    /// [`io::ErrorKind::PermissionDenied`] if the new process is another user's,
    /// [`io::ErrorKind::ResourceBusy`] during and after a hand-over, [`io::ErrorKind::ConnectionRefused`] if the new
    /// process cannot take the port over, [`io::ErrorKind::TimedOut`] if it does not answer, and other errors of the
    /// system. After an error this endpoint is as before.
    ///
    /// # Cancel safety
    /// If the future is dropped, the endpoint is as before, or a moment later.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one without I/O or time.
    ///
    /// [`EndpointStats::from_successor`]: crate::EndpointStats::from_successor
    pub async fn hand_over(&self, to: UnixStream) -> io::Result<Successor> {
        #[cfg(all(target_os = "linux", not(rc3_portable)))]
        return process::hand_over(&self.handle, to).await;
        #[cfg(any(not(target_os = "linux"), rc3_portable))]
        return unsupported(to);
    }

    /// Takes a port over from the process at the other end of `from`, which calls [`Self::hand_over`] at the same time;
    /// its documentation has an example.
    ///
    /// The endpoint has the sockets of the old process, and accepts with `server`. Datagrams that no connection here owns
    /// go to the old process as long as that has connections. If its queue is full they are lost, as on a path:
    /// [`EndpointStats::to_predecessor`](crate::EndpointStats::to_predecessor) counts them. While handshakes of the old
    /// process are in progress, new peers wait for its answer, usually less than a millisecond.
    ///
    /// Give both processes the same number of workers, with several workers ids of the same length, and the same [`ServerConfig::token_key`], so that a client that
    /// has just received a Retry packet is accepted, and the same TLS tickets, so that clients can resume sessions. The
    /// processes need no other common setting.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] on other systems than Linux, [`io::ErrorKind::PermissionDenied`] if the old process
    /// is another user's but not root's, [`io::ErrorKind::InvalidInput`] if it has
    /// another number of workers or `options` are invalid, [`io::ErrorKind::InvalidData`] if it sends anything else than
    /// its sockets, [`io::ErrorKind::TimedOut`] if it does not answer, [`io::ErrorKind::UnexpectedEof`] if it ends, and
    /// other errors of the system. After an error the old process goes on.
    ///
    /// # Panics
    /// As [`Self::hand_over`].
    pub async fn take_over(
        options: EndpointOptions,
        server: Option<ServerConfig>,
        from: UnixStream,
    ) -> io::Result<Self> {
        #[cfg(all(target_os = "linux", not(rc3_portable)))]
        return process::take_over(options, server, from).await;
        #[cfg(any(not(target_os = "linux"), rc3_portable))]
        return unsupported((options, server, from));
    }
}

#[cfg(all(unix, any(not(target_os = "linux"), rc3_portable)))]
fn unsupported<T>(_: impl Sized) -> io::Result<T> {
    let text = "only on Linux can one process hand a port over to another";
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}
