//! The sending part of a stream: bytes by offset until they are acknowledged, and the records that the primary carries
//! (docs/WIRE.md, head records).
//!
//! Invariant: the buffer has every byte that RLP may still send: undelivered ones from the cursor up, and below it the
//! bytes of `handed_last`. Of a source's bytes it has only those needed soon (`source.rs`).

pub(crate) mod source;

use std::{cmp::Reverse, mem, slice};

use bytes::Bytes;

use self::source::StreamSource;
use crate::{
    quic::{FinishError, StreamId, VarInt, WriteError},
    seams::primary::PrimaryWriter,
    structures::{
        held::MemoryUse,
        ledger::Ledger,
        send_buffer::{COALESCE_BELOW, SendBuffer},
    },
    units::{Level, Span},
    wire::head::HeadEncoder,
};

/// Order of service: priority first, then a number (a turn, or the age of the stream).
pub(super) type ServiceOrder = (Reverse<i32>, u64, StreamId);

/// Most bytes of a stream that are handed over before the primary has accepted those before them.
const STAGED_MAX: u64 = 256 << 10;

/// One stream's sending part.
#[derive(Debug)]
pub(crate) struct SendStream {
    pub(super) id: StreamId,
    pub(crate) ledger: Ledger,
    pub(crate) buffer: SendBuffer,
    /// The source of the stream's end, if it does not come from `write`.
    pub(super) source: Option<Box<StreamSource>>,
    /// `None`: the stream carries plain bytes (plain QUIC, or the control stream).
    head: Option<HeadEncoder>,
    /// Record bytes the primary's flow control has not accepted yet: at most one quantum, and [`STAGED_MAX`]. They no longer
    /// count as stored.
    staged: Vec<Bytes>,
    fin: Fin,
    delivery: Delivery,
    /// RLP has sent the final size.
    size_sent: bool,
    /// The peer stopped it, with a code for the application.
    pub(crate) stopped: Option<VarInt>,
    /// The application will ask for nothing any more.
    pub(crate) released: bool,
    pub(crate) priority: i32,
    /// Its position in the order of opening on the connection.
    age: u64,
    /// Priority and number of its turn, if it wants the primary.
    pub(super) turn: Option<(i32, u64)>,
    /// It is in the queue of streams that may have bytes for RLP.
    pub(super) queued_for_rlp: bool,
    /// The primary's flow control refuses bytes until `Writable`.
    pub(super) blocked: bool,
    /// The peer has asked for no more of it at present.
    pub(crate) paused: bool,
    /// The primary has accepted bytes since [`Self::find_stuck`] looked.
    moved_lately: bool,
    /// The primary's flow control has accepted nothing for a while.
    stuck: bool,
    /// The bytes handed over last, in one piece, since the primary had no waiting data: they may not be in a packet
    /// yet. At most one quantum.
    handed_last: Span,
    /// The peer's credit: RLP stays below this offset.
    pub(crate) rlp_limit: u64,
    /// Highest offset RLP has sent.
    rlp_top: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fin {
    Open,
    /// The application finished; the end is not handed over yet.
    Wanted,
    /// The primary carries the end.
    Handed,
    /// Reset locally, or abandoned after the peer stopped it.
    Reset,
}

/// How complete delivery is known, before the primary's last acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Open,
    /// The peer reports that it has all bytes.
    Reported,
    /// The application knows; the rest is between the two primaries.
    Announced,
}

/// Result of one call of [`SendStream::feed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fed {
    /// Stream bytes handed over.
    pub(crate) handed: u64,
    /// Of these, bytes RLP had sent.
    pub(crate) duplicate: u64,
    /// Stream bytes that were skipped.
    pub(crate) skipped: u64,
}

impl SendStream {
    pub(crate) fn new(id: StreamId, age: u64, records: bool, rlp_limit: u64) -> Self {
        Self {
            id,
            ledger: Ledger::default(),
            buffer: SendBuffer::default(),
            source: None,
            head: records.then(HeadEncoder::default),
            staged: Vec::new(),
            fin: Fin::Open,
            delivery: Delivery::Open,
            size_sent: false,
            stopped: None,
            released: false,
            priority: 0,
            age,
            turn: None,
            queued_for_rlp: false,
            blocked: false,
            paused: false,
            moved_lately: false,
            stuck: false,
            handed_last: Span::default(),
            rlp_limit,
            rlp_top: 0,
        }
    }

