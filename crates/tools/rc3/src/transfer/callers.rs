//! Addresses that first packets of the peer come from: where its NAT chooses ports by destination, nothing else says
//! them (a peer-reflexive candidate, RFC 8445 §7.2.5.3).
//!
//! Nobody is answered: an address is only one more to connect to, and counts if the holder of the fingerprint's key is
//! there. A forger makes this host send a few first packets to a victim, so there are at most [`CALLERS_MAX`].

use std::{collections::HashSet, net::SocketAddr};

use rc3_net::Endpoint;
use tokio::sync::mpsc;

use super::addresses::canonical;

/// Most addresses that packets may name in one meeting.
pub(crate) const CALLERS_MAX: usize = 4;

/// Passes on each new address up to the limit, and then takes no more.
pub(super) async fn watch(endpoint: Endpoint, found: mpsc::Sender<SocketAddr>) {
    let mut callers = HashSet::new();
    while callers.len() < CALLERS_MAX {
        let Some(incoming) = endpoint.accept().await else { return };
        let address = canonical(incoming.remote_address());
        incoming.ignore();
        if callers.insert(address) && found.send(address).await.is_err() {
            break;
        }
    }
    // Only settings that are there can be wrong.
    let _ = endpoint.set_server_config(None);
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc};

    use rc3_net::{ClientConfig, ServerConfig};

    use super::super::{
        identity::{Identity, SERVER_NAME, client},
        message::ALPN,
        ticket::Fingerprint,
    };
    use super::*;

    fn local() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    /// Anybody can send first packets, with any address.
    #[tokio::test]
    async fn strangers_are_not_answered_and_soon_not_heard() {
        let identity = Identity::generate().unwrap();
        let config = ServerConfig::with_crypto(Arc::new(identity.server(ALPN).unwrap()));
        let endpoint = Endpoint::server(config, local()).unwrap();
        let (found, mut further) = mpsc::channel(2 * CALLERS_MAX);
        let strangers: Vec<_> = (0..2 * CALLERS_MAX).map(|_| Endpoint::client(local()).unwrap()).collect();
        let at = endpoint.local_addr().unwrap();
        let config = ClientConfig::new(Arc::new(client(Some(Fingerprint([1; 32])), ALPN).unwrap()));
        let call = |stranger: &Endpoint| stranger.connect_with(config.clone(), at, SERVER_NAME).unwrap();
        let calls: Vec<_> = strangers.iter().flat_map(|stranger| [call(stranger), call(stranger)]).collect();
        watch(endpoint.clone(), found).await;
        let mut heard = Vec::new();
        while let Some(address) = further.recv().await {
            heard.push(address);
        }
        assert_eq!(heard.iter().collect::<HashSet<_>>().len(), CALLERS_MAX);
        assert_eq!(heard.len(), CALLERS_MAX);
        assert!(heard.iter().all(|heard| strangers.iter().any(|one| one.local_addr().unwrap() == *heard)));
        assert_eq!(endpoint.open_connections(), 0);
        drop(calls);
    }
}
