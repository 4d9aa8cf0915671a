//! Why a transfer ends early, as messages that users can act on.

use std::{io, net::SocketAddr, time::Duration};

use rc3_text::units::about_bytes;
use thiserror::Error;

use super::{
    expected::ManifestError, identity::IdentityError, manifest::ScanError, message::MessageError,
    paths::printable, progress::count,
};
use crate::identity::file::IdentityFileError;

/// Why a transfer, or the whole command, ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The files to send cannot be listed.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// There are no files to send.
    #[error("nothing to send")]
    Nothing,
    /// The receiver's name does not resolve.
    #[error("cannot find {host}: {error}")]
    Resolve {
        /// From the ticket.
        host: String,
        /// The system error.
        error: io::Error,
    },
    /// Cannot open a socket or directory.
    #[error("cannot {what}: {error}")]
    Local {
        /// The failed operation.
        what: String,
        /// The system error.
        error: io::Error,
    },
    /// Cannot make a certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The identity file cannot be used.
    #[error(transparent)]
    IdentityFile(#[from] IdentityFileError),
    /// Cannot connect.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The reason.
        reason: String,
    },
    /// The receiver has no slot for another sender now.
    #[error("the receiver is busy")]
    Busy,
    /// No progress for this long.
    #[error("no progress for {} s", .0.as_secs())]
    Stalled(Duration),
    /// The sender does not go on with the agreement on what to send.
    #[error("the sender did not send {step} within {} s", patience.as_secs_f64())]
    Silent {
        /// The missing message.
        step: &'static str,
        /// The limit.
        patience: Duration,
    },
    /// The peer's certificate is not that of the ticket.
    #[error("{0} is not the receiver that made this ticket")]
    WrongReceiver(SocketAddr),
    /// The receiver does not accept the ticket's secret.
    #[error("the receiver rejected the ticket: {0}")]
    Unauthorised(String),
    /// The receiver refuses the manifest.
    #[error("the receiver refuses: {0}")]
    Refused(String),
    /// Files that exist at the receiver with other content, and were not replaced.
    #[error("{} at the receiver with other content", exist(*.0))]
    Conflicts(usize),
    /// The receiver's disk has not enough space.
    #[error("{} needed, {} free", about_bytes(*needed), about_bytes(*free))]
    NoSpace {
        /// Bytes to write.
        needed: u64,
        /// Free bytes.
        free: u64,
    },
    /// The received content differs from the sent content.
    #[error("{0} arrived damaged")]
    NotVerified(String),
    /// The other side cannot continue.
    #[error("the other side failed: {0}")]
    Peer(String),
    /// The connection ended early.
    #[error("lost the connection: {0}")]
    Lost(String),
    /// The peer violated the protocol.
    #[error("protocol violation by peer: {0}")]
    Protocol(String),
    /// The sender names something else than it was asked for.
    #[error("the other side sends something that was not asked for")]
    Unasked,
    /// The sender names nothing of what it was asked for.
    #[error("the other side sends nothing of what was asked for")]
    Unanswered,
    /// A file cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// The file, printable.
        path: String,
        /// The system error.
        error: io::Error,
    },
    /// Standard input cannot be read.
    #[error("cannot read standard input: {0}")]
    Input(io::Error),
    /// Standard output takes no more bytes.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// A transfer of a pipe ended early.
    #[error("{0}")]
    Pipe(Box<Self>),
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
    /// The far end of a copy answers neither as rc3 nor as a shell.
    #[error("no valid answer from {host}: {reason}")]
    Answer {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The far end of a copy does not answer.
    #[error("{host} did not {step} within {} s", patience.as_secs_f64())]
    Unresponsive {
        /// The host.
        host: String,
        /// What it was to do.
        step: &'static str,
        /// The limit.
        patience: Duration,
    },
    /// The far end of a copy reports a failure.
    #[error("{host}: {message}")]
    There {
        /// The host.
        host: String,
        /// From the far end, printable.
        message: String,
        /// From the far end, printable.
        hint: String,
    },
    /// The far end of a copy does not know the address at which ssh reached it.
    #[error("{0} does not report its address")]
    NoAddress(String),
    /// No UDP to the far end of a copy.
    #[error("UDP {port} of {address} does not answer")]
    NoUdp {
        /// The address.
        address: String,
        /// The port.
        port: u16,
    },
    /// Everything is in place except the skipped files.
    #[error("{} left out", were(*.0))]
    LeftOut(usize),
    /// The user pressed Ctrl-C.
    #[error("interrupted{}", match kept { 0 => String::new(), kept => format!("; what arrived is kept, {} included", count(*kept, "incomplete file")) })]
    Interrupted {
        /// Number of incomplete files kept for another run.
        kept: usize,
    },
}

