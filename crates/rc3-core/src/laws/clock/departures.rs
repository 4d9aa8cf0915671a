//! When RLP's datagrams left, and which of them may be lost.

use std::{collections::VecDeque, time::Instant};

use crate::{quic::StreamId, units::Span};

/// A datagram is lost when this many later ones have arrived (RFC 9002 §6.1.1 has 3, for a sequence that is not
/// reordered on purpose).
const REORDERING: u64 = 8;

/// Batches stored: the oldest is dropped, and the primary repairs its losses.
const BATCHES_MAX: usize = 1 << 14;

/// One batch of datagrams of one stream, in the order of their packet numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    /// The packet number of the last datagram.
    pub last: u64,
    /// The number of datagrams.
    pub packets: u64,
    /// Departure time.
    pub at: Instant,
    /// The stream.
    pub stream: StreamId,
    /// Its bytes in the datagrams.
    pub span: Span,
}

/// Bytes that may be lost: those of them without a SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The stream.
    pub stream: StreamId,
    /// Its bytes in the overtaken datagrams.
    pub span: Span,
}

/// When a datagram left, and in which run: a time in which RLP never lacked data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Departed {
    pub(super) at: Instant,
    pub(super) run: u64,
}

/// A batch and its place in the order.
#[derive(Debug, Clone, Copy)]
struct Batch {
    departure: Departure,
    /// The number of datagrams up to and including it.
    through: u64,
    run: u64,
}

/// Oldest first.
#[derive(Debug, Default)]
pub(super) struct Departures {
    batches: VecDeque<Batch>,
    run: u64,
    /// Datagrams sent, and those of them that arrived or were overtaken.
    sent: u64,
    passed: u64,
    lost: Vec<Loss>,
}

impl Departures {
    pub(super) fn push(&mut self, departure: Departure) {
        if self.batches.len() == BATCHES_MAX {
            self.pop();
        }
        self.sent += departure.packets;
        self.batches.push_back(Batch { departure, through: self.sent, run: self.run });
    }

    /// RLP has no data left: a run ends.
    pub(super) fn end_run(&mut self) {
        if self.batches.back().is_some_and(|last| last.run == self.run) {
            self.run += 1;
        }
    }

    /// The datagram with this number arrived. Returns its departure, if known. Earlier ones are no longer in flight.
    pub(super) fn on_arrival(&mut self, packet_number: u64) -> Option<Departed> {
        while let Some(&Batch { departure: first, .. }) = self.batches.front()
            && first.last + REORDERING <= packet_number
        {
            self.lost.push(Loss { stream: first.stream, span: first.span });
            self.pop();
        }
        let at = self.batches.partition_point(|batch| batch.departure.last < packet_number);
        let &Batch { departure, through, run } = self.batches.get(at)?;
        let behind = departure.last - packet_number;
        self.passed = self.passed.max(through - behind.min(departure.packets));
        (behind < departure.packets).then_some(Departed { at: departure.at, run })
    }

    /// Datagrams that arrived or were overtaken by one that did.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// When the newest batch left.
    pub(super) fn newest(&self) -> Option<Instant> {
        self.batches.back().map(|batch| batch.departure.at)
    }

    /// Datagrams in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.sent - self.passed
    }

    /// Datagrams overtaken since the last call.
    pub(super) fn take_lost(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.lost)
    }

    fn pop(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.passed = self.passed.max(batch.through);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::{Dir, Side};

    fn batch(at: Instant, last: u64, packets: u64) -> Departure {
        let stream = StreamId::new(Side::Client, Dir::Uni, 0);
        Departure { last, packets, at, stream, span: Span::new(1000 - last, 1000 - last + packets) }
    }

    #[test]
    fn datagrams_passed_by_many_may_be_lost_and_are_reported_once() {
        let at = Instant::now();
        let mut departures = Departures::default();
        // Numbers 10 to 13 were not data.
        for (last, packets) in [(9, 10), (23, 10), (33, 10)] {
            departures.push(batch(at, last, packets));
        }
        assert_eq!(departures.in_flight(), 30);
        assert_eq!(departures.on_arrival(16), Some(Departed { at, run: 0 }));
        assert_eq!(departures.in_flight(), 17);
        assert_eq!(departures.take_lost().len(), 0);
        assert_eq!(departures.on_arrival(17), Some(Departed { at, run: 0 }));
        assert_eq!(
            departures.take_lost(),
            [Loss { stream: batch(at, 9, 10).stream, span: batch(at, 9, 10).span }]
        );
        assert_eq!(departures.take_lost(), []);
        // Old reports, and numbers that were never sent.
        assert_eq!(departures.on_arrival(3), None);
        assert_eq!(departures.on_arrival(99), None);
        assert_eq!((departures.take_lost().len(), departures.in_flight()), (2, 0));
    }

    #[test]
    fn a_run_ends_when_data_does_and_an_empty_one_does_not_count() {
        let at = Instant::now();
        let mut departures = Departures::default();
        departures.end_run();
        departures.push(batch(at, 0, 1));
        departures.push(batch(at, 1, 1));
        departures.end_run();
        departures.end_run();
        departures.push(batch(at, 2, 1));
        let runs: Vec<_> =
            (0..3).filter_map(|number| departures.on_arrival(number)).map(|it| it.run).collect();
        assert_eq!(runs, [0, 0, 1]);
    }

    #[test]
    fn memory_is_bounded() {
        let at = Instant::now();
        let mut departures = Departures::default();
        for nth in 0..2 * BATCHES_MAX as u64 {
            departures.push(batch(at, nth % 1000, 1));
        }
        assert_eq!((departures.batches.len(), departures.in_flight()), (BATCHES_MAX, BATCHES_MAX as u64));
    }
}
