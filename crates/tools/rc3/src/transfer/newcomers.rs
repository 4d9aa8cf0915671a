//! Connections that have not shown the ticket.
//!
//! Invariant: they exclude nobody. They have few slots, with fewer for each network, and a new one evicts the oldest
//! ([`Slots`]).

use std::{
    future::Future,
    time::{Duration, Instant},
};

use rc3_net::{Connection, Endpoint, Incoming, Slot, Slots};
use tokio::{task::JoinSet, time::timeout};

use super::{BUSY, paths::printable, progress::count};

/// Most connections without a shown ticket.
const NEWCOMERS_MAX: usize = 32;
/// Most of these from one network.
const NEWCOMERS_PER_NETWORK_MAX: usize = 4;
/// Time limit for showing the ticket, and before that for the handshake.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Why a connection lost its slot.
const EVICTED: &str = "other connections needed its slot";
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
    slots: Slots,
    turned_away: TurnedAway,
}

impl<A: Authorise> Newcomers<A> {
    /// Accepts connections of this endpoint.
    pub(crate) fn new(endpoint: Endpoint, authority: A) -> Self {
        Self {
            endpoint,
            authority,
            authorising: JoinSet::new(),
            slots: Slots::new(NEWCOMERS_MAX, NEWCOMERS_PER_NETWORK_MAX),
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
                Some(done) = self.authorising.join_next() => {
                    match done.unwrap_or_else(|error| Err(error.to_string())) {
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
        if let Some((incoming, slot)) = self.slots.admit(incoming) {
            self.authorising.spawn(meet(incoming, self.authority.clone(), slot));
        }
    }
}

/// Waits for the ticket's secret, unless evicted meanwhile.
async fn meet<A: Authorise>(
    incoming: Incoming,
    authority: A,
    mut slot: Slot,
) -> Result<A::Authorised, String> {
    let address = incoming.remote_address();
    let away = |reason: &dyn ToString| format!("rejected {address}: {}", printable(&reason.to_string()));
    let connect = async { incoming.accept()?.await };
    let connection = slot.run(timeout(HELLO_PATIENCE, connect)).await.ok_or_else(|| away(&EVICTED))?;
    let connection = connection.map_err(|_| away(&"no handshake"))?.map_err(|error| away(&error))?;
    let Some(outcome) = slot.run(timeout(HELLO_PATIENCE, authority.authorise(connection.clone()))).await
    else {
        connection.close(BUSY, b"is busy");
        return Err(away(&EVICTED));
    };
    let late = || Err(format!("it showed no ticket within {} s", HELLO_PATIENCE.as_secs()));
    outcome.unwrap_or_else(|_| late()).map_err(|reason| away(&reason))
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
    fn a_line_a_second_is_printed_about_any_number_of_connections() {
        let mut turned_away = TurnedAway::default();
        assert_eq!(turned_away.add("a".to_owned()).as_deref(), Some("a"));
        assert!((0..1000).all(|_| turned_away.add("b".to_owned()).is_none()));
        turned_away.printed = Instant::now().checked_sub(REPORT_EVERY);
        assert_eq!(turned_away.add("c".to_owned()).as_deref(), Some("c, and 1000 connections before"));
    }
}
