//! Sorted spans of stream offsets: the structure under the ledger, the reassembler and the SACKs.
//!
//! [`SpanMap`] stores a small value for each offset, [`SpanSet`] none. The runs are in an [`OffsetMap`] from start to end
//! and value. The invariant: runs are not empty, do not overlap, and two runs that touch and [can be joined](Value) are
//! one run. So equal contents mean equal structures, and the number of runs of a set is the number of gaps in the data,
//! whatever the order of insertion.
//!
//! Offsets and lengths are bytes. Every operation takes O(log n + t) for n runs, of which it touches t.

use std::iter;

use crate::{
    structures::offset_map::OffsetMap,
    units::{Level, Receipt, Span},
};

/// The value of a run.
pub trait Value: Copy {
    /// The value of this run and the one directly above it together; `None` if they stay two runs.
    fn joined(self, above: Self) -> Option<Self>;
}

impl Value for () {
    fn joined(self, (): Self) -> Option<Self> {
        Some(())
    }
}

impl Value for Level {
    fn joined(self, above: Self) -> Option<Self> {
        (self == above).then_some(self)
    }
}

/// Each is that of a whole run: only whole runs may be removed.
impl Value for Receipt {
    fn joined(self, above: Self) -> Option<Self> {
        Some(self ^ above)
    }
}

/// A set of offsets.
pub type SpanSet = SpanMap<()>;

/// A map from offsets to small values, kept as disjoint runs of one value each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanMap<V> {
    /// Start to end and value of every run.
    runs: OffsetMap<(u64, V)>,
    /// Sum of the lengths of all runs.
    covered: u64,
}

impl<V> Default for SpanMap<V> {
    fn default() -> Self {
        Self { runs: OffsetMap::new(), covered: 0 }
    }
}

impl<V: Value> SpanMap<V> {
    /// Whether no offset has a value.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs there are.
    pub fn span_count(&self) -> usize {
        self.runs.len()
    }

    /// The number of bytes in all runs.
    pub fn covered(&self) -> u64 {
        self.covered
    }

    /// Gives every byte of the span this value, replacing any other; returns how many had none.
    pub fn put(&mut self, span: Span, value: V) -> u64 {
        if span.is_empty() {
            return 0;
        }
        let new = span.len() - self.take(span, |_, _| {});
        self.covered += span.len();
        let (Span { start, mut end }, mut value) = (span, value);
        if let Some(&(above_end, above)) = self.runs.get(end)
            && let Some(joined) = value.joined(above)
        {
            self.runs.remove(end);
            (end, value) = (above_end, joined);
        }
        if let Some((_, (below_end, below))) = self.runs.last_in_mut(..start)
            && *below_end == start
            && let Some(joined) = below.joined(value)
        {
            (*below_end, *below) = (end, joined);
        } else {
            self.runs.insert(start, (end, value));
        }
        new
    }

    /// Removes the values of a span. `on` gets every piece that had one, lowest first; returns the sum of their
    /// lengths.
    pub fn take(&mut self, span: Span, mut on: impl FnMut(Span, V)) -> u64 {
        if span.is_empty() || self.is_empty() {
            return 0;
        }
        let mut removed = 0;
        let mut take = |piece: Span, value| {
            removed += piece.len();
            on(piece, value);
        };
        if let Some((_, (run_end, value))) = self.runs.last_in_mut(..span.start)
            && *run_end > span.start
        {
            let (end, value) = (std::mem::replace(run_end, span.start), *value);
            take(Span::new(span.start, end.min(span.end)), value);
            if end > span.end {
                self.runs.insert(span.end, (end, value));
            }
        }
        while let Some((&start, &(end, value))) = self.runs.range(span.start..span.end).next() {
            self.runs.remove(start);
            take(Span::new(start, end.min(span.end)), value);
            if end > span.end {
                self.runs.insert(span.end, (end, value));
            }
        }
        self.covered -= removed;
        removed
    }

    /// The value of the byte at `offset`.
    pub fn value_at(&self, offset: u64) -> Option<V> {
        let (_, &(end, value)) = self.runs.range(..=offset).next_back()?;
        (end > offset).then_some(value)
    }

