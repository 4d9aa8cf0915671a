//! The clients of the link, each with its port towards the server.
//!
//! Invariant: at most [`CLIENTS_MAX`] clients with distinct addresses; a client keeps its index.

use std::{io, net::SocketAddr};

use super::{CLIENTS_MAX, port::EmulatorPort};

/// All clients.
#[derive(Debug, Default)]
pub(super) struct EmulatorClients {
    peers: Vec<EmulatorClient>,
}

/// One client.
#[derive(Debug)]
pub(super) struct EmulatorClient {
    /// The client's own address.
    pub(super) client: SocketAddr,
    /// Its port towards the server.
    pub(super) port: EmulatorPort,
}

impl EmulatorClients {
    /// Whether `client` has a port; a new one gets it from `bind`.
    pub(super) fn admit(
        &mut self,
        client: SocketAddr,
        bind: impl FnOnce() -> io::Result<EmulatorPort>,
    ) -> bool {
        if self.find(client).is_some() {
            return true;
        }
        let port = if self.peers.len() < CLIENTS_MAX { bind().ok() } else { None };
        let peer = port.map(|port| EmulatorClient { client, port });
        let admitted = peer.is_some();
        self.peers.extend(peer);
        admitted
    }

    pub(super) fn find(&self, client: SocketAddr) -> Option<&EmulatorClient> {
        self.peers.iter().find(|peer| peer.client == client)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &EmulatorClient> {
        self.peers.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: usize) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 1000 + number as u16))
    }

    fn bind() -> io::Result<EmulatorPort> {
        EmulatorPort::bind(SocketAddr::from(([127, 0, 0, 1], 0)), false)
    }

    #[test]
    fn a_known_client_keeps_its_port() {
        let mut peers = EmulatorClients::default();
        assert!(peers.admit(client(1), bind));
        let address = peers.find(client(1)).unwrap().port.primary().local_addr().unwrap();
        assert!(peers.admit(client(1), || panic!("it has a port")));
        assert_eq!(peers.find(client(1)).unwrap().port.primary().local_addr().unwrap(), address);
        assert_eq!(peers.len(), 1);
    }

    #[test]
    fn one_client_too_many_and_one_without_a_port_are_refused() {
        let mut peers = EmulatorClients::default();
        assert!(!peers.admit(client(0), || Err(io::ErrorKind::Other.into())));
        assert!((0..CLIENTS_MAX).all(|number| peers.admit(client(number), bind)));
        assert!(!peers.admit(client(999), bind));
        assert_eq!(peers.len(), CLIENTS_MAX);
    }
}
