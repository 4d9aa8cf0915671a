//! The receiving part of a stream: both loops merge here.
//!
//! The primary is read out of order, although its records only make sense in order: quinn-proto ends a connection with
//! more than 1024 gaps waiting for an ordered reader, and one slow start into a full buffer leaves more.

use std::mem;

use bytes::Bytes;

use super::receipts::Receipts;
use crate::{
    error::{ClosedStream, PeerMisbehaved, ReadError},
    quic::{StreamId, VarInt},
    seams::primary::quinn::Quic,
    structures::{
        held::{GAP_COST, MemoryUse, ReceiveMemory, SPAN_COST, extra},
        reassembler::{Chunk, Loop, Reassembler},
        taken::ReadBytes,
    },
    units::{Receipt, Span},
    wire::{
        control::INITIAL_CREDIT,
        head::{Head, HeadDecoder},
    },
};

/// Beyond this many bytes ready for the application, the primary's data stays in the primary, so that its flow control
/// reaches the peer. quinn-proto joins chunks that wait there by copying them if there are more than 2048, so this is
/// more than a busy host receives before its application runs again.
const READY_MAX: u64 = 4 << 20;

/// The same as long as the application has not read anything, which it may never do; and what a stream with nothing
/// ready may take whatever memory the connection has left.
const UNREAD_MAX: u64 = 1 << 20;

/// Most separate spans of a stream, whatever memory the connection has left. RLP data that would need more is refused:
/// the primary brings it.
const SPANS_MAX: usize = 16 * 1024;

/// Gaps the primary may leave in one stream: losses of one window of 180 MB, every other packet. A peer that leaves
/// more is hostile, as is one that leaves smaller ones in many streams ([`ReceiveMemory::is_hostile`]).
const PENDING_SPANS_MAX: usize = 64 * 1024;

/// Bytes of one stream that may wait for a reader in any order: the primary waits for a slow reader, and RLP data
/// beyond this is refused.
const OUT_OF_ORDER_MAX: u64 = 8 << 20;

/// Beyond this many bytes past the first gap, a reader in any order takes those first: the primary always has more and
/// can wait, but RLP data would be refused meanwhile.
const AHEAD_FIRST: u64 = 2 << 20;

/// One stream's receiving part.
#[derive(Debug, Default)]
pub(crate) struct RecvStream {
    reassembler: Reassembler,
    framing: Framing,
    head: HeadState,
    /// The final size, once either loop has delivered it.
    pub(crate) final_size: Option<u64>,
    /// The spans that RLP has brought beyond the head, with receipts: the content of SACKs.
    pub(crate) receipts: Receipts,
    /// The application has read the end, or has stopped reading.
    done: bool,
    /// Whether the application reads in order: bytes past a gap then do not wake it.
    ordered: bool,
    /// The primary was read.
    begun: bool,
    /// The primary has more, left there because the application is slow.
    pub(crate) backlogged: bool,
    /// The application has read since [`Self::find_unread`] looked.
    read_lately: bool,
    /// The application has not read for a while: what arrived of the stream is taken from the primary, whose credit others
    /// need, and the peer should pause.
    unread: bool,
    /// The credit for RLP data granted so far, as an offset.
    pub(crate) granted: u64,
    /// The peer has reported the credit this stream used: its bytes no longer count.
    pub(crate) usage_reported: bool,
    /// The reader takes bytes in any order.
    out_of_order: bool,
    /// The reader's position beyond the first gap.
    ahead_read: u64,
    /// All of its bytes already count as consumed: RLP may send any of them.
    granted_whole: bool,
}

#[derive(Debug, Default)]
enum Framing {
    /// Plain QUIC: the QUIC stream is the stream.
    #[default]
    Plain,
    /// Record bytes that came out of order wait in `pending_records`.
    Records { decoder: HeadDecoder, pending_records: Reassembler },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum HeadState {
    #[default]
    Open,
    Ended,
    Reset(VarInt),
}

/// Limits for taking the primary's data, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PullBounds {
    /// Of all streams.
    pub(crate) room: u64,
    /// Of this stream, unread.
    pub(crate) stream: u64,
    /// At a time.
    pub(crate) step: u64,
}

/// Limits for RLP data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RlpRoom {
    /// Bytes of stream data.
    pub(crate) bytes: u64,
    /// Unread bytes of this stream.
    pub(crate) stream: u64,
    /// Bytes of all streams.
    pub(crate) held: MemoryUse,
    /// Allowed overhead beyond what its bytes pay for.
    pub(crate) overhead_max: u64,
}

