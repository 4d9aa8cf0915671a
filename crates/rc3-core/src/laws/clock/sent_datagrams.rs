//! When RLP's datagrams left, and which of them may be lost.

use std::{collections::VecDeque, time::Instant};

use crate::{quic::StreamId, units::Span};

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
    /// Its bytes in one of them: all have as many, in ascending order, except that the last may have fewer, from the
    /// start of the span.
    pub packet_span: u64,
}

impl Departure {
    /// The first byte of the stream in the datagram with this number; `None` if it is not one of them, or has none.
    fn byte_of(&self, packet_number: u64) -> Option<u64> {
        let behind = self.last.checked_sub(packet_number).filter(|&behind| behind < self.packets)?;
        let short = u64::from(self.packets * self.packet_span > self.span.len());
        let above = (behind + 1 - short) * self.packet_span;
        let at = if behind < short { self.span.start } else { self.span.end.saturating_sub(above) };
        (self.span.start <= at && at < self.span.end).then_some(at)
    }
}

/// Bytes that may be lost: those of them without a SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loss {
    /// The stream.
    pub stream: StreamId,
    /// Its bytes in the overtaken datagrams.
    pub span: Span,
    /// Its bytes in one of them.
    pub packet_span: u64,
}

/// When a datagram left, and in which run: a time in which RLP never lacked data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Departed {
    pub(super) at: Instant,
    pub(super) run: u64,
    /// Bytes of UDP payload that both loops had sent, with it, and those of them that the primary had sent.
    pub(super) sent_bytes: u64,
    pub(super) of_primary: u64,
}

impl Departed {
    /// Bytes of UDP payload that RLP had sent, with it.
    pub(super) fn of_rlp(&self) -> u64 {
        self.sent_bytes.saturating_sub(self.of_primary)
    }
}

/// A batch and its place in the order.
#[derive(Debug, Clone, Copy)]
struct NumberedBatch {
    departure: Departure,
    /// The number of datagrams up to and including it.
    through: u64,
    run: u64,
    /// Bytes of UDP payload in each datagram, and those that both loops had sent, with the last.
    packet_bytes: u64,
    sent_bytes: u64,
    of_primary: u64,
}

impl NumberedBatch {
    /// The departure of its datagram with this number.
    fn departed(&self, packet_number: u64) -> Option<Departed> {
        let behind = self.departure.last.checked_sub(packet_number)?;
        let sent_bytes = self.sent_bytes.saturating_sub(behind * self.packet_bytes);
        (behind < self.departure.packets).then_some(Departed {
            at: self.departure.at,
            run: self.run,
            sent_bytes,
            of_primary: self.of_primary,
        })
    }
}

/// Oldest first.
#[derive(Debug, Default)]
pub(crate) struct SentDatagrams {
    batches: VecDeque<NumberedBatch>,
    run: u64,
    /// Datagrams sent, and those of them that arrived or were overtaken.
    sent: u64,
    /// Datagrams that arrived or were overtaken by one that did.
    pub(super) passed: u64,
    /// Bytes of UDP payload of both loops, those of the primary, and those of the datagrams passed.
    sent_bytes: u64,
    of_primary: u64,
    passed_bytes: u64,
    lost: Vec<Loss>,
    /// The newest that arrived.
    newest: Option<u64>,
}

impl SentDatagrams {
    /// RLP sends a batch of `bytes`.
    pub(super) fn push(&mut self, departure: Departure, bytes: u64) {
        if self.batches.len() == BATCHES_MAX {
            self.pop();
        }
        self.sent += departure.packets;
        self.sent_bytes += bytes;
        self.batches.push_back(NumberedBatch {
            departure,
            through: self.sent,
            run: self.run,
            packet_bytes: bytes / departure.packets.max(1),
            sent_bytes: self.sent_bytes,
            of_primary: self.of_primary,
        });
    }

