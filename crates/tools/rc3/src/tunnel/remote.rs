//! Listeners for a peer (`-R`), at the side that listens.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use rc3_net::Connection;
use tokio::{net::TcpListener, sync::Semaphore};

use super::{
    local,
    open::Open,
    relay::{Outgoing, relay_tcp_ahead},
};

/// Where a peer may listen on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum RemoteListen {
    /// Nowhere.
    #[default]
    #[value(skip)]
    Never,
    /// On loopback addresses
    Loopback,
    /// On all addresses
    Any,
}

impl RemoteListen {
    /// Opens a peer's listener; the error is a reason for the peer.
    pub(super) async fn open(self, ip: IpAddr, port: u16) -> Result<TcpListener, String> {
        let allowed = match self {
            Self::Never => false,
            Self::Loopback => ip.to_canonical().is_loopback(),
            Self::Any => true,
        };
        if !allowed {
            return Err(match self {
                Self::Never => "it does not allow remote listeners",
                _ => "it allows loopback addresses only",
            }
            .to_owned());
        }
        local::bind(SocketAddr::new(ip, port)).await.map_err(|error| error.to_string())
    }
}

/// Forwards the connections of a listener to the peer, for ever.
pub(super) async fn forward(listener: TcpListener, id: u16, connection: Connection, permits: Arc<Semaphore>) {
    let serve = |tcp, permit| {
        let connection = connection.clone();
        async move {
            if let Ok(stream) = Outgoing::open(&connection, &Open::Listener(id)).await {
                // The peer prints why it cannot reach its target.
                let _ = relay_tcp_ahead(tcp, stream).await;
            }
            drop(permit);
        }
    };
    local::accept(listener, permits, serve).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_listens_only_where_it_may() {
        let (loopback, any) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0]));
        assert!(RemoteListen::Never.open(loopback, 0).await.is_err());
        assert!(RemoteListen::Loopback.open(any, 0).await.is_err());
        assert!(RemoteListen::Loopback.open("::".parse().unwrap(), 0).await.is_err());
        let bound = RemoteListen::Loopback.open(loopback, 0).await.unwrap().local_addr().unwrap();
        assert!(bound.ip().is_loopback() && bound.port() != 0);
        assert!(RemoteListen::Any.open(any, 0).await.is_ok());
    }
}
