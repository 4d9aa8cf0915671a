//! Connections that have not shown the ticket.
//!
//! Invariant: they exclude nobody. They have few slots, with fewer for each site, and a new one evicts the oldest
//! ([`Slots`]).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_net::{Connection, Endpoint, Incoming, Slot, Slots, VarInt};
use serde::de::DeserializeOwned;
use tokio::{io::BufReader, task::JoinSet, time::timeout};

use super::{BUSY, message, paths::printable, progress::count, session::Control};
use crate::sparse::Sparse;

/// Most connections without a shown ticket.
const NEWCOMERS_MAX: usize = 32;
/// Most of these from one site.
const NEWCOMERS_PER_SITE_MAX: usize = 4;
/// Time limit for showing the ticket, and before that for the handshake.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Why a connection lost its slot.
const EVICTED: &str = "other connections needed its slot";
/// Time between two lines about rejected connections.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Why a peer may not stay.
pub(crate) struct Rejection {
    /// The close code.
    pub(crate) code: VarInt,
    /// The reason, for the peer.
    pub(crate) reason: String,
    /// The reason, for the user of this side.
    pub(crate) details: String,
}

impl Rejection {
    /// The peer learns all of the reason.
    pub(crate) fn new(code: VarInt, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { code, details: reason.clone(), reason }
    }
}

/// Decides whether a peer that begins with this message may stay. Nothing more is read before.
type Check<H> = Arc<dyn Fn(&Connection, &H) -> Result<(), Rejection> + Send + Sync>;

/// Accepts connections, and admits those whose first message is a right `H`.
pub(crate) struct Newcomers<H> {
    endpoint: Endpoint,
    check: Check<H>,
    authorising: JoinSet<Result<(Control, H), String>>,
    slots: Slots,
    turned_away: Sparse,
}

impl<H: DeserializeOwned + Send + 'static> Newcomers<H> {
    /// Accepts connections of this endpoint whose peers pass the check.
    pub(crate) fn new(
        endpoint: Endpoint,
        check: impl Fn(&Connection, &H) -> Result<(), Rejection> + Send + Sync + 'static,
    ) -> Self {
        Self {
            endpoint,
            check: Arc::new(check),
            authorising: JoinSet::new(),
            slots: Slots::new(NEWCOMERS_MAX, NEWCOMERS_PER_SITE_MAX),
            turned_away: Sparse::new(REPORT_EVERY),
        }
    }

    /// The next admitted connection with its first message; or, now and then, a line to print about rejected ones.
    ///
    /// Cancel-safe: dropping the future loses no connection.
    pub(crate) async fn next(&mut self) -> Result<(Control, H), String> {
        loop {
            tokio::select! {
                incoming = self.endpoint.accept() => match incoming {
                    Some(incoming) => {
                        if let Some((incoming, slot)) = self.slots.admit(incoming) {
                            self.authorising.spawn(meet(incoming, Arc::clone(&self.check), slot));
                        }
                    }
                    // The endpoint is closed: nobody can connect any more.
                    None => std::future::pending().await,
                },
                Some(done) = self.authorising.join_next() => {
                    match done.unwrap_or_else(|error| Err(error.to_string())) {
                        Ok(admitted) => return Ok(admitted),
                        Err(reason) => match self.turned_away.pass(Instant::now()) {
                            None => {}
                            Some(0) => return Err(reason),
                            Some(more) => {
                                return Err(format!("{reason}, and {} before", count(more, "connection")));
                            }
                        },
                    }
                },
            }
        }
    }
}

/// Waits for the first message, unless evicted meanwhile.
async fn meet<H: DeserializeOwned>(
    incoming: Incoming,
    check: Check<H>,
    mut slot: Slot,
) -> Result<(Control, H), String> {
    let address = incoming.remote_address();
    let away = |reason: &dyn ToString| format!("rejected {address}: {}", printable(&reason.to_string()));
    let connect = async { incoming.accept()?.await };
    let connection = slot.run(timeout(HELLO_PATIENCE, connect)).await.ok_or_else(|| away(&EVICTED))?;
    let connection = connection.map_err(|_| away(&"no handshake"))?.map_err(|error| away(&error))?;
    let Some(heard) = slot.run(timeout(HELLO_PATIENCE, hear(connection.clone()))).await else {
        connection.close(BUSY, b"is busy");
        return Err(away(&EVICTED));
    };
    let late = || Err(format!("it showed no ticket within {} s", HELLO_PATIENCE.as_secs()));
    let (control, hello) = heard.unwrap_or_else(|_| late()).map_err(|reason| away(&reason))?;
    check(&connection, &hello).map_err(|Rejection { code, reason, details }| {
        connection.close(code, reason.as_bytes());
        away(&details)
    })?;
    Ok((control, hello))
}

async fn hear<H: DeserializeOwned>(connection: Connection) -> Result<(Control, H), String> {
    let (send, recv) = connection.accept_bi().await.map_err(|error| error.to_string())?;
    let mut recv = BufReader::new(recv);
    let hello = message::read(&mut recv).await.map_err(|error| error.to_string())?;
    Ok((Control { connection, send, recv }, hello))
}