    /// The primary sends `bytes`.
    pub(super) fn on_primary_sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
        self.of_primary += bytes;
    }

    /// RLP has no data left: a run ends.
    pub(crate) fn end_run(&mut self) {
        if self.batches.back().is_some_and(|last| last.run == self.run) {
            self.run += 1;
        }
    }

    /// The datagram with this number arrived. Returns its departure, if known. Earlier ones are no longer in flight, and
    /// reports of them come too late. Those that `late` packets overtook are not lost yet.
    pub(super) fn on_arrival(&mut self, packet_number: u64, late: u64) -> Option<Departed> {
        if self.newest.is_some_and(|newest| packet_number <= newest) {
            return None;
        }
        while let Some(&NumberedBatch { departure: first, .. }) = self.batches.front()
            && first.last + late <= packet_number
        {
            let Departure { stream, span, packet_span, .. } = first;
            self.lost.push(Loss { stream, span, packet_span });
            self.pop();
        }
        let at = self.batches.partition_point(|batch| batch.departure.last < packet_number);
        let batch = *self.batches.get(at)?;
        self.newest = Some(packet_number);
        self.pass(&batch, batch.departure.last - packet_number);
        batch.departed(packet_number)
    }

    /// The departure of the datagram with this number, if known.
    pub(super) fn find(&self, packet_number: u64) -> Option<Departed> {
        let at = self.batches.partition_point(|batch| batch.departure.last < packet_number);
        self.batches.get(at)?.departed(packet_number)
    }

    /// A byte in the datagram with this number, and its stream.
    pub(crate) fn byte_of(&self, packet_number: u64) -> Option<(StreamId, u64)> {
        let at = self.batches.partition_point(|batch| batch.departure.last < packet_number);
        let departure = &self.batches.get(at)?.departure;
        Some((departure.stream, departure.byte_of(packet_number)?))
    }

    /// When the newest batch left.
    pub(super) fn last_left(&self) -> Option<Instant> {
        self.batches.back().map(|batch| batch.departure.at)
    }

    /// Bytes of UDP payload in datagrams in flight.
    pub(super) fn in_flight(&self) -> u64 {
        self.sent_bytes - self.of_primary - self.passed_bytes
    }

    /// Datagrams in flight that left after `since`.
    pub(crate) fn in_flight_since(&self, since: Instant) -> u64 {
        let older = self.batches.partition_point(|batch| batch.departure.at <= since);
        let through = older.checked_sub(1).map_or(0, |last| self.batches[last].through);
        self.sent - self.passed.max(through)
    }

    /// Datagrams overtaken since the last call.
    pub(crate) fn take_lost(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.lost)
    }

    fn pop(&mut self) {
        if let Some(batch) = self.batches.pop_front() {
            self.pass(&batch, 0);
        }
    }

    /// Nothing is in flight up to the datagram `behind` the last one of this batch.
    fn pass(&mut self, batch: &NumberedBatch, behind: u64) {
        let behind = behind.min(batch.departure.packets);
        self.passed = self.passed.max(batch.through - behind);
        let bytes = batch.sent_bytes - batch.of_primary - behind * batch.packet_bytes;
        self.passed_bytes = self.passed_bytes.max(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::{Dir, Side};

    const LATE: u64 = 8;

    fn batch(at: Instant, last: u64, packets: u64) -> Departure {
        let stream = StreamId::new(Side::Client, Dir::Uni, 0);
        let span = Span::new(1000 - last, 1000 - last + packets);
        Departure { last, packets, at, stream, span, packet_span: 1 }
    }

    #[test]
    fn datagrams_passed_by_many_may_be_lost_and_are_reported_once() {
        let at = Instant::now();
        let mut departures = SentDatagrams::default();
        // Numbers 10 to 13 were not data.
        for (last, packets) in [(9, 10), (23, 10), (33, 10)] {
            departures.push(batch(at, last, packets), packets * 100);
            departures.on_primary_sent(7);
        }
        // Bytes of RLP: a short datagram takes less of the path than a full one.
        assert_eq!(departures.in_flight(), 3000);
        let departed = Departed { at, run: 0, sent_bytes: 1307, of_primary: 7 };
        assert_eq!(departures.on_arrival(16, LATE), Some(departed));
        assert_eq!(departures.in_flight(), 1700);
        assert_eq!(departures.take_lost().len(), 0);
        let departed = Departed { sent_bytes: 1407, ..departed };
        assert_eq!(departures.on_arrival(17, LATE), Some(departed));
        assert_eq!(
            departures.take_lost(),
            [Loss { stream: batch(at, 9, 10).stream, span: batch(at, 9, 10).span, packet_span: 1 }]
        );
        assert_eq!(departures.take_lost(), []);
        // Old reports, and numbers that were never sent.
        assert_eq!(departures.on_arrival(3, LATE), None);
        assert_eq!(departures.on_arrival(99, LATE), None);
        assert_eq!((departures.take_lost().len(), departures.in_flight()), (2, 0));
    }

    #[test]
    fn what_may_be_late_is_not_lost() {
        let mut departures = SentDatagrams::default();
        for last in 0..40 {
            departures.push(batch(Instant::now(), last, 1), 0);
        }
        departures.on_arrival(20, 20);
        assert_eq!(departures.take_lost().len(), 1);
        departures.on_arrival(21, LATE);
        assert_eq!(departures.take_lost().len(), 13);
    }

    #[test]
    fn datagrams_are_found_by_the_bytes_in_them() {
        let stream = StreamId::new(Side::Client, Dir::Uni, 0);
        let departure = |packets, span| Departure {
            last: 9,
            packets,
            at: Instant::now(),
            stream,
            span,
            packet_span: 100,
        };
        let bytes = |departure: Departure| [6, 7, 8, 9, 10].map(|number| departure.byte_of(number));
        assert_eq!(bytes(departure(3, Span::new(50, 350))), [None, Some(50), Some(150), Some(250), None]);
        // The last is short and lies below the others.
        assert_eq!(bytes(departure(3, Span::new(50, 251))), [None, Some(51), Some(151), Some(50), None]);
        assert_eq!(bytes(departure(1, Span::new(50, 51))), [None, None, None, Some(50), None]);
        // An end without bytes.
        assert_eq!(bytes(departure(1, Span::new(50, 50))), [None; 5]);
    }

    #[test]
    fn old_reports_say_nothing_and_old_datagrams_are_not_in_flight_for_ever() {
        let (at, second) = (Instant::now(), std::time::Duration::from_secs(1));
        let mut departures = SentDatagrams::default();
        departures.push(batch(at, 9, 10), 12_000);
        departures.on_primary_sent(500);
        departures.push(batch(at + second, 19, 10), 12_000);
        assert_eq!(
            [at - second, at, at + second].map(|since| departures.in_flight_since(since)),
            [20, 10, 0]
        );
        let departed = departures.on_arrival(14, LATE).expect("it left");
        assert_eq!((departed.sent_bytes, departed.of_primary), (18_500, 500));
        assert_eq!((departures.on_arrival(14, LATE), departures.on_arrival(12, LATE)), (None, None));
        assert_eq!(departures.in_flight_since(at - second), 5);
    }

    #[test]
    fn a_run_ends_when_data_does_and_an_empty_one_does_not_count() {
        let at = Instant::now();
        let mut departures = SentDatagrams::default();
        departures.end_run();
        departures.push(batch(at, 0, 1), 0);
        departures.push(batch(at, 1, 1), 0);
        departures.end_run();
        departures.end_run();
        departures.push(batch(at, 2, 1), 0);
        let runs: Vec<_> =
            (0..3).filter_map(|number| departures.on_arrival(number, LATE)).map(|it| it.run).collect();
        assert_eq!(runs, [0, 0, 1]);
    }

    #[test]
    fn memory_is_bounded() {
        let at = Instant::now();
        let mut departures = SentDatagrams::default();
        for nth in 0..2 * BATCHES_MAX as u64 {
            departures.push(batch(at, nth % 1000, 1), 1);
        }
        assert_eq!((departures.batches.len(), departures.in_flight()), (BATCHES_MAX, BATCHES_MAX as u64));
    }
}
