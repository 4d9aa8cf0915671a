//! A policer: a token bucket that drops packets above its rate and delays none. Levels are ignored.
//!
//! The state is the time until which tokens are spent (the generic cell rate algorithm): a packet passes if that time
//! is at most the bucket's depth ahead. Units: bytes on the wire.

use std::time::{Duration, Instant};

use rc3_queue::{DropTail, Queue, Queued, Tally};
use rc3_units::Rate;

/// A token bucket. Packets that pass wait only for the link, which should be faster.
#[derive(Debug)]
pub struct Policer<T> {
    rate: Rate,
    /// Time it takes to fill the bucket.
    depth: Duration,
    /// When the bucket will be full again.
    full_at: Option<Instant>,
    passed: DropTail<T>,
}

impl<T> Policer<T> {
    /// A full bucket of this many bytes, filled at this rate.
    pub fn new(rate: Rate, bucket: u64) -> Self {
        Self { rate, depth: rate.time_for(bucket), full_at: None, passed: DropTail::new(u64::MAX) }
    }
}

impl<T: Queued> Queue<T> for Policer<T> {
    fn enqueue(&mut self, now: Instant, packet: T, dropped: &mut dyn FnMut(T)) {
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + self.rate.time_for(packet.bytes());
        if full_at.duration_since(now) > self.depth {
            return dropped(packet);
        }
        self.full_at = Some(full_at);
        self.passed.enqueue(now, packet, dropped);
    }

    fn dequeue(&mut self, now: Instant, dropped: &mut dyn FnMut(T)) -> Option<T> {
        self.passed.dequeue(now, dropped)
    }

    fn waiting(&self) -> Tally {
        self.passed.waiting()
    }

    fn limit(&self) -> u64 {
        self.passed.limit()
    }
}

#[cfg(test)]
mod tests {
    use rc3_units::Level;

    use super::*;
    use crate::Packet;

    #[test]
    fn a_bucket_passes_and_then_its_rate() {
        let start = Instant::now();
        // A packet per millisecond, ten at once.
        let mut policer = Policer::new(Rate::from_bits_per_second(12_000_000).unwrap(), 15_000);
        let mut pass = |now| {
            let packet = Packet { size: 1500, level: Level::PRIMARY, payload: () };
            let mut dropped = 0;
            policer.enqueue(now, packet, &mut |_| dropped += 1);
            let passed = policer.dequeue(now, &mut |_| panic!("on arrival only")).is_some();
            assert_eq!(passed, dropped == 0);
            passed
        };
        assert_eq!((0..20).filter(|_| pass(start)).count(), 10);
        // At twice the rate, half of them.
        let passed = (1..=200).filter(|&n| pass(start + Duration::from_micros(500) * n)).count();
        assert_eq!(passed, 100);
        // After a pause it is full again, and not fuller.
        let later = start + Duration::from_secs(10);
        assert_eq!((0..20).filter(|_| pass(later)).count(), 10);
    }
}
