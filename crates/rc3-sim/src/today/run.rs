//! Runs cells, one per thread at a time.

use std::{
    num::NonZero,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use super::{Cell, Outcome, Scheme, flow::flow};

/// A cell and its result with each scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The cell.
    pub cell: Cell,
    /// In the order of the request.
    pub outcomes: Vec<(Scheme, Outcome)>,
}

impl Row {
    /// The flow's result with this scheme.
    pub fn outcome(&self, scheme: Scheme) -> Option<&Outcome> {
        self.outcomes.iter().find(|(of, _)| *of == scheme).map(|(_, outcome)| outcome)
    }

    /// Completion time in seconds; infinite if the flow never ended, `None` if it was not run.
    pub fn fct(&self, scheme: Scheme) -> Option<f64> {
        Some(self.outcome(scheme)?.fct.map_or(f64::INFINITY, |fct| fct.as_secs_f64()))
    }

    /// Completion time of a scheme over that of plain QUIC.
    pub fn ratio_to_plain(&self, scheme: Scheme) -> Option<f64> {
        Some(self.fct(scheme)? / self.fct(Scheme::Plain)?)
    }

    /// Completion time of a scheme over the ideal.
    pub fn ratio_to_ideal(&self, scheme: Scheme) -> Option<f64> {
        Some(self.fct(scheme)? / self.cell.path.ideal(self.cell.bytes).as_secs_f64())
    }

    /// Bytes that others kept beside a scheme, over those beside plain QUIC.
    pub fn kept(&self, scheme: Scheme) -> Option<f64> {
        let of = |scheme| self.outcome(scheme).filter(|outcome| outcome.harm.window.is_some());
        let (beside, plain) = (of(scheme)?.harm.bytes as f64, of(Scheme::Plain)?.harm.bytes as f64);
        (plain > 0.0).then_some(beside / plain)
    }
}

/// Runs each cell with each scheme on `threads` threads, plain QUIC always and first; `progress` is called for each cell once
/// it is done. Rows come in the order of the cells, and are the same however many threads there are.
pub fn run(
    cells: &[Cell],
    schemes: &[Scheme],
    threads: NonZero<usize>,
    mut progress: impl FnMut(&Row),
) -> Vec<Row> {
    // The dearest first, so that no thread waits for another in the end.
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(cells[index].bytes));
    let next = AtomicUsize::new(0);
    let (sender, done) = mpsc::channel();
    let mut rows: Vec<Option<Row>> = vec![None; cells.len()];
    thread::scope(|scope| {
        for _ in 0..threads.get().min(cells.len()) {
            let (sender, next, order) = (sender.clone(), &next, &order);
            scope.spawn(move || {
                while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver outlives the threads.
                    let _ = sender.send((index, row(&cells[index], schemes)));
                }
            });
        }
        drop(sender);
        for (index, row) in done {
            progress(&row);
            rows[index] = Some(row);
        }
    });
    rows.into_iter().flatten().collect()
}

fn row(cell: &Cell, schemes: &[Scheme]) -> Row {
    let plain = flow(cell, Scheme::Plain, None);
    let window = plain.harm.window;
    let mut outcomes = vec![(Scheme::Plain, plain)];
    for &scheme in schemes {
        if outcomes.iter().all(|(known, _)| *known != scheme) {
            outcomes.push((scheme, flow(cell, scheme, window)));
        }
    }
    Row { cell: cell.clone(), outcomes }
}