    /// Whether it has records, as all streams of the application do beside RLP.
    pub(super) fn has_records(&self) -> bool {
        self.head.is_some()
    }

    /// Its place among the streams that want the primary, if it does.
    pub(super) fn turn(&self) -> Option<ServiceOrder> {
        self.turn.map(|(priority, number)| (Reverse(priority), number, self.id))
    }

    /// Its place in the queue of streams that may have bytes for RLP.
    pub(super) fn rlp_place(&self) -> ServiceOrder {
        (Reverse(self.priority), self.age, self.id)
    }

    /// Accepts bytes from the application, at most `room`, removes them from `chunks` and returns how many; the caller
    /// has checked that it may write.
    pub(crate) fn write(&mut self, chunks: &mut [Bytes], room: usize) -> usize {
        let mut taken = 0;
        for chunk in chunks {
            let piece = chunk.split_to(chunk.len().min(room - taken));
            if !piece.is_empty() {
                taken += piece.len();
                self.buffer.append(piece);
            }
            if !chunk.is_empty() {
                break;
            }
        }
        self.ledger.append(taken as u64);
        taken
    }

    /// Whether the application may write at all, ignoring the window.
    pub(crate) fn writable(&self) -> Result<(), WriteError> {
        match (self.stopped, self.fin) {
            (Some(code), _) => Err(WriteError::Stopped(code)),
            (None, Fin::Open) => Ok(()),
            (None, Fin::Wanted | Fin::Handed | Fin::Reset) => Err(WriteError::ClosedStream),
        }
    }

    pub(crate) fn finish(&mut self) -> Result<(), FinishError> {
        match (self.stopped, self.fin) {
            (Some(code), _) => Err(FinishError::Stopped(code)),
            (None, Fin::Open) => {
                self.fin = Fin::Wanted;
                Ok(())
            }
            (None, Fin::Wanted | Fin::Handed | Fin::Reset) => Err(FinishError::ClosedStream),
        }
    }

    /// Memory use: written bytes, and the records of their state.
    pub(crate) fn held(&self) -> MemoryUse {
        let overhead = self.ledger.overhead() + self.buffer.overhead();
        MemoryUse { bytes: self.buffer.held, overhead }
    }

    /// Abandons the rest; `false` if that had already happened.
    pub(crate) fn reset(&mut self) -> bool {
        let first = self.fin != Fin::Reset;
        self.fin = Fin::Reset;
        self.staged.clear();
        self.buffer.release(Span::new(0, self.ledger.end()));
        self.source = None;
        first
    }

    /// The final size, once the application has set it.
    pub(crate) fn final_size(&self) -> Option<u64> {
        matches!(self.fin, Fin::Wanted | Fin::Handed).then(|| self.ledger.end())
    }

    /// The peer reports that it has the whole stream; returns whether that is new. `None`: impossible, because the
    /// stream has no final size yet.
    pub(crate) fn on_complete(&mut self) -> Option<bool> {
        match (self.fin, self.delivery) {
            (Fin::Open, _) => None,
            (Fin::Wanted | Fin::Handed, Delivery::Open) => {
                self.delivery = Delivery::Reported;
                Some(true)
            }
            (_, _) => Some(false),
        }
    }

    /// Whether the peer has all of it and the application was not informed yet. The report counts once every byte is
    /// with the primary or proved by receipts, so that it releases nothing by itself.
    pub(crate) fn announce_delivery(&mut self) -> bool {
        let delivered =
            self.delivery == Delivery::Reported && self.fin != Fin::Reset && self.ledger.is_answered();
        if delivered {
            self.delivery = Delivery::Announced;
        }
        delivered
    }

    /// Whether the application knows that all has arrived: for it the stream is closed.
    pub(crate) fn is_announced(&self) -> bool {
        self.delivery == Delivery::Announced
    }

    /// Whether the primary needs to send bytes or an end.
    pub(crate) fn wants_primary(&self) -> bool {
        if self.blocked || self.paused || self.fin == Fin::Reset {
            return false;
        }
        !self.staged.is_empty()
            || self.next_for_primary(1).is_some()
            || (self.fin == Fin::Wanted && self.ledger.is_answered())
            || self.is_unseen()
    }

