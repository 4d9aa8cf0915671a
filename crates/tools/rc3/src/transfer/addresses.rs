//! The addresses of a peer: found, put in order, and raced.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr, SocketAddrV6},
    time::Duration,
};

use tokio::{sync::mpsc, task::JoinSet, time::sleep};

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
    let others = single_hosts(ticket.others(), port);
    match lookup(host, port).await {
        Err(error) if others.is_empty() => Err(failed(error)),
        found => Ok(ordered([found.unwrap_or_default(), others].concat())),
    }
}

/// Those of a peer's addresses that reach another host, and no more than one: an attacker may have named them. Broadcasts
/// need a permission of the socket.
pub(crate) fn single_hosts(ips: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    let is_one_host = |ip: &IpAddr| !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback();
    let ips = ips.iter().map(IpAddr::to_canonical).filter(is_one_host);
    ips.take(ADDRESSES_MAX).map(|ip| SocketAddr::new(ip, port)).collect()
}

/// The same of one address that somebody else has named; `None` if it is no single host's.
pub(crate) fn single_host(address: SocketAddr) -> Option<SocketAddr> {
    single_hosts(&[address.ip()], address.port()).pop().filter(|address| address.port() != 0)
}

/// The IPv4 address itself if a dual-stack socket reports it as an IPv6 address.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The order in which this host tries these addresses.
pub(crate) fn ordered(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    in_turn(addresses, &zones(), is_routed)
}

/// The addresses of a host, in the order in which to try them.
///
/// # Errors
/// When there is none.
pub(crate) async fn addresses_of(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(ordered(lookup(host, port).await?))
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

/// Addresses to try in turn: the next one when one fails, or has not answered for a moment (RFC 8305 §5).
pub(crate) struct Race {
    untried: VecDeque<SocketAddr>,
    /// Those tried so far, each once.
    pub(crate) tried: Vec<SocketAddr>,
    /// More addresses, each tried when it comes, if it has no turn; the race has no end before that of these.
    further: mpsc::Receiver<SocketAddr>,
    /// Time after which the next address is tried as well.
    pace: Duration,
}

impl Race {
    /// Between these addresses alone.
    pub(super) fn of(addresses: &[SocketAddr]) -> Self {
        // Nobody can send: nothing further comes.
        let (_, further) = mpsc::channel(1);
        Self::with(addresses, further, NEXT_ADDRESS_AFTER)
    }

    pub(crate) fn with(
        addresses: &[SocketAddr],
        further: mpsc::Receiver<SocketAddr>,
        pace: Duration,
    ) -> Self {
        Self { untried: addresses.iter().copied().collect(), tried: Vec::new(), further, pace }
    }

    /// What the first address that answers gives.
    pub(crate) async fn run<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
        &mut self,
        connect: impl Fn(SocketAddr) -> F,
    ) -> Result<T> {
        let (mut tries, mut failure) = (JoinSet::new(), None);
        let mut next = self.untried.pop_front();
        loop {
            if let Some(address) = next.filter(|address| !self.tried.contains(address)) {
                self.tried.push(address);
                let connecting = connect(address);
                tries.spawn(async move { connecting.await.map_err(|error| (address, error)) });
            }
            next = tokio::select! {
                Some(done) = tries.join_next() => match done.map_err(background)? {
                    Ok(connection) => return Ok(connection),
                    // What a host answers says more than the silence of another.
                    Err(failed) => {
                        failure = failure.filter(|_| failed.1.kind() == ErrorKind::Connect).or(Some(failed));
                        self.untried.pop_front()
                    }
                },
                Some(further) = self.further.recv() => Some(further).filter(|it| !self.untried.contains(it)),
                () = sleep(self.pace), if !self.untried.is_empty() => self.untried.pop_front(),
                else => {
                    let (at, error) = failure.ok_or_else(|| Error::lost("there is no address to connect to"))?;
                    let others: Vec<_> = self.tried.iter().copied().filter(|other| *other != at).collect();
                    return Err(if error.kind() == ErrorKind::Connect { error.of_others(&others) } else { error });
                }
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
            assert_eq!(Race::of(&given).run(kinds(first)).await.unwrap(), given[1]);
            assert_eq!(begun.elapsed().as_millis(), expected, "{first:?}");
        }
        let nobody = |address| async move { Err::<(), _>(no_connection(address, "rc3 recv", "no answer")) };
        let failed = Race::of(&given).run(nobody).await.unwrap_err().to_string();
        assert!(given.iter().all(|address| failed.contains(&address.ip().to_string())), "{failed}");
    }

    /// In virtual time: addresses that come later do not wait for their turn, and none is tried twice.
    #[tokio::test(start_paused = true)]
    async fn further_addresses_are_tried_when_they_come() {
        let given = addresses(&["192.0.2.1:9", "192.0.2.2:9", "192.0.2.3:9"]);
        let (found, further) = mpsc::channel(4);
        let mut race = Race::with(&given[..1], further, NEXT_ADDRESS_AFTER);
        let third = given[2];
        let connect = |address| async move {
            if address == third { Ok(address) } else { Err(no_connection(address, "rc3 recv", "no answer")) }
        };
        let begun = tokio::time::Instant::now();
        let finding = async {
            for (millis, address) in [(100, given[1]), (100, given[0]), (100, third)] {
                sleep(Duration::from_millis(millis)).await;
                found.send(address).await.unwrap();
            }
        };
        let (won, ()) = tokio::join!(race.run(connect), finding);
        assert_eq!((won.unwrap(), begun.elapsed().as_millis()), (third, 300));
        assert_eq!(race.tried, given);
        // One that has its turn waits for it.
        let (found, further) = mpsc::channel(4);
        found.send(third).await.unwrap();
        let mut race = Race::with(&given, further, NEXT_ADDRESS_AFTER);
        let connect =
            |address| async move { if address == third { Ok(()) } else { std::future::pending().await } };
        let begun = tokio::time::Instant::now();
        race.run(connect).await.unwrap();
        assert_eq!(begun.elapsed(), 2 * NEXT_ADDRESS_AFTER);
    }
}