    /// The runs that begin at `from` or above, with their values, lowest first.
    pub fn runs_from(&self, from: u64) -> impl DoubleEndedIterator<Item = (Span, V)> + '_ {
        self.runs.range(from..).map(|(&start, &(end, value))| (Span::new(start, end), value))
    }

    /// Whether every byte of the span has a value; true for an empty span.
    pub fn contains(&self, span: Span) -> bool {
        span.is_empty() || self.run_at(span.start).is_some_and(|run| run.end >= span.end)
    }

    /// Whether any byte of the span has a value.
    pub fn intersects(&self, span: Span) -> bool {
        self.last_below(span.end).is_some_and(|run| run.end > span.start && !span.is_empty())
    }

    /// Whether any byte of the span, or one directly before or after it, has a value: inserting it into a set would then
    /// not add a run.
    pub fn touches(&self, span: Span) -> bool {
        !span.is_empty()
            && self.runs.range(..=span.end).next_back().is_some_and(|(_, &(end, _))| end >= span.start)
    }

    /// The lowest run.
    pub fn first(&self) -> Option<Span> {
        self.runs.first_key_value().map(as_span)
    }

    /// The highest run.
    pub fn last(&self) -> Option<Span> {
        self.runs.last_key_value().map(as_span)
    }

    /// The highest run that starts below `ceiling`, truncated there.
    pub fn last_below(&self, ceiling: u64) -> Option<Span> {
        let run = self.runs.range(..ceiling).next_back().map(as_span)?;
        Some(Span::new(run.start, run.end.min(ceiling)))
    }

    /// The whole run that contains `offset`.
    pub fn run_at(&self, offset: u64) -> Option<Span> {
        self.runs.range(..=offset).next_back().map(as_span).filter(|run| run.end > offset)
    }

    /// The lowest offset from `from` on that has no value.
    pub fn first_gap(&self, from: u64) -> u64 {
        self.run_at(from).map_or(from, |run| run.end)
    }

    /// The parts of the runs that lie inside `span`, lowest first.
    pub fn intersection(&self, span: Span) -> impl DoubleEndedIterator<Item = Span> + '_ {
        let first = self.run_at(span.start).map_or(span.start, |run| run.start);
        self.runs
            .range(first..span.end)
            .map(move |run| as_span(run).intersection(span))
            .filter(|piece| !piece.is_empty())
    }

    /// The parts of `span` that have no value, lowest first.
    pub fn gaps(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        // Starts in a gap, or is empty.
        let mut rest = Span::new(self.first_gap(span.start).min(span.end), span.end);
        let mut runs = self.runs.range(rest.start..rest.end).map(as_span);
        iter::from_fn(move || {
            let start = (!rest.is_empty()).then_some(rest.start)?;
            let run = runs.next().unwrap_or_else(|| Span::new(rest.end, rest.end));
            rest.start = run.end.min(rest.end);
            Some(Span::new(start, run.start))
        })
    }
}

impl SpanSet {
    /// Adds a span; returns how many of its bytes were new.
    pub fn insert(&mut self, span: Span) -> u64 {
        // Repeated data is common, and splitting a run to join it again allocates.
        if self.contains(span) { 0 } else { self.put(span, ()) }
    }

    /// Extends the run that ends where the span starts, if neither a byte of the span nor the one after it is in the
    /// set, or begins the first run: like [`Self::insert`] for data in order, in one step down the tree. `false`: nothing
    /// was done.
    pub fn append(&mut self, span: Span) -> bool {
        if self.is_empty() {
            return self.put(span, ()) > 0;
        }
        match self.runs.last_in_mut(..=span.end) {
            Some((_, (run_end, ()))) if *run_end == span.start && !span.is_empty() => {
                *run_end = span.end;
                self.covered += span.len();
                true
            }
            _ => false,
        }
    }

    /// Removes a span; returns how many of its bytes were in the set.
    pub fn remove(&mut self, span: Span) -> u64 {
        self.take(span, |_, ()| {})
    }

    /// All runs, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Span> + '_ {
        self.runs_from(0).map(|(run, ())| run)
    }
}

