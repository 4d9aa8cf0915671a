//! When an acknowledgment may wait for more packets (RFC 9000 §13.2.2).
//!
//! Every second packet is acknowledged, which takes a third to three fifths of a paced sender's processor time. Where packets come
//! fast enough, one acknowledgment serves ten: the wait is at most a millisecond, and an eighth of a round trip. The receiver
//! decides, because only it sees a small window, whose last packets would wait for none.
//!
//! Units: STREAM frames, of which a full packet has one. Packets of many streams wait for fewer.

use std::time::{Duration, Instant};

/// Packets that share an acknowledgment: four of five are saved, and more would save little.
const PACKETS: u64 = 10;

/// Longest wait: the granularity of timers in user space.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// With shorter round trips the wait would be felt.
const RTT_MIN: Duration = Duration::from_millis(8);

/// With fewer packets in a wait, too little is saved.
const WAITING_MIN: u32 = 5;

/// The packets of one connection that are not acknowledged yet.
#[derive(Debug, Default)]
pub(crate) struct AckFrequency {
    /// Packets since the connection began.
    packets: u64,
    /// When the current round trip began, and the packets before it.
    round: Option<(Instant, u64)>,
    /// Whether the last round trip had enough packets.
    is_fast: bool,
    /// The packets at the last chance to acknowledge them.
    acknowledged: u64,
    /// When the wait ends, if packets may wait.
    deadline: Option<Instant>,
}

impl AckFrequency {
    /// `packets` have arrived since the connection began, on a path with this least round trip.
    pub(crate) fn on_packets(&mut self, now: Instant, packets: u64, rtt: Duration) {
        self.packets = packets;
        let (began, before) = *self.round.get_or_insert((now, packets));
        let length = now.saturating_duration_since(began);
        if length >= rtt.max(RTT_MIN) {
            let waits = length.as_secs_f64() / WAIT_MAX.as_secs_f64();
            self.is_fast = rtt >= RTT_MIN && (packets - before) as f64 >= waits * f64::from(WAITING_MIN);
            self.round = Some((now, packets));
        }
        let waits = self.is_fast && packets > self.acknowledged;
        self.deadline = waits.then(|| self.deadline.unwrap_or(now + WAIT_MAX));
    }

    /// Whether the packets may go on waiting.
    pub(crate) fn may_wait(&self, now: Instant) -> bool {
        self.packets - self.acknowledged < PACKETS && self.deadline.is_some_and(|deadline| now < deadline)
    }

    /// The connection may send all that it has.
    pub(crate) fn on_chance(&mut self) {
        self.acknowledged = self.packets;
        self.deadline = None;
    }

    /// When the wait ends.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver of packets so many microseconds apart, with this round trip in milliseconds; the packets that each
    /// acknowledgment is for, after a second.
    fn acknowledged(apart: u64, rtt: u64) -> Vec<u64> {
        let start = Instant::now();
        let mut acks = AckFrequency::default();
        let (mut sizes, mut size) = (Vec::new(), 0);
        for packet in 1..2_000_000 / apart {
            let now = start + Duration::from_micros(packet * apart);
            if acks.deadline().is_some_and(|deadline| deadline <= now) {
                acks.on_chance();
                sizes.push(std::mem::take(&mut size));
            }
            acks.on_packets(now, packet, Duration::from_millis(rtt));
            size += 1;
            if !acks.may_wait(now) {
                acks.on_chance();
                sizes.push(std::mem::take(&mut size));
            }
        }
        sizes.split_off(sizes.len() / 2)
    }

    #[test]
    fn ten_packets_wait_for_each_other_and_none_waits_longer_than_a_millisecond() {
        assert!(acknowledged(50, 40).iter().all(|&packets| packets == 10));
        assert!(acknowledged(150, 40).iter().all(|&packets| packets == 7), "the eighth comes too late");
    }

    #[test]
    fn where_few_packets_come_or_the_round_trip_is_short_none_waits() {
        for (apart, rtt) in [(250, 40), (250, 200), (50, 7)] {
            assert!(acknowledged(apart, rtt).iter().all(|&packets| packets == 1), "{apart} us, {rtt} ms");
        }
    }

    #[test]
    fn the_first_round_trip_waits_for_nothing_and_a_pause_ends_the_waiting() {
        let (start, rtt) = (Instant::now(), Duration::from_millis(40));
        let mut acks = AckFrequency::default();
        let mut packets = 0;
        let mut send = |acks: &mut AckFrequency, at: Duration| {
            packets += 1;
            acks.on_packets(start + at, packets, rtt);
            let waits = acks.may_wait(start + at);
            acks.on_chance();
            waits
        };
        for packet in 0..400 {
            assert!(!send(&mut acks, Duration::from_micros(packet * 100)), "packet {packet}");
        }
        assert!(send(&mut acks, rtt), "one round trip has been fast");
        assert!(!send(&mut acks, Duration::from_secs(1)), "the last one was not");
    }
}
