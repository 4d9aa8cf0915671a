//! What can end a transfer, in words a person can act on.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use thiserror::Error;

use super::{
    identity::IdentityError,
    manifest::{ManifestError, ScanError},
    message::MessageError,
    paths::{printable, printable_path},
    progress::count,
};

/// Why a transfer, or the whole command, ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The files to send cannot be listed.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// There is nothing to send.
    #[error("nothing to send")]
    Nothing,
    /// The receiver's name has no address.
    #[error("cannot find {host}: {error}")]
    Resolve {
        /// From the ticket.
        host: String,
        /// The system's word.
        error: io::Error,
    },
    /// No socket, or no directory.
    #[error("cannot {what}: {error}")]
    Local {
        /// What was tried.
        what: String,
        /// The system's word.
        error: io::Error,
    },
    /// No certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No connection came about.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// Why not.
        reason: String,
    },
    /// The receiver has no place for another sender now.
    #[error("the receiver is busy")]
    Busy,
    /// Nothing moved for so long.
    #[error("nothing moved for {} s", .0.as_secs())]
    Stalled(Duration),
    /// Somebody else answered.
    #[error("{0} is not the receiver that made this ticket")]
    WrongReceiver(SocketAddr),
    /// The ticket's secret is not the receiver's.
    #[error("the receiver rejected the ticket: {0}")]
    Unauthorised(String),
    /// The receiver does not take this.
    #[error("the receiver refuses: {0}")]
    Refused(String),
    /// Something of that name is at the receiver.
    #[error("{0} exists at the receiver")]
    Exists(String),
    /// What arrived is not what was sent.
    #[error("{0} did not arrive as it was sent")]
    NotVerified(String),
    /// The other side could not go on.
    #[error("the other side failed: {0}")]
    Peer(String),
    /// The connection ended too early.
    #[error("lost the connection: {0}")]
    Lost(String),
    /// The other side does not keep to the protocol.
    #[error("protocol violation by peer: {0}")]
    Protocol(String),
    /// A file cannot be read.
    #[error("cannot read {}: {error}", printable_path(path))]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// A file became shorter while it was sent.
    #[error("{} became shorter while it was sent", printable_path(.0))]
    Shrunk(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// Which, fit to print.
        path: String,
        /// The system's word.
        error: io::Error,
    },
    /// Everything is in place except what cannot be sent.
    #[error("{} left out", were(*.0))]
    LeftOut(usize),
    /// Somebody pressed Ctrl-C.
    #[error("interrupted{}", match kept { 0 => String::new(), kept => format!("; what arrived is kept, {} included", count(*kept, "incomplete file")) })]
    Interrupted {
        /// Incomplete files that wait for another try.
        kept: usize,
    },
}

fn were(files: usize) -> String {
    format!("{} {}", count(files, "file"), if files == 1 { "was" } else { "were" })
}

impl TransferError {
    /// A reason the other side gave.
    pub(super) fn peer(reason: &str) -> Self {
        Self::Peer(printable(reason))
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Scan(ScanError::Name { .. }) => "rename it, or pack it into an archive first",
            Self::Scan(ScanError::Twice(_)) => {
                "send them one after the other, or a directory that holds both"
            }
            Self::Scan(ScanError::TooMany) => "pack them into an archive first",
            Self::Scan(ScanError::Io { .. }) | Self::Read { .. } => "check the path and its permissions",
            Self::Nothing => "name at least one file or directory that is not a link, pipe or device",
            Self::Resolve { .. } => "check the host in the ticket; the receiver can set it with --advertise",
            Self::Local { .. } => "check the address or directory given",
            Self::Identity(_) => "check that the system has randomness (/dev/urandom)",
            Self::Connect { .. } => {
                "is `rc3 recv` still running, and does a firewall let UDP through to that port?"
            }
            Self::Busy => "others are using the receiver, or keep it busy; try again later",
            Self::Stalled(_) => "look at the other side's terminal, then run the same command again",
            Self::WrongReceiver(_) => {
                "take the ticket of the `rc3 recv` that runs now; each run makes a new one"
            }
            Self::Unauthorised(_) => "copy the whole ticket of the `rc3 recv` that runs now",
            Self::Refused(_) => {
                "the reason above comes from the receiver; use the same version on both sides"
            }
            Self::Exists(_) => {
                "nothing was overwritten; remove it there, or let the receiver replace files with --force"
            }
            Self::NotVerified(_) => "the file was not kept; was it changed meanwhile? Send it again",
            Self::Peer(_) => "look at the other side's terminal",
            Self::Lost(_) => "run the same command again: what the receiver keeps is not sent again",
            Self::Protocol(_) => "use the same version of rc3 on both sides",
            Self::Shrunk(_) => "send it again when nothing writes to it",
            Self::Write { .. } => {
                "check free space and permissions of the receiving directory; the next try goes on"
            }
            Self::LeftOut(_) => "lines that begin with `left out` say which and why; --quiet hides them",
            Self::Interrupted { .. } => {
                "no incomplete file has its name; run the same command again to go on"
            }
        }
    }
}

impl From<ManifestError> for TransferError {
    fn from(error: ManifestError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<MessageError> for TransferError {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Ended | MessageError::Io(_) => Self::Lost(error.to_string()),
            MessageError::TooLong(_) | MessageError::Malformed => Self::Protocol(error.to_string()),
        }
    }
}
