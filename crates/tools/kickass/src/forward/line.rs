//! The propagation delay of a link: packets between transmission and arrival.
//!
//! A line that is full holds up its link, so that packets wait in the queue, which has a discipline and a limit. The link
//! transmits by the bytes of packets, but each also takes time to write and memory: short ones would pile up here without
//! bound.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use kickass::{offload::Segment, queue::Queued};

/// Most packets that have arrived and are not written yet: a few milliseconds of writing. They leave in their order, so a
/// packet of another host would wait behind them.
const DUE_MAX: usize = 1024;
/// Packets for which a line has room, for each second of delay: more than a forwarder can write in that time.
const PER_SECOND: f64 = 2e6;

/// Packets in the order of transmission, which is also that of arrival.
///
/// Invariant: arrival times never decrease, so a reduced delay lets no packet overtake another.
#[derive(Debug, Default)]
pub(crate) struct Line {
    packets: VecDeque<(Instant, Segment)>,
    /// Sum of their lengths.
    bytes: u64,
}

impl Line {
    /// The last bit of a packet left at `left`.
    pub(crate) fn push(&mut self, left: Instant, delay: Duration, packet: Segment) {
        let arrival = left + delay;
        let arrival = self.packets.back().map_or(arrival, |(last, _)| arrival.max(*last));
        self.bytes += packet.bytes();
        self.packets.push_back((arrival, packet));
    }

    /// A packet that has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Segment> {
        self.next().filter(|(arrival, _)| *arrival <= now)?;
        let (_, packet) = self.packets.pop_front()?;
        self.bytes -= packet.bytes();
        Some(packet)
    }

    /// Whether its link has to wait: until packets are written, or have arrived. `delay` is the longest that a packet
    /// may be on its way.
    pub(crate) fn is_full(&self, now: Instant, delay: Duration) -> bool {
        let late = self.packets.get(DUE_MAX).is_some_and(|(arrival, _)| *arrival <= now);
        late || self.packets.len() >= DUE_MAX + (PER_SECOND * delay.as_secs_f64()) as usize
    }

    /// The packet that arrives next, and when.
    pub(crate) fn next(&self) -> Option<(Instant, &Segment)> {
        self.packets.front().map(|(arrival, packet)| (*arrival, packet))
    }

    /// Packets on their way.
    pub(crate) fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Bytes on their way.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use kickass::packet::Packet;

    use super::*;

    /// An IPv6 packet without payload that differs from others by its number.
    fn packet(hop_limit: u8) -> Segment {
        let mut bytes = vec![0; 40];
        const NO_NEXT_HEADER: u8 = 59;
        (bytes[0], bytes[6], bytes[7]) = (0x60, NO_NEXT_HEADER, hop_limit);
        Packet::parse(bytes).unwrap().into()
    }

    #[test]
    fn a_shrinking_delay_lets_no_packet_overtake() {
        let now = Instant::now();
        let millis = Duration::from_millis;
        let mut line = Line::default();
        line.push(now, millis(20), packet(1));
        line.push(now + millis(5), millis(1), packet(2));
        line.push(now + millis(30), millis(1), packet(3));
        assert_eq!(line.next().map(|(arrival, _)| arrival), Some(now + millis(20)));
        assert!(line.pop(now + millis(19)).is_none());
        let arrived = std::iter::from_fn(|| line.pop(now + millis(20)));
        let arrived: Vec<_> = arrived.map(|packet| packet.into_packet().hop_limit()).collect();
        assert_eq!(arrived, [1, 2]);
        assert_eq!((line.next().map(|(arrival, _)| arrival), line.bytes()), (Some(now + millis(31)), 40));
    }

    #[test]
    fn a_line_is_full_of_packets_that_wait_or_of_packets_on_their_way() {
        let now = Instant::now();
        let delay = Duration::from_millis(10);
        let mut line = Line::default();
        let mut held = 0;
        while !line.is_full(now, delay) {
            line.push(now, delay, packet(1));
            held += 1;
        }
        assert_eq!(held, DUE_MAX + 20_000);
        // All of them have arrived, and it has room again once they are written.
        let now = now + delay;
        while line.is_full(now, 2 * delay) {
            assert!(line.pop(now).is_some());
        }
        assert_eq!(line.packets(), DUE_MAX);
    }
}
