//! A queue whose limit counts packets instead of bytes.

use std::time::Instant;

use rc3_queue::Queued;

use crate::{Packet, Queue, Tally, Waiting, workload::PACKET_ON_THE_WIRE};

/// A packet that counts as one, whatever its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted<T>(T);

impl<T: Queued> Queued for Counted<T> {
    fn bytes(&self) -> u64 {
        1
    }

    fn class(&self) -> u8 {
        self.0.class()
    }
}

/// A queue of counted packets as one of packets. `Q` measures its limit in packets; all other lengths are bytes on the wire.
///
/// Invariant: `bytes` is the sum of the lengths of all packets in `queue`.
#[derive(Debug)]
pub(crate) struct ByPackets<Q> {
    queue: Q,
    /// Whether the discipline serves better levels first.
    by_level: bool,
    bytes: u64,
    best_bytes: u64,
}

impl<Q> ByPackets<Q> {
    /// Counts the packets of an empty queue. `by_level`: whether it serves better levels first.
    pub(crate) fn new(queue: Q, by_level: bool) -> Self {
        Self { queue, by_level, bytes: 0, best_bytes: 0 }
    }

    /// The packet has left.
    fn forget<T>(&mut self, packet: Counted<Packet<T>>) -> Packet<T> {
        let Counted(packet) = packet;
        self.bytes -= packet.bytes();
        if self.serves_first(&packet) {
            self.best_bytes -= packet.bytes();
        }
        packet
    }

    fn serves_first<T>(&self, packet: &Packet<T>) -> bool {
        !self.by_level || packet.level.is_primary()
    }
}

impl<T, Q: Queue<Counted<Waiting<T>>>> Queue<Waiting<T>> for ByPackets<Q> {
    fn enqueue(&mut self, now: Instant, packet: Waiting<T>, dropped: &mut dyn FnMut(Waiting<T>)) {
        self.bytes += packet.bytes();
        if self.serves_first(&packet) {
            self.best_bytes += packet.bytes();
        }
        let mut gone = Vec::new();
        self.queue.enqueue(now, Counted(packet), &mut |packet| gone.push(packet));
        gone.into_iter().for_each(|packet| dropped(self.forget(packet)));
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(Waiting<T>)) -> Option<Waiting<T>> {
        let mut gone = Vec::new();
        let packet = self.queue.dequeue(now, &mut |packet| gone.push(packet));
        gone.into_iter().for_each(|packet| dropped(self.forget(packet)));
        packet.map(|packet| self.forget(packet))
    }

    fn waiting(&self) -> Tally {
        Tally { bytes: self.bytes, ..self.queue.waiting() }
    }

    /// What the packets would have if all were full.
    fn limit(&self) -> u64 {
        self.queue.limit().saturating_mul(PACKET_ON_THE_WIRE)
    }

    fn is_best(&self, packet: &Waiting<T>) -> bool {
        self.serves_first(packet)
    }

    fn best_bytes(&self) -> u64 {
        self.best_bytes
    }
}

#[cfg(test)]
mod tests {
    use rc3_core::units::Level;

    use super::*;
    use crate::{DropTail, Stamped, StrictPriority};

    type Numbered = Waiting<u32>;

    fn packet(now: Instant, size: usize, level: Level, number: u32) -> Numbered {
        Packet { size, level, payload: Stamped::new(now, number) }
    }

    #[test]
    fn short_and_long_packets_take_one_place_each() {
        let now = Instant::now();
        let mut queue = ByPackets::new(DropTail::<Counted<Numbered>>::new(3), false);
        let mut dropped = Vec::new();
        for (number, size) in [40, 1500, 40, 40].into_iter().enumerate() {
            let packet = packet(now, size, Level::PRIMARY, number as u32);
            queue.enqueue(now, packet, &mut |packet| dropped.push(*packet.payload.payload()));
        }
        assert_eq!(dropped, [3]);
        assert_eq!((queue.waiting().packets, queue.bytes(), queue.best_bytes()), (3, 1580, 1580));
        let first = queue.dequeue(now, &mut |_| panic!("dropped")).unwrap();
        assert_eq!((*first.payload.payload(), queue.bytes()), (0, 1540));
    }

    #[test]
    fn an_arrival_pushes_out_one_packet_of_a_worse_level() {
        let now = Instant::now();
        let mut queue = ByPackets::new(StrictPriority::<Counted<Numbered>>::by_level(2), true);
        let mut dropped = Vec::new();
        for (number, level) in [Level::FIRST, Level::MAX, Level::PRIMARY].into_iter().enumerate() {
            let packet = packet(now, 1500, level, number as u32);
            queue.enqueue(now, packet, &mut |packet| dropped.push(*packet.payload.payload()));
        }
        assert_eq!(dropped, [1]);
        assert_eq!((queue.bytes(), queue.best_bytes()), (3000, 1500));
        let order: Vec<u32> = std::iter::from_fn(|| queue.dequeue(now, &mut |_| panic!("dropped")))
            .map(|packet| *packet.payload.payload())
            .collect();
        assert_eq!((order, queue.bytes(), queue.best_bytes()), (vec![2, 0], 0, 0));
    }
}
