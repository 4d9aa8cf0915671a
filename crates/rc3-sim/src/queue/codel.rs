//! CoDel with ECN (RFC 8289) on a single FIFO.

use std::time::Instant;

use kickass::queue::FqCodelConfig;

use super::{Dropped, Packet, Queue, Routed};
use crate::{FqCodel, Stamped};

/// A FIFO under CoDel with a limit in bytes: FQ-CoDel with one queue for all flows, and drop-tail.
#[derive(Debug)]
pub struct CodelFifo<T> {
    fifo: FqCodel<T>,
    limit: u64,
}

impl<T: Routed> CodelFifo<T> {
    /// An empty queue for at most `limit` bytes, with the times of RFC 8289: 5 and 100 ms.
    pub fn new(limit: u64) -> Self {
        // The limit within would drop at the head.
        let config = FqCodelConfig { limit: u64::MAX, flows: 1, ..FqCodelConfig::default() };
        Self { fifo: FqCodel::new(config), limit }
    }
}

impl<T: Routed> Queue<Stamped<T>> for CodelFifo<T> {
    fn enqueue(&mut self, now: Instant, packet: Packet<Stamped<T>>) -> Dropped<Stamped<T>> {
        if packet.size as u64 > self.limit.saturating_sub(self.fifo.bytes()) {
            return Dropped::Arrival(packet);
        }
        self.fifo.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Instant) -> Option<Packet<Stamped<T>>> {
        self.fifo.dequeue(now)
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn len(&self) -> usize {
        self.fifo.len()
    }

    fn poll_dropped(&mut self) -> Option<Packet<Stamped<T>>> {
        self.fifo.poll_dropped()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::queue::fq_codel::tests::parcel;

    #[test]
    fn order_is_of_arrival_whatever_the_flow_and_a_standing_queue_is_cut() {
        let start = Instant::now();
        let mut queue = CodelFifo::new(150_000);
        let stamped = |flow| {
            let Packet { size, level, payload } = parcel(flow, 0);
            Packet { size, level, payload: Stamped::new(start, payload) }
        };
        for flow in 0..100 {
            assert!(matches!(queue.enqueue(start, stamped(flow)), Dropped::Nothing));
        }
        assert!(matches!(queue.enqueue(start, stamped(100)), Dropped::Arrival(_)), "the tail goes");
        let mut out = Vec::new();
        let mut dropped = 0;
        for nth in 0..100 {
            let packet = queue.dequeue(start + Duration::from_millis(5) * nth);
            out.extend(packet.map(|packet| packet.payload.payload().flow.0));
            dropped += std::iter::from_fn(|| queue.poll_dropped()).count();
        }
        assert!(out.is_sorted(), "{out:?}");
        assert!(dropped > 3 && dropped + out.len() == 100, "{dropped}");
    }
}