    /// Bytes stored, if the peer does not read the stream.
    pub(super) fn unwanted_bytes(&self) -> u64 {
        if self.paused || self.stuck { self.held().bytes } else { 0 }
    }

    /// Looks whether the primary's flow control has accepted bytes since the last call, where it has refused some.
    pub(super) fn find_stuck(&mut self) {
        self.stuck = self.blocked && !mem::take(&mut self.moved_lately);
    }

    /// What the primary can take next.
    fn next_for_primary(&self, max: u64) -> Option<Span> {
        let span = self.held_start(self.ledger.next_for_primary(max)?);
        (!span.is_empty()).then_some(span)
    }

    /// RLP has delivered everything before the primary carried anything: the peer's application does not know the
    /// stream yet, since only the primary opens it.
    fn is_unseen(&self) -> bool {
        self.fin == Fin::Open
            && self.ledger.cursor() > 0
            && self.head.as_ref().is_some_and(|head| head.position() == 0)
    }

    /// Whether some byte or the end is neither delivered nor handed over, whether or not it can be sent now.
    pub(crate) fn is_busy(&self) -> bool {
        self.fin != Fin::Reset && (!self.staged.is_empty() || self.ledger.cursor() < self.ledger.end())
    }

    pub(crate) fn on_primary_writable(&mut self) {
        self.blocked = false;
    }

    /// The primary has no waiting data: everything handed over is in packets. The stream may now be idle for long, so
    /// its buffers are freed.
    pub(crate) fn drop_overlap(&mut self) {
        let cursor = self.ledger.cursor();
        self.handed_last = Span::new(cursor, cursor);
        self.buffer.release(Span::new(0, cursor));
        self.buffer.shrink();
        if self.staged.is_empty() {
            self.staged = Vec::new();
        }
    }

    /// Bytes directly below the cursor that RLP may send although they were handed over, at most `max`: the primary may
    /// not have sent them. None once the cursor has advanced over delivered bytes, which are freed.
    fn overlap(&self, max: u64) -> u64 {
        if self.handed_last.end == self.ledger.cursor() { self.handed_last.len().min(max) } else { 0 }
    }

    /// Offsets counted against the connection's credit: each loop's highest.
    pub(crate) fn usage(&self) -> u64 {
        self.rlp_top.max(self.ledger.cursor())
    }

    /// Hands up to `budget` stream bytes to the primary, skipping delivered ones.
    pub(crate) fn feed<P: PrimaryWriter>(&mut self, primary: &mut P, mut budget: u64) -> Fed {
        let mut fed = Fed::default();
        while self.flush(primary) && budget > 0 {
            let Some(span) = self.next_for_primary(budget.min(STAGED_MAX)) else { break };
            let before = self.head.as_ref().map_or(span.start, HeadEncoder::position);
            self.write_record(primary, span);
            fed.skipped += span.start - before;
            fed.handed += span.len();
            fed.duplicate += self.ledger.hand_to_primary(span);
            // In plain QUIC nothing is sent twice.
            let start = match (&self.head, self.handed_last.end == span.start) {
                (None, _) => span.end,
                (Some(_), true) => self.handed_last.start,
                (Some(_), false) => span.start,
            };
            self.handed_last = Span::new(start, span.end);
            budget = budget.saturating_sub(span.len());
        }
        if self.is_unseen() {
            self.skip_to(self.ledger.cursor(), &mut fed);
            self.flush(primary);
        }
        if self.fin == Fin::Wanted && self.staged.is_empty() && self.ledger.is_answered() {
            self.hand_over_end(primary, &mut fed);
        }
        self.buffer.release(Span::new(0, self.handed_last.start));
        self.on_primary_handed(fed.handed);
        fed
    }

