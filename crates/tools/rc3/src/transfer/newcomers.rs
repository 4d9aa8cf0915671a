//! Connections that have not shown the ticket.
//!
//! Invariant: they exclude nobody. They have few slots, with fewer for each network, and a new one evicts the oldest.
//! When slots run short, addresses must be validated.

use std::{
    collections::VecDeque,
    future::Future,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use rc3_net::{Connection, Endpoint, Incoming};
use tokio::{
    sync::oneshot,
    task::{self, JoinSet},
    time::timeout,
};

use super::{BUSY, paths::printable, progress::count};

/// Most connections without a shown ticket.
const NEWCOMERS_MAX: usize = 32;
/// Most of these from one network.
const NEWCOMERS_PER_NETWORK_MAX: usize = 4;
/// Time limit for showing the ticket, and before that for the handshake.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Time between two lines about rejected connections.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Decides by the first message of a connection whether its peer holds the ticket.
pub(crate) trait Authorise: Clone + Send + 'static {
    /// An authorised connection.
    type Authorised: Send + 'static;

    /// Reads the first message, and nothing more until the secret is right. An error is a reason for the user.
    fn authorise(
        self,
        connection: Connection,
    ) -> impl Future<Output = Result<Self::Authorised, String>> + Send;
}

/// Accepts connections and authorises them.
pub(crate) struct Newcomers<A: Authorise> {
    endpoint: Endpoint,
    authority: A,
    authorising: JoinSet<Result<A::Authorised, String>>,
    /// Oldest first.
    newcomers: VecDeque<Newcomer>,
    turned_away: TurnedAway,
}

/// A connection that has not shown the ticket.
struct Newcomer {
    task: task::Id,
    network: Network,
    evict: oneshot::Sender<()>,
}

/// The addresses that one host can have: an IPv4 address, or 64 bits of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network(u128);

impl Network {
    fn of(address: SocketAddr) -> Self {
        Self(match address.ip().to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits() & !u128::from(u64::MAX),
        })
    }
}

impl<A: Authorise> Newcomers<A> {
    /// Accepts connections of this endpoint.
    pub(crate) fn new(endpoint: Endpoint, authority: A) -> Self {
        Self {
            endpoint,
            authority,
            authorising: JoinSet::new(),
            newcomers: VecDeque::new(),
            turned_away: TurnedAway::default(),
        }
    }

    /// The next authorised connection; or, now and then, a line to print about rejected ones.
    ///
    /// Cancel-safe: dropping the future loses no connection.
    pub(crate) async fn next(&mut self) -> Result<A::Authorised, String> {
        loop {
            tokio::select! {
                incoming = self.endpoint.accept() => match incoming {
                    Some(incoming) => self.meet(incoming),
                    // The endpoint is closed: nobody can connect any more.
                    None => std::future::pending().await,
                },
                Some(done) = self.authorising.join_next_with_id() => {
                    let (task, outcome) = match done {
                        Ok((task, outcome)) => (task, outcome),
                        Err(error) => (error.id(), Err(error.to_string())),
                    };
                    self.newcomers.retain(|newcomer| newcomer.task != task);
                    match outcome {
                        Ok(authorised) => return Ok(authorised),
                        Err(reason) => {
                            if let Some(line) = self.turned_away.add(reason) {
                                return Err(line);
                            }
                        }
                    }
                },
            }
        }
    }

    fn meet(&mut self, incoming: Incoming) {
        let network = Network::of(incoming.remote_address());
        let among = |network| self.newcomers.iter().filter(|newcomer| newcomer.network == network).count();
        let room_from = if among(network) >= NEWCOMERS_PER_NETWORK_MAX {
            Some(network)
        } else if self.newcomers.len() >= NEWCOMERS_MAX {
            if incoming.may_retry() {
                // The address may be forged: a retry makes the client prove it.
                let _ = incoming.retry();
                return;
            }
            // One from the network with the most, so that few connections cannot evict many.
            let networks = self.newcomers.iter().rev().map(|newcomer| newcomer.network);
            networks.max_by_key(|&network| among(network))
        } else {
            None
        };
        let oldest = self.newcomers.iter().position(|newcomer| Some(newcomer.network) == room_from);
        if let Some(oldest) = oldest.and_then(|at| self.newcomers.remove(at)) {
            let _ = oldest.evict.send(());
        }
        let (evict, evicted) = oneshot::channel();
        let task = self.authorising.spawn(meet(incoming, self.authority.clone(), evicted)).id();
        self.newcomers.push_back(Newcomer { task, network, evict });
    }
}

/// Waits for the ticket's secret, unless evicted meanwhile.
async fn meet<A: Authorise>(
    incoming: Incoming,
    authority: A,
    mut evicted: oneshot::Receiver<()>,
) -> Result<A::Authorised, String> {
    let address = incoming.remote_address();
    let away = |reason: &dyn ToString| format!("rejected {address}: {}", printable(&reason.to_string()));
    let connect = async { incoming.accept()?.await };
    let connection = tokio::select! {
        biased;
        connection = timeout(HELLO_PATIENCE, connect) => {
            connection.map_err(|_| away(&"no handshake"))?.map_err(|error| away(&error))?
        }
        _ = &mut evicted => return Err(away(&"other connections needed its slot")),
    };
    let outcome = tokio::select! {
        biased;
        shown = authorise(authority, connection.clone()) => shown,
        _ = evicted => {
            connection.close(BUSY, b"is busy");
            Err("other connections needed its slot".to_owned())
        }
    };
    outcome.map_err(|reason| away(&reason))
}

/// Authorises the peer of a connection, within a time limit.
pub(crate) async fn authorise<A: Authorise>(
    authority: A,
    connection: Connection,
) -> Result<A::Authorised, String> {
    let shown = timeout(HELLO_PATIENCE, authority.authorise(connection)).await;
    shown.unwrap_or_else(|_| Err(format!("it showed no ticket within {} s", HELLO_PATIENCE.as_secs())))
}

/// Lines about rejected connections: at most one per second.
#[derive(Debug, Default)]
struct TurnedAway {
    printed: Option<Instant>,
    more: usize,
}

impl TurnedAway {
    fn add(&mut self, line: String) -> Option<String> {
        if self.printed.is_some_and(|printed| printed.elapsed() < REPORT_EVERY) {
            self.more += 1;
            return None;
        }
        self.printed = Some(Instant::now());
        Some(match std::mem::take(&mut self.more) {
            0 => line,
            more => format!("{line}, and {} before", count(more, "connection")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_host_are_one_network() {
        let network = |address: &str| Network::of(SocketAddr::new(address.parse().unwrap(), 1));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1:2"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
    }

    #[test]
    fn a_line_a_second_is_printed_about_any_number_of_connections() {
        let mut turned_away = TurnedAway::default();
        assert_eq!(turned_away.add("a".to_owned()).as_deref(), Some("a"));
        assert!((0..1000).all(|_| turned_away.add("b".to_owned()).is_none()));
        turned_away.printed = Instant::now().checked_sub(REPORT_EVERY);
        assert_eq!(turned_away.add("c".to_owned()).as_deref(), Some("c, and 1000 connections before"));
    }
}