impl RlpRoom {
    fn has(&self, reassembler: &Reassembler, receipts: &Receipts, span: Span) -> bool {
        let overhead = self.held.overhead_room(self.overhead_max).unwrap_or(0);
        span.len() <= self.bytes
            // Usually there is plenty, whatever the cost.
            && (overhead >= span.len().saturating_mul(GAP_COST)
                || (self.held + reassembler.cost(span) + receipts.cost(span))
                    .overhead_room(self.overhead_max)
                    .is_some())
    }
}

impl RecvStream {
    pub(crate) fn new(records: bool, granted: u64) -> Self {
        Self {
            reassembler: Reassembler::new(SPANS_MAX),
            framing: match records {
                true => Framing::Records {
                    decoder: HeadDecoder::default(),
                    pending_records: Reassembler::default(),
                },
                false => Framing::Plain,
            },
            ordered: true,
            granted,
            ..Self::default()
        }
    }

    /// Takes the primary's data, within the bounds of unread bytes on this stream and on all streams. Data that makes a
    /// stream readable is always taken: otherwise another stream could wait for its room in vain. The primary's
    /// datagrams had at most `datagram_len` bytes. `chunks` is a buffer for pieces, empty before and after. Returns
    /// early, with [`ReadBytes::more`], once `bounds.step` bytes were read.
    pub(crate) fn pull(
        &mut self,
        primary: &mut Quic,
        id: StreamId,
        bounds: PullBounds,
        datagram_len: usize,
        chunks: &mut Vec<(u64, Bytes)>,
    ) -> Result<ReadBytes, PeerMisbehaved> {
        let mut taken = ReadBytes::default();
        self.backlogged = false;
        while self.head == HeadState::Open {
            let max = self.pull_max(bounds, taken.new);
            if max == 0 {
                self.backlogged = true;
                break;
            }
            if taken.read >= bounds.step {
                taken.more = true;
                break;
            }
            let max = max.min(bounds.step - taken.read);
            let end = self.read_primary(primary, id, max as usize, chunks);
            for (offset, bytes) in chunks.drain(..) {
                taken.read += bytes.len() as u64;
                self.on_head_bytes(offset, bytes, datagram_len, &mut taken)?;
            }
            match end {
                Ok(true) => {}
                Ok(false) => self.on_head_end()?,
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => self.on_head_reset(code),
                Err(_) => self.head = HeadState::Ended,
            }
        }
        self.receipts.forget_below(self.head_position());
        Ok(taken)
    }