fn as_span<V>((&start, &(end, _)): (&u64, &(u64, V))) -> Span {
    Span::new(start, end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Value for u8 {
        fn joined(self, above: Self) -> Option<Self> {
            (self == above).then_some(self)
        }
    }

    /// Upper bound of all offsets in a test.
    const SIZE: u64 = 48;

    fn span(start: u64, end: u64) -> Span {
        Span::new(start, end)
    }

    fn set(spans: &[(u64, u64)]) -> SpanSet {
        let mut set = SpanSet::default();
        for &(start, end) in spans {
            set.insert(span(start, end));
        }
        set
    }

    #[test]
    fn touching_spans_become_one_run() {
        let mut spans = set(&[(0, 2), (4, 6)]);
        assert_eq!(spans.span_count(), 2);
        assert_eq!(spans.insert(span(2, 4)), 2);
        assert_eq!(spans.iter().collect::<Vec<_>>(), [span(0, 6)]);
    }

    #[test]
    fn insert_returns_only_the_new_bytes() {
        let mut spans = set(&[(2, 4), (6, 8), (10, 12)]);
        assert_eq!(spans.insert(span(3, 11)), 4);
        assert_eq!(spans.insert(span(3, 11)), 0);
        assert_eq!(spans.insert(span(5, 5)), 0);
        assert_eq!((spans.covered(), spans.first()), (10, Some(span(2, 12))));
    }

    #[test]
    fn remove_from_the_middle_leaves_both_ends() {
        let mut spans = set(&[(0, 10)]);
        assert_eq!(spans.remove(span(3, 5)), 2);
        assert_eq!(spans.iter().collect::<Vec<_>>(), [span(0, 3), span(5, 10)]);
    }

    #[test]
    fn gaps_at_both_ends_are_seen() {
        let spans = set(&[(2, 4), (6, 8)]);
        assert_eq!(spans.gaps(span(0, 10)).collect::<Vec<_>>(), [span(0, 2), span(4, 6), span(8, 10)]);
        assert_eq!(spans.gaps(span(3, 7)).collect::<Vec<_>>(), [span(4, 6)]);
        assert_eq!(spans.gaps(span(2, 4)).count(), 0);
    }

    #[test]
    fn offsets_at_the_top_of_the_range_do_not_overflow() {
        let mut spans = set(&[(u64::MAX - 2, u64::MAX)]);
        assert!(spans.touches(span(u64::MAX - 1, u64::MAX)));
        assert_eq!(spans.insert(span(u64::MAX - 4, u64::MAX)), 2);
        assert_eq!(spans.gaps(span(0, u64::MAX)).collect::<Vec<_>>(), [span(0, u64::MAX - 4)]);
        assert_eq!(spans.remove(span(0, u64::MAX)), 4);
    }

    #[test]
    fn equal_neighbours_coalesce_in_a_map_and_others_do_not() {
        let mut map = SpanMap::default();
        map.put(span(0, 2), 1_u8);
        map.put(span(4, 6), 1_u8);
        map.put(span(6, 8), 2);
        map.put(span(2, 4), 1_u8);
        assert_eq!(map.runs_from(0).collect::<Vec<_>>(), [(span(0, 6), 1_u8), (span(6, 8), 2)]);
    }

    #[test]
    fn map_insert_overwrites_and_remove_reports_pieces() {
        let mut map = SpanMap::default();
        map.put(span(0, 10), 1);
        map.put(span(4, 6), 2);
        let mut pieces = Vec::new();
        assert_eq!(map.take(span(3, 8), |piece, value| pieces.push((piece, value))), 5);
        assert_eq!(pieces, [(span(3, 4), 1), (span(4, 6), 2), (span(6, 8), 1)]);
        assert_eq!(map.runs_from(0).collect::<Vec<_>>(), [(span(0, 3), 1), (span(8, 10), 1)]);
        assert_eq!(map.covered(), 5);
    }

    /// The maximal runs of equal `Some` values among `of`, shifted by its start.
    fn runs<V: Copy + Eq>(of: &[Option<V>], base: u64) -> Vec<(Span, V)> {
        let mut runs: Vec<(Span, V)> = Vec::new();
        for (offset, value) in (base..).zip(of) {
            let Some(value) = *value else { continue };
            match runs.last_mut() {
                Some((run, last)) if run.end == offset && *last == value => run.end += 1,
                _ => runs.push((span(offset, offset + 1), value)),
            }
        }
        runs
    }

    fn any_span() -> impl Strategy<Value = Span> {
        (0..=SIZE, 0..=SIZE).prop_map(|(a, b)| span(a.min(b), a.max(b)))
    }

    fn range(span: Span) -> std::ops::Range<usize> {
        span.start as usize..span.end as usize
    }

    proptest! {
        #[test]
        fn a_set_is_what_its_bytes_say(
            ops in prop::collection::vec((any::<bool>(), any_span()), 0..40),
            probe in any_span(),
        ) {
            let mut spans = SpanSet::default();
            let mut oracle = vec![None::<()>; SIZE as usize];
            for (add, at) in ops {
                let wanted = if add { Some(()) } else { None };
                let changed = oracle[range(at)].iter().filter(|byte| **byte != wanted).count() as u64;
                oracle[range(at)].fill(wanted);
                prop_assert_eq!(if add { spans.insert(at) } else { spans.remove(at) }, changed);

                let all: Vec<Span> = runs(&oracle, 0).into_iter().map(|(run, ())| run).collect();
                prop_assert_eq!(spans.iter().collect::<Vec<_>>(), all.clone());
                let backwards: Vec<Span> = all.iter().rev().copied().collect();
                prop_assert_eq!(spans.iter().rev().collect::<Vec<_>>(), backwards);
                prop_assert_eq!(spans.covered(), oracle.iter().flatten().count() as u64);
                prop_assert_eq!((spans.first(), spans.last()), (all.first().copied(), all.last().copied()));
                prop_assert_eq!((spans.span_count(), spans.is_empty()), (all.len(), all.is_empty()));

                let inside = &oracle[range(probe)];
                let pieces: Vec<Span> = runs(inside, probe.start).into_iter().map(|(run, ())| run).collect();
                prop_assert_eq!(spans.intersection(probe).collect::<Vec<_>>(), pieces.clone());
                prop_assert_eq!(spans.intersects(probe), !pieces.is_empty());
                prop_assert_eq!(spans.contains(probe), inside.iter().all(Option::is_some));
                let holes: Vec<Option<()>> = inside.iter().map(|byte| byte.xor(Some(()))).collect();
                let holes: Vec<Span> = runs(&holes, probe.start).into_iter().map(|(run, ())| run).collect();
                prop_assert_eq!(spans.gaps(probe).collect::<Vec<_>>(), holes);

                let from = probe.start as usize;
                let below = runs(&oracle[..from], 0).last().map(|(run, ())| *run);
                prop_assert_eq!(spans.last_below(probe.start), below);
                let run = all.iter().copied().find(|run| run.start <= probe.start && probe.start < run.end);
                prop_assert_eq!(spans.run_at(probe.start), run);
                let gap = oracle[from..].iter().position(Option::is_none);
                let gap = gap.map_or(SIZE, |at| probe.start + at as u64);
                prop_assert_eq!(spans.first_gap(probe.start), gap);
                if !probe.is_empty() {
                    let mut more = spans.clone();
                    more.insert(probe);
                    prop_assert_eq!(spans.touches(probe), more.span_count() <= spans.span_count());
                }
            }
        }

        #[test]
        fn a_map_is_what_its_bytes_say(
            ops in prop::collection::vec((prop::option::of(0..3u8), any_span()), 0..40),
        ) {
            let mut map = SpanMap::default();
            let mut oracle = vec![None; SIZE as usize];
            for (value, at) in ops {
                match value {
                    Some(value) => {
                        let had_none = oracle[range(at)].iter().filter(|byte| byte.is_none()).count() as u64;
                        prop_assert_eq!(map.put(at, value), had_none);
                    }
                    None => {
                        let mut pieces = Vec::new();
                        let removed = map.take(at, |piece, value| pieces.push((piece, value)));
                        prop_assert_eq!(removed, pieces.iter().map(|(piece, _)| piece.len()).sum::<u64>());
                        prop_assert_eq!(pieces, runs(&oracle[range(at)], at.start));
                    }
                }
                oracle[range(at)].fill(value);
                prop_assert_eq!(map.runs_from(0).collect::<Vec<_>>(), runs(&oracle, 0));
                prop_assert_eq!(map.covered(), oracle.iter().flatten().count() as u64);
                prop_assert_eq!(map.span_count(), runs(&oracle, 0).len());
                for (offset, value) in oracle.iter().enumerate() {
                    prop_assert_eq!(map.value_at(offset as u64), *value);
                }
            }
        }
    }
}
