//! The sockets of an endpoint.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use crate::{
    runtime::AsyncUdpSocket,
    socket::{ApplicationSocket, AsyncSocket, EndpointSocket, Options, Sockets},
};

/// The sockets an endpoint is bound to.
pub(crate) struct Bound {
    pub(crate) primary: EndpointSocket,
    /// `None`: everything goes through `primary`.
    pub(crate) low: Option<EndpointSocket>,
}

impl Bound {
    /// Binds them to `addr`.
    ///
    /// # Errors
    /// When the address is taken or not local.
    pub(crate) fn new(addr: SocketAddr, options: &Options) -> io::Result<Self> {
        Self::system(Sockets::bind(addr, options)?)
    }

    /// Takes over a socket that the application has bound.
    ///
    /// # Errors
    /// When it is not a UDP socket, or the runtime cannot watch it.
    pub(crate) fn adopt(socket: UdpSocket, options: &Options) -> io::Result<Self> {
        Self::system(Sockets::adopt(socket, options)?)
    }

    fn system(sockets: Sockets) -> io::Result<Self> {
        let watched = |socket| AsyncSocket::new(socket).map(EndpointSocket::System);
        Ok(Self { primary: watched(sockets.primary)?, low: sockets.low.map(watched).transpose()? })
    }

    /// A socket that the application implements.
    pub(crate) fn application(socket: Arc<dyn AsyncUdpSocket>) -> Self {
        Self { primary: EndpointSocket::Application(ApplicationSocket::new(socket)), low: None }
    }

    /// Whether datagrams may be fragmented on their way.
    pub(crate) fn may_fragment(&self) -> bool {
        self.primary.may_fragment()
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
