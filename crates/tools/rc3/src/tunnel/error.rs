//! Why a tunnel ends, as messages that users can act on.

use std::{io, net::SocketAddr};

use rc3_net::ConnectionError;

use super::{address::Target, open::Answer};
use crate::{
    error::{Error, ErrorKind},
    identity::{file::IdentityFileError, peers::PeersError},
    transfer::{
        REFUSED, UNAUTHORISED, lost,
        message::MessageError,
        paths::{printable, printable_bytes},
    },
};

/// Why a tunnel, or the whole command, ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// Cannot connect.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The reason.
        reason: String,
    },
    /// The peer has no slot for another connection now.
    #[error("the peer is busy")]
    Busy,
    /// The peer has another identity.
    #[error("{0} has another identity than the pinned one")]
    WrongPeer(SocketAddr),
    /// The peer does not know this identity.
    #[error("the peer does not authorise this identity")]
    Unauthorised,
    /// The peer has another version.
    #[error("the peer refuses: {0}")]
    Refused(String),
    /// No such name in `known_peers`.
    #[error("{} is not a known peer", printable(.0))]
    Unknown(String),
    /// See [`IdentityFileError`].
    #[error(transparent)]
    IdentityFile(#[from] IdentityFileError),
    /// See [`PeersError`].
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// Cannot listen here.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system error.
        error: io::Error,
    },
    /// The peer does not listen.
    #[error("the peer does not listen on {address}: {reason}")]
    RemoteListen {
        /// The address there.
        address: SocketAddr,
        /// The peer's reason.
        reason: String,
    },
    /// The target of `--stdio` is out of reach.
    #[error("cannot reach {target}: {answer}")]
    Target {
        /// The target.
        target: Target,
        /// The peer's answer.
        answer: Answer,
    },
    /// A connection ended early.
    #[error("lost the connection: {0}")]
    Lost(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// An error that a transfer has too: no such host, no socket, no certificate, a protocol violation.
    #[error(transparent)]
    Other(Error),
}

impl TunnelError {
    /// What the user can do.
    pub fn hint(&self) -> &str {
        match self {
            Self::Connect { .. } => {
                "check that `rc3 tunnel --listen` runs there and that firewalls pass UDP to that port"
            }
            Self::Busy => "try again later; too many peers are connected or connecting",
            Self::WrongPeer(_) => {
                "another host may pretend to be that peer; if its identity is really new, use a new ticket"
            }
            Self::Unauthorised => {
                "use a ticket of the running `rc3 tunnel --listen`, or add the line of `rc3 tunnel --show-identity` \
                 to authorized_peers there"
            }
            Self::Refused(_) => "use the same version of rc3 on both sides",
            Self::Unknown(_) => {
                "connect once with a ticket of `rc3 tunnel --listen`; later its host or --name is enough"
            }
            Self::IdentityFile(error) => error.hint(),
            Self::Peers(error) => error.hint(),
            Self::Listen { .. } => "choose another address or port, or stop the program that uses it",
            Self::RemoteListen { .. } => {
                "check that the peer runs with --allow-remote-listen and that the port is free"
            }
            Self::Target { answer: Answer::NotAllowed, .. } => {
                "run the peer with --allow HOST:PORT for that target"
            }
            Self::Target { .. } => "check that the target runs and that the peer can reach it",
            Self::Lost(_) => "check the peer and the path, then run the command again",
            Self::Interrupted => "run it again to continue; TCP connections through the tunnel have ended",
            Self::Other(error) => error.hint(),
        }
    }
}

impl From<Error> for TunnelError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Busy => Self::Busy,
            _ => Self::Other(error),
        }
    }
}

impl From<ConnectionError> for TunnelError {
    fn from(error: ConnectionError) -> Self {
        match &error {
            ConnectionError::ApplicationClosed(close) if close.error_code == UNAUTHORISED => {
                Self::Unauthorised
            }
            ConnectionError::ApplicationClosed(close) if close.error_code == REFUSED => {
                Self::Refused(printable_bytes(&close.reason))
            }
            _ => lost(error).into(),
        }
    }
}

impl From<MessageError> for TunnelError {
    fn from(error: MessageError) -> Self {
        Error::from(error).into()
    }
}
