//! Memory of super-packets that are still referenced.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Counts the bytes of super-packets in use: their buffers and what describes them. Clones count together.
///
/// A segment keeps the whole buffer of its super-packet, so buffers can be larger than the packets that wait. The owner
/// of the account bounds that: beyond its limit, segments are copied ([`SuperPacket::segment`]).
///
/// [`SuperPacket::segment`]: super::SuperPacket::segment
#[derive(Debug, Clone, Default)]
pub struct Account(Arc<AtomicUsize>);

impl Account {
    /// Counts these bytes until the charge is dropped.
    pub(super) fn charge(&self, bytes: usize) -> Charge {
        // Only a sum: no other memory is ordered by it.
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { account: self.clone(), bytes }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes counted in an [`Account`].
#[derive(Debug)]
pub(super) struct Charge {
    account: Account,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_counts_until_it_is_dropped() {
        let account = Account::default();
        let (first, second) = (account.charge(100), account.clone().charge(20));
        assert_eq!(account.bytes(), 120);
        drop(first);
        assert_eq!(account.bytes(), 20);
        drop(second);
        assert_eq!(account.bytes(), 0);
    }
}
