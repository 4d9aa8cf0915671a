//! Which loop owns each byte of one send stream, and where the two loops meet.
//!
//! The invariant: every byte below [`Ledger::end`] is in exactly one [`ByteState`], and every byte below [`Ledger::cursor`]
//! has an owner. A byte moves only forward, unless RLP lost it and may send it again:
//!
//! ```text
//!             sent_by_rlp              delivered
//!   Open ------------------> Rlp(level) --------> Delivered
//!     |  <------- reopen ------  |
//!     |      hand_to_primary     |    (a byte that RLP sent and nobody has SACKed is a duplicate then)
//!     +----------> Primary <-----+
//! ```
//!
//! The primary takes the lowest bytes, RLP the highest open ones. The cursor is the primary's position; it jumps over
//! bytes that RLP has delivered (the ACK bump, RC3 §2.1). Above the cursor three sets store the states; below it only
//! the overlap is stored: bytes handed to the primary so recently that they may not have left, which RLP may also send
//! (once).
//!
//! All offsets and lengths are bytes of the stream.

use crate::{
    structures::{
        held::{SPAN_COST, extra},
        range_map::{SpanMap, SpanSet},
    },
    units::{Level, Span},
};

/// Largest overlap of RLP with the primary below the cursor, in bytes.
///
/// Enough for the last two write quanta (a 32nd of the window each) of a window of 64 MiB.
pub(crate) const OVERLAP_MAX: u64 = 4 << 20;

/// Most separate delivered spans in a ledger.
///
/// An honest receiver makes one for each loss in an RLP flight, and stores no more. A hostile one could ask for one per
/// two bytes by SACKing every other byte, so SACKs beyond the limit that do not extend a known span are ignored as if
/// they were lost; the primary then sends those bytes.
pub(crate) const DELIVERED_SPANS_MAX: usize = 1 << 14;

/// The owner of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteState {
    /// None yet.
    Open,
    /// The primary loop: it has the byte, or it has skipped it because it was delivered. Below the cursor the ledger
    /// does not distinguish the two.
    Primary,
    /// The RLP loop sent it at this level; no SACK has arrived.
    Rlp(Level),
    /// The peer has it by RLP, above the cursor.
    Delivered,
}

/// The ledger of one send stream.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Length of the stream so far.
    end: u64,
    /// Every byte below has an owner; the byte here, if any, is open or in the RLP flight.
    cursor: u64,
    /// Open bytes. All at or above the cursor.
    open: SpanSet,
    /// Bytes sent by RLP, not SACKed, not handed to the primary. All at or above the cursor.
    rlp: SpanMap<Level>,
    /// Delivered bytes above the cursor; none at it.
    delivered: SpanSet,
    /// Bytes handed to the primary that RLP never sent, at most [`OVERLAP_MAX`] below the cursor.
    handed: SpanSet,
}

impl Ledger {
    /// Adds `len` open bytes at the end.
    pub fn append(&mut self, len: u64) {
        let span = Span::new(self.end, self.end + len);
        if !self.open.append(span) {
            self.open.insert(span);
        }
        self.end = span.end;
    }

    /// Length of the stream so far.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The lowest offset without an owner: all below is handed to the primary or delivered.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// What the primary should take next: the lowest bytes from the cursor on, at most `max`, up to the next delivered
    /// span. `None` if every byte has an owner or `max` is 0.
    pub fn next_for_primary(&self, max: u64) -> Option<Span> {
        let stop = self.delivered.first().map_or(self.end, |run| run.start);
        let end = stop.min(self.cursor.saturating_add(max));
        (end > self.cursor).then(|| Span::new(self.cursor, end))
    }

    /// The primary takes this span: pairs with [`Self::next_for_primary`], whose span may be shortened at its end.
    ///
    /// Returns how many of its bytes RLP had sent without a SACK so far: the duplicates.
    ///
    /// # Panics
    /// If the span does not start at the cursor, or holds bytes that are delivered or past the end.
    pub fn hand_to_primary(&mut self, span: Span) -> u64 {
        assert_eq!(span.start, self.cursor, "the primary takes bytes in order");
        for piece in self.open.intersection(span) {
            self.handed.insert(piece);
        }
        let opened = self.open.remove(span);
        let duplicates = self.rlp.take(span, |_, _| {});
        assert_eq!(opened + duplicates, span.len(), "bytes that already have an owner");
        self.move_cursor(span.end);
        duplicates
    }

