//! Verified file transfer: `rc3 recv` prints a ticket, `rc3 send` takes it.
//!
//! [`message`] defines the protocol, [`ticket`] and [`identity`] authenticate, [`paths`] and [`destination`] confine
//! where files may go. Each file is one stream of raw content: the sender reads what either loop needs next, the
//! receiver writes every chunk at its offset on arrival, tail first or head first ([`content`]), and both hash the
//! bytes in that order ([`tree`]). Existing files are not sent, nor the parts that an interrupted transfer left
//! ([`part`], [`record`], [`gaps`]).

use std::{net::SocketAddr, path::Path, time::Duration};

use rc3_net::{
    Congestion, Connection, ConnectionError, RlpMode, TransportConfig, TransportErrorCode, VarInt,
};

use error::TransferError;
use message::MessageError;

mod admission;
mod agreed;
mod agreement;
mod announced;
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
mod faults;
mod feed;
pub mod gaps;
pub mod holes;
pub mod identity;
mod inbound;
mod links;
pub mod manifest;
pub mod message;
pub(crate) mod moved;
pub mod network;
pub(crate) mod newcomers;
pub(crate) mod once;
mod outbound;
mod outcome;
pub mod part;
pub mod paths;
pub mod patterns;
pub mod pipe;
mod places;
mod plan;
pub mod progress;
mod pulse;
pub mod random;
pub mod reachable;
pub mod receive;
pub mod record;
mod rights;
pub mod send;
mod session;
pub mod source;
pub mod stamp;
pub mod ticket;
pub mod ticket_file;
pub mod tree;
mod unanswered;
pub mod unlisted;

/// Default time after which a silent peer counts as gone. Shorter than usual, because a user is waiting.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most streams of a connection that has not shown the ticket.
const STREAMS_MAX: u32 = 200;

/// Close code of a failed connection.
pub(crate) const FAILED: VarInt = VarInt::from_u32(1);
/// Close code of a connection without a free slot.
pub(crate) const BUSY: VarInt = VarInt::from_u32(3);

/// Transport configuration of both sides, with a directory for qlog files. The peer may open this many streams for
/// files, and one more for the control stream if any. A peer that is silent for `idle_timeout` is gone.
pub(crate) fn transport(
    rlp: RlpMode,
    congestion: Congestion,
    qlog: Option<&Path>,
    streams_max: u32,
    idle_timeout: Duration,
) -> Result<TransportConfig, TransferError> {
    let mut config = TransportConfig::default();
    let milliseconds = u32::try_from(idle_timeout.as_millis()).unwrap_or(u32::MAX);
    // Often enough that a lost packet does not look like a dead peer.
    let keep_alive = idle_timeout * 3 / 10;
    config
        .rlp(rlp)
        .max_idle_timeout(Some(VarInt::from_u32(milliseconds).into()))
        .keep_alive_interval(Some(keep_alive));
    config
        .congestion(congestion)
        .max_concurrent_uni_streams(streams_max.into())
        .max_concurrent_bidi_streams(streams_max.min(1).into());
    let qlog = qlog.map(rc3_net::qlog::directory).transpose();
    config.qlog(
        qlog.map_err(|error| TransferError::Local { what: "make the qlog directory".to_owned(), error })?,
    );
    Ok(config)
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
fn close_code(error: Option<&TransferError>) -> (VarInt, &'static str) {
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
    if let ConnectionError::ApplicationClosed(close) = &error
        && close.error_code == BUSY
    {
        return TransferError::Busy;
    }
    TransferError::Lost(match error {
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

/// The message, or why there is none.
fn heard<M>(connection: &Connection, message: Option<Result<M, MessageError>>) -> Result<M, TransferError> {
    match (message, connection.close_reason()) {
        (Some(Ok(message)), _) => Ok(message),
        (_, Some(error)) => Err(lost(error)),
        (Some(Err(error)), None) => Err(error.into()),
        (None, None) => Err(TransferError::Lost("the control stream ended".to_owned())),
    }
}

/// A background task that failed.
fn background(error: tokio::task::JoinError) -> TransferError {
    TransferError::Local { what: "work in the background".to_owned(), error: error.into() }
}
