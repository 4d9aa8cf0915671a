//! Receiver ids: one for each path, so that an observer of two paths cannot link them (RFC 9000 §9.5). Both ends
//! derive the same sequence of ids. The receiver may replace each of them with one of its choice (`docs/WIRE.md`,
//! RECEIVER_ID).

use std::{collections::VecDeque, ops::Range, sync::Arc};

use super::{ReceiverId, protection::DirectionKeys};

/// Ids that a receiver accepts beyond the last known one: the sender may have used these paths although neither a
/// datagram nor a PATH frame arrived.
const AHEAD: u64 = 3;

/// Numbers that a receiver accepts at first.
pub(crate) const FIRST_NUMBERS: u64 = AHEAD + 1;

/// How far ahead of the current number the sender stores ids that the receiver has chosen: as many as an honest
/// receiver accepts.
const CHOSEN_AHEAD: u64 = AHEAD + 1;

/// The sequence at the sender.
pub(crate) struct SendingIds {
    direction: Arc<dyn DirectionKeys>,
    index: u64,
    /// The id of the path in use.
    pub(crate) current: ReceiverId,
    /// The id of the path that may be used next.
    pub(crate) next: ReceiverId,
    /// Ids that the receiver has chosen, for numbers from the one before `index` to [`CHOSEN_AHEAD`] beyond it, in no
    /// order.
    chosen: Vec<(u64, ReceiverId)>,
}

impl SendingIds {
    pub(crate) fn new(direction: Arc<dyn DirectionKeys>) -> Self {
        Self { current: direction.id(0), next: direction.id(1), index: 0, chosen: Vec::new(), direction }
    }

    /// Another path is in use; returns the number of its id.
    pub(crate) fn advance(&mut self) -> u64 {
        self.index += 1;
        self.current = self.next;
        self.next = self.of(self.index + 1);
        self.chosen.retain(|&(number, _)| number + 1 >= self.index);
        self.index
    }

    /// The receiver has chosen `id` for the path with this number. A number that is past or far ahead is ignored, and
    /// so is a second id for a number. An id that another path has would link the two: that is ignored, too.
    pub(crate) fn on_chosen(&mut self, number: u64, id: ReceiverId) {
        let in_reach = (self.index..=self.index + CHOSEN_AHEAD).contains(&number);
        let repeated = |&(known, taken): &(u64, ReceiverId)| known == number || taken == id;
        let linked = number != self.index && id == self.current;
        if !in_reach || linked || self.chosen.iter().any(repeated) {
            return;
        }
        self.chosen.push((number, id));
        if number == self.index {
            self.current = id;
        } else if number == self.index + 1 {
            self.next = id;
        }
    }

    fn of(&self, number: u64) -> ReceiverId {
        let chosen = self.chosen.iter().find(|&&(known, _)| known == number);
        chosen.map_or_else(|| self.direction.id(number), |&(_, id)| id)
    }
}

/// The part of the sequence that a receiver accepts: the last known id, the one before, and those ahead.
pub(crate) struct ReceivingIds {
    direction: Arc<dyn DirectionKeys>,
    /// The number of the first id in `taken`.
    first: u64,
    taken: VecDeque<Accepted>,
    /// The first number that [`Self::take_unchosen`] has not returned.
    unchosen: u64,
    change: IdChange,
}

/// The ids of one number.
#[derive(Debug, Clone, Copy)]
struct Accepted {
    derived: ReceiverId,
    /// What the endpoint has chosen instead. The derived one is in datagrams that left before the peer knew.
    chosen: Option<ReceiverId>,
}

impl Accepted {
    fn ids(self) -> impl Iterator<Item = ReceiverId> {
        [Some(self.derived), self.chosen].into_iter().flatten()
    }
}

/// Changes of the ids that a connection accepts. None is issued again after it was retired.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct IdChange {
    /// Ids no longer accepted.
    pub retired: Vec<ReceiverId>,
    /// Derived ids accepted from now on.
    pub issued: Vec<ReceiverId>,
    /// Chosen ids accepted from now on.
    pub chosen: Vec<ReceiverId>,
}

impl ReceivingIds {
    pub(crate) fn new(direction: Arc<dyn DirectionKeys>) -> Self {
        let mut ids =
            Self { direction, first: 0, taken: VecDeque::new(), unchosen: 0, change: IdChange::default() };
        ids.on_number(0);
        ids
    }

    /// The number of an id, if it is accepted.
    pub(crate) fn number(&self, id: ReceiverId) -> Option<u64> {
        let mut numbered = (self.first..).zip(&self.taken);
        numbered.find(|(_, accepted)| accepted.ids().any(|taken| taken == id)).map(|(number, _)| number)
    }

    /// The first accepted id.
    #[cfg(test)]
    pub(crate) fn first(&self) -> ReceiverId {
        self.taken[0].derived
    }

    /// The sender is, or was, on the path with this number.
    pub(crate) fn on_number(&mut self, number: u64) {
        // The one before may still be on datagrams in flight.
        let first = number.saturating_sub(1).max(self.first);
        while self.first < first && !self.taken.is_empty() {
            self.change.retired.extend(self.taken.pop_front().into_iter().flat_map(Accepted::ids));
            self.first += 1;
        }
        // A number may lie far ahead.
        self.first = first;
        let end = number.max(self.first) + AHEAD;
        for nth in self.first + self.taken.len() as u64..=end {
            let derived = self.direction.id(nth);
            self.taken.push_back(Accepted { derived, chosen: None });
            self.change.issued.push(derived);
        }
    }