    /// What RLP should send next: the highest open bytes below `ceiling`, at most `max`, as one span.
    ///
    /// Where the loops meet, up to `overlap` bytes (at most [`OVERLAP_MAX`]) below the cursor are offered, too: "handed
    /// to the primary" is not "in a packet", and waiting for the next window would cost a round trip. No byte is
    /// offered that RLP has sent before, unless it was [reopened](Self::reopen).
    pub fn next_for_rlp(&self, max: u64, ceiling: u64, overlap: u64) -> Option<Span> {
        if max == 0 {
            return None;
        }
        let floor = self.cursor.saturating_sub(overlap.min(OVERLAP_MAX));
        let overlap = |below: u64| {
            let run = self.handed.last_below(below).filter(|run| run.end > floor)?;
            Some(Span::new(run.start.max(floor), run.end))
        };
        let mut span = self.open.last_below(ceiling).or_else(|| overlap(ceiling))?;
        // An open run down to the cursor and the overlap below it fill one packet together.
        if span.start == self.cursor
            && span.len() < max
            && let Some(below) = overlap(self.cursor).filter(|run| run.end == self.cursor)
        {
            span.start = below.start;
        }
        Some(Span::new(span.start.max(span.end.saturating_sub(max)), span.end))
    }

    /// RLP has sent this span at `level`: pairs with [`Self::next_for_rlp`], whose span may be shortened at its start.
    /// Overlap bytes stay with the primary.
    ///
    /// # Panics
    /// If a byte is neither open nor an overlap byte that RLP has not sent yet.
    pub fn sent_by_rlp(&mut self, span: Span, level: Level) {
        debug_assert!(!level.is_primary(), "RLP sends at low priority only");
        let overlap = span.intersection(Span::new(0, self.cursor));
        let open = Span::new(span.start.max(self.cursor).min(span.end), span.end);
        let taken = self.handed.remove(overlap) + self.open.remove(open);
        assert_eq!(taken, span.len(), "RLP sends a byte once, and only if it is open or just handed over");
        self.rlp.put(open, level);
    }

    /// The peer SACKs this span. Only bytes sent by RLP and not handed to the primary since become delivered; `on` gets
    /// each such piece with its level, lowest first. Returns their number. Other bytes need no change: receipts prove
    /// that RLP has sent all of the span.
    ///
    /// Without `room` for one more delivered span, only bytes that extend a known one or move the cursor count.
    pub fn delivered(&mut self, span: Span, room: bool, mut on: impl FnMut(Span, Level)) -> u64 {
        let room = room && self.delivered.span_count() < DELIVERED_SPANS_MAX;
        if !room && !self.delivered.touches(span) && self.cursor < span.start {
            return 0;
        }
        let delivered = &mut self.delivered;
        let newly = self.rlp.take(span, |piece, level| {
            delivered.insert(piece);
            on(piece, level);
        });
        self.move_cursor(self.cursor);
        newly
    }

    /// RLP's packets with this span are lost: bytes that were neither taken by the primary nor SACKed since are open
    /// again. Returns their number.
    pub fn reopen(&mut self, span: Span) -> u64 {
        let open = &mut self.open;
        self.rlp.take(span, |piece, _| {
            open.insert(piece);
        })
    }

    /// The parts of a span above the cursor that the peer is not known to have, lowest first.
    pub fn undelivered(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        self.delivered.gaps(span)
    }

    /// Whether every byte is handed to the primary or delivered.
    pub fn is_answered(&self) -> bool {
        self.cursor == self.end
    }

    /// How many bytes are open.
    pub fn open(&self) -> u64 {
        self.open.covered()
    }

    /// Memory used by the records of bytes, except the first of each kind.
    pub fn overhead(&self) -> u64 {
        // Spelled out: it is asked twice in each change of a stream.
        let sets = extra(self.open.span_count()) + extra(self.delivered.span_count());
        let spans = sets + extra(self.handed.span_count()) + extra(self.rlp.span_count());
        spans * SPAN_COST
    }

