//! Admission of senders: those that have shown the ticket wait for their turn. [`Newcomers`] keeps connections without
//! the ticket from excluding anybody.

use std::{collections::VecDeque, time::Duration};

use rc3_net::{Connection, Endpoint};
use tokio::{io::BufReader, time::timeout};

use super::{
    BUSY,
    message::{self, FromReceiver, FromSender, Refusal, VERSION},
    newcomers::{Authorise, Newcomers},
    session::Session,
    ticket::Secret,
};

/// Most senders waiting for their turn.
const WAITING_MAX: usize = 16;
/// Time limit for a waiting sender to receive a message.
const MESSAGE_PATIENCE: Duration = Duration::from_millis(10);

/// Admits the holders of the ticket.
pub(super) struct Admission {
    newcomers: Newcomers<Senders>,
    waiting: VecDeque<Session>,
}

impl Admission {
    pub(super) fn new(endpoint: Endpoint, secret: Secret) -> Self {
        Self { newcomers: Newcomers::new(endpoint, Senders { secret }), waiting: VecDeque::new() }
    }

    /// The next sender, if any waits.
    pub(super) fn next_session(&mut self) -> Option<Session> {
        self.waiting.retain(|session| session.connection.close_reason().is_none());
        self.waiting.pop_front()
    }

    /// Whether a sender waits.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.iter().any(|session| session.connection.close_reason().is_none())
    }

    /// Handles the next connection: admits it, or rejects it and sometimes returns a line to print.
    ///
    /// Cancel-safe: dropping the future loses no connection.
    pub(super) async fn next_event(&mut self) -> Option<String> {
        match self.newcomers.next().await {
            Ok(session) if self.waiting.len() < WAITING_MAX => self.waiting.push_back(session),
            Ok(session) => session.connection.close(BUSY, b"too many senders are waiting"),
            Err(turned_away) => return Some(turned_away),
        }
        None
    }

    /// Signals to waiting senders that they are still waiting.
    pub(super) async fn reassure(&mut self) {
        for session in &mut self.waiting {
            let _ = timeout(MESSAGE_PATIENCE, session.reassure()).await;
        }
    }
}

/// The senders with the ticket's secret.
#[derive(Clone)]
pub(super) struct Senders {
    pub(super) secret: Secret,
}

impl Authorise for Senders {
    type Authorised = Session;

    async fn authorise(self, connection: Connection) -> Result<Session, String> {
        let (control, messages) = connection.accept_bi().await.map_err(|error| error.to_string())?;
        let mut messages = BufReader::new(messages);
        let hello = message::read::<FromSender>(&mut messages).await.map_err(|error| error.to_string())?;
        let mut session = Session::new(connection, control, message::listen(messages));
        let (refusal, reason) = match hello {
            FromSender::Hello { version, .. } if version != VERSION => {
                (Refusal::Version, format!("the receiver has version {VERSION}, the sender {version}"))
            }
            FromSender::Hello { secret: said, .. } if Secret(said) != self.secret => {
                (Refusal::Unauthorised, "the secret of the ticket is wrong".to_owned())
            }
            FromSender::Hello { .. } => return Ok(session),
            _ => (Refusal::Manifest, "the first message must be `Hello`".to_owned()),
        };
        session.send_final(&FromReceiver::Refused { refusal, reason: reason.clone() }).await;
        session.connection.close(super::FAILED, b"refused");
        Err(reason)
    }
}
