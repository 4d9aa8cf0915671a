//! Who may talk to a receiver: connections that have not shown the ticket, and senders that wait for their turn.
//!
//! Invariant: connections without the ticket lock nobody out. There are few places for them, few of those for
//! one network, and the oldest makes room for the next; when places are short, an address must prove itself.

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

/// Connections that have not shown the ticket, at a time.
const NEWCOMERS_MAX: usize = 32;
/// Those of one network among them.
const NEWCOMERS_PER_NETWORK_MAX: usize = 4;
/// Senders that wait for their turn.
const WAITING_MAX: usize = 16;
/// How long a connection may take to show the ticket.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Between two lines about connections that were turned away.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// How long a waiting sender may take to take a message.
const MESSAGE_PATIENCE: Duration = Duration::from_millis(10);

/// Lets in those who have the ticket.
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

/// What one host can have addresses of: an IPv4 address, or 64 bits of an IPv6 address.
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

    /// The sender whose turn it is, if any waits.
    pub(super) fn next_session(&mut self) -> Option<Session> {
        self.waiting.retain(|session| session.connection.close_reason().is_none());
        self.waiting.pop_front()
    }

    /// Somebody connects, is let in, or is turned away; sometimes there is a line to print about that.
    ///
    /// Dropping the future loses nobody.
    pub(super) async fn next_event(&mut self) -> Option<String> {
        tokio::select! {
            incoming = self.endpoint.accept() => match incoming {
                Some(incoming) => self.meet(incoming),
                // Closed: nobody comes any more.
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
                    Ok(session) => session.connection.close(BUSY, b"too many senders wait"),
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
                // Addresses may be made up: this one begins again, and shows that it is not.
                let _ = incoming.retry();
                return;
            }
            // Of those that have the most, so that few connections lose to many.
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

    /// Tells those who wait that they still do.
    pub(super) async fn reassure(&mut self) {
        for session in &mut self.waiting {
            let _ = timeout(MESSAGE_PATIENCE, session.sign_of_life(Work::AnotherTransfer)).await;
        }
    }
}

/// Waits for the ticket's secret, unless its place is needed.
async fn authorise(
    incoming: Incoming,
    secret: Secret,
    mut evicted: oneshot::Receiver<()>,
) -> Result<Session, String> {
    let address = incoming.remote_address();
    let away = |reason: &dyn ToString| format!("turned away {address}: {}", printable(&reason.to_string()));
    let connect = async { incoming.accept()?.await };
    let connection = tokio::select! {
        biased;
        connection = timeout(HELLO_PATIENCE, connect) => {
            connection.map_err(|_| away(&"no handshake"))?.map_err(|error| away(&error))?
        }
        _ = &mut evicted => return Err(away(&"others needed its place")),
    };
    let outcome = tokio::select! {
        biased;
        session = timeout(HELLO_PATIENCE, hello(connection.clone(), secret)) => {
            session.unwrap_or_else(|_| Err("it showed no ticket".to_owned()))
        }
        _ = evicted => {
            connection.close(BUSY, b"is busy");
            Err("others needed its place".to_owned())
        }
    };
    outcome.map_err(|reason| away(&reason))
}

/// Reads the first message, and nothing else before the secret is right.
async fn hello(connection: Connection, secret: Secret) -> Result<Session, String> {
    let (control, messages) = connection.accept_bi().await.map_err(|error| error.to_string())?;
    let mut messages = BufReader::new(messages);
    let hello = message::read::<FromSender>(&mut messages).await.map_err(|error| error.to_string())?;
    let mut session = Session::new(connection, control, message::listen(messages));
    let (refusal, reason) = match hello {
        FromSender::Hello { version, .. } if version != VERSION => {
            (Refusal::Version, format!("it speaks version {VERSION}, not {version}"))
        }
        FromSender::Hello { secret: said, .. } if Secret(said) != secret => {
            (Refusal::Unauthorised, "the secret of the ticket is wrong".to_owned())
        }
        FromSender::Hello { .. } => return Ok(session),
        _ => (Refusal::Manifest, "it wants to hear `Hello` first".to_owned()),
    };
    session.send_final(&FromReceiver::Refused { refusal, reason: reason.clone() }).await;
    session.connection.close(super::FAILED, b"refused");
    Err(reason)
}

/// What to print about connections that were turned away: a line a second, however many there are.
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