    /// Writes a span and the header of its record; stages what the primary does not accept. Nothing is staged before.
    fn write_record<P: PrimaryWriter>(&mut self, primary: &mut P, span: Span) {
        let len = span.len() as usize;
        match &mut self.head {
            // One chunk: a second one costs quinn-proto and the allocator more than the copy of a few bytes.
            Some(head) if len < COALESCE_BELOW => {
                let mut record = Vec::with_capacity(HeadEncoder::run_header_len(span) + len);
                head.run(span, &mut record);
                self.buffer.copy_into(span, &mut record);
                let mut record = Bytes::from(record);
                // `flush` learns why it refuses the rest.
                let _ = primary.write(self.id, slice::from_mut(&mut record));
                if !record.is_empty() {
                    self.staged.push(record);
                }
                return;
            }
            Some(head) => {
                let mut header = Vec::new();
                head.run(span, &mut header);
                self.staged.push(header.into());
            }
            None => {}
        }
        self.staged.extend(self.buffer.slice(span));
    }

    fn hand_over_end<P: PrimaryWriter>(&mut self, primary: &mut P, fed: &mut Fed) {
        self.skip_to(self.ledger.end(), fed);
        if self.flush(primary) {
            primary.finish(self.id);
            self.fin = Fin::Handed;
        }
    }

    /// Stages a record that moves the head over delivered bytes, up to `cursor`.
    fn skip_to(&mut self, cursor: u64, fed: &mut Fed) {
        if let Some(head) = &mut self.head
            && head.position() < cursor
        {
            fed.skipped += cursor - head.position();
            let mut record = Vec::new();
            head.finish(cursor, &mut record);
            self.staged.push(record.into());
        }
    }

    /// Writes staged record bytes; returns whether none is left.
    fn flush<P: PrimaryWriter>(&mut self, primary: &mut P) -> bool {
        while !self.staged.is_empty() {
            match primary.write(self.id, &mut self.staged) {
                Ok(_) => {
                    (self.moved_lately, self.stuck) = (true, false);
                    // Chunks the primary accepted completely are left empty.
                    self.staged.retain(|chunk| !chunk.is_empty());
                }
                Err(WriteError::Blocked) => {
                    self.blocked = true;
                    return false;
                }
                // The events `Stopped` or `Lost` report the reason.
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => {
                    self.staged.clear();
                    self.blocked = true;
                    return false;
                }
            }
        }
        true
    }

    /// The highest available bytes below `ceiling` that RLP may send, at most `max`; see [`Ledger::next_for_rlp`]. An
    /// empty span is the end of the stream, which still has to be signalled.
    pub(crate) fn next_for_rlp(&self, max: u64, ceiling: u64, overlap_max: u64) -> Option<Span> {
        // An abandoned stream has no bytes left, whatever the ledger has.
        if self.fin == Fin::Reset || self.is_rlp_in_vain() {
            return None;
        }
        match self.ledger.next_for_rlp(max, ceiling, self.overlap(overlap_max)) {
            Some(span) => Some(self.held_end(span)).filter(|span| !span.is_empty()),
            None => self.end_for_rlp(ceiling),
        }
    }

    /// An empty span at the end of the stream: it was finished after its last byte had left, and the FIN waits for the
    /// window or for a SACK.
    fn end_for_rlp(&self, ceiling: u64) -> Option<Span> {
        let end = self.ledger.end();
        let waits = self.fin == Fin::Wanted && !self.size_sent && self.head.is_some() && end <= ceiling;
        waits.then(|| Span::new(end, end))
    }

