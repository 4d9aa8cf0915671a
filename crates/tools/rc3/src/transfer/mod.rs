//! Verified file transfer: `rc3 recv` prints a ticket, `rc3 send` takes it; `rc3 copy` carries both through ssh.
//!
//! One conversation, whatever starts it:
//!
//! ```text
//!   send    receive   copy (ssh)      what starts it
//!      \       |       / side
//!       meet: connect, or listen      the ticket or secret, by `newcomers`
//!               |
//!        session::Channel             messages of the control stream
//!         /            \
//!   outbound            inbound       files, streams and time
//!   Sender              agreement, Arrivals   what to do next, without any of them
//!      |                   |
//!   manifest, source    destination, part, content   the file system
//! ```
//!
//! [`message`] defines the protocol, [`ticket`] and [`identity`] authenticate, [`paths`], `asked` and [`destination`]
//! confine where files may go, [`verdict`] says what became of each. Each file is one stream of raw content: the sender
//! reads what either loop needs next, the receiver writes every chunk at its offset on arrival, tail first or head first
//! ([`content`]), and both hash the bytes in that order ([`tree`]). Existing files are not sent, nor the parts that an
//! interrupted transfer left ([`part`], [`record`], [`gaps`]). A pipe is an entry of unknown length, read and written in
//! order.
//!
//! Places for what is not there yet: connecting again after an outage, and to several addresses at once, belong into
//! [`meet`]; sending before the manifest is agreed belongs into `Sender::next_file`.

use std::{net::SocketAddr, time::Duration};

use rc3_net::{ConnectionError, TransportErrorCode, VarInt};

use error::TransferError;
use meet::{OTHER_VERSION, UNAUTHORISED};

mod agreement;
mod arrivals;
mod arriving;
pub(crate) mod asked;
mod claims;
pub(crate) mod conclude;
pub mod content;
pub mod destination;
pub mod error;
#[cfg(test)]
mod every_message;
pub mod expected;
pub mod gaps;
pub mod holes;
pub mod identity;
pub(crate) mod inbound;
mod links;
pub mod manifest;
pub mod meet;
pub mod message;
pub(crate) mod moved;
pub mod network;
pub(crate) mod newcomers;
pub(crate) mod outbound;
pub mod part;
pub mod paths;
pub mod patterns;
mod places;
pub mod progress;
mod pulse;
pub mod random;
pub mod reachable;
pub mod receive;
pub mod record;
mod rights;
pub mod send;
mod sender;
pub(crate) mod session;
pub(crate) mod side;
pub mod source;
pub mod stamp;
pub mod ticket;
pub mod ticket_file;
pub mod tree;
pub mod unlisted;
pub mod verdict;

/// Default time after which a silent peer counts as gone. Shorter than usual, because a user is waiting.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Close code of a failed connection.
pub(crate) const FAILED: VarInt = VarInt::from_u32(1);
/// Close code of a connection without a free slot.
pub(crate) const BUSY: VarInt = VarInt::from_u32(3);

/// When to look at the progress of a transfer.
fn ticks() -> tokio::time::Interval {
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tick
}

/// Returns on Ctrl-C or a request to terminate.
pub(crate) async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // No such signals here: the system ends the process itself.
        std::future::pending::<()>().await;
    }
}

/// Close code and reason for a connection.
pub(crate) fn close_code(error: Option<&TransferError>) -> (VarInt, &'static str) {
    match error {
        None => (VarInt::from_u32(0), "done"),
        Some(TransferError::Interrupted { .. }) => (VarInt::from_u32(2), "was interrupted"),
        Some(TransferError::Pipe(error)) if matches!(**error, TransferError::Interrupted { .. }) => {
            (VarInt::from_u32(2), "was interrupted")
        }
        Some(_) => (FAILED, "failed"),
    }
}

/// The end of a connection as text.
pub(crate) fn lost(error: ConnectionError) -> TransferError {
    TransferError::Lost(match error {
        ConnectionError::ApplicationClosed(close) if close.error_code == BUSY => return TransferError::Busy,
        ConnectionError::ApplicationClosed(close)
            if [UNAUTHORISED, OTHER_VERSION].contains(&close.error_code) =>
        {
            let reason = paths::printable(&String::from_utf8_lossy(&close.reason));
            let is_version = close.error_code == OTHER_VERSION;
            return if is_version {
                TransferError::Refused(reason)
            } else {
                TransferError::Unauthorised(reason)
            };
        }
        ConnectionError::TimedOut => "the other side stopped responding".to_owned(),
        ConnectionError::Reset => "the other side was restarted".to_owned(),
        ConnectionError::ApplicationClosed(close) if close.reason.is_empty() => {
            "the other side closed it".to_owned()
        }
        ConnectionError::ApplicationClosed(close) => {
            format!("the other side {}", paths::printable(&String::from_utf8_lossy(&close.reason)))
        }
        error => paths::printable(&error.to_string()),
    })
}

/// Why there is no connection.
pub(crate) fn not_connected(address: SocketAddr, error: ConnectionError) -> TransferError {
    // TLS alert 49, access_denied: our check of the certificate failed. 120: no_application_protocol.
    let reason = match before_any_reply(error.clone()) {
        TransferError::Busy => return TransferError::Busy,
        _ => match error {
            ConnectionError::TransportError(error) if error.code == TransportErrorCode::crypto(49) => {
                return TransferError::WrongReceiver(address);
            }
            ConnectionError::ConnectionClosed(close)
                if close.error_code == TransportErrorCode::crypto(120) =>
            {
                return TransferError::Refused("it has another protocol version".to_owned());
            }
            ConnectionError::TimedOut => "no answer".to_owned(),
            error => error.to_string(),
        },
    };
    TransferError::Connect { address, reason: paths::printable(&reason) }
}

/// The end of a connection before any message of the receiver. Without a reason, the receiver had no free slot.
fn before_any_reply(error: ConnectionError) -> TransferError {
    let busy = match &error {
        ConnectionError::ConnectionClosed(close) => {
            [TransportErrorCode::CONNECTION_REFUSED, TransportErrorCode::APPLICATION_ERROR]
                .contains(&close.error_code)
        }
        ConnectionError::ApplicationClosed(close) => close.error_code == BUSY || close.reason.is_empty(),
        _ => false,
    };
    if busy { TransferError::Busy } else { lost(error) }
}

/// A background task that failed.
fn background(error: tokio::task::JoinError) -> TransferError {
    TransferError::local("work in the background", error.into())
}
