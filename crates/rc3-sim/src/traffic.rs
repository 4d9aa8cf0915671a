//! Who was sent how much: what a test needs to see that nobody is flooded who did not ask.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
    time::Instant,
};

/// Bytes of UDP payload that a node has exchanged with each address.
///
/// What it sent is counted when it leaves, before any loss. What came is counted by the address it claims to come
/// from, as the node sees it.
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

/// Datagrams that arrived at addresses that neither node has: victims, attackers, addresses somebody has left.
#[derive(Debug, Default)]
pub struct Strangers {
    inboxes: HashMap<SocketAddr, VecDeque<(Instant, Vec<u8>)>>,
}

impl Strangers {
    /// Takes the oldest datagram that arrived at this address, with the time it came: for an attacker with an address
    /// of its own, or for a victim that answers.
    pub fn take(&mut self, address: SocketAddr) -> Option<(Instant, Vec<u8>)> {
        self.inboxes.get_mut(&address)?.pop_front()
    }

    /// Bytes of UDP payload that arrived at this address and were not taken.
    pub fn bytes_at(&self, address: SocketAddr) -> u64 {
        let inbox = self.inboxes.get(&address).into_iter().flatten();
        inbox.map(|(_, datagram)| datagram.len() as u64).sum()
    }

    pub(crate) fn deliver(&mut self, now: Instant, to: SocketAddr, contents: Vec<u8>) {
        self.inboxes.entry(to).or_default().push_back((now, contents));
    }
}
