//! Why a check ends early, as messages that users can act on.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use rc3_net::{Connection, ConnectionError};
use rc3_text::units::about_time;

use crate::{
    error::{Error, ErrorKind},
    transfer::{
        REFUSED, UNAUTHORISED, lost,
        message::MessageError,
        paths::{printable, printable_path},
    },
};

/// Why a check, or the whole command, ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// Cannot connect.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The reason.
        reason: String,
    },
    /// Another check runs there.
    #[error("the listener is busy with another check")]
    Busy,
    /// The peer's certificate is not that of the ticket.
    #[error("{0} is not the listener that made this ticket")]
    WrongListener(SocketAddr),
    /// The listener does not accept the ticket's secret.
    #[error("the listener rejected the ticket")]
    Unauthorised,
    /// The listener refuses the plan, the flow or the version.
    #[error("the listener refuses: {0}")]
    Refused(String),
    /// No bytes or messages for this long.
    #[error("no progress for {}", about_time(*.0))]
    Stalled(Duration),
    /// A flow needs too long.
    #[error("a flow took longer than {}", about_time(*.0))]
    TooSlow(Duration),
    /// What arrived is not what was sent.
    #[error("a flow arrived damaged")]
    Damaged,
    /// The connection ended early.
    #[error("lost the connection: {0}")]
    Lost(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// No answer to any probe, after the listener had agreed to answer.
    #[error("the listener did not answer any probe")]
    NoAnswer,
    /// This host does not let it work.
    #[error("cannot {what}: {error}")]
    Local {
        /// The failed operation.
        what: &'static str,
        /// The system error.
        error: io::Error,
    },
    /// The picture cannot be written.
    #[error("cannot write {}: {error}", printable_path(path))]
    Picture {
        /// The file.
        path: PathBuf,
        /// The system error.
        error: io::Error,
    },
    /// An error that a transfer has too: no such host, no socket, no certificate, a protocol violation.
    #[error(transparent)]
    Other(Error),
}

impl CheckError {
    /// What the user can do.
    pub fn hint(&self) -> &str {
        match self {
            Self::Connect { .. } => {
                "check that `rc3 check --listen` still runs and that firewalls pass UDP to that port"
            }
            Self::Busy => "try again when it has ended, or start another `rc3 check --listen`",
            Self::WrongListener(_) => {
                "use the ticket of the running `rc3 check --listen`; each run makes a new one"
            }
            Self::Unauthorised => "copy the whole ticket of the running `rc3 check --listen`",
            Self::Refused(_) => "use the same version of rc3 on both sides",
            Self::Stalled(_) | Self::Lost(_) => {
                "check the other side's terminal and the path, then run it again"
            }
            Self::TooSlow(_) => "choose smaller --sizes for this path",
            Self::Damaged => "this is a bug: please report it",
            Self::Interrupted => "run it again with fewer --runs or smaller --sizes if it takes too long",
            Self::NoAnswer => "check that firewalls pass UDP to that port from every port of this host",
            Self::Local { .. } => "check the address and the system's limits",
            Self::Picture { .. } => "check free space and permissions",
            Self::Other(error) => error.hint(),
        }
    }

    /// The end of a connection to the listener, or what the peer did if it is still open.
    pub(super) fn of(connection: &Connection, error: impl Into<Self>) -> Self {
        connection.close_reason().map_or_else(|| error.into(), Self::from)
    }

    /// A failure of this host to do `what`.
    pub(super) fn local(what: &'static str) -> impl Fn(io::Error) -> Self + Copy {
        move |error| Self::Local { what, error }
    }

    /// A peer that violates the protocol.
    pub(super) fn protocol(what: &str) -> Self {
        Self::Other(Error::protocol(what))
    }
}

impl From<Error> for CheckError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Busy => Self::Busy,
            _ => Self::Other(error),
        }
    }
}

impl From<ConnectionError> for CheckError {
    fn from(error: ConnectionError) -> Self {
        match &error {
            ConnectionError::ApplicationClosed(close) if close.error_code == UNAUTHORISED => {
                Self::Unauthorised
            }
            ConnectionError::ApplicationClosed(close) if close.error_code == REFUSED => {
                Self::Refused(printable(&String::from_utf8_lossy(&close.reason)))
            }
            _ => lost(error).into(),
        }
    }
}

impl From<MessageError> for CheckError {
    fn from(error: MessageError) -> Self {
        Error::from(error).into()
    }
}