    /// The owner of the byte at `offset`; [`ByteState::Open`] beyond the end.
    pub fn state(&self, offset: u64) -> ByteState {
        if offset < self.cursor {
            ByteState::Primary
        } else if let Some(level) = self.rlp.value_at(offset) {
            ByteState::Rlp(level)
        } else if self.delivered.run_at(offset).is_some() {
            ByteState::Delivered
        } else {
            ByteState::Open
        }
    }

    /// Moves the cursor to `to` and on over the delivered span there (the ACK bump), and drops all records below.
    fn move_cursor(&mut self, to: u64) {
        self.cursor = self.delivered.first_gap(to);
        self.delivered.remove(Span::new(to, self.cursor));
        self.handed.remove(Span::new(0, self.cursor.saturating_sub(OVERLAP_MAX)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(start: u64, end: u64) -> Span {
        Span::new(start, end)
    }

    fn level(number: u8) -> Level {
        Level::new(number).unwrap()
    }

    fn ledger(len: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.append(len);
        ledger
    }

    /// RLP sends the next span it is offered, at this level.
    fn rlp(ledger: &mut Ledger, max: u64, number: u8) -> Span {
        let next = ledger.next_for_rlp(max, u64::MAX, 0).unwrap();
        ledger.sent_by_rlp(next, level(number));
        next
    }

    #[test]
    fn loops_meet_in_the_middle() {
        let mut ledger = ledger(10);
        assert_eq!(rlp(&mut ledger, 4, 1), span(6, 10));
        assert_eq!(ledger.next_for_primary(3), Some(span(0, 3)));
        assert_eq!(ledger.hand_to_primary(span(0, 3)), 0);
        assert_eq!(rlp(&mut ledger, 4, 2), span(3, 6));
        assert_eq!(ledger.next_for_rlp(4, u64::MAX, 0), None);
        assert!(!ledger.is_answered());
        let mut pieces = Vec::new();
        let newly = ledger.delivered(span(0, 10), true, |piece, level| pieces.push((piece, level)));
        assert_eq!(newly, 7);
        assert_eq!(pieces, [(span(3, 6), level(2)), (span(6, 10), level(1))]);
        assert!(ledger.is_answered());
        assert_eq!(ledger.cursor(), 10);
    }

    #[test]
    fn primary_stops_at_a_delivered_span_and_is_bumped_over_it() {
        let mut ledger = ledger(10);
        assert_eq!(rlp(&mut ledger, 2, 1), span(8, 10));
        assert_eq!(rlp(&mut ledger, 4, 1), span(4, 8));
        ledger.delivered(span(4, 8), true, |_, _| {});
        assert_eq!(ledger.next_for_primary(100), Some(span(0, 4)));
        ledger.hand_to_primary(span(0, 4));
        assert_eq!(ledger.cursor(), 8);
        assert_eq!(ledger.hand_to_primary(span(8, 10)), 2);
        assert!(ledger.is_answered());
    }

    #[test]
    fn appended_bytes_go_before_the_older_ones() {
        let mut ledger = ledger(10);
        assert_eq!(rlp(&mut ledger, 3, 1), span(7, 10));
        ledger.append(5);
        assert_eq!(rlp(&mut ledger, 4, 1), span(11, 15));
        assert_eq!(rlp(&mut ledger, 4, 1), span(10, 11));
        assert_eq!(rlp(&mut ledger, 4, 1), span(3, 7));
    }

    #[test]
    fn nothing_at_or_above_the_ceiling_is_offered_to_rlp() {
        let ledger = ledger(10);
        assert_eq!(ledger.next_for_rlp(4, 6, 0), Some(span(2, 6)));
        assert_eq!(ledger.next_for_rlp(4, 0, 0), None);
    }

    #[test]
    fn overlap_bytes_are_sent_once_and_stay_with_the_primary() {
        let mut ledger = ledger(10);
        ledger.hand_to_primary(span(0, 8));
        assert_eq!(ledger.next_for_rlp(100, u64::MAX, 0), Some(span(8, 10)));
        let next = ledger.next_for_rlp(5, u64::MAX, 4).unwrap();
        assert_eq!(next, span(5, 10));
        ledger.sent_by_rlp(next, level(1));
        assert_eq!(ledger.next_for_rlp(5, u64::MAX, 4), Some(span(4, 5)));
        ledger.sent_by_rlp(span(4, 5), level(1));
        assert_eq!(ledger.next_for_rlp(5, u64::MAX, 4), None);
        assert_eq!((ledger.state(6), ledger.rlp.covered()), (ByteState::Primary, 2));
        assert_eq!(ledger.delivered(span(4, 8), true, |_, _| unreachable!()), 0);
    }

    #[test]
    fn bytes_rlp_sent_before_the_handover_are_no_overlap() {
        let mut ledger = ledger(10);
        assert_eq!(rlp(&mut ledger, 4, 1), span(6, 10));
        assert_eq!(ledger.hand_to_primary(span(0, 8)), 2);
        assert_eq!(ledger.next_for_rlp(100, u64::MAX, 100), Some(span(0, 6)));
    }

    #[test]
    fn sack_of_unsent_bytes_is_ignored() {
        let mut ledger = ledger(10);
        ledger.hand_to_primary(span(0, 2));
        rlp(&mut ledger, 3, 1);
        let before = ledger.clone();
        assert_eq!(ledger.delivered(span(0, 7), true, |_, _| unreachable!()), 0);
        assert_eq!(ledger.delivered(span(12, u64::MAX), true, |_, _| unreachable!()), 0);
        assert_eq!(ledger.cursor(), before.cursor());
        assert_eq!(ledger.open(), before.open());
        assert_eq!(ledger.next_for_primary(100), before.next_for_primary(100));
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes of interpretation")]
    fn sacks_of_every_other_byte_cost_bounded_memory() {
        let len = 4 * DELIVERED_SPANS_MAX as u64;
        let mut ledger = ledger(len);
        rlp(&mut ledger, len, 1);
        let newly: u64 =
            (3..len).step_by(2).map(|at| ledger.delivered(span(at, at + 1), true, |_, _| {})).sum();
        assert_eq!(newly, DELIVERED_SPANS_MAX as u64);
        assert!(ledger.rlp.span_count() <= DELIVERED_SPANS_MAX + 1);
        // Bytes that extend a known span, or move the cursor, still count.
        assert_eq!(ledger.delivered(span(0, 1), true, |_, _| {}), 1);
        assert_eq!(ledger.cursor(), 1);
        assert_eq!(ledger.delivered(span(4, 5), true, |_, _| {}), 1);
    }

    #[test]
    fn without_room_a_sack_that_makes_one_span_more_changes_nothing() {
        let mut ledger = ledger(10);
        rlp(&mut ledger, 10, 1);
        ledger.delivered(span(6, 8), true, |_, _| {});
        let before = ledger.clone();
        assert_eq!(ledger.delivered(span(3, 4), false, |_, _| unreachable!()), 0);
        assert_eq!((&ledger.delivered, &ledger.rlp), (&before.delivered, &before.rlp));
        assert_eq!(ledger.delivered(span(5, 6), false, |_, _| {}), 1, "extends one");
        assert_eq!(ledger.delivered(span(0, 1), false, |_, _| {}), 1, "moves the cursor");
        assert_eq!((ledger.cursor(), ledger.overhead()), (1, SPAN_COST));
    }

    #[test]
    fn memory_of_the_overlap_ends_far_below_the_cursor() {
        let mut ledger = ledger(3 * OVERLAP_MAX);
        ledger.hand_to_primary(span(0, 2 * OVERLAP_MAX));
        assert_eq!(ledger.handed.first(), Some(span(OVERLAP_MAX, 2 * OVERLAP_MAX)));
        rlp(&mut ledger, u64::MAX, 1);
        let next = ledger.next_for_rlp(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(next, Some(span(OVERLAP_MAX, 2 * OVERLAP_MAX)));
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn handing_over_above_the_cursor_is_a_bug() {
        ledger(10).hand_to_primary(span(1, 2));
    }

    #[test]
    #[should_panic(expected = "sends a byte once")]
    fn rlp_sending_a_byte_twice_is_a_bug() {
        let mut ledger = ledger(10);
        rlp(&mut ledger, 4, 1);
        ledger.sent_by_rlp(span(5, 7), level(1));
    }

    /// One byte of the oracle: its state, and whether RLP ever sent it.
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Byte {
        state: ByteState,
        rlp_sent: bool,
    }

    /// The ledger as one state per byte.
    #[derive(Debug, Default)]
    struct Oracle(Vec<Byte>);

    impl Oracle {
        fn end(&self) -> u64 {
            self.0.len() as u64
        }

        fn at(&self, offset: u64) -> Byte {
            self.0[offset as usize]
        }

        fn bytes(&mut self, span: Span) -> &mut [Byte] {
            &mut self.0[span.start as usize..span.end as usize]
        }

        fn count(&self, what: impl Fn(ByteState) -> bool) -> u64 {
            self.0.iter().filter(|byte| what(byte.state)).count() as u64
        }

        fn cursor(&self) -> u64 {
            let answered = |byte: &Byte| matches!(byte.state, ByteState::Primary | ByteState::Delivered);
            self.0.iter().take_while(|byte| answered(byte)).count() as u64
        }

        fn next_for_primary(&self, max: u64) -> Option<Span> {
            let start = self.cursor();
            let mut end = start;
            while end < self.end() && end - start < max && self.at(end).state != ByteState::Delivered {
                end += 1;
            }
            (start < end).then(|| span(start, end))
        }

        fn next_for_rlp(&self, max: u64, ceiling: u64, overlap: u64) -> Option<Span> {
            let cursor = self.cursor();
            let may = |offset: u64| {
                let byte = self.at(offset);
                let late = offset < cursor && offset + overlap >= cursor && byte.state == ByteState::Primary;
                !byte.rlp_sent && (byte.state == ByteState::Open || late)
            };
            let end = (0..self.end().min(ceiling)).rev().find(|&offset| may(offset))? + 1;
            let mut start = end;
            while start > 0 && end - start < max && may(start - 1) {
                start -= 1;
            }
            (start < end).then(|| span(start, end))
        }

        fn delivered(&mut self, span: Span) -> (u64, Vec<(Span, Level)>) {
            let mut newly = 0;
            let mut pieces: Vec<(Span, Level)> = Vec::new();
            for offset in span.start..span.end {
                let Some(byte) = self.0.get_mut(offset as usize) else { continue };
                match byte.state {
                    ByteState::Rlp(level) => {
                        byte.state = ByteState::Delivered;
                        newly += 1;
                        match pieces.last_mut() {
                            Some((piece, at)) if piece.end == offset && *at == level => piece.end += 1,
                            _ => pieces.push((Span::new(offset, offset + 1), level)),
                        }
                    }
                    ByteState::Open | ByteState::Primary | ByteState::Delivered => {}
                }
            }
            (newly, pieces)
        }
    }

    #[derive(Debug, Clone)]
    enum Op {
        Append(u64),
        Primary { max: u64, keep: u64 },
        Rlp { max: u64, ceiling: u64, overlap: u64, cut: u64, level: Level },
        Sack(Span),
        Reopen(Span),
    }

    fn any_op() -> impl Strategy<Value = Op> {
        let ceiling = prop_oneof![Just(u64::MAX), 0..80u64];
        prop_oneof![
            2 => (0..20u64).prop_map(Op::Append),
            3 => (0..8u64, 1..8u64).prop_map(|(max, keep)| Op::Primary { max, keep }),
            5 => (0..8u64, ceiling, 0..12u64, 0..3u64, 1..4u8).prop_map(|(max, ceiling, overlap, cut, at)| {
                Op::Rlp { max, ceiling, overlap, cut, level: level(at) }
            }),
            4 => (0..90u64, 0..12u64).prop_map(|(start, len)| Op::Sack(span(start, start + len))),
            2 => (0..90u64, 0..12u64).prop_map(|(start, len)| Op::Reopen(span(start, start + len))),
        ]
    }

    fn check(ledger: &Ledger, oracle: &Oracle) -> Result<(), TestCaseError> {
        prop_assert_eq!(ledger.end(), oracle.end());
        prop_assert_eq!(ledger.cursor(), oracle.cursor());
        prop_assert_eq!(ledger.open(), oracle.count(|state| state == ByteState::Open));
        prop_assert_eq!(ledger.rlp.covered(), oracle.count(|state| matches!(state, ByteState::Rlp(_))));
        let answered = oracle.count(|state| matches!(state, ByteState::Primary | ByteState::Delivered));
        prop_assert_eq!(ledger.is_answered(), answered == oracle.end());
        for offset in 0..oracle.end() {
            let state = oracle.at(offset).state;
            let seen = if offset < oracle.cursor() { ByteState::Primary } else { state };
            prop_assert_eq!(ledger.state(offset), seen, "at {}", offset);
        }
        for max in [0, 1, 5, u64::MAX] {
            prop_assert_eq!(ledger.next_for_primary(max), oracle.next_for_primary(max));
            for ceiling in [0, ledger.cursor(), ledger.end() / 2, u64::MAX] {
                for overlap in [0, 3, 1000] {
                    let next = ledger.next_for_rlp(max, ceiling, overlap);
                    prop_assert_eq!(next, oracle.next_for_rlp(max, ceiling, overlap));
                }
            }
        }
        // The sets partition the bytes above the cursor: disjoint and complete.
        let mut all = SpanSet::default();
        let pieces = ledger
            .open
            .iter()
            .chain(ledger.delivered.iter())
            .chain(ledger.rlp.runs_from(0).map(|(run, _)| run));
        for piece in pieces {
            prop_assert!(piece.start >= ledger.cursor());
            prop_assert_eq!(all.insert(piece), piece.len());
        }
        prop_assert_eq!(all.covered(), ledger.end() - ledger.cursor());
        prop_assert!(!ledger.handed.intersects(span(ledger.cursor(), u64::MAX)));
        Ok(())
    }

    proptest! {
        #[test]
        fn a_ledger_is_one_state_per_byte(ops in prop::collection::vec(any_op(), 0..60)) {
            let mut ledger = Ledger::default();
            let mut oracle = Oracle::default();
            for op in ops {
                match op {
                    Op::Append(len) => {
                        ledger.append(len);
                        let byte = Byte { state: ByteState::Open, rlp_sent: false };
                        oracle.0.resize(oracle.0.len() + len as usize, byte);
                    }
                    Op::Primary { max, keep } => {
                        let Some(mut next) = ledger.next_for_primary(max) else { continue };
                        next.end = next.end.min(next.start + keep);
                        let bytes = oracle.bytes(next);
                        let rlp = |byte: &&Byte| matches!(byte.state, ByteState::Rlp(_));
                        let duplicates = bytes.iter().filter(rlp).count();
                        bytes.iter_mut().for_each(|byte| byte.state = ByteState::Primary);
                        prop_assert_eq!(ledger.hand_to_primary(next), duplicates as u64);
                    }
                    Op::Rlp { max, ceiling, overlap, cut, level } => {
                        let Some(mut next) = ledger.next_for_rlp(max, ceiling, overlap) else { continue };
                        next.start = (next.start + cut).min(next.end - 1);
                        ledger.sent_by_rlp(next, level);
                        for byte in oracle.bytes(next) {
                            prop_assert!(!std::mem::replace(&mut byte.rlp_sent, true));
                            if byte.state == ByteState::Open {
                                byte.state = ByteState::Rlp(level);
                            }
                        }
                    }
                    Op::Sack(span) => {
                        let mut pieces = Vec::new();
                        let sacked = ledger.delivered(span, true, |piece, level| pieces.push((piece, level)));
                        prop_assert_eq!((sacked, pieces), oracle.delivered(span));
                    }
                    Op::Reopen(span) => {
                        let lost = |byte: &&mut Byte| matches!(byte.state, ByteState::Rlp(_));
                        let bytes = oracle.0.iter_mut().skip(span.start as usize).take(span.len() as usize);
                        let mut reopened = 0;
                        for byte in bytes.filter(lost) {
                            *byte = Byte { state: ByteState::Open, rlp_sent: false };
                            reopened += 1;
                        }
                        prop_assert_eq!(ledger.reopen(span), reopened);
                    }
                }
                check(&ledger, &oracle)?;
            }
        }
    }
}
