//! Routes: the longest matching prefix chooses the port.

use std::net::IpAddr;

use ipnet::IpNet;
use kickass::packet::Packet;

use super::config::PortConfig;

/// Prefixes and the number of their port, the longest prefix first. The list is short, so a linear search is enough.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Routes(Vec<(IpNet, usize)>);

impl Routes {
    pub(crate) fn new(ports: &[PortConfig]) -> Self {
        let of_port = |(n, port): (usize, &PortConfig)| {
            port.routes.iter().map(|net| (net.trunc(), n)).collect::<Vec<_>>()
        };
        let mut routes: Vec<_> = ports.iter().enumerate().flat_map(of_port).collect();
        routes.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        Self(routes)
    }

    pub(crate) fn find(&self, destination: IpAddr) -> Option<usize> {
        self.0.iter().find(|(net, _)| net.contains(&destination)).map(|(_, port)| *port)
    }
}

/// Whether routers forward a packet with these addresses: not to or from a link alone, a host alone, or many (RFC 1812
/// §5.3, RFC 3927 §2.7, RFC 4291 §2.5.6).
pub(crate) fn may_cross(packet: &Packet) -> bool {
    [packet.source(), packet.destination()].into_iter().all(|address| {
        let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
        let is_of_link = match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        !is_special && !is_of_link
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let nets = ["10.0.0.0/8", "10.1.0.9/16", "fd00::/8", "0.0.0.0/0"];
        let mut routes: Vec<(IpNet, usize)> =
            nets.iter().enumerate().map(|(n, net)| (net.parse::<IpNet>().unwrap().trunc(), n)).collect();
        routes.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        let find = |address: &str| Routes(routes.clone()).find(address.parse().unwrap());
        assert_eq!(find("10.1.2.3"), Some(1));
        assert_eq!(find("10.2.2.3"), Some(0));
        assert_eq!(find("192.0.2.1"), Some(3));
        assert_eq!(find("fd00::1"), Some(2));
        assert_eq!(find("fe80::1"), None);
    }
}
