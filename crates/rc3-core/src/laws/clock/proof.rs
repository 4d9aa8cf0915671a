//! The bytes that the peer proved to have received, by the receipts in its SACKs and its acknowledgments.

use super::sent_datagrams::Departed;

/// Bytes of a stream in a full datagram for each byte of overhead.
const OVERHEAD_OF: u64 = 24;

/// Proved bytes of streams, in a busy period and in all.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    pub(super) delivered: u64,
    /// In all busy periods.
    total: u64,
    /// Datagrams that were overtaken and have no receipt, in all busy periods.
    pub(super) lost: u64,
    /// Bytes of UDP payload that RLP had sent with the newest proved datagram.
    newest: u64,
    /// Bytes of UDP payload of the primary that the peer has acknowledged.
    pub(super) acked: u64,
}

impl Proof {
    /// What follows is another flow.
    pub(super) fn start_busy_period(&mut self) {
        self.delivered = 0;
    }

    /// The peer has proved that it has `bytes` more.
    pub(crate) fn on_delivered(&mut self, bytes: u64) {
        self.delivered += bytes;
        self.total += bytes;
    }

    /// Overtaken `datagrams` have no receipt.
    pub(crate) fn on_lost(&mut self, datagrams: u64) {
        self.lost += datagrams;
    }

    /// The peer has acknowledged `bytes` of UDP payload of the primary.
    pub(crate) fn on_primary_acked(&mut self, bytes: u64) {
        self.acked += bytes;
    }

    /// That datagram is the newest of RLP that is proved.
    pub(super) fn on_newest(&mut self, departed: Departed) {
        self.newest = departed.of_rlp();
    }

    /// Bytes of UDP payload that RLP had delivered with that datagram: the same receipts show some behind it too.
    pub(super) fn of_rlp(&self, departed: Departed) -> u64 {
        let shown = self.total + self.total / OVERHEAD_OF;
        shown.saturating_sub(self.newest.saturating_sub(departed.of_rlp()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_lies_behind_a_datagram_does_not_count_for_it() {
        let now = Instant::now();
        let departed = |sent_bytes| Departed { at: now, run: 0, sent_bytes, of_primary: 500 };
        let mut proof = Proof::default();
        proof.on_delivered(2400);
        proof.on_newest(departed(3000));
        assert_eq!([3000, 1800, 500].map(|sent| proof.of_rlp(departed(sent))), [2500, 1300, 0]);
    }
}
