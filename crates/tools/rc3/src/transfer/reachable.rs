//! The address at which other hosts reach this one, and the ticket that names it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use super::ticket::{Fingerprint, Secret, Ticket, TicketError};

/// Opens a listener at `address`; by default at any address of both families if the system has both, else of IPv4.
///
/// # Errors
/// Those of `open`.
pub fn bind<T>(address: Option<SocketAddr>, open: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    match address {
        Some(address) => open(address),
        None => open((Ipv6Addr::UNSPECIFIED, 0).into()).or_else(|_| open((Ipv4Addr::UNSPECIFIED, 0).into())),
    }
}

/// The ticket of a listener at `bound`, with the host and port to advertise if they differ.
///
/// # Errors
/// [`TicketError::Host`] if the host is not a name or address.
pub fn invite(
    bound: SocketAddr,
    advertise: Option<&(String, Option<u16>)>,
    fingerprint: Fingerprint,
    secret: Secret,
) -> Result<Ticket, TicketError> {
    let (host, port) = match advertise {
        Some((host, port)) => (host.clone(), port.unwrap_or(bound.port())),
        None => (reachable(bound.ip()).to_string(), bound.port()),
    };
    Ticket::new(&host, port, fingerprint, secret)
}

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
