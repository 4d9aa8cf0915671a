//! Verified file transfer: `rc3 recv` prints a ticket, `rc3 send` takes it.
//!
//! The conversation is in [`message`], who may hold it in [`ticket`] and [`identity`], where files may go in
//! [`paths`] and [`destination`]. Content goes raw, one stream per file, from file to file: the sender reads
//! what either loop needs next, the receiver writes every chunk where it belongs as it comes, tail first or head
//! first ([`content`]), and both hash what passes in whatever order ([`tree`]). What is there already is not sent,
//! nor what a broken transfer left of a file ([`part`], [`record`], [`gaps`]).

use std::{path::Path, time::Duration};

use rc3_net::{Congestion, Connection, ConnectionError, RlpMode, TransportConfig, VarInt};

use error::TransferError;
use message::MessageError;

mod admission;
mod agreement;
pub mod content;
pub mod destination;
pub mod error;
pub mod gaps;
pub mod identity;
mod inbound;
pub mod manifest;
pub mod message;
pub mod network;
mod outbound;
pub mod part;
pub mod paths;
pub mod progress;
pub mod random;
pub mod reachable;
pub mod receive;
pub mod record;
pub mod send;
mod session;
pub mod source;
pub mod ticket;
pub mod ticket_file;
pub mod tree;

/// Milliseconds of silence after which the other side is given up. Shorter than usual: somebody watches.
const IDLE_TIMEOUT: VarInt = VarInt::from_u32(10_000);
/// Often enough that a disk that takes its time is not mistaken for silence.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// Files on their way at a time.
const STREAMS_MAX: u32 = 200;

/// Code of a connection that failed.
const FAILED: VarInt = VarInt::from_u32(1);
/// Code of a connection for which there is no place now.
const BUSY: VarInt = VarInt::from_u32(3);

/// Transport settings of both sides, with a directory for qlog files; the peer may open so many streams for files,
/// and one more for the conversation if any.
fn transport(
    rlp: RlpMode,
    congestion: Congestion,
    qlog: Option<&Path>,
    streams_max: u32,
) -> Result<TransportConfig, TransferError> {
    let mut config = TransportConfig::default();
    config.rlp(rlp).max_idle_timeout(Some(IDLE_TIMEOUT.into())).keep_alive_interval(Some(KEEP_ALIVE));
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

/// Returns when somebody wants this to end: Ctrl-C, or a request to terminate.
async fn interrupted() {
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
        // No signals here: the system ends us by itself.
        std::future::pending::<()>().await;
    }
}

/// With which code and words to close a connection.
fn close_code(outcome: &Result<(), TransferError>) -> (VarInt, &'static str) {
    match outcome {
        Ok(()) => (VarInt::from_u32(0), "done"),
        Err(TransferError::Interrupted { .. }) => (VarInt::from_u32(2), "was interrupted"),
        Err(_) => (FAILED, "failed"),
    }
}

/// The end of a connection, in words for people.
fn lost(error: ConnectionError) -> TransferError {
    if let ConnectionError::ApplicationClosed(close) = &error
        && close.error_code == BUSY
    {
        return TransferError::Busy;
    }
    TransferError::Lost(match error {
        ConnectionError::TimedOut => "the other side fell silent".to_owned(),
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

/// A message, or why there is none.
fn heard<M>(connection: &Connection, message: Option<Result<M, MessageError>>) -> Result<M, TransferError> {
    match (message, connection.close_reason()) {
        (Some(Ok(message)), _) => Ok(message),
        (_, Some(error)) => Err(lost(error)),
        (Some(Err(error)), None) => Err(error.into()),
        (None, None) => Err(TransferError::Lost("the control stream ended".to_owned())),
    }
}

/// Work on another thread that did not come to its end.
fn background(error: tokio::task::JoinError) -> TransferError {
    TransferError::Local { what: "work in the background".to_owned(), error: error.into() }
}
