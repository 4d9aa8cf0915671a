//! The error of every command: what failed, and what the user can do about it.

use std::{borrow::Cow, fmt::Display, io, net::SocketAddr, time::Duration};

use rc3_text::units::about_time;
use thiserror::Error;

use crate::{
    system::lacks_descriptors,
    transfer::{paths::printable, progress::count},
};

/// The result of work whose failure ends a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command, or a part of its work, failed.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Cow<'static, str>,
}

/// What programs distinguish: by the exit code, or because another try or another way may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// None of the others.
    Other,
    /// The command line is invalid.
    Usage,
    /// This host does not let it work.
    Local,
    /// The other side's name does not resolve.
    Resolve,
    /// The other side does not answer.
    Connect,
    /// The other side has no free slot.
    Busy,
    /// No progress for a long time.
    Stalled,
    /// The connection ended early.
    Lost,
    /// The same because the other side answers no more, or was restarted: a new connection may go on.
    Gone,
    /// The peer violated the protocol.
    Protocol,
    /// The sender names something else than it was asked for.
    Unasked,
    /// The other side refuses.
    Refused,
    /// Another host answers than the one that was meant.
    WrongPeer,
    /// Files exist with other content, and were not replaced.
    Conflicts,
    /// So many entries were skipped; all others are in place.
    LeftOut(usize),
    /// The received content differs from the sent content.
    NotVerified,
    /// A file cannot be written.
    Storage,
    /// Standard input cannot be read.
    Input,
    /// The program for ssh is not there.
    NoSsh,
    /// ssh reports a failure of its own.
    Ssh,
    /// The other host has no such program.
    NoPeer,
    /// The other host has another version of rc3.
    Version,
    /// No UDP to the other host.
    NoUdp,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The service manager ends this service, and may start it again.
    Terminated,
}

/// Pipes have nothing to continue from.
pub(crate) const RESTART: &str = "pipes cannot be continued: run both commands again from the start";

impl Error {
    /// An error of this kind, with what the user can do.
    pub fn new(kind: ErrorKind, message: impl Into<String>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), hint: hint.into() }
    }

    /// What programs distinguish.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What the user can do.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    /// The same error with another hint.
    #[must_use]
    pub fn hinted(self, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// The same error, which is that of these addresses too.
    #[must_use]
    pub(crate) fn of_others(self, others: &[SocketAddr]) -> Self {
        let others: Vec<_> = others.iter().map(ToString::to_string).collect();
        let nor = if others.is_empty() { String::new() } else { format!("; nor to {}", others.join(", ")) };
        Self { message: self.message + &nor, ..self }
    }

    /// A failed operation on this host.
    pub fn local(what: impl Display, error: impl Display) -> Self {
        let message = format!("cannot {what}: {error}");
        Self::new(ErrorKind::Local, message, "check the given address, path and the system's limits")
    }

    /// An invalid command line, with what to write instead.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Usage, message, hint)
    }

    /// The other side has no free slot.
    pub(crate) fn busy() -> Self {
        Self::new(ErrorKind::Busy, "the other side is busy", "others are using it; try again later")
    }

    /// No bytes or messages for this long.
    pub(crate) fn stalled(patience: Duration) -> Self {
        let message = format!("no progress for {}", about_time(patience));
        Self::new(
            ErrorKind::Stalled,
            message,
            "check the other side's terminal, then run the same command again",
        )
    }

    /// The connection ended early.
    pub(crate) fn lost(reason: impl Display) -> Self {
        Self::new(
            ErrorKind::Lost,
            format!("lost the connection: {reason}"),
            "check the other side, then run the same command again: a transfer sends only what is missing",
        )
    }

    /// The other side answers no more, or was restarted.
    pub(crate) fn gone(reason: impl Display) -> Self {
        Self { kind: ErrorKind::Gone, ..Self::lost(reason) }
    }

    /// A side whose next message did not come in time.
    pub(crate) fn silent(who: &str, step: &str, patience: Duration) -> Self {
        let message = format!("{who} did not {step} within {} s", patience.as_secs_f64());
        Self { message, ..Self::stalled(patience) }
    }

    /// The peer violated the protocol.
    pub(crate) fn protocol(what: impl Display) -> Self {
        let message = format!("protocol violation by peer: {what}");
        Self::new(ErrorKind::Protocol, message, "use the same version of rc3 on both sides")
    }

    /// The other side refuses, for this reason.
    pub(crate) fn refused(reason: impl Display) -> Self {
        Self::new(
            ErrorKind::Refused,
            format!("the other side refuses: {reason}"),
            "the reason above comes from the other side; use the same version on both sides",
        )
    }

    /// The other side cannot continue, for this reason of its own.
    pub(crate) fn peer(reason: &str) -> Self {
        let message = format!("the other side failed: {}", printable(reason));
        Self::new(ErrorKind::Other, message, "check the other side's terminal")
    }

    /// There are no files to send.
    pub(crate) fn nothing() -> Self {
        let hint = "name at least one file or directory that is not a link, pipe or device";
        Self::new(ErrorKind::Other, "nothing to send", hint)
    }

    /// A file with this printable path cannot be written.
    pub(crate) fn write(path: impl Display, error: &io::Error) -> Self {
        let hint = if lacks_descriptors(error) {
            "raise the limit of open files (ulimit -n) or close other programs; the next run continues the transfer"
        } else {
            "check free space and permissions of the receiving directory; the next run continues the transfer"
        };
        Self::new(ErrorKind::Storage, format!("cannot write {path}: {error}"), hint)
    }

    /// So many entries were skipped.
    pub(crate) fn left_out(files: usize) -> Self {
        let were = if files == 1 { "was" } else { "were" };
        Self::new(
            ErrorKind::LeftOut(files),
            format!("{} {were} left out", count(files, "file")),
            "lines that begin with `left out` give names and reasons; --quiet hides them",
        )
    }

    /// The user pressed Ctrl-C. So many incomplete files are kept for another run.
    pub fn interrupted(kept: usize) -> Self {
        let kept = match kept {
            0 => String::new(),
            kept => format!("; what arrived is kept, {} included", count(kept, "incomplete file")),
        };
        Self::new(
            ErrorKind::Interrupted,
            format!("interrupted{kept}"),
            "incomplete files have temporary names; run the same command again to continue",
        )
    }

    /// The service manager ends this service.
    pub(crate) fn terminated() -> Self {
        Self { kind: ErrorKind::Terminated, ..Self::interrupted(0) }
    }

    /// The same error of the connection that a code has allowed.
    #[must_use]
    pub(crate) fn of_code(self) -> Self {
        match self.kind {
            ErrorKind::Lost | ErrorKind::Gone | ErrorKind::Stalled | ErrorKind::Interrupted => {
                self.hinted("run both commands again, with a new code: a transfer sends only what is missing")
            }
            _ => self,
        }
    }

    /// The same error of a transfer that cannot be continued.
    #[must_use]
    pub(crate) fn of_pipe(self) -> Self {
        match self.kind {
            ErrorKind::Lost
            | ErrorKind::Gone
            | ErrorKind::Storage
            | ErrorKind::NotVerified
            | ErrorKind::Interrupted => self.hinted(RESTART),
            _ => self,
        }
    }
}
