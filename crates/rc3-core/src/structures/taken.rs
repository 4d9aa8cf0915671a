//! The fates of received bytes.

use super::reassembler::Inserted;

/// Received bytes, by fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadBytes {
    /// Taken from the primary, records included.
    pub(crate) read: u64,
    pub(crate) new: u64,
    pub(crate) duplicate: u64,
    pub(crate) refused: u64,
    /// The primary may have more.
    pub(crate) more: bool,
}

impl ReadBytes {
    /// Counts the fates of a piece.
    pub(crate) fn add(&mut self, inserted: Inserted) {
        self.new += inserted.new;
        self.duplicate += inserted.duplicate;
        self.refused += inserted.refused;
    }
}
