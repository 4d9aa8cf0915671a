//! Which bytes of a stream's source to read next, so that both loops find theirs and memory stays small.
//!
//! The primary moves up from the cursor, RLP down from the highest open byte. In front of each a zone is kept in
//! memory. Bytes sent by RLP are dropped at once: if they are lost, they are read again for the primary.
//!
//! All offsets and lengths are bytes of the stream.

use bytes::Bytes;

use super::SendStream;
use crate::units::Span;

/// Bytes of one read, and the grid of reads: a moving zone requests whole pieces.
pub(crate) const PIECE: u64 = 256 << 10;

/// Bytes above the cursor kept in memory: 8 ms at 1 GB/s, enough for a reader on a busy host to run.
pub(crate) const PRIMARY_AHEAD: u64 = 8 << 20;

/// The same below the highest byte RLP may send.
const RLP_AHEAD: u64 = 4 << 20;

/// Bytes of all sources of a connection in memory. A stream whose primary has none may exceed this by one piece, so
/// that it never starves.
pub(crate) const PRESENT_MAX: u64 = 16 << 20;

/// Bytes that RLP may send of a source before the first SACK, and the most it may save up. A receiver that takes bytes
/// in any order grants all of them, so credit does not show that RLP sends more than arrives.
const RLP_BUDGET: u64 = 32 << 20;

/// Bytes RLP may send for each two that were SACKed: more than two, so that it speeds up while most arrive.
const RLP_PER_TWO_SACKED: u64 = 3;

/// The primary's bytes for each that RLP may send without SACKs, to detect a change.
const PRIMARY_PER_RLP: u64 = 8;

/// Fewest bytes worth sending.
const RLP_BUDGET_MIN: u64 = 64 << 10;

/// What to request from a source now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceRead {
    /// These bytes of the source, counted from its own start.
    Span(Span),
    /// Nothing yet: [`crate::Event::Writable`] follows.
    Wait,
    /// Nothing more: every byte is handed over or delivered.
    Done,
}

/// The state of a stream's source.
#[derive(Debug)]
pub(crate) struct StreamSource {
    /// Where in the stream it begins.
    start: u64,
    /// RLP may send below this offset; 0 until it has requested bytes.
    rlp_ceiling: u64,
    /// Bytes that RLP may still send.
    rlp_budget: u64,
    /// The reader was notified that there is something to read, and has not checked since.
    notified: bool,
}

impl SendStream {
    /// Ends the stream with `len` bytes of a source.
    pub(crate) fn attach_source(&mut self, len: u64) {
        self.source = Some(Box::new(StreamSource {
            start: self.ledger.end(),
            rlp_ceiling: 0,
            rlp_budget: RLP_BUDGET,
            notified: false,
        }));
        self.ledger.append(len);
        self.buffer.append_source(len);
    }

    /// Accepts bytes at an offset of the source.
    pub(crate) fn supply(&mut self, offset: u64, data: Bytes) {
        if let Some(source) = &self.source {
            self.buffer.supply(source.start.saturating_add(offset), data);
        }
    }

    /// RLP may send below `ceiling`, and should find bytes there.
    pub(crate) fn expect_rlp(&mut self, ceiling: u64) {
        if let Some(source) = &mut self.source {
            source.rlp_ceiling = ceiling;
        }
    }

    /// Whether this ceiling is new to [`Self::expect_rlp`].
    pub(crate) fn wants_ceiling(&self, ceiling: u64) -> bool {
        self.source.as_ref().is_some_and(|source| source.rlp_ceiling != ceiling)
    }

    /// The peer has SACKed this many more bytes that RLP sent.
    pub(crate) fn on_rlp_delivered(&mut self, bytes: u64) {
        self.raise_budget(bytes * RLP_PER_TWO_SACKED / 2);
    }

    /// The primary got this many bytes.
    pub(super) fn on_primary_handed(&mut self, bytes: u64) {
        self.raise_budget(bytes / PRIMARY_PER_RLP);
    }

