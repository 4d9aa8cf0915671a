//! The addresses at which other hosts reach this one, and the ticket that names them.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
};

use getifaddrs::{Address, Interface, InterfaceFlags, InterfaceIndex, getifaddrs};

use super::ticket::{ADDRESSES_MAX, Fingerprint, Secret, Ticket};
use crate::error::{self, Error};

/// Most addresses of [`beyond_link`].
const BEYOND_LINK_MAX: usize = 4;

/// Opens a listener at `address`; by default at any address of both families if the system has both, else of IPv4.
///
/// # Errors
/// Those of `open`.
pub fn bind<T, E>(
    address: Option<SocketAddr>,
    port: u16,
    open: impl Fn(SocketAddr) -> Result<T, E>,
) -> Result<T, E> {
    let any = |ip: IpAddr| SocketAddr::new(ip, port);
    match address {
        Some(address) => open(address),
        None => open(any(Ipv6Addr::UNSPECIFIED.into())).or_else(|_| open(any(Ipv4Addr::UNSPECIFIED.into()))),
    }
}

/// The ticket of a listener at `bound`, with the host and port to advertise if they differ from its addresses.
///
/// # Errors
/// If the host is not a name or address.
pub fn invite(
    bound: SocketAddr,
    advertise: Option<&(String, Option<u16>)>,
    fingerprint: Fingerprint,
    secret: Secret,
) -> error::Result<Ticket> {
    let failed = |error| Error::local("make a ticket", error);
    if let Some((host, port)) = advertise {
        return Ticket::new(host, port.unwrap_or(bound.port()), fingerprint, secret).map_err(failed);
    }
    let mut addresses = reachable(bound.ip()).into_iter();
    let host = addresses.next().unwrap_or_else(|| bound.ip());
    let ticket = Ticket::new(&host.to_string(), bound.port(), fingerprint, secret).map_err(failed)?;
    Ok(ticket.with_others(addresses))
}

/// The addresses at which hosts beyond the own link may reach an endpoint bound to `ip`, a few at most.
pub(crate) fn beyond_link(ip: IpAddr) -> Vec<IpAddr> {
    let mut found = reachable(ip);
    found.retain(|ip| scope(*ip) < 2 && !ip.is_loopback());
    found.truncate(BEYOND_LINK_MAX);
    found
}

/// The addresses to advertise when listening on `ip`: `ip` itself, or for an unspecified address those of this host that
/// other hosts may reach. If there is none, loopback.
pub(crate) fn reachable(ip: IpAddr) -> Vec<IpAddr> {
    if !ip.is_unspecified() {
        return vec![ip];
    }
    let routed: Vec<_> = FAR.into_iter().filter_map(source_to).collect();
    let own: Vec<_> = own().filter_map(|own| Own::new(&own)).collect();
    let mut found = helpful(&routed, &own);
    found.retain(|found| ip.is_ipv6() || found.is_ipv4());
    if found.is_empty() { vec![Ipv4Addr::LOCALHOST.into()] } else { found }
}

/// Documentation addresses (RFC 5737, RFC 3849): routed by default, and not assigned.
const FAR: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// The source address of the route to `far`. Finding it sends no packets.
fn source_to(far: IpAddr) -> Option<IpAddr> {
    let ip = route_to((far, 9).into())?;
    (!ip.is_unspecified()).then_some(ip)
}

