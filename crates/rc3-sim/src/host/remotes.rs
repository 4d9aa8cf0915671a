//! Which flow rides between a host and an address.

use std::net::{IpAddr, SocketAddr};

use rustc_hash::FxHashMap;

use crate::agent::{FlowId, SchemeId};

/// The flows by the peer's address. Each packet looks its flow up when it leaves and when it arrives, so the key is one
/// number: the address of IPv4, which all hosts have, and the port.
#[derive(Debug, Default)]
pub(super) struct Remotes(FxHashMap<u64, (FlowId, SchemeId)>);

impl Remotes {
    /// From now on this flow rides there.
    pub(super) fn insert(&mut self, remote: SocketAddr, flow: (FlowId, SchemeId)) {
        self.0.extend(key(remote).map(|key| (key, flow)));
    }

    pub(super) fn get(&self, remote: SocketAddr) -> Option<(FlowId, SchemeId)> {
        self.0.get(&key(remote)?).copied()
    }

    pub(super) fn remove(&mut self, remote: SocketAddr) {
        key(remote).and_then(|key| self.0.remove(&key));
    }
}

fn key(remote: SocketAddr) -> Option<u64> {
    match remote.ip() {
        IpAddr::V4(ip) => Some(u64::from(ip.to_bits()) << 16 | u64::from(remote.port())),
        IpAddr::V6(_) => None,
    }
}
