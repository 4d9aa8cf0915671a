//! The address at which other hosts reach this one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The address to advertise when listening on `ip`: `ip` itself, or for an unspecified address the source address of
/// the default route. Finding it sends no packets.
pub fn reachable(ip: IpAddr) -> IpAddr {
    if !ip.is_unspecified() {
        return ip;
    }
    // Documentation addresses (RFC 5737, RFC 3849): routed by default, and not assigned.
    let v4 = || route(Ipv4Addr::UNSPECIFIED.into(), (Ipv4Addr::new(192, 0, 2, 1), 9).into());
    let v6 = || {
        let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        if ip.is_ipv6() { route(Ipv6Addr::UNSPECIFIED.into(), (far, 9).into()) } else { None }
    };
    v4().or_else(v6).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn route(from: IpAddr, to: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect(to).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_name_an_address_others_can_use() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(reachable(ip), ip);
        assert!(!reachable(Ipv4Addr::UNSPECIFIED.into()).is_unspecified());
        assert!(!reachable(Ipv6Addr::UNSPECIFIED.into()).is_unspecified());
    }
}