    /// Reads from the primary; the first time in order as far as that goes: for a stream that is here as a whole
    /// quinn-proto then needs no record of what was read.
    fn read_primary(
        &mut self,
        primary: &mut Quic,
        id: StreamId,
        max: usize,
        chunks: &mut Vec<(u64, Bytes)>,
    ) -> Result<bool, ReadError> {
        let mut left = max;
        if !mem::replace(&mut self.begun, true) {
            let end = primary.read(id, max, true, chunks);
            if end != Err(ReadError::Blocked) {
                return end;
            }
            left -= chunks.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
        primary.read(id, left, false, chunks)
    }

    fn pull_max(&self, bounds: PullBounds, taken: u64) -> u64 {
        let ready = self.ready();
        if self.done || ready == 0 {
            return UNREAD_MAX;
        }
        let ready_max = match self.consumed() {
            _ if self.unread => bounds.stream,
            0 => UNREAD_MAX.min(bounds.stream),
            _ => READY_MAX.min(bounds.stream),
        };
        bounds.room.saturating_sub(taken).min(ready_max.saturating_sub(ready))
    }

    fn on_head_bytes(
        &mut self,
        offset: u64,
        bytes: Bytes,
        datagram_len: usize,
        taken: &mut ReadBytes,
    ) -> Result<(), PeerMisbehaved> {
        let Framing::Records { pending_records, .. } = &mut self.framing else {
            taken.add(self.reassembler.insert(offset, bytes, datagram_len, Loop::Primary));
            return self.check_gaps(self.reassembler.run_count());
        };
        // Both are below 2^62.
        if pending_records.pass(Span::new(offset, offset + bytes.len() as u64)) {
            return self.on_record_bytes(bytes, datagram_len, taken);
        }
        let is_next = offset <= pending_records.contiguous_end();
        pending_records.insert(offset, bytes, datagram_len, Loop::Primary);
        if !is_next {
            let gaps = pending_records.run_count();
            return self.check_gaps(gaps);
        }
        while let Some(chunk) = self.next_record_bytes() {
            self.on_record_bytes(chunk, datagram_len, taken)?;
        }
        Ok(())
    }

    fn next_record_bytes(&mut self) -> Option<Bytes> {
        match &mut self.framing {
            Framing::Plain => None,
            // Only read in order.
            Framing::Records { pending_records, .. } => {
                pending_records.read(usize::MAX, true).ok().flatten().map(|chunk| chunk.bytes)
            }
        }
    }

    fn on_record_bytes(
        &mut self,
        bytes: Bytes,
        datagram_len: usize,
        taken: &mut ReadBytes,
    ) -> Result<(), PeerMisbehaved> {
        let Framing::Records { decoder, .. } = &mut self.framing else { return Ok(()) };
        decoder.push(bytes);
        while let Some(head) = decoder.next().map_err(|_| PeerMisbehaved::Malformed("head record"))? {
            let end = match head {
                Head::Run { offset, data } => {
                    let end = offset + data.len() as u64;
                    taken.add(self.reassembler.insert(offset, data, datagram_len, Loop::Primary));
                    end
                }
                Head::Skip(span) => {
                    if !self.reassembler.contains(span) {
                        return Err(PeerMisbehaved::SkippedMissing);
                    }
                    span.end
                }
            };
            if self.final_size.is_some_and(|size| end > size) {
                return Err(PeerMisbehaved::FinalSize);
            }
        }
        Ok(())
    }

    fn check_gaps(&self, gaps: usize) -> Result<(), PeerMisbehaved> {
        if gaps > PENDING_SPANS_MAX { Err(PeerMisbehaved::OutOfOrder) } else { Ok(()) }
    }

    fn on_head_end(&mut self) -> Result<(), PeerMisbehaved> {
        let size = match &self.framing {
            Framing::Plain => self.reassembler.end(),
            Framing::Records { decoder, .. } => {
                decoder.finish().map_err(|_| PeerMisbehaved::Malformed("head record"))?
            }
        };
        self.head = HeadState::Ended;
        self.learn_final_size(size)
    }

    fn on_head_reset(&mut self, code: VarInt) {
        // All bytes have already arrived: the reset comes too late to matter (RFC 9000 §3.2, "Data Recvd").
        if self.is_complete() {
            self.head = HeadState::Ended;
        } else {
            self.head = HeadState::Reset(code);
            self.drop_all();
        }
    }

    /// Takes RLP data, part of a datagram of `datagram_len` bytes. `room` is the connection's remaining memory.
    pub(crate) fn on_rlp(
        &mut self,
        offset: u64,
        data: Bytes,
        datagram_len: usize,
        final_size: Option<u64>,
        receipt: Receipt,
        mut room: RlpRoom,
    ) -> Result<ReadBytes, PeerMisbehaved> {
        let mut taken = ReadBytes::default();
        if self.head != HeadState::Open || self.done {
            taken.duplicate = data.len() as u64;
            return Ok(taken);
        }
        let end = offset + data.len() as u64;
        // A peer may not know the limit yet.
        if end > self.granted.max(INITIAL_CREDIT) {
            return Err(PeerMisbehaved::Credit);
        }
        if let Some(size) = final_size {
            self.learn_final_size(size)?;
        }
        if self.final_size.is_some_and(|size| end > size) {
            return Err(PeerMisbehaved::FinalSize);
        }
        let stream_max = if self.out_of_order { room.stream.min(OUT_OF_ORDER_MAX) } else { room.stream };
        room.bytes = room.bytes.min(stream_max.saturating_sub(self.reassembler.buffered()));
        let span = Span::new(offset, end);
        if room.has(&self.reassembler, &self.receipts, span) {
            taken.add(self.reassembler.insert(offset, data, datagram_len, Loop::Rlp));
            if taken.refused == 0 {
                self.receipts.insert(span, receipt);
            }
        } else {
            taken.refused = data.len() as u64;
        }
        Ok(taken)
    }

    /// From here on bytes are read in any order; returns the offset up to which they were read in order.
    pub(crate) fn read_out_of_order(&mut self) -> u64 {
        self.out_of_order = true;
        self.reassembler.read_offset()
    }

    /// The final size, once, if the whole stream should be granted to the peer.
    pub(crate) fn grant_whole(&mut self) -> Option<u64> {
        if !self.out_of_order || self.granted_whole || self.done || !self.is_head_open() {
            return None;
        }
        let size = self.final_size?;
        self.granted_whole = true;
        Some(size)
    }

    /// Bytes of this stream that were counted as consumed.
    pub(crate) fn counted(&self) -> u64 {
        match self.final_size {
            Some(size) if self.granted_whole => size,
            _ => self.consumed(),
        }
    }

    fn learn_final_size(&mut self, size: u64) -> Result<(), PeerMisbehaved> {
        let highest = self.reassembler.end();
        if self.final_size.is_some_and(|known| known != size) || highest > size {
            return Err(PeerMisbehaved::FinalSize);
        }
        self.final_size = Some(size);
        Ok(())
    }

    /// The next piece for the application: the next in order, or any. `None` at the end.
    pub(crate) fn read(&mut self, max: usize, ordered: bool) -> Result<Option<Chunk>, ReadError> {
        if self.done {
            return Err(ReadError::ClosedStream);
        }
        self.ordered = ordered;
        self.read_lately = true;
        if let HeadState::Reset(code) = self.head {
            self.done = true;
            return Err(ReadError::Reset(code));
        }
        if !ordered && let Some(chunk) = self.read_ahead(max) {
            return Ok(Some(chunk));
        }
        match self.reassembler.read(max, ordered) {
            Err(_) => Err(ReadError::IllegalOrderedRead),
            Ok(Some(chunk)) => Ok(Some(chunk)),
            Ok(None) if self.final_size == Some(self.reassembler.consumed()) => {
                self.done = true;
                Ok(None)
            }
            Ok(None) => Err(ReadError::Blocked),
        }
    }

    /// A piece beyond the first gap, if many wait there: upwards, so that pieces adjoin, then from below again.
    fn read_ahead(&mut self, max: usize) -> Option<Chunk> {
        if !self.out_of_order || self.reassembler.buffered().saturating_sub(self.ready()) < AHEAD_FIRST {
            return None;
        }
        let gap = self.reassembler.contiguous_end();
        let from = self.ahead_read.max(gap);
        let chunk = self.reassembler.read_from(from, max).or_else(|| self.reassembler.read_from(gap, max))?;
        self.ahead_read = chunk.offset + chunk.bytes.len() as u64;
        Some(chunk)
    }

    /// The application has stopped reading.
    pub(crate) fn abandon(&mut self) {
        self.done = true;
        self.drop_all();
    }

    fn drop_all(&mut self) {
        self.reassembler.clear();
        self.receipts = Receipts::default();
        self.drop_pending_records();
    }

    /// Whether the stream is finished on both sides.
    pub(crate) fn is_over(&self) -> bool {
        self.done && self.head != HeadState::Open
    }

    /// Whether the peer may have more to send than it has credit for.
    pub(crate) fn wants_credit(&self) -> bool {
        !self.done && self.is_head_open() && self.final_size.is_none_or(|size| size > self.granted)
    }

    /// Whether read bytes then count as consumed.
    pub(crate) fn counts_reads(&self) -> bool {
        !self.usage_reported && !self.granted_whole
    }

    /// Whether the primary has not delivered the end yet.
    pub(crate) fn is_head_open(&self) -> bool {
        self.head == HeadState::Open
    }

    pub(crate) fn is_reset(&self) -> bool {
        matches!(self.head, HeadState::Reset(_))
    }

    /// The peer's code if it reset the stream, or an error once it no longer can.
    pub(crate) fn reset_code(&self) -> Result<Option<VarInt>, ClosedStream> {
        match self.head {
            HeadState::Reset(code) => Ok(Some(code)),
            _ if self.done || self.is_complete() => Err(ClosedStream),
            HeadState::Open | HeadState::Ended => Ok(None),
        }
    }

    /// Whether bytes were left in the primary for a reader that may yet come.
    pub(crate) fn awaits_reader(&self) -> bool {
        self.backlogged && !self.unread && !self.done
    }

    /// Whether nobody has read since the last call although bytes were left in the primary: the peer should pause.
    pub(crate) fn find_unread(&mut self) -> bool {
        let unread = self.awaits_reader() && !self.read_lately;
        self.read_lately = false;
        self.unread |= unread;
        unread
    }

    /// Whether the peer may go on: the application reads, and less than this many bytes, or few, are left for it.
    pub(crate) fn end_unread(&mut self, left: u64) -> bool {
        self.unread && self.ready() < READY_MAX.max(left) && mem::take(&mut self.unread)
    }

    /// Whether a read, ordered or not like the last one, would yield something.
    pub(crate) fn is_readable(&self) -> bool {
        !self.done
            && (self.ready() > 0
                || (!self.ordered && self.reassembler.buffered() > 0)
                || self.is_reset()
                || self.final_size == Some(self.reassembler.consumed()))
    }

    /// The primary's position.
    fn head_position(&self) -> u64 {
        match &self.framing {
            Framing::Plain => self.reassembler.end(),
            Framing::Records { decoder, .. } => decoder.position(),
        }
    }

    /// Bytes passed to the application.
    pub(crate) fn consumed(&self) -> u64 {
        self.reassembler.consumed()
    }

    /// Memory use, including record bytes that wait for their order.
    pub(crate) fn held(&self) -> ReceiveMemory {
        // For out-of-order reads, quinn-proto also stores the received spans.
        let with_record = |part: &Reassembler| {
            let record = MemoryUse { bytes: 0, overhead: extra(part.run_count()) * SPAN_COST };
            part.held() + record
        };
        match &self.framing {
            Framing::Plain => {
                let all = with_record(&self.reassembler);
                ReceiveMemory { all, by_primary: all, ahead: 0 }
            }
            Framing::Records { pending_records, .. } => {
                let by_primary = with_record(pending_records);
                let all = self.reassembler.held() + self.receipts.held() + by_primary;
                ReceiveMemory { all, by_primary, ahead: self.receipts.bytes() }
            }
        }
    }

    /// Drops record bytes that wait for their order: no more of the stream will arrive.
    pub(crate) fn drop_pending_records(&mut self) {
        if let Framing::Records { pending_records, .. } = &mut self.framing {
            pending_records.clear();
        }
    }

    /// Whether all bytes have arrived while the primary has not delivered the end: acknowledgments could not show that
    /// to the sender.
    pub(crate) fn is_complete_early(&self) -> bool {
        self.is_head_open() && self.is_complete()
    }

    fn is_complete(&self) -> bool {
        self.final_size == Some(self.reassembler.contiguous_end())
    }

    /// Bytes an ordered reader could have now.
    fn ready(&self) -> u64 {
        self.reassembler.contiguous_end().saturating_sub(self.reassembler.read_offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransportConfig;

    const PACKET: usize = 1155;

    /// Record bytes of the primary that can never be put in order: their cost, or the fault.
    fn gaps(count: usize, len: usize) -> Result<ReceiveMemory, PeerMisbehaved> {
        let mut stream = RecvStream::new(true, 0);
        let mut taken = ReadBytes::default();
        for nth in 0..count {
            let offset = (nth * 2 + 1) * len;
            stream.on_head_bytes(
                offset as u64,
                Bytes::from_static(&[0; PACKET]).slice(..len),
                len,
                &mut taken,
            )?;
        }
        Ok(stream.held())
    }

    #[test]
    fn every_other_packet_of_the_largest_window_pays_for_its_gaps() {
        let held = gaps(PENDING_SPANS_MAX, PACKET).unwrap().all;
        assert!(held.overhead_room(0).is_some(), "{held:?}");
        assert_eq!(gaps(PENDING_SPANS_MAX + 1, PACKET), Err(PeerMisbehaved::OutOfOrder));
    }

    #[test]
    fn single_bytes_do_not() {
        let overhead_max = TransportConfig::default().overhead_max;
        assert!(!gaps(20_000, 1).unwrap().is_hostile(overhead_max));
        assert!(gaps(30_000, 1).unwrap().is_hostile(overhead_max));
    }

    #[test]
    fn refused_data_leaves_a_stream_as_it_was_and_full_packets_pay_for_themselves() {
        let mut stream = RecvStream::new(true, u64::MAX);
        let mut rlp = |offset, len, overhead_max| {
            let room = RlpRoom { bytes: u64::MAX, stream: u64::MAX, held: stream.held().all, overhead_max };
            let data = Bytes::from_static(&[0; PACKET]).slice(..len);
            let taken = stream.on_rlp(offset, data, len, None, Receipt(0), room).unwrap();
            (taken.refused, stream.held().all, stream.receipts.iter().count())
        };
        assert_eq!(rlp(10, 1, 0), (0, MemoryUse { bytes: 1, overhead: 0 }, 1));
        assert_eq!(rlp(20, 1, GAP_COST), (0, MemoryUse { bytes: 2, overhead: GAP_COST }, 2));
        assert_eq!(rlp(30, 1, GAP_COST), (1, MemoryUse { bytes: 2, overhead: GAP_COST }, 2));
        assert_eq!(rlp(5000, PACKET, GAP_COST).0, 0);
        assert_eq!(rlp(10, 1, GAP_COST).0, 0, "a duplicate costs nothing");
    }
}
