//! CoDel with ECN (RFC 8289) on a single FIFO.

use std::time::Instant;

use rc3_queue::FqCodelConfig;

use crate::{FqCodel, Queue, Queued, Routed, Tally};

/// A FIFO under CoDel with a limit in bytes: FQ-CoDel with one queue for all flows, and drop-tail.
#[derive(Debug)]
pub struct CodelFifo<T> {
    fifo: FqCodel<T>,
    limit: u64,
}

impl<T: Queued + Routed> CodelFifo<T> {
    /// An empty queue for at most `limit` bytes, with the times of RFC 8289: 5 and 100 ms.
    pub fn new(limit: u64) -> Self {
        // The limit within would drop at the head.
        let config = FqCodelConfig { limit: u64::MAX, flows: 1, ..FqCodelConfig::default() };
        Self { fifo: FqCodel::new(config), limit }
    }
}

impl<T: Queued + Routed> Queue<T> for CodelFifo<T> {
    fn enqueue(&mut self, now: Instant, packet: T, dropped: &mut dyn FnMut(T)) {
        if packet.bytes() > self.limit.saturating_sub(self.fifo.bytes()) {
            return dropped(packet);
        }
        self.fifo.enqueue(now, packet, dropped);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(T)) -> Option<T> {
        self.fifo.dequeue(now, dropped)
    }

    fn waiting(&self) -> Tally {
        self.fifo.waiting()
    }

    fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Packet, Stamped, queue::ip::tests::parcel};

    #[test]
    fn order_is_of_arrival_whatever_the_flow_and_a_standing_queue_is_cut() {
        let start = Instant::now();
        let mut queue = CodelFifo::new(150_000);
        let stamped = |flow| {
            let Packet { size, level, payload } = parcel(flow, 0);
            Packet { size, level, payload: Stamped::new(start, payload) }
        };
        for flow in 0..100 {
            queue.enqueue(start, stamped(flow), &mut |_| panic!("there is room"));
        }
        let mut tail = None;
        queue.enqueue(start, stamped(100), &mut |packet| tail = Some(packet.payload.payload().flow.0));
        assert_eq!(tail, Some(100), "the tail goes");
        let mut out = Vec::new();
        let mut dropped = 0;
        for nth in 0..100 {
            let packet = queue.dequeue(start + Duration::from_millis(5) * nth, &mut |_| dropped += 1);
            out.extend(packet.map(|packet| packet.payload.payload().flow.0));
        }
        assert!(out.is_sorted(), "{out:?}");
        assert!(dropped > 3 && dropped + out.len() == 100, "{dropped}");
    }
}
