//! The sockets of an endpoint.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use crate::socket::{AsyncSocket, Options, Sockets};

/// The sockets an endpoint is bound to.
pub(crate) struct Bound {
    pub(crate) primary: AsyncSocket,
    /// `None`: everything goes through `primary`.
    pub(crate) low: Option<AsyncSocket>,
}

impl Bound {
    /// Binds them to `addr`.
    ///
    /// # Errors
    /// When the address is taken or not local.
    pub(crate) fn new(addr: SocketAddr, options: &Options) -> io::Result<Self> {
        let Sockets { primary, low } = Sockets::bind(addr, options)?;
        Ok(Self { primary: AsyncSocket::new(primary)?, low: low.map(AsyncSocket::new).transpose()? })
    }

    /// The address it is bound to.
    pub(crate) fn ip(&self) -> IpAddr {
        self.primary.local_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |local| local.ip())
    }

    /// The socket for low-priority datagrams.
    pub(crate) fn low(&self) -> &AsyncSocket {
        self.low.as_ref().unwrap_or(&self.primary)
    }
}
