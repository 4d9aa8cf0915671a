//! The propagation delay of a link: packets between transmission and arrival.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use kickass::{offload::Segment, router::RouterPacket};

/// Packets in the order of transmission, which is also that of arrival.
///
/// Invariant: arrival times never decrease, so a reduced delay lets no packet overtake another.
#[derive(Debug, Default)]
pub(crate) struct Line {
    packets: VecDeque<(Instant, Segment)>,
    /// Sum of their lengths.
    bytes: usize,
}

impl Line {
    /// The last bit of a packet left at `left`.
    pub(crate) fn push(&mut self, left: Instant, delay: Duration, packet: Segment) {
        let arrival = left + delay;
        let arrival = self.packets.back().map_or(arrival, |(last, _)| arrival.max(*last));
        self.bytes += packet.total_len();
        self.packets.push_back((arrival, packet));
    }

    /// A packet that has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Segment> {
        self.next().filter(|(arrival, _)| *arrival <= now)?;
        let (_, packet) = self.packets.pop_front()?;
        self.bytes -= packet.total_len();
        Some(packet)
    }

    /// The packet that arrives next, and when.
    pub(crate) fn next(&self) -> Option<(Instant, &Segment)> {
        self.packets.front().map(|(arrival, packet)| (*arrival, packet))
    }

    /// Bytes on their way.
    pub(crate) fn bytes(&self) -> usize {
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
}