    /// RLP has put `span` into a packet at `level`.
    pub(crate) fn on_rlp_sent(&mut self, span: Span, level: Level) {
        self.size_sent |= self.final_size().is_some();
        if span.is_empty() {
            return;
        }
        self.ledger.sent_by_rlp(span, level);
        self.rlp_top = self.rlp_top.max(span.end);
        self.give_up(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        quic::{Dir, Side},
        wire::head::{Head, HeadDecoder},
    };

    /// A writer that accepts bytes up to a limit.
    #[derive(Default)]
    struct Sink {
        taken: Vec<u8>,
        limit: usize,
        ended: bool,
    }

    impl PrimaryWriter for Sink {
        fn write(&mut self, _: StreamId, chunks: &mut [Bytes]) -> Result<usize, WriteError> {
            let before = self.taken.len();
            for chunk in chunks {
                let room = chunk.len().min(self.limit - self.taken.len());
                self.taken.extend(chunk.split_to(room));
            }
            if self.taken.len() > before { Ok(self.taken.len() - before) } else { Err(WriteError::Blocked) }
        }

        fn finish(&mut self, _: StreamId) {
            self.ended = true;
        }
    }

    fn stream(bytes: &'static [u8]) -> SendStream {
        let mut stream = SendStream::new(StreamId::new(Side::Client, Dir::Uni, 1), 0, true, u64::MAX);
        stream.write(&mut [Bytes::from_static(bytes)], usize::MAX);
        stream
    }

    fn records(sink: &Sink) -> Vec<Head> {
        let mut decoder = HeadDecoder::default();
        decoder.push(sink.taken.clone().into());
        std::iter::from_fn(|| decoder.next().unwrap()).collect()
    }

    #[test]
    fn pieces_are_taken_up_to_the_room_and_cut() {
        let mut stream = stream(b"");
        let mut chunks = [&b"ab"[..], b"", b"cdef", b"g"].map(Bytes::from_static);
        assert_eq!(stream.write(&mut chunks, 4), 4);
        assert_eq!(chunks, [&b""[..], b"", b"ef", b"g"]);
        assert_eq!(stream.write(&mut chunks, usize::MAX), 3);
        let mut held = Vec::new();
        stream.buffer.copy_into(Span::new(0, stream.ledger.end()), &mut held);
        assert_eq!(held, b"abcdefg");
    }

    #[test]
    fn a_stream_that_rlp_delivered_whole_is_still_opened_by_the_primary() {
        let mut stream = stream(b"12345678");
        stream.on_rlp_sent(Span::new(0, 8), Level::FIRST);
        stream.ledger.delivered(Span::new(0, 8), true, |_, _| {});
        assert!(stream.wants_primary());
        let mut sink = Sink { limit: 100, ..Sink::default() };
        let fed = stream.feed(&mut sink, 1000);
        assert_eq!(records(&sink), [Head::Skip(Span::new(0, 8))]);
        assert_eq!((fed.handed, fed.skipped), (0, 8));
        assert!(!stream.wants_primary());
    }

    #[test]
    fn the_head_skips_what_rlp_delivered_and_carries_the_rest() {
        let mut stream = stream(b"0123456789");
        stream.on_rlp_sent(Span::new(4, 10), Level::FIRST);
        stream.ledger.delivered(Span::new(4, 8), true, |_, _| {});
        stream.finish().unwrap();
        let mut sink = Sink { limit: 100, ..Sink::default() };
        let fed = stream.feed(&mut sink, 1000);
        let run = |offset, data: &'static [u8]| Head::Run { offset, data: Bytes::from_static(data) };
        assert_eq!(records(&sink), [run(0, b"0123"), Head::Skip(Span::new(4, 8)), run(8, b"89")]);
        assert_eq!((fed.handed, fed.duplicate, fed.skipped), (6, 2, 4));
        assert!(sink.ended);
    }

    #[test]
    fn overlap_ends_where_delivered_bytes_begin() {
        let mut stream = stream(b"0123456789");
        stream.on_rlp_sent(Span::new(4, 10), Level::FIRST);
        let mut sink = Sink { limit: 100, ..Sink::default() };
        stream.feed(&mut sink, 3);
        stream.feed(&mut sink, 1);
        assert_eq!((stream.overlap(100), stream.overlap(2)), (4, 2));
        let mut copied = Vec::new();
        stream.buffer.copy_into(Span::new(0, 4), &mut copied);
        assert_eq!(copied, b"0123");
        // The ACK bump advances the cursor; the bytes directly below it are delivered.
        stream.ledger.delivered(Span::new(4, 10), true, |span, _| stream.buffer.release(span));
        assert_eq!(stream.overlap(100), 0);
        stream.drop_overlap();
        assert_eq!((stream.overlap(100), stream.buffer.held), (0, 0));
    }

    #[test]
    fn a_primary_that_blocks_in_the_middle_of_a_record_gets_the_rest_later() {
        let mut stream = stream(b"0123456789");
        stream.finish().unwrap();
        let mut sink = Sink { limit: 4, ..Sink::default() };
        stream.feed(&mut sink, 1000);
        assert!(!stream.wants_primary() && !sink.ended);
        sink.limit = 100;
        stream.on_primary_writable();
        stream.feed(&mut sink, 1000);
        assert_eq!(records(&sink), [Head::Run { offset: 0, data: Bytes::from_static(b"0123456789") }]);
        assert!(sink.ended);
    }
}
