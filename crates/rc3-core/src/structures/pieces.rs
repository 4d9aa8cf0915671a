//! Bytes of a stream that wait for their reader, by offset.
//!
//! Bytes without a gap between them are one run of pieces as they arrived, so that bytes in order cost a push and a pop
//! instead of a map entry each. Two pieces that touch are joined unless they have more than [`JOIN_MAX`] bytes
//! together: so there is at most one for each run and for each 1024 bytes. Reading parts of pieces may leave more.
//!
//! When two runs meet, the shorter one moves, so n inserts cost O(n log n) whatever their order, and each copies
//! at most two times [`JOIN_MAX`] bytes beyond its own.
//!
//! All offsets and lengths are bytes of the stream.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::structures::{
    held::{PIECE_COST, RUN_COST, extra},
    offset_map::OffsetMap,
};

/// Pieces that touch and have at most this many bytes together are joined.
pub(crate) const JOIN_MAX: usize = 2048;

#[derive(Debug, Default)]
pub(crate) struct Pieces {
    /// Runs that do not touch, by an offset at or below their start and above the run before: reading moves the start
    /// of a run and not its key.
    runs: OffsetMap<Contiguous>,
    /// Number of pieces.
    pub(crate) count: usize,
    /// Sum of their lengths.
    pub(crate) bytes: u64,
}

/// Pieces without a gap between them; never empty.
#[derive(Debug)]
struct Contiguous {
    start: u64,
    end: u64,
    pieces: VecDeque<Bytes>,
}

impl Pieces {
    /// Memory of runs and pieces beyond the first, besides their bytes.
    pub(crate) fn overhead(&self) -> u64 {
        extra(self.runs.len()) * RUN_COST + extra(self.count) * PIECE_COST
    }

    /// Offset of the lowest byte.
    pub(crate) fn start(&self) -> Option<u64> {
        self.runs.first_key_value().map(|(_, run)| run.start)
    }

    /// Adds bytes, none of which may be present.
    pub(crate) fn insert(&mut self, start: u64, piece: Bytes) {
        let end = start + piece.len() as u64;
        self.bytes += piece.len() as u64;
        if let Some((_, run)) = self.runs.last_in_mut(..=end)
            && run.end == start
        {
            // No other run begins at `end` or before: nothing touches from above.
            self.count += run.push_back(piece);
            return;
        }
        let above = self.take_starting_at(end);
        let below = self.runs.last_in_mut(..start).map(|(_, run)| run).filter(|run| run.end == start);
        let (run, more) = match (below, above) {
            (Some(below), Some(above)) => {
                let more = below.push_back(piece);
                self.count = self.count + more - below.merge(above);
                return;
            }
            (Some(below), None) => {
                self.count += below.push_back(piece);
                return;
            }
            (None, Some(mut above)) => {
                let more = above.push_front(piece);
                (above, more)
            }
            (None, None) => (Contiguous { start, end, pieces: VecDeque::from([piece]) }, 1),
        };
        self.count += more;
        self.runs.insert(start, run);
    }

    /// Takes out the first bytes of the lowest run that starts at `from` or above: a piece, or `max` bytes of it.
    pub(crate) fn pop(&mut self, from: u64, max: usize) -> Option<(u64, Bytes)> {
        // A partly read run may have a key below.
        let begun = self.runs.range(..from).next_back().filter(|(_, run)| run.start >= from);
        let (&key, _) = begun.or_else(|| self.runs.range(from..).next())?;
        let run = self.runs.get_mut(key)?;
        let piece = run.pieces.front_mut().filter(|_| max > 0)?;
        let data = if piece.len() > max {
            piece.split_to(max)
        } else {
            self.count -= 1;
            let piece = run.pieces.pop_front()?;
            // Frees the memory of long runs with them.
            if run.pieces.len() * 4 < run.pieces.capacity() {
                run.pieces.shrink_to(run.pieces.len() * 2);
            }
            piece
        };
        let start = run.start;
        run.start += data.len() as u64;
        self.bytes -= data.len() as u64;
        if run.pieces.is_empty() {
            self.runs.remove(key);
        }
        Some((start, data))
    }

    /// Counts runs and the lengths of all pieces, by walking all of them.
    #[cfg(test)]
    pub(crate) fn recounted(&self) -> (usize, Vec<usize>) {
        let lens = self.runs.iter().flat_map(|(_, run)| run.pieces.iter().map(Bytes::len)).collect();
        (self.runs.iter().count(), lens)
    }

    fn take_starting_at(&mut self, start: u64) -> Option<Contiguous> {
        let (&key, run) = self.runs.range(..=start).next_back()?;
        if run.start == start { self.runs.remove(key) } else { None }
    }
}

impl Contiguous {
    /// Returns by how much the number of pieces has grown.
    fn push_back(&mut self, piece: Bytes) -> usize {
        self.end += piece.len() as u64;
        match self.pieces.back_mut() {
            Some(last) if last.len() + piece.len() <= JOIN_MAX => {
                *last = join(last, &piece);
                0
            }
            _ => {
                self.pieces.push_back(piece);
                1
            }
        }
    }