    fn raise_budget(&mut self, bytes: u64) {
        if let Some(source) = &mut self.source {
            source.rlp_budget = (source.rlp_budget + bytes).min(RLP_BUDGET);
        }
    }

    /// Whether RLP has sent more of a source than arrives.
    pub(super) fn is_rlp_in_vain(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.rlp_budget < RLP_BUDGET_MIN)
    }

    /// Whether the end of the stream comes from a source.
    pub(crate) fn has_source(&self) -> bool {
        self.source.is_some()
    }

    /// The part of `span` that can be copied now: from its end down.
    pub(super) fn held_end(&self, span: Span) -> Span {
        match &self.source {
            None => span,
            Some(_) => Span::new(self.buffer.held_below(span.end, span.start), span.end),
        }
    }

    /// The part of `span` that can be copied now: from its start up.
    pub(super) fn held_start(&self, span: Span) -> Span {
        match &self.source {
            None => span,
            Some(_) => Span::new(span.start, self.buffer.held_from(span.start, span.end)),
        }
    }

    /// RLP sent `span`: drops what the primary does not need soon.
    pub(super) fn give_up(&mut self, span: Span) {
        if let Some(source) = &mut self.source {
            source.rlp_budget = source.rlp_budget.saturating_sub(span.len());
            let zone_end = self.ledger.cursor().saturating_add(PRIMARY_AHEAD);
            let start = span.start.max(zone_end);
            if start < span.end {
                self.buffer.release(Span::new(start, span.end));
            }
        }
    }

    /// What to read next, with `room` for source bytes left on the connection.
    pub(crate) fn next_read(&self, room: u64) -> Option<Span> {
        self.source.as_ref()?;
        let piece = self.missing_for_primary();
        // The bytes at the primary's cursor come first, whatever the room.
        if let Some(piece) = piece.filter(|piece| piece.start == self.ledger.cursor() || room >= PIECE) {
            return Some(piece);
        }
        self.missing_for_rlp().filter(|_| room >= PIECE)
    }

    fn missing_for_primary(&self) -> Option<Span> {
        let cursor = self.ledger.cursor();
        let zone_end = (cursor.saturating_add(PRIMARY_AHEAD) / PIECE * PIECE).min(self.ledger.end());
        let zone = Span::new(cursor, zone_end.max(cursor));
        let missing = self.ledger.undelivered(zone).find_map(|gap| self.buffer.missing(gap).next())?;
        Some(Span::new(missing.start, missing.end.min((missing.start / PIECE + 1) * PIECE)))
    }

    fn missing_for_rlp(&self) -> Option<Span> {
        let ceiling = self.source.as_ref().filter(|_| !self.is_rlp_in_vain())?.rlp_ceiling;
        let mut zone = self.ledger.next_for_rlp(RLP_AHEAD, ceiling, 0)?;
        if zone.len() == RLP_AHEAD {
            zone.start = zone.start.next_multiple_of(PIECE);
        }
        let missing = self.buffer.missing(zone).last()?;
        Some(Span::new(missing.start.max((missing.end - 1) / PIECE * PIECE), missing.end))
    }

    /// A reader fetches `span` now; returns its position in the source.
    pub(crate) fn ask(&mut self, span: Span) -> Span {
        self.buffer.ask(span);
        let start = self.source.as_ref().map_or(0, |source| source.start);
        Span::new(span.start - start, span.end - start)
    }

    /// The reader checks for something to read.
    pub(crate) fn on_reader(&mut self) {
        if let Some(source) = &mut self.source {
            source.notified = false;
        }
    }

    /// Whether to notify the reader now that there is something to read, or that all is done.
    pub(crate) fn notify_reader(&mut self, room: u64) -> bool {
        let waits = self.source.as_ref().is_some_and(|source| !source.notified);
        if !waits || (self.next_read(room).is_none() && !self.ledger.is_answered()) {
            return false;
        }
        if let Some(source) = &mut self.source {
            source.notified = true;
        }
        true
    }
}
