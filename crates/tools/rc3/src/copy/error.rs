//! Why a copy fails, as messages that users can act on.

use std::{io, time::Duration};

use thiserror::Error;

use crate::transfer::{error::TransferError, paths::printable};

/// Why a copy ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The program for ssh is not there.
    #[error("cannot run {program}: {error}")]
    NoSsh {
        /// The program.
        program: String,
        /// The system error.
        error: io::Error,
    },
    /// ssh reports a failure of its own: exit code 255.
    #[error("ssh to {0} failed")]
    Ssh(String),
    /// The shell there has no such program: exit code 127.
    #[error("{host} has no {program}")]
    NoPeer {
        /// The host.
        host: String,
        /// The program.
        program: String,
    },
    /// Another version of rc3 there.
    #[error("rc3 at {host} has another version: {found}")]
    Version {
        /// The host.
        host: String,
        /// What it said.
        found: String,
    },
    /// The far end answers neither as rc3 nor as a shell.
    #[error("no valid answer from {host}: {reason}")]
    Answer {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The far end does not answer.
    #[error("{host} did not {step} within {} s", patience.as_secs_f64())]
    Silent {
        /// The host.
        host: String,
        /// What it was to do.
        step: &'static str,
        /// The limit.
        patience: Duration,
    },
    /// ssh ended during the transfer.
    #[error("lost ssh to {0}")]
    Lost(String),
    /// The far end reports a failure.
    #[error("{host}: {message}")]
    There {
        /// The host.
        host: String,
        /// From the far end, printable.
        message: String,
        /// From the far end, printable.
        hint: String,
    },
    /// The far end does not know the address at which ssh reached it.
    #[error("{0} does not report its address")]
    NoAddress(String),
    /// No UDP to the far end.
    #[error("UDP {port} of {address} does not answer")]
    NoUdp {
        /// The address.
        address: String,
        /// The port.
        port: u16,
    },
    /// The destination is neither a directory nor in one.
    #[error("cannot copy into {path}: {reason}")]
    Destination {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
    /// See [`TransferError`].
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

impl CopyError {
    /// A failure that the far end reports.
    pub(super) fn there(host: &str, message: &str, hint: &str) -> Self {
        Self::There { host: host.to_owned(), message: printable(message), hint: printable(hint) }
    }

    /// What the user can do.
    pub fn hint(&self) -> &str {
        match self {
            Self::NoSsh { .. } => "install an ssh client, or name one by --ssh",
            Self::Ssh(_) => "the lines above are ssh's; try: ssh HOST true",
            Self::NoPeer { .. } => "install rc3 there, or pass its path by --rc3-path",
            Self::Version { .. } => "install the same version of rc3 on both hosts",
            Self::Answer { .. } => "check that `ssh HOST rc3 --version` prints a version and no other output",
            Self::Silent { .. } => {
                "check that `ssh HOST rc3 --version` prints a version and ends: a login or a start-up file may wait for input"
            }
            Self::Lost(_) => "run the same command again: it sends only what is missing",
            Self::There { hint, .. } => hint,
            Self::NoAddress(_) => "pass its address by --address, or use --via-ssh",
            Self::NoUdp { .. } => {
                "open it there or choose another by --port, pass another --address, or use --via-ssh"
            }
            Self::Destination { .. } => {
                "name an existing directory; a single source may get a new name in one"
            }
            Self::Transfer(error) => error.hint(),
        }
    }
}
