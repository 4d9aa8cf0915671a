//! The spans of a stream that RLP has brought, with their receipts: the content of SACKs.

use std::collections::{BTreeSet, VecDeque};

use crate::{
    structures::{
        held::{MemoryUse, SPAN_COST, extra},
        range_map::SpanMap,
    },
    units::{Receipt, Span},
};

/// The runs of this many latest datagrams are always reported, so that lost SACKs do no harm.
const FRESH_MAX: usize = 32;

/// Most runs in one complete SACK: this many fit into one datagram at their longest.
const RUNS_IN_SACK: usize = 48;

/// Runs of datagrams that adjoin. No two of them touch.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    runs: SpanMap<Receipt>,
    /// Where the latest datagrams started.
    fresh: VecDeque<u64>,
}

impl Receipts {
    /// A datagram brought `span`. One that overlaps others is ignored, because its receipt covers all of its bytes.
    pub(crate) fn insert(&mut self, span: Span, receipt: Receipt) {
        if self.fresh.len() == FRESH_MAX {
            self.fresh.pop_front();
        }
        self.fresh.push_back(span.start);
        if !self.runs.intersects(span) {
            self.runs.put(span, receipt);
        }
    }

    /// Runs that end at `position` or below are no longer needed.
    pub(crate) fn forget_below(&mut self, position: u64) {
        while let Some(run) = self.runs.first().filter(|run| run.end <= position) {
            self.runs.take(run, |_, _| {});
        }
    }

    /// Bytes of all runs.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.covered()
    }

    /// Memory used by the runs.
    pub(crate) fn held(&self) -> MemoryUse {
        MemoryUse { bytes: 0, overhead: extra(self.runs.span_count()) * SPAN_COST }
    }

    /// The most by which [`Self::insert`] would increase it.
    pub(crate) fn cost(&self, span: Span) -> MemoryUse {
        let more = !self.runs.is_empty() && !self.runs.touches(span);
        MemoryUse { bytes: 0, overhead: if more { SPAN_COST } else { 0 } }
    }

    /// The spans for a sender that sends lost bytes again, lowest first: all runs, or of many the latest changed ones
    /// and the lowest. The sender would send unreported ones again.
    pub(crate) fn select(&self) -> Vec<(Span, Receipt)> {
        if self.runs.span_count() <= RUNS_IN_SACK {
            return self.iter().collect();
        }
        let run_at = |&at| self.runs.last_below(at + 1).map(|run| run.start);
        let mut starts: BTreeSet<u64> = self.fresh.iter().filter_map(run_at).collect();
        for (run, _) in self.iter() {
            if starts.len() >= RUNS_IN_SACK {
                break;
            }
            starts.insert(run.start);
        }
        starts.into_iter().filter_map(|start| self.iter_from(start).next()).collect()
    }

    /// All runs, lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Span, Receipt)> + '_ {
        self.iter_from(0)
    }

    /// The runs that begin at `from` or above.
    pub(crate) fn iter_from(&self, from: u64) -> impl Iterator<Item = (Span, Receipt)> + '_ {
        self.runs.runs_from(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seams::keys::{Aead, ReceiptKey};

    fn span(start: u64, end: u64) -> Span {
        Span::new(start, end)
    }

    #[test]
    fn datagrams_that_adjoin_become_one_run_and_overlaps_are_left_out() {
        let mut receipts = Receipts::default();
        receipts.insert(span(0, 10), Receipt(1));
        receipts.insert(span(20, 30), Receipt(4));
        receipts.insert(span(5, 12), Receipt(99));
        receipts.insert(span(15, 21), Receipt(99));
        receipts.insert(span(0, 10), Receipt(1));
        assert_eq!(receipts.iter().count(), 2);
        receipts.insert(span(10, 20), Receipt(2));
        assert_eq!(receipts.iter().collect::<Vec<_>>(), [(span(0, 30), Receipt(7))]);
        receipts.forget_below(29);
        assert_eq!(receipts.iter().count(), 1);
        receipts.forget_below(30);
        assert_eq!(receipts.iter().count(), 0);
    }

    proptest! {
        /// In whatever order datagrams arrive and are lost: exactly the received ones are claimed, and the sender
        /// accepts them.
        #[test]
        fn what_is_claimed_came_and_is_believed(
            cuts in prop::collection::btree_set(0..10_000_u64, 2..60),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        ) {
            let key = ReceiptKey::new(&Aead, b"a secret of ours");
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let datagrams: Vec<Span> = cuts.windows(2).map(|pair| span(pair[0], pair[1])).collect();
            let mut receipts = Receipts::default();
            let mut came = crate::structures::range_map::SpanSet::default();
            for nth in order {
                let datagram = datagrams[nth.index(datagrams.len())];
                came.insert(datagram);
                let most = receipts.held() + receipts.cost(datagram);
                receipts.insert(datagram, key.receipt(4, datagram));
                prop_assert!(receipts.held().overhead <= most.overhead);
                prop_assert_eq!(receipts.bytes(), receipts.iter().map(|(run, _)| run.len()).sum::<u64>());
            }
            prop_assert_eq!(receipts.iter().map(|(run, _)| run).collect::<Vec<_>>(), came.iter().collect::<Vec<_>>());
            prop_assert!(receipts.iter().all(|(run, receipt)| key.receipt(4, run) == receipt));
        }
    }
}
