//! Visitors of a listener, and how they show the ticket.

use rc3_net::Endpoint;

use super::message::{Hello, Request, VERSION};
use crate::transfer::{
    BUSY, REFUSED, UNAUTHORISED,
    newcomers::{Newcomers, Rejection},
    session::Control,
    ticket::Secret,
};

/// A connection that has shown the ticket. Its control stream stays open.
pub(super) struct Visitor {
    pub(super) control: Control,
    pub(super) request: Request,
}

impl Visitor {
    /// Closes the connection of a visitor who is not served now.
    pub(super) fn refuse(&self) {
        match self.request {
            Request::Flows(_) | Request::Probes => {
                self.control.connection.close(BUSY, b"is busy with another check")
            }
            Request::Flow { .. } => self.control.connection.close(REFUSED, b"this flow is not due"),
        }
    }
}

/// The visitors with the ticket's secret.
pub(super) fn newcomers(endpoint: Endpoint, secret: Secret) -> Newcomers<Hello> {
    Newcomers::new(endpoint, move |_, hello: &Hello| {
        let refused = |reason: String| Err(Rejection::new(REFUSED, reason));
        match &hello.request {
            _ if Secret(hello.secret) != secret => {
                Err(Rejection::new(UNAUTHORISED, "the secret of the ticket is wrong"))
            }
            _ if hello.version != VERSION => {
                refused(format!("the listener has version {VERSION}, the visitor {}", hello.version))
            }
            Request::Flows(plan) if !plan.is_bounded() => refused("the plan exceeds the bounds".to_owned()),
            _ => Ok(()),
        }
    })
}
