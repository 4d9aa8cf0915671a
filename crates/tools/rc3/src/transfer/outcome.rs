//! What did not arrive although the transfer went on.

use std::borrow::Cow;

use super::{
    error::TransferError,
    message::{Fault, Omission, Skip},
    paths::{SafePath, printable},
    progress::{Reporter, count},
};

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
    pub(super) fn add_skip(&mut self, path: SafePath, skip: Skip) {
        let reason = match skip {
            Skip::SameTime | Skip::SameLink => return,
            Skip::Conflict => return self.conflicts.push(path),
            Skip::Name => "the receiving file system does not accept its name or kind".into(),
            Skip::Outside => "a link that could lead out of the receiver's directory".into(),
            Skip::Shared => "another file of this transfer is the same file at the receiver".into(),
            Skip::Refused(reason) => format!("the receiver cannot store it: {}", printable(&reason)).into(),
        };
        self.left_out.push((path, reason));
    }

    /// Adds a fault after which the transfer goes on.
    pub(super) fn add_fault(&mut self, path: SafePath, fault: Fault, reason: &str) {
        let skip = match fault {
            Fault::NotVerified => return self.damaged.push(path),
            // The first ends the transfer, the second has its reason.
            Fault::Storage | Fault::Omitted => return,
            Fault::Exists => Skip::Conflict,
            Fault::Name => Skip::Name,
            Fault::Shared => Skip::Shared,
            Fault::Refused => Skip::Refused(reason.to_owned()),
        };
        self.add_skip(path, skip);
    }

    /// Adds a file that the sender leaves out of its manifest.
    pub(super) fn add_omission(&mut self, path: SafePath, omission: Omission) {
        match omission {
            Omission::Changed => self.left_out.push((path, "it changed while it was sent".into())),
            Omission::Unreadable(reason) => self.add_absent(path, &format!("cannot read it: {reason}")),
        }
    }

    /// Adds what the sender left out before.
    pub(super) fn add_absent(&mut self, path: SafePath, reason: &str) {
        self.left_out.push((path, format!("at the sender: {}", printable(reason)).into()));
    }

    /// Prints each.
    pub(super) fn report(&self, reporter: &Reporter) {
        for (path, reason) in &self.left_out {
            reporter.skipped(path, reason);
        }
        for path in &self.conflicts {
            reporter.conflict(path);
        }
        for path in &self.damaged {
            reporter.damaged(path);
        }
    }

    /// The error of the transfer if `left_out` entries never left the sender: the most serious.
    pub(super) fn result(self, left_out: usize) -> Result<(), TransferError> {
        let all_left_out = self.left_out.len() + left_out;
        match (self.damaged.as_slice(), self.conflicts.len()) {
            ([path], _) => Err(TransferError::NotVerified(path.to_string())),
            ([_, ..], _) => Err(TransferError::NotVerified(count(self.damaged.len(), "file"))),
            (_, conflicts @ 1..) => Err(TransferError::Conflicts(conflicts)),
            _ if all_left_out > 0 => Err(TransferError::LeftOut(all_left_out)),
            _ => Ok(()),
        }
    }
}
