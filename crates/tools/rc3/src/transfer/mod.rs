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

use std::{net::SocketAddr, time::Duration};

use rc3_net::{Connection, ConnectionError, Endpoint, TransportErrorCode, VarInt};

use crate::{
    error::{Error, ErrorKind},
    notify,
    system::Stop,
};
use conclude::Parting;
use destination::Destination;

pub(crate) mod addresses;
mod agreement;
mod arrivals;
mod arriving;
pub(crate) mod asked;
pub mod attributes;
mod callers;
mod claims;
pub(crate) mod conclude;
pub mod content;
pub mod destination;
pub(crate) mod direct;
#[cfg(test)]
mod every_message;
pub mod expected;
pub mod gaps;
pub mod holes;
pub mod identity;
pub(crate) mod inbound;
mod links;
pub mod manifest;
pub(crate) mod mapping;
pub mod meet;
pub mod message;
pub(crate) mod moved;
pub mod network;
pub(crate) mod newcomers;
mod openers;
pub mod outage;
pub(crate) mod outbound;
pub mod part;
pub mod paths;
pub mod patterns;
mod places;
pub mod progress;
pub(crate) mod pulse;
pub(crate) mod punch;
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
mod xattr;

/// Close code of a failed connection.
pub(crate) const FAILED: VarInt = VarInt::from_u32(1);
/// Close code of a connection without a free slot.
pub(crate) const BUSY: VarInt = VarInt::from_u32(3);
/// Close code of a connection of another version, or with a request that is out of bounds.
pub(crate) const REFUSED: VarInt = VarInt::from_u32(4);
/// Close code of a connection with the wrong secret or identity.
pub(crate) const UNAUTHORISED: VarInt = VarInt::from_u32(5);
/// Close code of a sender that waited for a receiver of one transfer, which was another's.
const ENDED: VarInt = VarInt::from_u32(6);

/// Close code of a service that is stopped, and may be started again with the same identity at the same port.
pub(crate) const STOPPED: VarInt = VarInt::from_u32(7);
/// The reason that goes with it.
pub(crate) const STOPPED_REASON: &str = "was stopped, and may be started again";

/// When to look at the progress of a transfer.
fn ticks() -> tokio::time::Interval {
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tick
}

/// Returns on Ctrl-C or a request to terminate.
pub async fn interrupted() {
    stopped_by().await;
}

/// The same, with what it was. From the call on, SIGTERM does not end this process otherwise: a service must be ready to
/// stop before it reports that it is ready.
pub(crate) fn stopped_by() -> impl Future<Output = Stop> {
    let terminated = crate::system::terminated();
    async {
        let stop = tokio::select! {
            _ = tokio::signal::ctrl_c() => Stop::Interrupt,
            stop = terminated => stop,
        };
        notify::stopping();
        stop
    }
}

/// Runs a service, which is ready with this status, until something stops it. Its peers receive the reason before their
/// connections are dropped.
pub(crate) async fn serve_until_stopped(
    endpoint: &Endpoint,
    serving: impl Future<Output = ()>,
    status: &str,
) -> Stop {
    let mut serving = Box::pin(serving);
    let stopped = stopped_by();
    notify::ready(status);
    let stop = tokio::select! {
        () = &mut serving => Stop::default(),
        stop = stopped => stop,
    };
    let (code, reason) = match stop {
        Stop::Terminate => (STOPPED, STOPPED_REASON),
        Stop::Interrupt => (FAILED, "was interrupted"),
    };
    endpoint.close(code, reason.as_bytes());
    drop(serving);
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    stop
}

/// How a side ends that receives into `destination`, if it does. After a success the peer knows the outcome: its last
/// message, or the acknowledgement of it, has arrived.
pub(crate) fn parting(error: Option<&Error>, destination: Option<&Destination>) -> Parting {
    let interrupted = VarInt::from_u32(2);
    let (code, reason) = match (error.map(Error::kind), destination) {
        (None | Some(ErrorKind::LeftOut(_)), _) => (VarInt::from_u32(0), "done"),
        (Some(ErrorKind::Interrupted), Some(there)) if there.policy().discard_partial => {
            (interrupted, "was interrupted, and deletes what is incomplete")
        }
        (Some(ErrorKind::Interrupted), Some(_)) => (interrupted, "was interrupted, and keeps what arrived"),
        (Some(ErrorKind::Terminated), _) => (STOPPED, STOPPED_REASON),
        (Some(ErrorKind::Interrupted), None) => (interrupted, "was interrupted"),
        (Some(_), _) => (FAILED, "failed"),
    };
    Parting { code, reason, is_needed: code != VarInt::from_u32(0) }
}

