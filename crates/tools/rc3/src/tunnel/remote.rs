//! Listeners for a peer (`-R`), at the side that listens.

use std::{net::SocketAddr, sync::Arc};

use rc3_net::Connection;
use tokio::{net::TcpListener, sync::Semaphore};

use super::{
    local,
    open::Open,
    relay::{TargetStream, relay_tcp},
};

/// Where a peer may listen on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum RemoteListen {
    /// On loopback addresses
    Loopback,
    /// On all addresses
    Any,
}

/// Opens a peer's listener, and finds its port; the error is a reason for the peer.
pub(super) async fn open(
    allowed: Option<RemoteListen>,
    address: SocketAddr,
) -> Result<(TcpListener, u16), String> {
    let is_loopback = address.ip().to_canonical().is_loopback();
    match allowed {
        None => return Err("it does not allow remote listeners".to_owned()),
        Some(RemoteListen::Loopback) if !is_loopback => {
            return Err("it allows loopback addresses only".to_owned());
        }
        Some(_) => {}
    }
    let bound = TcpListener::bind(address).await;
    let with_port = bound.and_then(|listener| listener.local_addr().map(|bound| (listener, bound.port())));
    with_port.map_err(|error| error.to_string())
}

/// Forwards the connections of a listener to the peer, for ever.
pub(super) async fn forward(listener: TcpListener, id: u16, connection: Connection, permits: Arc<Semaphore>) {
    let serve = |tcp| {
        let connection = connection.clone();
        async move {
            if let Ok(stream) = TargetStream::open(&connection, &Open::Listener(id)).await {
                // The peer prints why it cannot reach its target.
                let _ = relay_tcp(tcp, stream, true).await;
            }
        }
    };
    local::accept(Arc::new(listener), permits, serve).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_listens_only_where_it_may() {
        let (loopback, any) = (SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([0, 0, 0, 0], 0)));
        assert!(open(None, loopback).await.is_err());
        assert!(open(Some(RemoteListen::Loopback), any).await.is_err());
        assert!(open(Some(RemoteListen::Loopback), "[::]:0".parse().unwrap()).await.is_err());
        let bound = open(Some(RemoteListen::Loopback), loopback).await.unwrap().0.local_addr().unwrap();
        assert!(bound.ip().is_loopback() && bound.port() != 0);
        assert!(open(Some(RemoteListen::Any), any).await.is_ok());
    }
}