    /// Accepted numbers that were not returned before: the endpoint may choose an id for each.
    pub(crate) fn take_unchosen(&mut self) -> Range<u64> {
        let end = self.first + self.taken.len() as u64;
        let numbers = self.unchosen.max(self.first)..end;
        self.unchosen = end;
        numbers
    }

    /// The endpoint has chosen `id` for this number. `false`: the number is not accepted any more, or has an id.
    pub(crate) fn choose(&mut self, number: u64, id: ReceiverId) -> bool {
        let place = number.checked_sub(self.first).and_then(|nth| usize::try_from(nth).ok());
        match place.and_then(|place| self.taken.get_mut(place)) {
            Some(Accepted { chosen: chosen @ None, .. }) => {
                *chosen = Some(id);
                self.change.chosen.push(id);
                true
            }
            _ => false,
        }
    }

    /// Changes since the last call; at first, all ids.
    pub(crate) fn take_change(&mut self) -> IdChange {
        std::mem::take(&mut self.change)
    }

    /// All accepted ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = ReceiverId> + '_ {
        self.taken.iter().copied().flat_map(Accepted::ids)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seams::keys::{aead::Aead, protection::Protection};

    fn direction() -> Arc<dyn DirectionKeys> {
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
                    prop_assert_ne!(sending.current, sending.next);
                    sending.advance();
                }
                let number = receiving.number(sending.current);
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

        /// Whichever of the chosen ids arrive late or never: the receiver accepts what the sender uses, and each id
        /// that was issued or chosen is retired once, or accepted.
        #[test]
        fn chosen_ids_replace_derived_ones(steps in prop::collection::vec((any::<bool>(), 0..=3_usize), 1..30)) {
            let (mut sending, mut receiving) = (SendingIds::new(direction()), ReceivingIds::new(direction()));
            let (mut issued, mut retired) = (Vec::new(), Vec::new());
            let mut under_way: VecDeque<(u64, ReceiverId)> = VecDeque::new();
            for (moves, arrive) in steps {
                for number in receiving.take_unchosen() {
                    let id = chosen(number);
                    prop_assert!(receiving.choose(number, id) && !receiving.choose(number, id));
                    under_way.push_back((number, id));
                }
                for (number, id) in under_way.drain(..arrive.min(under_way.len())) {
                    sending.on_chosen(number, id);
                }
                if moves {
                    sending.advance();
                }
                let index = sending.index;
                prop_assert!([direction().id(index), chosen(index)].contains(&sending.current));
                prop_assert_eq!(receiving.number(sending.current), Some(index));
                prop_assert_eq!(receiving.number(sending.next), Some(index + 1));
                receiving.on_number(index);
                let change = receiving.take_change();
                issued.extend(change.issued.into_iter().chain(change.chosen));
                retired.extend(change.retired);
            }
            let mut known: Vec<_> = receiving.iter().chain(retired).collect();
            known.sort_unstable();
            issued.sort_unstable();
            prop_assert_eq!(known, issued);
        }

        /// A receiver that lies: the sender stores little, changes the id of a path in use once, and never has the same
        /// id on a path and the next.
        #[test]
        fn ids_of_a_hostile_receiver_are_few_and_link_no_paths(
            frames in prop::collection::vec((0..8_u64, 0..3_u64, any::<bool>()), 0..200),
        ) {
            let mut sending = SendingIds::new(direction());
            let mut last = None;
            for (number, id, moves) in frames {
                let before = sending.current;
                sending.on_chosen(sending.index + number, chosen(id));
                let other = sending.current;
                prop_assert!(other == before || before == direction().id(sending.index));
                prop_assert!(sending.chosen.len() <= CHOSEN_AHEAD as usize + 2);
                prop_assert_ne!(sending.current, sending.next);
                prop_assert_ne!(Some(sending.current), last);
                if moves {
                    last = Some(sending.current);
                    sending.advance();
                    prop_assert_ne!(Some(sending.current), last);
                }
            }
        }
    }

    #[test]
    fn ids_for_past_and_far_numbers_are_ignored() {
        let mut sending = SendingIds::new(direction());
        sending.advance();
        for number in [0, 2 + CHOSEN_AHEAD, u64::MAX - 1] {
            sending.on_chosen(number, chosen(number));
        }
        assert!(sending.chosen.is_empty());
        sending.on_chosen(1, chosen(7));
        sending.on_chosen(1, chosen(8));
        assert_eq!(sending.current, chosen(7), "the first one counts");
        sending.on_chosen(2, chosen(7));
        assert_eq!(sending.next, direction().id(2), "it would link the paths");
    }

    #[test]
    fn numbers_that_run_ahead_leave_no_ids_behind() {
        let mut receiving = ReceivingIds::new(direction());
        receiving.take_change();
        for round in 0..1_000_u64 {
            receiving.on_number(round * 1_000);
            for number in receiving.take_unchosen() {
                assert!(receiving.choose(number, chosen(number)));
            }
            receiving.take_change();
            assert!(receiving.iter().count() as u64 <= 2 * (AHEAD + 2));
        }
        assert!(!receiving.choose(0, chosen(1)), "long past");
    }

    fn chosen(number: u64) -> ReceiverId {
        ReceiverId((!number).to_be_bytes())
    }
}
