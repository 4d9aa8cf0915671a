//! Writers that found no room, by what they lack, each group in the order in which they came.
//!
//! Most of what happens on a connection changes room for none of them, so a group can be passed over as a whole: a
//! thousand blocked streams cost an acknowledgement no more than one.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::quic::StreamId;

/// What a writer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lacking {
    /// Room in the window that all streams share, or beyond it in that of this step of priority.
    Shared(u64),
    /// Delivery of bytes of its own stream.
    Own,
}

/// Blocked writers; one entry for each.
#[derive(Debug, Default)]
pub(crate) struct BlockedWriters {
    turns: BTreeMap<(Lacking, u64), StreamId>,
    places: FxHashMap<StreamId, (Lacking, u64)>,
    next_turn: u64,
}

impl BlockedWriters {
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Adds a writer. One that already waits for the same keeps its turn.
    pub(crate) fn insert(&mut self, id: StreamId, lacking: Lacking) {
        if self.places.get(&id).is_some_and(|&(current, _)| current == lacking) {
            return;
        }
        self.remove(id);
        let place = (lacking, self.next_turn);
        self.next_turn += 1;
        self.turns.insert(place, id);
        self.places.insert(id, place);
    }

    /// Returns whether it was there.
    pub(crate) fn remove(&mut self, id: StreamId) -> bool {
        let place = self.places.remove(&id);
        place.is_some_and(|place| self.turns.remove(&place).is_some())
    }

    /// Removes the writers that lack nothing any more, and returns them, higher priorities first. `has_room` tells whether
    /// the shared window has room for a step of priority: if not, its writers are not looked at. `lacks` looks at one.
    /// Writers that wait for bytes of their own are always looked at: a window holds few streams that are full.
    pub(crate) fn take_ready(
        &mut self,
        has_room: impl Fn(u64) -> bool,
        lacks: impl Fn(StreamId) -> Option<Lacking>,
    ) -> Vec<StreamId> {
        let mut ready = Vec::new();
        let mut review = |this: &mut Self, group| {
            for id in this.lacking(group) {
                match lacks(id) {
                    Some(lacking) => this.insert(id, lacking),
                    None => {
                        this.remove(id);
                        ready.push(id);
                    }
                }
            }
        };
        review(self, Lacking::Own);
        let mut group = Lacking::Own;
        while let Some(step) = self.step_below(group) {
            group = Lacking::Shared(step);
            if has_room(step) {
                review(self, group);
            }
        }
        ready
    }

    /// The highest step of priority below this group's that writers wait for.
    fn step_below(&self, group: Lacking) -> Option<u64> {
        match self.turns.range(..(group, 0)).next_back()?.0.0 {
            Lacking::Shared(step) => Some(step),
            Lacking::Own => None,
        }
    }

    fn lacking(&self, group: Lacking) -> Vec<StreamId> {
        self.turns.range((group, 0)..=(group, u64::MAX)).map(|(_, &id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::quic::{Dir, Side};

    fn stream(index: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Bi, index)
    }

    #[test]
    fn each_group_keeps_the_order_in_which_writers_came() {
        let mut blocked = BlockedWriters::default();
        for index in [3, 1, 2, 3] {
            blocked.insert(stream(index), Lacking::Shared(0));
        }
        blocked.insert(stream(4), Lacking::Own);
        assert_eq!(blocked.lacking(Lacking::Shared(0)), [3, 1, 2].map(stream));
        blocked.insert(stream(3), Lacking::Own);
        assert_eq!(blocked.lacking(Lacking::Shared(0)), [1, 2].map(stream));
        assert_eq!(blocked.lacking(Lacking::Own), [4, 3].map(stream));
        assert!(blocked.remove(stream(3)) && !blocked.remove(stream(3)));
    }

    #[test]
    fn higher_priorities_are_ready_first() {
        let mut blocked = BlockedWriters::default();
        for (index, step) in [(0, 2), (1, 0), (2, 8), (3, 2)] {
            blocked.insert(stream(index), Lacking::Shared(step));
        }
        blocked.insert(stream(4), Lacking::Own);
        assert_eq!(blocked.take_ready(|_| true, |_| None), [4, 2, 0, 3, 1].map(stream));
        assert!(blocked.is_empty());
    }

    /// A writer with room of its own may have to wait for the shared window then.
    #[test]
    fn a_writer_can_change_its_group() {
        let mut blocked = BlockedWriters::default();
        blocked.insert(stream(0), Lacking::Own);
        let looks = Cell::new(0);
        let lacks = |_| {
            looks.set(looks.get() + 1);
            Some(Lacking::Shared(1))
        };
        assert_eq!(blocked.take_ready(|_| false, lacks), []);
        assert_eq!((looks.get(), blocked.lacking(Lacking::Shared(1))), (1, vec![stream(0)]));
        assert_eq!(blocked.take_ready(|step| step == 1, |_| None), [stream(0)]);
    }

    /// What an acknowledgement costs a connection with many blocked streams.
    #[test]
    fn writers_are_not_looked_at_while_the_window_is_full() {
        let mut blocked = BlockedWriters::default();
        for index in 0..1000 {
            blocked.insert(stream(index), Lacking::Shared(index % 2));
        }
        let looks = Cell::new(0);
        let lacks = |_| {
            looks.set(looks.get() + 1);
            None
        };
        assert_eq!(blocked.take_ready(|_| false, lacks), []);
        assert_eq!(looks.get(), 0);
        assert_eq!(blocked.take_ready(|step| step == 1, lacks).len(), 500);
        assert_eq!(looks.get(), 500);
        assert_eq!(blocked.take_ready(|step| step == 1, lacks), []);
        assert_eq!(looks.get(), 500);
    }
}
