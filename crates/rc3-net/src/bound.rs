//! The sockets of an endpoint.

#[cfg(all(target_os = "linux", not(rc3_portable)))]
mod restart;

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    ops::Deref,
    sync::Arc,
};

use rc3_core::WorkerHash;

use crate::{
    runtime::AsyncUdpSocket,
    socket::{ApplicationSocket, AsyncSocket, EndpointSocket, Options, Socket, Sockets},
};

/// The sockets of one worker.
pub(crate) struct Pair {
    pub(crate) primary: EndpointSocket,
    /// `None`: everything goes through `primary`.
    pub(crate) low: Option<EndpointSocket>,
}

impl Pair {
    fn system(sockets: Sockets) -> io::Result<Self> {
        let watched = |socket| AsyncSocket::new(socket).map(EndpointSocket::System);
        Ok(Self { primary: watched(sockets.primary)?, low: sockets.low.map(watched).transpose()? })
    }

    /// Whether another process sends by the same sockets.
    pub(crate) fn set_shared(&self, shared: bool) {
        self.primary.set_shared(shared);
        if let Some(low) = &self.low {
            low.set_shared(shared);
        }
    }

    /// The address it is bound to.
    pub(crate) fn ip(&self) -> IpAddr {
        self.primary.local_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |local| local.ip())
    }

    /// The socket for low-priority datagrams.
    pub(crate) fn low(&self) -> &EndpointSocket {
        self.low.as_ref().unwrap_or(&self.primary)
    }
}

/// The sockets an endpoint is bound to, as one of its workers has them.
///
/// Each worker keeps all of them: when a socket of a group is closed, the kernel renumbers the others, and datagrams
/// would go to wrong workers.
#[derive(Clone)]
pub(crate) struct Bound {
    pub(crate) pairs: Arc<[Pair]>,
    worker: usize,
}

impl Bound {
    /// `first` and those that join it on its port, for one worker or those of `hash`. One for each worker.
    ///
    /// # Errors
    /// When the runtime cannot watch it, or it cannot have several workers.
    pub(crate) fn new(first: Socket, options: &Options, hash: Option<&WorkerHash>) -> io::Result<Vec<Self>> {
        Self::system(match hash {
            None => vec![Sockets::beside(first, options)],
            Some(hash) => Sockets::group(first, options, hash)?,
        })
    }

    /// A socket that the application implements.
    ///
    /// # Errors
    /// With several workers: nothing steers its datagrams.
    pub(crate) fn application(
        socket: Arc<dyn AsyncUdpSocket>,
        hash: Option<&WorkerHash>,
    ) -> io::Result<Vec<Self>> {
        if hash.is_some() {
            let text = "several workers need sockets of the system, use one worker with this socket";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let primary = EndpointSocket::Application(ApplicationSocket::new(socket));
        Ok(Self::of([Pair { primary, low: None }].into()))
    }

    fn system(sockets: Vec<Sockets>) -> io::Result<Vec<Self>> {
        let pairs: io::Result<Arc<[Pair]>> = sockets.into_iter().map(Pair::system).collect();
        Ok(Self::of(pairs?))
    }

    fn of(pairs: Arc<[Pair]>) -> Vec<Self> {
        (0..pairs.len()).map(|worker| Self { pairs: pairs.clone(), worker }).collect()
    }

    /// Whether these are the same sockets, not others on the same address.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pairs, &other.pairs)
    }
}

impl Deref for Bound {
    type Target = Pair;

    fn deref(&self) -> &Pair {
        &self.pairs[self.worker]
    }
}
