//! Addresses that first packets of the peer come from: where its NAT chooses ports by destination, nothing else says
//! them (a peer-reflexive candidate, RFC 8445 §7.2.5.3).
//!
//! Nobody is answered: an address is only one more to connect to, and counts if the holder of the fingerprint's key is
//! there. A forger makes this host send a few first packets to a victim, so there are at most [`CALLERS_MAX`].

use std::net::SocketAddr;

use rc3_net::Endpoint;
use tokio::sync::mpsc;

/// Most addresses that packets may name in one meeting.
pub(crate) const CALLERS_MAX: usize = 4;

/// The addresses so far.
#[derive(Default)]
struct Callers(Vec<SocketAddr>);

impl Callers {
    /// Notes one; whether it is new.
    fn add(&mut self, address: SocketAddr) -> bool {
        let is_new = !self.is_full() && !self.0.contains(&address);
        if is_new {
            self.0.push(address);
        }
        is_new
    }

    fn is_full(&self) -> bool {
        self.0.len() >= CALLERS_MAX
    }
}

/// Passes on each new address up to the limit, and then takes no more.
pub(super) async fn watch(endpoint: Endpoint, found: mpsc::Sender<SocketAddr>) {
    let mut callers = Callers::default();
    while !callers.is_full() {
        let Some(incoming) = endpoint.accept().await else { return };
        let from = incoming.remote_address();
        incoming.ignore();
        let address = SocketAddr::new(from.ip().to_canonical(), from.port());
        if callers.add(address) && found.send(address).await.is_err() {
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

    #[test]
    fn few_addresses_are_taken_and_each_once() {
        let mut callers = Callers::default();
        let address = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!([1, 1, 2, 3, 2].map(|port| callers.add(address(port))), [true, false, true, true, false]);
        assert_eq!([4, 5, 1].map(|port| callers.add(address(port))), [true, false, false]);
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
        let config = ClientConfig::new(Arc::new(client(Fingerprint([1; 32]), ALPN).unwrap()));
        let call = |stranger: &Endpoint| stranger.connect_with(config.clone(), at, SERVER_NAME).unwrap();
        let calls: Vec<_> = strangers.iter().map(call).collect();
        watch(endpoint.clone(), found).await;
        let mut heard = Vec::new();
        while let Some(address) = further.recv().await {
            heard.push(address);
        }
        assert_eq!(heard.len(), CALLERS_MAX);
        assert!(heard.iter().all(|heard| strangers.iter().any(|one| one.local_addr().unwrap() == *heard)));
        assert_eq!(endpoint.open_connections(), 0);
        drop(calls);
    }
}