/// The source address of packets to `to`; `None` without a route.
pub(super) fn route_to(to: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((unspecified(to), 0)).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The addresses of this host on interfaces that carry packets, except loopback.
fn own() -> impl Iterator<Item = Interface> {
    let carries = InterfaceFlags::UP | InterfaceFlags::RUNNING;
    getifaddrs()
        .into_iter()
        .flatten()
        .filter(move |own| own.flags.contains(carries) && !own.flags.contains(InterfaceFlags::LOOPBACK))
}

/// Any address of this host in the remote's family.
pub(crate) fn unspecified(remote: SocketAddr) -> IpAddr {
    if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// The interfaces with a link-local IPv6 address: each is a zone (RFC 4007 §6).
pub(super) fn zones() -> Vec<InterfaceIndex> {
    let is_local =
        |own: &Interface| matches!(&own.address, Address::V6(v6) if v6.address.is_unicast_link_local());
    let mut zones: Vec<_> = own().filter(is_local).filter_map(|own| own.index).collect();
    zones.sort_unstable();
    zones.dedup();
    zones
}

/// An address of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Own {
    ip: IpAddr,
    /// Its interface and prefix: any address of one network is as good as another.
    network: (InterfaceIndex, IpAddr),
}

impl Own {
    fn new(own: &Interface) -> Option<Self> {
        let (ip, mask) = (own.address.ip_addr()?, own.address.netmask());
        let prefix = match (ip, mask) {
            (IpAddr::V4(ip), Some(IpAddr::V4(mask))) => (ip & mask).into(),
            (IpAddr::V6(ip), Some(IpAddr::V6(mask))) => (ip & mask).into(),
            _ => ip,
        };
        Some(Self { ip, network: (own.index?, prefix) })
    }
}

/// The addresses to advertise, one of each network: first the sources of default routes, then the wider scopes.
fn helpful(routed: &[IpAddr], own: &[Own]) -> Vec<IpAddr> {
    let mut own: Vec<_> =
        own.iter().filter(|own| !own.ip.is_loopback() && !own.ip.is_unspecified()).collect();
    own.sort_by_key(|own| {
        (routed.iter().position(|ip| *ip == own.ip).unwrap_or(routed.len()), scope(own.ip))
    });
    let mut networks = HashSet::new();
    own.retain(|own| networks.insert(own.network));
    let mut found: Vec<_> = own.iter().map(|own| own.ip).collect();
    // The system may not list its interfaces.
    if found.is_empty() {
        found.extend(routed);
    }
    found.truncate(ADDRESSES_MAX);
    found
}

/// How far an address reaches: everywhere, within an organisation, on one link.
fn scope(ip: IpAddr) -> u8 {
    match ip {
        IpAddr::V4(ip) if ip.is_link_local() => 2,
        IpAddr::V4(ip) => u8::from(ip.is_private()),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 2,
        IpAddr::V6(ip) => u8::from(ip.is_unique_local()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Addresses with the number of their network.
    fn own(of: &[(&str, u32)]) -> Vec<Own> {
        let own = |&(ip, network): &(&str, u32)| Own {
            ip: ip.parse().unwrap(),
            network: (network, Ipv4Addr::UNSPECIFIED.into()),
        };
        of.iter().map(own).collect()
    }

    #[test]
    fn tickets_name_an_address_others_can_use() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(reachable(ip), [ip]);
        for any in [IpAddr::from(Ipv4Addr::UNSPECIFIED), Ipv6Addr::UNSPECIFIED.into()] {
            let found = reachable(any);
            assert!(!found.is_empty() && found.iter().all(|ip| !ip.is_unspecified()), "{found:?}");
            assert!(found.len() == 1 || found.iter().all(|ip| !ip.is_loopback()), "{found:?}");
        }
    }

    #[test]
    fn default_routes_come_first_and_narrow_scopes_last() {
        let of =
            own(&[("fe80::1", 1), ("169.254.1.1", 2), ("10.0.0.5", 3), ("fd00::5", 4), ("127.0.0.1", 5)]);
        assert_eq!(helpful(&[], &of), ips(&["10.0.0.5", "fd00::5", "fe80::1", "169.254.1.1"]));
        let of = own(&[("fe80::1", 1), ("10.0.0.5", 2), ("2001:db8::5", 3), ("198.51.100.7", 4)]);
        let routed = ips(&["10.0.0.5", "2001:db8::5"]);
        assert_eq!(helpful(&routed, &of), ips(&["10.0.0.5", "2001:db8::5", "198.51.100.7", "fe80::1"]));
        assert_eq!(helpful(&routed, &[]), routed);
        assert!(helpful(&[], &own(&[("::1", 1)])).is_empty());
    }

    #[test]
    fn a_network_has_one_address_and_a_ticket_a_few() {
        // Stable and temporary addresses of one prefix (RFC 8981).
        let of = own(&[("2001:db8::1", 1), ("2001:db8::2", 1), ("2001:db8:0:1::1", 2)]);
        assert_eq!(helpful(&ips(&["2001:db8::2"]), &of), ips(&["2001:db8::2", "2001:db8:0:1::1"]));
        let many: Vec<_> = (0..100)
            .map(|n| Own { ip: Ipv4Addr::new(10, 0, n, 1).into(), network: (n.into(), FAR[0]) })
            .collect();
        assert_eq!(helpful(&[], &many).len(), ADDRESSES_MAX);
    }
}
