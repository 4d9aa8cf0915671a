//! The propagation delay of a link: packets between transmission and arrival.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Packets in the order of transmission, which is also that of arrival.
///
/// Invariant: arrival times never decrease, so a reduced delay lets no packet overtake another.
#[derive(Debug, Default)]
pub(crate) struct Line {
    packets: VecDeque<(Instant, Vec<u8>)>,
}

impl Line {
    /// The last bit of a packet left at `left`.
    pub(crate) fn push(&mut self, left: Instant, delay: Duration, bytes: Vec<u8>) {
        let arrival = left + delay;
        let arrival = self.packets.back().map_or(arrival, |(last, _)| arrival.max(*last));
        self.packets.push_back((arrival, bytes));
    }

    /// A packet that has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next().filter(|arrival| *arrival <= now)?;
        self.packets.pop_front().map(|(_, bytes)| bytes)
    }

    /// When the next one arrives.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.packets.front().map(|(arrival, _)| *arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shrinking_delay_lets_no_packet_overtake() {
        let now = Instant::now();
        let millis = Duration::from_millis;
        let mut line = Line::default();
        line.push(now, millis(20), vec![1]);
        line.push(now + millis(5), millis(1), vec![2]);
        line.push(now + millis(30), millis(1), vec![3]);
        assert_eq!(line.next(), Some(now + millis(20)));
        assert_eq!(line.pop(now + millis(19)), None);
        let arrived: Vec<_> = std::iter::from_fn(|| line.pop(now + millis(20))).collect();
        assert_eq!(arrived, [[1], [2]]);
        assert_eq!(line.next(), Some(now + millis(31)));
    }
}