/// The end of a connection as text.
pub(crate) fn lost(error: ConnectionError) -> Error {
    let reason = match error {
        ConnectionError::ApplicationClosed(close) => {
            let reason = paths::printable_bytes(&close.reason);
            match close.error_code {
                BUSY => return Error::busy(),
                STOPPED => return Error::gone(format!("the other side {STOPPED_REASON}")),
                REFUSED => return Error::refused(reason),
                ENDED => {
                    let message = "the receiver took another sender's transfer, and has ended";
                    let hint = "start it again; with `rc3 recv --keep` it serves several senders";
                    return Error::new(ErrorKind::Other, message, hint);
                }
                UNAUTHORISED => {
                    let message = format!("the other side rejects this host: {reason}");
                    let hint = "copy the whole ticket of the command that runs on the other side";
                    return Error::new(ErrorKind::Refused, message, hint);
                }
                _ if reason.is_empty() => "the other side closed it".to_owned(),
                _ => format!("the other side {reason}"),
            }
        }
        ConnectionError::TimedOut => return Error::gone("the other side stopped responding"),
        ConnectionError::Reset => return Error::gone("the other side was restarted"),
        error => paths::printable(&error.to_string()),
    };
    Error::lost(reason)
}

/// Why there is no connection to the other side, where `command` should run.
pub(crate) fn not_connected(address: SocketAddr, command: &str, error: ConnectionError) -> Error {
    // TLS alert 49, access_denied: our check of the certificate failed. 120: no_application_protocol.
    let reason = match &error {
        _ if is_busy(&error) => return Error::busy(),
        ConnectionError::TransportError(error) if error.code == TransportErrorCode::crypto(49) => {
            let message = format!("{address} is not the host that made this ticket");
            let hint = format!(
                "use the ticket of the running `{command}`; without --identity each run makes a new one"
            );
            return Error::new(ErrorKind::WrongPeer, message, hint);
        }
        ConnectionError::ConnectionClosed(close) if close.error_code == TransportErrorCode::crypto(120) => {
            return Error::refused("it has another protocol version");
        }
        ConnectionError::TimedOut => "no answer".to_owned(),
        error => error.to_string(),
    };
    no_connection(address, command, &reason)
}

/// There is no connection, for this reason.
pub(crate) fn no_connection(address: SocketAddr, command: &str, reason: &str) -> Error {
    Error::new(
        ErrorKind::Connect,
        format!("cannot connect to {address}: {}", paths::printable(reason)),
        format!("check that `{command}` still runs there and that firewalls pass UDP to that port"),
    )
}

/// The end of a connection before any message of the receiver.
fn before_any_reply(error: ConnectionError) -> Error {
    if is_busy(&error) { Error::busy() } else { lost(error) }
}

/// Whether the end of a connection before any message means that the other side had no free slot: it gives no reason.
fn is_busy(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::ConnectionClosed(close) => {
            [TransportErrorCode::CONNECTION_REFUSED, TransportErrorCode::APPLICATION_ERROR]
                .contains(&close.error_code)
        }
        ConnectionError::ApplicationClosed(close) => close.error_code == BUSY || close.reason.is_empty(),
        _ => false,
    }
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        lost(error)
    }
}

/// Why a connection has ended, or what the peer did if it is still open.
pub(crate) fn ended(connection: &Connection, otherwise: impl Into<Error>) -> Error {
    connection.close_reason().map_or_else(|| otherwise.into(), lost)
}

/// A background task that failed.
fn background(error: tokio::task::JoinError) -> Error {
    Error::local("work in the background", error)
}
