//! What becomes of each entry of a transfer, as both ends report it.

use std::{borrow::Cow, io};

use serde::{Deserialize, Serialize};
use tokio::task::JoinError;

use super::{
    message::reason,
    paths::{SafePath, printable},
    progress::{Event, Reporter, count},
};
use crate::{
    error::{Error, ErrorKind, Result},
    system::{NAME_FAULTS, lacks_descriptors},
};

/// What has become of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is verified and in place.
    Placed,
    /// The same exists already.
    Same,
    /// Other content has its name.
    Conflict,
    /// The receiving file system does not accept its name, or has no such links.
    Name,
    /// A link that leads out of the destination, or could.
    Outside,
    /// Another entry of the transfer has the same file there.
    Shared,
    /// What arrived is not what was sent.
    Damaged,
    /// The receiving system refuses it: the reason as text.
    Refused(String),
    /// The sender left it out.
    Omitted(Omission),
}

/// Why a sender leaves out a file of its manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Omission {
    /// It changed each time it was sent.
    Changed,
    /// It cannot be read: the reason as text.
    Unreadable(String),
}

impl From<io::Error> for Omission {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Before the length that its stamp has, or with another stamp.
            io::ErrorKind::UnexpectedEof => Self::Changed,
            _ => Self::Unreadable(reason(error)),
        }
    }
}

impl Verdict {
    /// Something has its name that no policy replaces.
    pub(super) fn taken_by(what: &str) -> Self {
        Self::Refused(format!("{what} has its name"))
    }

    /// What an error of the receiving system means for the entry that met it; `None` if every other one would meet it too.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        if error.kind() == io::ErrorKind::AlreadyExists {
            Some(Self::Conflict)
        } else if is_name_fault(error) {
            Some(Self::Name)
        } else if is_general(error) {
            None
        } else {
            Some(Self::Refused(reason(error)))
        }
    }
}

/// Why a file or link is not kept.
#[derive(Debug)]
pub enum Fault {
    /// Others may be kept.
    Settled(Verdict),
    /// Every other one would meet it.
    System(io::Error),
    /// The transfer ends.
    Ended(Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Verdict::of(&error).map_or_else(|| Self::System(error), Self::Settled)
    }
}

impl From<JoinError> for Fault {
    fn from(error: JoinError) -> Self {
        Self::System(error.into())
    }
}

/// Whether the file system does not accept a name.
pub(super) fn is_name_fault(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| NAME_FAULTS.contains(&code))
        || matches!(error.kind(), io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput)
}

/// Whether every other entry would meet the error too: no space, no descriptors, or the end of this program.
fn is_general(error: &io::Error) -> bool {
    lacks_descriptors(error)
        || matches!(
            error.kind(),
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::OutOfMemory
            // Of a closed destination.
            | io::ErrorKind::Interrupted
        )
}

fn exist(files: usize) -> String {
    format!("{} exist{}", count(files, "file"), if files == 1 { "s" } else { "" })
}

/// Files and directories that are not in place at the receiver.
#[derive(Debug, Default)]
pub(super) struct Unkept {
    /// Other content has the name.
    conflicts: Vec<SafePath>,
    /// What one of the sides cannot read or create.
    left_out: Vec<(SafePath, Cow<'static, str>)>,
    /// The received content differs from the sent content.
    damaged: Vec<SafePath>,
}

impl Unkept {
    pub(super) fn add(&mut self, path: &SafePath, verdict: &Verdict) {
        let reason = match verdict {
            Verdict::Placed | Verdict::Same => return,
            Verdict::Conflict => return self.conflicts.push(path.clone()),
            Verdict::Damaged => return self.damaged.push(path.clone()),
            Verdict::Name => "the receiving file system does not accept its name or kind".into(),
            Verdict::Outside => "a link that could lead out of the receiver's directory".into(),
            Verdict::Shared => "another file of this transfer is the same file at the receiver".into(),
            Verdict::Refused(reason) => format!("the receiver cannot store it: {}", printable(reason)).into(),
            Verdict::Omitted(Omission::Changed) => "it changed while it was sent".into(),
            Verdict::Omitted(Omission::Unreadable(reason)) => {
                return self.add_absent(path, &format!("cannot read it: {reason}"));
            }
        };
        self.left_out.push((path.clone(), reason));
    }

    /// Adds what the sender left out before.
    pub(super) fn add_absent(&mut self, path: &SafePath, reason: &str) {
        self.left_out.push((path.clone(), format!("at the sender: {}", printable(reason)).into()));
    }

    /// Prints each; returns the most serious error if `left_out` more entries never left the sender.
    pub(super) fn conclude(self, left_out: usize, reporter: &Reporter) -> Result<()> {
        for (path, reason) in &self.left_out {
            reporter.report(&Event::Skipped { path: path.into(), reason: reason.to_string() });
        }
        for path in &self.conflicts {
            reporter.report(&Event::Conflict { path: path.into() });
        }
        for path in &self.damaged {
            reporter.report(&Event::Damaged { path: path.into() });
        }
        let all_left_out = self.left_out.len() + left_out;
        let damaged = match self.damaged.as_slice() {
            [] => None,
            [path] => Some(path.to_string()),
            paths => Some(count(paths.len(), "file")),
        };
        match (damaged, self.conflicts.len()) {
            (Some(damaged), _) => Err(Error::new(
                ErrorKind::NotVerified,
                format!("{damaged} arrived damaged"),
                "the receiver did not keep it; check that no program writes to it, and send it again",
            )),
            (None, conflicts @ 1..) => Err(Error::new(
                ErrorKind::Conflicts,
                format!("{} at the receiver with other content", exist(conflicts)),
                "all others are in place; --force of `rc3 recv` or `rc3 copy` replaces existing files, --keep-both keeps both",
            )),
            _ if all_left_out > 0 => Err(Error::left_out(all_left_out)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_one_entry_are_told_from_those_of_all() {
        use io::ErrorKind::*;
        let refused = |error: &io::Error| Some(Verdict::Refused(error.to_string()));
        for kind in [StorageFull, QuotaExceeded, ReadOnlyFilesystem, Interrupted] {
            assert_eq!(Verdict::of(&kind.into()), None, "{kind:?}");
        }
        for kind in [PermissionDenied, NotFound, NotADirectory, Other] {
            let error = kind.into();
            assert_eq!(Verdict::of(&error), refused(&error), "{kind:?}");
        }
        assert_eq!(Verdict::of(&AlreadyExists.into()), Some(Verdict::Conflict));
        assert_eq!(Verdict::of(&InvalidFilename.into()), Some(Verdict::Name));
        #[cfg(target_os = "linux")]
        {
            let verdict = |code| Verdict::of(&io::Error::from_raw_os_error(code));
            assert_eq!([84, 36, 24, 28].map(verdict), [Some(Verdict::Name), Some(Verdict::Name), None, None]);
            assert!(matches!(verdict(5), Some(Verdict::Refused(_))));
        }
    }
}
