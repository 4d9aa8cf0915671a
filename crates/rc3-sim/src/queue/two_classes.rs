//! Two classes, marked and not, each with a drop-tail queue of its own, one always served before the other.
//!
//! Networks with few classes do this: access categories inside a Wi-Fi sender, and providers whose best effort is the
//! lowest class, where any mark is served first.
//!
//! Invariant: each class holds at most `limit` bytes. Units: bytes on the wire.

use std::time::Instant;

use super::{Dropped, Packet, Queue};
use crate::DropTail;

/// Which class is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Normal priority.
    PrimaryFirst,
    /// Whatever is marked: an inverted network.
    MarkedFirst,
}

/// Two drop-tail queues in a fixed order.
#[derive(Debug)]
pub struct TwoClasses<T> {
    order: Order,
    primary: DropTail<T>,
    marked: DropTail<T>,
}

impl<T> TwoClasses<T> {
    /// Empty queues for at most `limit` bytes each.
    pub fn new(order: Order, limit: u64) -> Self {
        Self { order, primary: DropTail::new(limit), marked: DropTail::new(limit) }
    }
}

impl<T> Queue<T> for TwoClasses<T> {
    fn enqueue(&mut self, now: Instant, packet: Packet<T>) -> Dropped<T> {
        if packet.level.is_primary() {
            self.primary.enqueue(now, packet)
        } else {
            self.marked.enqueue(now, packet)
        }
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<T>> {
        let Self { order, primary, marked } = self;
        match order {
            Order::PrimaryFirst => primary.dequeue(now).or_else(|| marked.dequeue(now)),
            Order::MarkedFirst => marked.dequeue(now).or_else(|| primary.dequeue(now)),
        }
    }

    fn bytes(&self) -> u64 {
        self.primary.bytes() + self.marked.bytes()
    }

    fn len(&self) -> usize {
        self.primary.len() + self.marked.len()
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Level;

    use super::*;

    #[test]
    fn one_class_goes_first_and_neither_takes_room_from_the_other() {
        let now = Instant::now();
        for (order, expected) in [(Order::PrimaryFirst, [2, 3, 1, 4]), (Order::MarkedFirst, [1, 4, 2, 3])] {
            let mut queue = TwoClasses::new(order, 2000);
            let levels = [Level::FIRST, Level::PRIMARY, Level::PRIMARY, Level::MAX];
            for (level, payload) in levels.into_iter().zip(1..) {
                assert_eq!(queue.enqueue(now, Packet { size: 1000, level, payload }), Dropped::Nothing);
            }
            let sixth = Packet { size: 1000, level: Level::FIRST, payload: 6 };
            assert_eq!(queue.enqueue(now, sixth.clone()), Dropped::Arrival(sixth));
            let out = std::iter::from_fn(|| queue.dequeue(now)).map(|packet| packet.payload);
            assert_eq!(out.collect::<Vec<_>>(), expected);
        }
    }
}
