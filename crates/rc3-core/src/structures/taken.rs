//! The fates of received bytes.

use bytes::Bytes;

use super::reassembler::{Loop, Reassembler};

/// Received bytes, by fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Taken {
    /// Taken from the primary, records included.
    pub(crate) read: u64,
    pub(crate) new: u64,
    pub(crate) duplicate: u64,
    pub(crate) refused: u64,
    /// The primary may have more.
    pub(crate) more: bool,
}

impl Taken {
    /// Adds a piece, and counts its fate.
    pub(crate) fn add(
        &mut self,
        reassembler: &mut Reassembler,
        offset: u64,
        data: Bytes,
        datagram_len: usize,
        source: Loop,
    ) {
        let inserted = reassembler.insert(offset, data, datagram_len, source);
        self.new += inserted.new;
        self.duplicate += inserted.duplicate;
        self.refused += inserted.refused;
    }
}
