//! Counts of datagrams that arrived at another worker, or in another process, than their connection's.

use rc3_core::is_rlp;

use crate::sums::sums;

/// Counters of datagrams that arrived at another worker, or in another process, than their connection's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HandedOver {
    /// QUIC datagrams; between workers those that the kernel has joined with others, or received before it could steer.
    pub primary: u64,
    /// RLP datagrams; between workers these, and those with an id that this endpoint has not chosen.
    pub rlp: u64,
    /// Datagrams dropped because the worker or process did not take them in time.
    pub dropped: u64,
}

impl HandedOver {
    /// Counts a datagram that was not dropped.
    pub(crate) fn count(&mut self, datagram: &[u8]) {
        *if is_rlp(datagram) { &mut self.rlp } else { &mut self.primary } += 1;
    }

    /// How much the counters have grown.
    #[cfg(feature = "metrics")]
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            primary: self.primary.saturating_sub(before.primary),
            rlp: self.rlp.saturating_sub(before.rlp),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

sums!(HandedOver: primary, rlp, dropped);

/// What one worker has exchanged with the processes that have the port before and after this one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Detours {
    /// Datagrams passed to the process that had the port before.
    pub(crate) to_predecessor: HandedOver,
    /// Datagrams from the process that has the port now.
    pub(crate) from_successor: HandedOver,
}
