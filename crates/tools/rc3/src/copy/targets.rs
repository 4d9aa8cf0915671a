//! Where the far end sends to, so that its NAT lets the near end in.

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
};

use super::wire::UdpTerms;
use crate::transfer::addresses::single_hosts;

/// Where the near end may be: where ssh comes from, which is the outside of its NAT if it has one, and NATs mostly keep
/// ports (RFC 4787 §4.2.2); and its own addresses.
pub(super) fn targets(client_ip: Option<IpAddr>, terms: &UdpTerms) -> Vec<SocketAddr> {
    // Loopback is another host only if ssh says so.
    let from = client_ip.filter(IpAddr::is_loopback).map(|ip| SocketAddr::new(ip, terms.near_port));
    let ips: Vec<IpAddr> = client_ip.into_iter().chain(terms.near.iter().copied()).collect();
    let mut targets: Vec<_> = from.into_iter().chain(single_hosts(&ips, terms.near_port)).collect();
    let mut seen = HashSet::new();
    targets.retain(|target| target.port() != 0 && seen.insert(*target));
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::ticket::ADDRESSES_MAX;

    #[test]
    fn packets_go_to_a_few_single_hosts() {
        let aim = |from: &str, near: &[&str], near_port| {
            let near = near.iter().map(|ip| ip.parse().unwrap()).collect();
            let terms = UdpTerms { ports: (0, 0), near_port, near, maps_ports: false };
            let targets = targets(from.parse().ok(), &terms);
            targets.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let near = ["10.0.0.5", "2001:db8::5", "198.51.100.7", "10.0.0.5"];
        let expected = ["198.51.100.7:9", "10.0.0.5:9", "[2001:db8::5]:9"];
        assert_eq!(aim("198.51.100.7", &near, 9), expected);
        let lies = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "224.0.0.1", "ff02::1", "0.0.0.0"];
        assert!(aim("UNKNOWN", &lies, 9).is_empty());
        assert_eq!(aim("127.0.0.1", &lies, 9), ["127.0.0.1:9"], "both ends are on one host");
        assert!(aim("192.0.2.1", &[], 0).is_empty());
        let many: Vec<String> = (1..100).map(|nth| format!("192.0.2.{nth}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(aim("198.51.100.7", &many, 9).len(), ADDRESSES_MAX);
    }
}
