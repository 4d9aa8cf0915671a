//! The clients of the link, each with its port towards the server.
//!
//! Invariant: at most [`CLIENTS_MAX`] clients with distinct addresses; a client keeps its index until it is replaced.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use super::{
    CLIENTS_MAX,
    port::{Port, Trouble},
};

/// When all slots are taken, a client silent for this long may be replaced.
const REPLACEABLE_AFTER: Duration = Duration::from_secs(10);

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Peers {
    peers: Vec<Peer>,
    /// Losses of ports that are closed.
    trouble: Trouble,
}

/// One client.
#[derive(Debug)]
pub(super) struct Peer {
    /// The client's own address.
    pub(super) client: SocketAddr,
    /// Its port towards the server.
    pub(super) port: Port,
    heard: Instant,
}

/// No slot or port for another client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refused;

impl Peers {
    /// Records that `client` sent at `now`; a new one gets a port from `bind`.
    pub(super) fn hear(
        &mut self,
        client: SocketAddr,
        now: Instant,
        bind: impl FnOnce() -> io::Result<Port>,
    ) -> Result<(), Refused> {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.client == client) {
            peer.heard = now;
            return Ok(());
        }
        if self.peers.len() < CLIENTS_MAX {
            let port = bind().map_err(|_| Refused)?;
            self.peers.push(Peer { client, port, heard: now });
            return Ok(());
        }
        let silent = |peer: &&mut Peer| now.saturating_duration_since(peer.heard) >= REPLACEABLE_AFTER;
        let place = self.peers.iter_mut().filter(silent).min_by_key(|peer| peer.heard).ok_or(Refused)?;
        let port = bind().map_err(|_| Refused)?;
        self.trouble = self.trouble + place.port.trouble();
        *place = Peer { client, port, heard: now };
        Ok(())
    }

    pub(super) fn find(&self, client: SocketAddr) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.client == client)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Losses of all ports, open and closed.
    pub(super) fn trouble(&self) -> Trouble {
        self.peers.iter().fold(self.trouble, |sum, peer| sum + peer.port.trouble())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: usize) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 1000 + number as u16))
    }

    fn bind() -> io::Result<Port> {
        Port::bind(SocketAddr::from(([127, 0, 0, 1], 0)), false)
    }

    fn full(now: Instant) -> Peers {
        let mut peers = Peers::default();
        for number in 0..CLIENTS_MAX {
            peers.hear(client(number), now + Duration::from_millis(number as u64), bind).unwrap();
        }
        peers
    }

    #[test]
    fn a_known_client_keeps_its_port() {
        let now = Instant::now();
        let mut peers = Peers::default();
        peers.hear(client(1), now, bind).unwrap();
        let address = peers.find(client(1)).unwrap().port.primary().local_addr().unwrap();
        peers.hear(client(1), now, || panic!("it has a port")).unwrap();
        assert_eq!(peers.find(client(1)).unwrap().port.primary().local_addr().unwrap(), address);
        assert_eq!(peers.len(), 1);
    }

    #[test]
    fn one_client_too_many_is_refused_while_all_are_active() {
        let now = Instant::now();
        let mut peers = full(now);
        let later = now + REPLACEABLE_AFTER - Duration::from_nanos(1);
        assert_eq!(peers.hear(client(999), later, bind), Err(Refused));
        assert_eq!(peers.len(), CLIENTS_MAX);
    }

    #[test]
    fn the_client_silent_for_longest_is_replaced() {
        let now = Instant::now();
        let mut peers = full(now);
        let later = now + REPLACEABLE_AFTER + Duration::from_millis(5);
        peers.hear(client(0), later, bind).unwrap();
        peers.hear(client(999), later, bind).unwrap();
        assert!(peers.find(client(0)).is_some());
        assert!(peers.find(client(1)).is_none());
        assert_eq!(peers.len(), CLIENTS_MAX);
    }

    #[test]
    fn a_client_without_a_port_is_refused() {
        let mut peers = Peers::default();
        assert_eq!(peers.hear(client(1), Instant::now(), || Err(io::ErrorKind::Other.into())), Err(Refused));
        assert_eq!(peers.len(), 0);
    }
}