/// Pipes have nothing to continue from.
const RESTART: &str = "pipes cannot be continued: run both commands again from the start";

fn were(files: usize) -> String {
    format!("{} {}", count(files, "file"), if files == 1 { "was" } else { "were" })
}

fn exist(files: usize) -> String {
    format!("{} exist{}", count(files, "file"), if files == 1 { "s" } else { "" })
}

impl TransferError {
    /// A failed operation on this host.
    pub(crate) fn local(what: impl Into<String>, error: io::Error) -> Self {
        Self::Local { what: what.into(), error }
    }

    /// Marks an error as one of a transfer that cannot be continued.
    pub(super) fn of_pipe(error: Self) -> Self {
        Self::Pipe(Box::new(error))
    }

    /// A reason given by the other side.
    pub(super) fn peer(reason: &str) -> Self {
        Self::Peer(printable(reason))
    }

    /// What the user can do.
    pub fn hint(&self) -> &str {
        match self {
            Self::Scan(ScanError::Name { .. }) => "rename it, or pack it into an archive first",
            Self::Scan(ScanError::Twice(_)) => {
                "send them one after the other, or send a directory that holds both"
            }
            Self::Scan(ScanError::TooMany) => "pack them into an archive first",
            Self::Scan(ScanError::Io { .. }) => "check the path and its permissions",
            Self::Nothing => "name at least one file or directory that is not a link, pipe or device",
            Self::Resolve { .. } => "check the host in the ticket; the receiver can set it with --advertise",
            Self::Local { .. } => "check the given address or directory",
            Self::Identity(_) => "check that the system provides random numbers (/dev/urandom)",
            Self::IdentityFile(error) => error.hint(),
            Self::Connect { .. } => {
                "check that `rc3 recv` still runs and that firewalls pass UDP to that port"
            }
            Self::Busy => "other senders are using the receiver; try again later",
            Self::Stalled(_) | Self::Silent { .. } => {
                "check the other side's terminal, then run the same command again"
            }
            Self::WrongReceiver(_) => {
                "use the ticket of the running `rc3 recv`; each run without --identity makes a new one"
            }
            Self::Unauthorised(_) => "copy the whole ticket of the running `rc3 recv`",
            Self::Refused(_) => {
                "the reason above comes from the receiver; use the same version on both sides"
            }
            Self::Conflicts(_) => {
                "all others are in place; run the receiver with --force to replace them, or with --keep-both"
            }
            Self::NoSpace { .. } => "free some space at the receiver, then run the same command again",
            Self::NotVerified(_) => {
                "the receiver did not keep it; check that no program writes to it, and send it again"
            }
            Self::Peer(_) => "check the other side's terminal",
            Self::Lost(_) => {
                "check that the receiver runs, then run the same command again: it sends only what is missing"
            }
            Self::Unasked | Self::Unanswered => {
                "the other host runs another version of rc3, or is not to be trusted; nothing of it was kept"
            }
            Self::Protocol(_) => "use the same version of rc3 on both sides",
            Self::Write { .. } => {
                "check free space and permissions of the receiving directory; the next run continues the transfer"
            }
            Self::Input(_) | Self::Output(_) => RESTART,
            Self::Pipe(error) => match **error {
                Self::Lost(_) | Self::Write { .. } | Self::NotVerified(_) | Self::Interrupted { .. } => {
                    RESTART
                }
                ref error => error.hint(),
            },
            Self::NoSsh { .. } => "install an ssh client, or name one by --ssh",
            Self::Ssh(_) => "the lines above are ssh's; try: ssh HOST true",
            Self::NoPeer { .. } => "install rc3 there, or pass its path by --rc3-path",
            Self::Version { .. } => "install the same version of rc3 on both hosts",
            Self::Answer { .. } => "check that `ssh HOST rc3 --version` prints a version and no other output",
            Self::Unresponsive { .. } => {
                "check that `ssh HOST rc3 --version` prints a version and ends: a login or a start-up file may wait for input"
            }
            Self::There { hint, .. } => hint,
            Self::NoAddress(_) => "pass its address by --address, or use --via-ssh",
            Self::NoUdp { .. } => {
                "open it there or choose another by --port, pass another --address, or use --via-ssh"
            }
            Self::LeftOut(_) => "lines that begin with `left out` give names and reasons; --quiet hides them",
            Self::Interrupted { .. } => {
                "incomplete files have temporary names; run the same command again to continue"
            }
        }
    }
}

impl From<ManifestError> for TransferError {
    fn from(error: ManifestError) -> Self {
        match error {
            ManifestError::NoName => Self::Refused(error.to_string()),
            error => Self::Protocol(error.to_string()),
        }
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
