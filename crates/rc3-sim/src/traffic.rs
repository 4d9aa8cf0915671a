//! Bytes exchanged with each address, so that tests can check that no address is flooded with unsolicited traffic.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    time::Instant,
};

/// Bytes of UDP payload that a node has exchanged with each address.
///
/// Sent bytes count when they leave, before any loss. Received bytes count for the source address of the datagram, as the
/// node sees it.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    by_address: HashMap<SocketAddr, Exchanged>,
}

/// Bytes of UDP payload exchanged with one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exchanged {
    /// Sent to it.
    pub sent: u64,
    /// Received from it.
    pub received: u64,
}

impl Traffic {
    /// What was exchanged with this address.
    pub fn with(&self, address: SocketAddr) -> Exchanged {
        self.by_address.get(&address).copied().unwrap_or_default()
    }

    pub(crate) fn on_sent(&mut self, to: SocketAddr, bytes: usize) {
        self.by_address.entry(to).or_default().sent += bytes as u64;
    }

    pub(crate) fn on_received(&mut self, from: SocketAddr, bytes: usize) {
        self.by_address.entry(from).or_default().received += bytes as u64;
    }
}

/// Datagrams that arrived at addresses of neither node: victims, attackers, addresses that a node has left.
#[derive(Debug, Default)]
pub struct Strangers {
    inboxes: HashMap<SocketAddr, VecDeque<(Instant, Vec<u8>)>>,
}

impl Strangers {
    /// Takes the oldest datagram that arrived at this address, with its arrival time: for an attacker with an address
    /// of its own, or for a victim that answers.
    pub fn take(&mut self, address: SocketAddr) -> Option<(Instant, Vec<u8>)> {
        self.inboxes.get_mut(&address)?.pop_front()
    }

    pub(crate) fn deliver(&mut self, now: Instant, to: SocketAddr, contents: Vec<u8>) {
        self.inboxes.entry(to).or_default().push_back((now, contents));
    }
}
