//! Admission of senders: connections that have not shown the ticket, and senders waiting for their turn.
//!
//! Invariant: connections without the ticket exclude nobody. They have few slots, with fewer for each network, and a
//! new one evicts the oldest. When slots run short, addresses must be validated.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use rc3_net::{Connection, Endpoint, Incoming};
use tokio::{
    io::BufReader,
    sync::oneshot,
    task::{self, JoinSet},
    time::timeout,
};

use super::{
    BUSY,
    message::{self, FromReceiver, FromSender, Refusal, VERSION, Work},
    paths::printable,
    progress::count,
    session::Session,
    ticket::Secret,
};

/// Most connections without a shown ticket.
const NEWCOMERS_MAX: usize = 32;
/// Most of these from one network.
const NEWCOMERS_PER_NETWORK_MAX: usize = 4;
/// Most senders waiting for their turn.
const WAITING_MAX: usize = 16;
/// Time limit for showing the ticket.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Time between two lines about rejected connections.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Time limit for a waiting sender to receive a message.
const MESSAGE_PATIENCE: Duration = Duration::from_millis(10);

/// Admits the holders of the ticket.
pub(super) struct Admission {
    endpoint: Endpoint,
    secret: Secret,
    authorising: JoinSet<Result<Session, String>>,
    /// Oldest first.
    newcomers: VecDeque<Newcomer>,
    waiting: VecDeque<Session>,
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

impl Admission {
    pub(super) fn new(endpoint: Endpoint, secret: Secret) -> Self {
        Self {
            endpoint,
            secret,
            authorising: JoinSet::new(),
            newcomers: VecDeque::new(),
            waiting: VecDeque::new(),
            turned_away: TurnedAway::default(),
        }
    }

    /// The next sender, if any waits.
    pub(super) fn next_session(&mut self) -> Option<Session> {
        self.waiting.retain(|session| session.connection.close_reason().is_none());
        self.waiting.pop_front()
    }

    /// Handles the next connection: admits it, or rejects it and sometimes returns a line to print.
    ///
    /// Cancel-safe: dropping the future loses no connection.
    pub(super) async fn next_event(&mut self) -> Option<String> {
        tokio::select! {
            incoming = self.endpoint.accept() => match incoming {
                Some(incoming) => self.meet(incoming),
                // The endpoint is closed: nobody can connect any more.
                None => std::future::pending().await,
            },
            Some(authorised) = self.authorising.join_next_with_id() => {
                let (task, session) = match authorised {
                    Ok((task, session)) => (task, session),
                    Err(error) => (error.id(), Err(error.to_string())),
                };
                self.newcomers.retain(|newcomer| newcomer.task != task);
                match session {
                    Ok(session) if self.waiting.len() < WAITING_MAX => self.waiting.push_back(session),
                    Ok(session) => session.connection.close(BUSY, b"too many senders are waiting"),
                    Err(reason) => return self.turned_away.add(reason),
                }
            },
        }
        None
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
        let task = self.authorising.spawn(authorise(incoming, self.secret, evicted)).id();
        self.newcomers.push_back(Newcomer { task, network, evict });
    }

    /// Signals to waiting senders that they are still waiting.
    pub(super) async fn reassure(&mut self) {
        for session in &mut self.waiting {
            let _ = timeout(MESSAGE_PATIENCE, session.sign_of_life(Work::AnotherTransfer)).await;
        }
    }
}

/// Waits for the ticket's secret, unless evicted meanwhile.
async fn authorise(
    incoming: Incoming,
    secret: Secret,
    mut evicted: oneshot::Receiver<()>,
) -> Result<Session, String> {
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
        session = timeout(HELLO_PATIENCE, hello(connection.clone(), secret)) => {
            session.unwrap_or_else(|_| Err("it showed no ticket".to_owned()))
        }
        _ = evicted => {
            connection.close(BUSY, b"is busy");
            Err("other connections needed its slot".to_owned())
        }
    };
    outcome.map_err(|reason| away(&reason))
}

/// Reads the first message, and nothing more until the secret is right.
async fn hello(connection: Connection, secret: Secret) -> Result<Session, String> {
    let (control, messages) = connection.accept_bi().await.map_err(|error| error.to_string())?;
    let mut messages = BufReader::new(messages);
    let hello = message::read::<FromSender>(&mut messages).await.map_err(|error| error.to_string())?;
    let mut session = Session::new(connection, control, message::listen(messages));
    let (refusal, reason) = match hello {
        FromSender::Hello { version, .. } if version != VERSION => {
            (Refusal::Version, format!("the receiver has version {VERSION}, the sender {version}"))
        }
        FromSender::Hello { secret: said, .. } if Secret(said) != secret => {
            (Refusal::Unauthorised, "the secret of the ticket is wrong".to_owned())
        }
        FromSender::Hello { .. } => return Ok(session),
        _ => (Refusal::Manifest, "the first message must be `Hello`".to_owned()),
    };
    session.send_final(&FromReceiver::Refused { refusal, reason: reason.clone() }).await;
    session.connection.close(super::FAILED, b"refused");
    Err(reason)
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
