//! When an acknowledgment may wait for more packets (RFC 9000 §13.2.2).
//!
//! Every second packet is acknowledged, which takes a third to three fifths of a paced sender's processor time. Where packets come
//! fast enough, one acknowledgment serves ten: the wait is at most a millisecond, and an eighth of a round trip. The receiver
//! decides, because only it sees a small window, whose last packets would wait for none.
//!
//! Once that goes on, the packets of a millisecond are also read together, which saves a wake-up for each.
//!
//! Units: STREAM frames, of which a full packet has one. Packets of many streams wait for fewer.

use std::time::{Duration, Instant};

/// Packets that share an acknowledgment: four of five are saved, and more would save little.
const PACKETS: u64 = 10;

/// Longest wait: the granularity of timers in user space.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// With shorter round trips the wait would be felt.
pub(crate) const RTT_MIN: Duration = Duration::from_millis(8);

/// With fewer packets in a wait, too little is saved.
const WAITING_MIN: f64 = 5.0;

/// After so many fast round trips packets may wait in the socket too: a slow start, which waits for each answer, is over.
const READ_ROUNDS: u32 = 8;

/// Most packets of all connections that stay there in a wait: the buffer that Linux grants everybody holds four times as many.
const UNREAD_MAX: f64 = 40.0;

/// The packets of one connection that are not acknowledged yet.
#[derive(Debug, Default)]
pub(crate) struct AckFrequency {
    /// Packets since the connection began.
    packets: u64,
    /// When the current round trip began, and the packets before it.
    round: Option<(Instant, u64)>,
    /// The packets in a wait, by the last round trip.
    per_wait: f64,
    /// Round trips since the last that had too few.
    fast_rounds: u32,
    /// The packets at the last chance to acknowledge them.
    acknowledged: u64,
    /// When the wait ends, if packets may wait.
    deadline: Option<Instant>,
    /// Until when the next packets may stay in the socket.
    read_at: Option<Instant>,
}

impl AckFrequency {
    /// `packets` have arrived since the connection began, on a path with this least round trip.
    pub(crate) fn on_packets(&mut self, now: Instant, packets: u64, rtt: Duration) {
        self.packets = packets;
        let (began, before) = *self.round.get_or_insert((now, packets));
        let length = now.saturating_duration_since(began);
        if length >= rtt.max(RTT_MIN) {
            self.per_wait = (packets - before) as f64 * WAIT_MAX.div_duration_f64(length);
            self.fast_rounds =
                if self.per_wait >= WAITING_MIN { self.fast_rounds.saturating_add(1) } else { 0 };
            self.round = Some((now, packets));
        }
        let waits = self.fast_rounds > 0 && rtt >= RTT_MIN && packets > self.acknowledged;
        self.deadline = waits.then(|| self.deadline.unwrap_or(now + WAIT_MAX));
        self.read_at = (self.fast_rounds >= READ_ROUNDS).then(|| now + WAIT_MAX);
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

/// When an endpoint reads its socket next, by its connections: `None` for one whose packets have to be read at once.
pub(crate) fn read_at<'a>(
    now: Instant,
    mut connections: impl Iterator<Item = Option<&'a AckFrequency>>,
) -> Option<Instant> {
    let (at, packets) =
        connections.try_fold((None, 0.0), |(at, packets): (Option<Instant>, f64), acks| {
            let acks = acks?;
            let next = acks.read_at.filter(|&next| now < next);
            Some((at.into_iter().chain(next).min(), packets + next.map_or(0.0, |_| acks.per_wait)))
        })?;
    at.filter(|_| packets <= UNREAD_MAX)
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

    /// A receiver of a path of 40 ms to which packets come so many microseconds apart, for so many milliseconds.
    fn receiver(start: Instant, apart: u64, millis: u64) -> AckFrequency {
        let mut acks = AckFrequency::default();
        for packet in 1..=millis * 1000 / apart {
            acks.on_packets(start + Duration::from_micros(packet * apart), packet, Duration::from_millis(40));
        }
        acks
    }

    #[test]
    fn once_packets_have_come_fast_for_long_they_are_read_together() {
        let start = Instant::now();
        let read = |apart, millis| {
            let now = start + Duration::from_millis(millis);
            read_at(now, [Some(&receiver(start, apart, millis))].into_iter()).map(|at| at - now)
        };
        assert_eq!(read(50, 310), None, "a slow start");
        assert_eq!(read(50, 330), Some(WAIT_MAX));
        assert_eq!(read(250, 1000), None, "four in a millisecond");
        assert_eq!(read(10, 1000), None, "more than fit");
    }

    #[test]
    fn connections_are_read_together_if_each_allows_it_and_all_fit() {
        let start = Instant::now();
        let now = start + Duration::from_secs(1);
        let [fast, faster] = [50, 30].map(|apart| receiver(start, apart, 1000));
        let (slow, before) = (receiver(start, 1000, 1000), receiver(start, 30, 900));
        let read = |connections: &[Option<&AckFrequency>]| read_at(now, connections.iter().copied());
        assert_eq!(read(&[Some(&fast), Some(&slow)]), Some(now + WAIT_MAX));
        assert_eq!(read(&[Some(&fast), None]), None, "on a short path");
        assert_eq!(read(&[Some(&fast), Some(&faster)]), None, "53 packets in a millisecond");
        assert_eq!(read(&[Some(&fast), Some(&before)]), Some(now + WAIT_MAX), "it has ended");
        assert_eq!(read(&[]), None);
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
