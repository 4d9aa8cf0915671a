//! Receiver ids: one for each path, so that an observer of two paths cannot link them (RFC 9000 §9.5). Both ends
//! compute the same sequence of ids.

use std::{collections::VecDeque, sync::Arc};

use super::{ReceiverId, protection::Direction};

/// Ids that a receiver accepts beyond the last known one: the sender may have used these paths although neither a
/// datagram nor a PATH frame arrived.
const AHEAD: u64 = 3;

/// The sequence at the sender.
pub(super) struct SendingIds {
    direction: Arc<dyn Direction>,
    index: u64,
    current: ReceiverId,
    next: ReceiverId,
}

impl SendingIds {
    pub(super) fn new(direction: Arc<dyn Direction>) -> Self {
        Self { current: direction.id(0), next: direction.id(1), index: 0, direction }
    }

    /// The id of the path in use.
    pub(super) fn current(&self) -> ReceiverId {
        self.current
    }

    /// The id of the path that may be used next.
    pub(super) fn next(&self) -> ReceiverId {
        self.next
    }

    /// Another path is in use; returns the number of its id.
    pub(super) fn advance(&mut self) -> u64 {
        self.index += 1;
        self.current = self.next;
        self.next = self.direction.id(self.index + 1);
        self.index
    }
}

/// The part of the sequence that a receiver accepts: the last known id, the one before, and those ahead.
pub(super) struct ReceivingIds {
    direction: Arc<dyn Direction>,
    /// The number of the first id in `taken`.
    first: u64,
    taken: VecDeque<ReceiverId>,
    change: IdChange,
}

/// Changes of the ids that a connection accepts. None is issued again after it was retired.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdChange {
    /// Ids no longer accepted.
    pub retired: Vec<ReceiverId>,
    /// Ids accepted from now on.
    pub issued: Vec<ReceiverId>,
}

impl ReceivingIds {
    pub(super) fn new(direction: Arc<dyn Direction>) -> Self {
        let mut ids = Self { direction, first: 0, taken: VecDeque::new(), change: IdChange::default() };
        ids.on_number(0);
        ids
    }

    /// The number of an id, if it is accepted.
    pub(super) fn number(&self, id: ReceiverId) -> Option<u64> {
        (self.first..).zip(&self.taken).find(|&(_, &taken)| taken == id).map(|(number, _)| number)
    }

    /// The first accepted id.
    #[cfg(test)]
    pub(super) fn first(&self) -> ReceiverId {
        self.taken[0]
    }

    /// The sender is, or was, on the path with this number.
    pub(super) fn on_number(&mut self, number: u64) {
        // The one before may still be on datagrams in flight.
        let first = number.saturating_sub(1).max(self.first);
        while self.first < first && !self.taken.is_empty() {
            self.change.retired.extend(self.taken.pop_front());
            self.first += 1;
        }
        // A number may lie far ahead.
        self.first = first;
        let end = number.max(self.first) + AHEAD;
        for nth in self.first + self.taken.len() as u64..=end {
            let id = self.direction.id(nth);
            self.taken.push_back(id);
            self.change.issued.push(id);
        }
    }

    /// Changes since the last call; at first, all ids.
    pub(super) fn take_change(&mut self) -> IdChange {
        std::mem::take(&mut self.change)
    }

    /// All accepted ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = ReceiverId> + '_ {
        self.taken.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seams::keys::{aead::Aead, protection::Protection};

    fn direction() -> Arc<dyn Direction> {
        Aead.direction(&[7; 32])
    }

    /// An endpoint's view of the changes.
    fn register(registered: &mut Vec<ReceiverId>, receiving: &mut ReceivingIds) {
        let change = receiving.take_change();
        registered.extend(change.issued);
        registered.retain(|id| !change.retired.contains(id));
        assert_eq!(*registered, receiving.iter().collect::<Vec<_>>());
        assert!(registered.len() as u64 <= AHEAD + 2);
    }

    proptest! {
        /// Whichever datagrams are lost: a sender within the bound is always accepted, issued and retired ids add up to
        /// the accepted ones, and these are few.
        #[test]
        fn a_receiver_follows_its_sender(steps in prop::collection::vec(0..=AHEAD, 1..30)) {
            let (mut sending, mut receiving) = (SendingIds::new(direction()), ReceivingIds::new(direction()));
            let mut registered = Vec::new();
            for step in steps {
                for _ in 0..step {
                    prop_assert_ne!(sending.current(), sending.next());
                    sending.advance();
                }
                let number = receiving.number(sending.current());
                prop_assert_eq!(number, Some(sending.index));
                receiving.on_number(sending.index);
                register(&mut registered, &mut receiving);
            }
        }

        /// Numbers that a peer forges cost no more than honest ones.
        #[test]
        fn any_number_is_followed(numbers in prop::collection::vec(0..1_u64 << 62, 1..30)) {
            let mut receiving = ReceivingIds::new(direction());
            let (mut registered, mut highest) = (Vec::new(), 0);
            for number in numbers {
                receiving.on_number(number);
                register(&mut registered, &mut receiving);
                highest = highest.max(number);
                prop_assert!(receiving.number(direction().id(highest)).is_some());
                prop_assert!(receiving.number(direction().id(highest + 1)).is_some());
            }
        }
    }
}
