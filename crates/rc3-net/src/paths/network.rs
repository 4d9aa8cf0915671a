//! This host's network, as far as one socket can determine it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use rc3_core::network_of;

/// Identifies the network from which packets to `destination` leave, for an endpoint bound to `bound`: their source
/// address, for IPv6 its first 64 bits, since hosts change the rest by themselves (RFC 8981). `None` without a route.
/// Finding it sends nothing.
pub(super) fn to(destination: IpAddr, bound: IpAddr) -> Option<IpAddr> {
    let bound = bound.to_canonical();
    let source = if bound.is_unspecified() { source(destination)? } else { bound };
    Some(network_of(source))
}

fn source(destination: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if destination.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // Any port will do: only the route is looked up.
    socket.connect(SocketAddr::new(destination, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_bound_or_found_by_the_route() {
        let here = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(to(here, Ipv4Addr::UNSPECIFIED.into()), Some(here));
        assert_eq!(to([192, 0, 2, 1].into(), [10, 0, 0, 3].into()), Some([10, 0, 0, 3].into()));
    }

    #[test]
    fn addresses_that_a_host_makes_up_in_one_network_name_the_same() {
        let name = |ip: &str| network_of(ip.parse().unwrap());
        assert_eq!(name("2001:db8::1"), name("2001:db8::ffff:1:2:3"));
        assert_ne!(name("2001:db8::1"), name("2001:db8:0:1::1"));
    }
}