    /// As [`Self::push_back`].
    fn push_front(&mut self, piece: Bytes) -> usize {
        self.start -= piece.len() as u64;
        match self.pieces.front_mut() {
            Some(first) if first.len() + piece.len() <= JOIN_MAX => {
                *first = join(&piece, first);
                0
            }
            _ => {
                self.pieces.push_front(piece);
                1
            }
        }
    }

    /// Appends the run that begins where this one ends, and returns by how much the number of pieces decreased.
    fn merge(&mut self, above: Self) -> usize {
        let count = self.pieces.len() + above.pieces.len();
        let Self { end, mut pieces, .. } = above;
        if pieces.len() <= self.pieces.len() {
            if let Some(first) = pieces.pop_front() {
                self.push_back(first);
            }
            self.pieces.append(&mut pieces);
        } else {
            let mut above = Self { start: self.end, end, pieces };
            if let Some(last) = self.pieces.pop_back() {
                above.push_front(last);
            }
            while let Some(piece) = self.pieces.pop_back() {
                above.pieces.push_front(piece);
            }
            self.pieces = above.pieces;
        }
        self.end = end;
        count - self.pieces.len()
    }
}

fn join(low: &Bytes, high: &Bytes) -> Bytes {
    Bytes::from([&low[..], &high[..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(spans: &[(u64, usize)]) -> Pieces {
        let mut pieces = Pieces::default();
        for &(start, len) in spans {
            pieces.insert(start, (0..len).map(|byte| (start as usize + byte) as u8).collect());
        }
        pieces
    }

    fn drain(mut pieces: Pieces) -> Vec<(u64, usize)> {
        let mut drained = Vec::new();
        while let Some((start, data)) = pieces.pop(0, usize::MAX) {
            assert!(data.iter().zip(start..).all(|(&byte, offset)| byte == offset as u8));
            drained.push((start, data.len()));
        }
        assert_eq!((pieces.count, pieces.bytes, pieces.start()), (0, 0, None));
        drained
    }

    #[test]
    fn packets_in_any_order_are_one_run_of_packets() {
        let packets = [(0, 1400), (1400, 1400), (2800, 1400), (4200, 1400)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1], [0, 3, 1, 2], [1, 3, 2, 0]] {
            let pieces = pieces(&order.map(|index| packets[index]));
            assert_eq!((pieces.runs.len(), pieces.count), (1, 4));
            assert_eq!(drain(pieces), packets);
        }
    }

    #[test]
    fn small_neighbours_are_joined_on_both_sides() {
        let pieces = pieces(&[(0, 100), (200, 100), (100, 100)]);
        assert_eq!((pieces.count, pieces.bytes), (1, 300));
        assert_eq!(drain(pieces), [(0, 300)]);
    }

    #[test]
    fn a_run_that_was_read_in_part_takes_bytes_at_both_ends() {
        let mut pieces = pieces(&[(5000, 2000), (7000, 2000)]);
        assert_eq!(pieces.pop(0, 500).map(|(start, data)| (start, data.len())), Some((5000, 500)));
        // Below what was read, and right above the run.
        pieces.insert(3000, vec![0; 10].into());
        pieces.insert(9000, (0..2000).map(|byte| (9000 + byte) as u8).collect());
        pieces.pop(0, 10);
        assert_eq!(pieces.start(), Some(5500));
        assert_eq!(drain(pieces), [(5500, 1500), (7000, 2000), (9000, 2000)]);
    }

    #[test]
    fn bytes_past_a_hole_can_be_taken_first() {
        let mut pieces = pieces(&[(0, 3000), (5000, 3000), (9000, 3000)]);
        let pop = |pieces: &mut Pieces, from| pieces.pop(from, 1000).map(|(start, data)| (start, data.len()));
        assert_eq!(pop(&mut pieces, 1), Some((5000, 1000)));
        // Read in part: its key lies below what is asked for now.
        assert_eq!(pop(&mut pieces, 5500), Some((6000, 1000)));
        assert_eq!(pop(&mut pieces, 6001), Some((7000, 1000)));
        assert_eq!(pop(&mut pieces, 6001), Some((9000, 1000)));
        assert_eq!(pop(&mut pieces, 10_001), None);
        assert_eq!(drain(pieces), [(0, 3000), (10_000, 2000)]);
    }

    #[test]
    fn room_for_many_pieces_is_given_back_with_them() {
        let mut pieces = Pieces::default();
        (0..1000).for_each(|nth| pieces.insert(nth * 2000, Bytes::from_static(&[0; 2000])));
        (0..990).for_each(|_| drop(pieces.pop(0, usize::MAX)));
        assert!(pieces.runs.get(0).unwrap().pieces.capacity() < 100);
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes of interpretation")]
    fn runs_that_meet_move_the_shorter_one() {
        // Always one packet between a long run and a hole of one packet.
        let mut pieces = Pieces::default();
        let packet = || Bytes::from(vec![0; 1400]);
        for nth in (0..20_000u64).rev().step_by(2) {
            pieces.insert((nth - 1) * 1400, packet());
            pieces.insert(nth * 1400, packet());
        }
        assert_eq!((pieces.runs.len(), pieces.count), (1, 20_000));
    }
}
