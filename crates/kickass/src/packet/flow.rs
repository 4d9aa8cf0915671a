//! The flow that a packet belongs to.

use std::{hash::Hasher, net::IpAddr};

use siphasher::sip::SipHasher13;

/// Addresses, protocol, and visible ports: the fields shared by all packets of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowKey {
    /// Address of the sender.
    pub source: IpAddr,
    /// Address of the receiver.
    pub destination: IpAddr,
    /// Number of the protocol above IP.
    pub protocol: u8,
    /// Ports of TCP, UDP, DCCP, UDP-Lite and SCTP, source first. Other protocols have none; nor have fragments, except
    /// the leading one.
    pub ports: Option<(u16, u16)>,
}

impl FlowKey {
    /// The same without ports: what all fragments of a packet share.
    pub fn without_ports(self) -> Self {
        Self { ports: None, ..self }
    }

    /// A hash that cannot be predicted without `key`, so nobody can choose which flows collide.
    pub fn hash(&self, key: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(key, 0);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                hasher.write(&source.octets());
                hasher.write(&destination.octets());
            }
            (source, destination) => {
                hasher.write(&octets(source));
                hasher.write(&octets(destination));
            }
        }
        let mut rest = [0; 6];
        rest[0] = self.protocol;
        if let Some((source, destination)) = self.ports {
            rest[1] = 1;
            rest[2..4].copy_from_slice(&source.to_be_bytes());
            rest[4..6].copy_from_slice(&destination.to_be_bytes());
        }
        hasher.write(&rest);
        hasher.finish()
    }
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_differ_in_anything_hash_apart() {
        let flow = FlowKey {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
            protocol: 17,
            ports: Some((0, 0)),
        };
        let flows = [
            flow,
            FlowKey { source: [10, 0, 0, 3].into(), ..flow },
            FlowKey { source: flow.destination, destination: flow.source, ..flow },
            FlowKey { protocol: 6, ..flow },
            FlowKey { ports: Some((0, 1)), ..flow },
            flow.without_ports(),
        ];
        let mut hashes: Vec<u64> = flows.iter().map(|flow| flow.hash(7)).collect();
        hashes.push(flow.hash(8));
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 7);
    }
}
