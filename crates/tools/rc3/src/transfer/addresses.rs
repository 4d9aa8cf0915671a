//! The addresses of a peer: found, put in order, and raced.

use std::{
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};

use super::{
    background,
    reachable::{route_to, zones},
    ticket::{ADDRESSES_MAX, Ticket},
};
use crate::error::{Error, ErrorKind, Result};

/// Time after which the next address of a host is tried as well (RFC 8305 §5).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// The addresses of a ticket, in the order in which to try them.
pub(crate) async fn resolve(ticket: &Ticket) -> Result<Vec<SocketAddr>> {
    let (host, port) = (ticket.host(), ticket.port());
    let failed = |error: io::Error| {
        let hint = "check the host in the ticket; the receiver can set it with --advertise";
        Error::new(ErrorKind::Resolve, format!("cannot find {host}: {error}"), hint)
    };
    // The ticket of an attacker must not reach more than single hosts. Broadcasts need a permission of the socket.
    let is_one_host = |ip: &IpAddr| !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback();
    let others = ticket.others().iter().map(IpAddr::to_canonical).filter(is_one_host);
    let others: Vec<_> = others.map(|ip| SocketAddr::new(ip, port)).collect();
    match lookup(host, port).await {
        Err(error) if others.is_empty() => Err(failed(error)),
        found => Ok(in_turn([found.unwrap_or_default(), others].concat(), &zones(), is_routed)),
    }
}

/// The addresses of a host, in the order in which to try them.
///
/// # Errors
/// When there is none.
pub(crate) async fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(in_turn(lookup(host, port).await?, &zones(), is_routed))
}

async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
}

/// Whether this host can send to an address.
fn is_routed(address: &SocketAddr) -> bool {
    route_to(*address).is_some()
}

/// The order in which to try addresses: as given, but those without a route last, and the families take turns (RFC 8305
/// §4). A link-local address without a zone is tried in each of this host's `zones`.
fn in_turn(
    addresses: Vec<SocketAddr>,
    zones: &[u32],
    is_routed: impl Fn(&SocketAddr) -> bool,
) -> Vec<SocketAddr> {
    let mut zoned = Vec::new();
    for address in addresses {
        match address {
            SocketAddr::V6(v6)
                if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 && !zones.is_empty() =>
            {
                let zoned_in = |&zone| SocketAddrV6::new(*v6.ip(), v6.port(), 0, zone);
                zoned.extend(zones.iter().map(zoned_in).map(SocketAddr::from));
            }
            address => zoned.push(address),
        }
    }
    let first = zoned.iter().find(|address| is_routed(address)).is_none_or(SocketAddr::is_ipv4);
    let mut counts = [[0; 2]; 2];
    zoned.sort_by_cached_key(|address| {
        let (is_useless, is_other) = (!is_routed(address), address.is_ipv4() != first);
        let count = &mut counts[usize::from(is_useless)][usize::from(is_other)];
        *count += 1;
        (is_useless, *count, is_other)
    });
    zoned.truncate(ADDRESSES_MAX);
    zoned
}

/// Tries the addresses in turn: the next one when one fails, or has not answered for a moment (RFC 8305 §5).
pub(super) async fn race<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T> {
    let (mut untried, mut tries, mut failure) = (addresses.iter(), JoinSet::new(), None);
    loop {
        if let Some(&address) = untried.next() {
            let connecting = connect(address);
            tries.spawn(async move { connecting.await.map_err(|error| (address, error)) });
        }
        tokio::select! {
            Some(tried) = tries.join_next() => match tried.map_err(background)? {
                Ok(connection) => return Ok(connection),
                // What a host answers says more than the silence of another.
                Err(failed) => failure = failure.filter(|_| failed.1.kind() == ErrorKind::Connect).or(Some(failed)),
            },
            () = sleep(NEXT_ADDRESS_AFTER), if untried.len() > 0 => {}
            else => {
                let (at, error) = failure.ok_or_else(|| Error::lost("there is no address to connect to"))?;
                let others: Vec<_> = addresses.iter().copied().filter(|other| *other != at).collect();
                return Err(if error.kind() == ErrorKind::Connect { error.of_others(&others) } else { error });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{
        no_connection,
        ticket::{Fingerprint, Secret},
    };

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns_and_addresses_without_a_route_come_last() {
        let given = addresses(&["[2001:db8::1]:9", "[2001:db8::2]:9", "192.0.2.1:9", "192.0.2.2:9"]);
        let all = in_turn(given.clone(), &[], |_| true);
        assert_eq!(all, [given[0], given[2], given[1], given[3]]);
        let of_ipv4 = in_turn(given.clone(), &[], SocketAddr::is_ipv4);
        assert_eq!(of_ipv4, [given[2], given[3], given[0], given[1]]);
        assert_eq!(in_turn(given[3..].to_vec(), &[], |_| false), given[3..]);
    }

    #[tokio::test]
    async fn further_addresses_of_a_ticket_are_single_hosts() {
        let others = ["224.0.0.1", "0.0.0.0", "127.0.0.1", "::1", "::ffff:127.0.0.1", "ff02::1", "192.0.2.2"];
        let ticket = Ticket::new("192.0.2.1", 9, Fingerprint([1; 32]), Secret([1; 16])).unwrap();
        let ticket = ticket.with_others(others.map(|ip| ip.parse().unwrap()));
        assert_eq!(resolve(&ticket).await.unwrap(), addresses(&["192.0.2.1:9", "192.0.2.2:9"]));
    }

    #[test]
    fn link_local_addresses_are_tried_in_each_zone_of_this_host() {
        let given = addresses(&["[fe80::1]:9", "[fe80::2%7]:9", "192.0.2.1:9"]);
        let tried = in_turn(given.clone(), &[2, 3], |_| true);
        assert_eq!(tried, addresses(&["[fe80::1%2]:9", "192.0.2.1:9", "[fe80::1%3]:9", "[fe80::2%7]:9"]));
        assert_eq!(in_turn(given[..1].to_vec(), &[], |_| true), given[..1]);
        let zones: Vec<_> = (1..100).collect();
        assert_eq!(in_turn(given, &zones, |_| true).len(), ADDRESSES_MAX);
    }

    /// In virtual time: one address is silent, another one refuses, and further ones answer.
    #[tokio::test(start_paused = true)]
    async fn a_silent_address_holds_up_the_next_for_a_moment_and_one_that_refuses_not_at_all() {
        let given = addresses(&["192.0.2.1:9", "192.0.2.2:9", "192.0.2.3:9"]);
        let kinds = |first: ErrorKind| {
            move |address: SocketAddr| async move {
                match address.ip().to_string().as_str() {
                    "192.0.2.1" if first == ErrorKind::Connect => std::future::pending().await,
                    "192.0.2.1" => Err(Error::new(first, "", "")),
                    _ => {
                        sleep(Duration::from_millis(80)).await;
                        Ok(address)
                    }
                }
            }
        };
        for (first, expected) in [(ErrorKind::Connect, 330), (ErrorKind::Refused, 80)] {
            let begun = tokio::time::Instant::now();
            assert_eq!(race(&given, kinds(first)).await.unwrap(), given[1]);
            assert_eq!(begun.elapsed().as_millis(), expected, "{first:?}");
        }
        let nobody = |address| async move { Err::<(), _>(no_connection(address, "rc3 recv", "no answer")) };
        let failed = race(&given, nobody).await.unwrap_err().to_string();
        assert!(given.iter().all(|address| failed.contains(&address.ip().to_string())), "{failed}");
    }
}
