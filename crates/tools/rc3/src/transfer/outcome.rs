//! What did not arrive although the transfer went on.

use super::{
    error::TransferError,
    message::{Fault, Skip},
    paths::SafePath,
    progress::{Reporter, count},
};

/// Files and directories that are not in place at the receiver.
#[derive(Debug, Default)]
pub(super) struct Unkept {
    /// Other content has the name.
    conflicts: Vec<SafePath>,
    /// What the receiver cannot or will not create.
    left_out: Vec<(SafePath, &'static str)>,
    /// The received content differs from the sent content.
    damaged: Vec<SafePath>,
}

impl Unkept {
    pub(super) fn add_skip(&mut self, path: SafePath, skip: Skip) {
        match skip {
            Skip::SameTime | Skip::SameLink => {}
            Skip::Conflict => self.conflicts.push(path),
            Skip::Name => {
                self.left_out.push((path, "the receiving file system does not accept its name or kind"));
            }
            Skip::Outside => {
                self.left_out.push((path, "a link that could lead out of the receiver's directory"));
            }
        }
    }

    /// Adds a fault after which the transfer goes on.
    pub(super) fn add_fault(&mut self, path: SafePath, fault: Fault) {
        match fault {
            Fault::NotVerified => self.damaged.push(path),
            Fault::Exists => self.add_skip(path, Skip::Conflict),
            Fault::Name => self.add_skip(path, Skip::Name),
            Fault::Storage => {}
        }
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
