//! Visitors of a listener, and how they show the ticket.

use rc3_net::{Connection, RecvStream, SendStream};

use super::{
    REFUSED, UNAUTHORISED,
    message::{Hello, Request, VERSION},
};
use crate::transfer::{BUSY, message, newcomers::Authorise, ticket::Secret};

/// A connection that has shown the ticket.
pub(super) struct Visitor {
    pub(super) connection: Connection,
    pub(super) control: SendStream,
    /// Stays open: dropping it would stop the visitor's half of the stream.
    pub(super) _requests: RecvStream,
    pub(super) request: Request,
}

impl Visitor {
    /// Closes the connection of a visitor who is not served now.
    pub(super) fn refuse(&self) {
        match self.request {
            Request::Flows(_) | Request::Probes => self.connection.close(BUSY, b"is busy with another check"),
            Request::Flow { .. } => self.connection.close(REFUSED, b"this flow is not due"),
        }
    }
}

/// The visitors with the ticket's secret.
#[derive(Clone)]
pub(super) struct Visitors {
    pub(super) secret: Secret,
}

impl Authorise for Visitors {
    type Authorised = Visitor;

    async fn authorise(self, connection: Connection) -> Result<Visitor, String> {
        let (control, mut requests) = connection.accept_bi().await.map_err(|error| error.to_string())?;
        let hello = message::read::<Hello>(&mut requests).await.map_err(|error| error.to_string())?;
        let (code, reason) = match &hello.request {
            _ if Secret(hello.secret) != self.secret => {
                (UNAUTHORISED, "the secret of the ticket is wrong".to_owned())
            }
            _ if hello.version != VERSION => {
                (REFUSED, format!("the listener has version {VERSION}, the visitor {}", hello.version))
            }
            Request::Flows(plan) if !plan.is_bounded() => (REFUSED, "the plan exceeds the bounds".to_owned()),
            _ => return Ok(Visitor { connection, control, _requests: requests, request: hello.request }),
        };
        connection.close(code, reason.as_bytes());
        Err(reason)
    }
}
