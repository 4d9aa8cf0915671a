//! Two classes, marked and not, each with a drop-tail queue of its own, one always served before the other.
//!
//! Networks with few classes do this: access categories inside a Wi-Fi sender, and providers whose best effort is the
//! lowest class, where any mark is served first.
//!
//! Invariant: each class holds at most `limit` bytes. Units: bytes on the wire.

use std::time::Instant;

use crate::{DropTail, Packet, Queue, Tally};

/// Which class is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedFirst {
    /// Normal priority.
    PrimaryFirst,
    /// Marked packets: an inverted network.
    MarkedFirst,
}

/// Two drop-tail queues in a fixed order.
#[derive(Debug)]
pub struct TwoClasses<T> {
    order: ServedFirst,
    primary: DropTail<Packet<T>>,
    marked: DropTail<Packet<T>>,
}

impl<T> TwoClasses<T> {
    /// Empty queues for at most `limit` bytes each.
    pub fn new(order: ServedFirst, limit: u64) -> Self {
        Self { order, primary: DropTail::new(limit), marked: DropTail::new(limit) }
    }
}

impl<T> Queue<Packet<T>> for TwoClasses<T> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>, dropped: &mut dyn FnMut(Packet<T>)) {
        let class = if packet.level.is_primary() { &mut self.primary } else { &mut self.marked };
        class.enqueue(now, packet, dropped);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Packet<T>)) -> Option<Packet<T>> {
        let Self { order, primary, marked } = self;
        let [first, second] = match order {
            ServedFirst::PrimaryFirst => [primary, marked],
            ServedFirst::MarkedFirst => [marked, primary],
        };
        first.dequeue(now, dropped).or_else(|| second.dequeue(now, dropped))
    }

    fn waiting(&self) -> Tally {
        let mut waiting = self.primary.waiting();
        waiting += self.marked.waiting();
        waiting
    }

    fn limit(&self) -> u64 {
        self.primary.limit().saturating_add(self.marked.limit())
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Level;

    use super::*;

    #[test]
    fn one_class_goes_first_and_neither_takes_room_from_the_other() {
        let now = Instant::now();
        for (order, expected) in
            [(ServedFirst::PrimaryFirst, [2, 3, 1, 4]), (ServedFirst::MarkedFirst, [1, 4, 2, 3])]
        {
            let mut queue = TwoClasses::new(order, 2000);
            let levels = [Level::FIRST, Level::PRIMARY, Level::PRIMARY, Level::MAX];
            for (level, payload) in levels.into_iter().zip(1..) {
                queue.enqueue(now, Packet { size: 1000, level, payload }, &mut |_| panic!("there is room"));
            }
            let mut dropped = None;
            let sixth = Packet { size: 1000, level: Level::FIRST, payload: 6 };
            queue.enqueue(now, sixth, &mut |packet| dropped = Some(packet.payload));
            assert_eq!(dropped, Some(6));
            let out = std::iter::from_fn(|| queue.dequeue(now, &mut |_| panic!("on arrival only")));
            assert_eq!(out.map(|packet| packet.payload).collect::<Vec<_>>(), expected);
        }
    }
}
