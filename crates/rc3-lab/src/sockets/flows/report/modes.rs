//! In which mode flows of Kick-Ass were.

use rc3_lab::document::Table;

use super::scene::title;
use crate::results::{Modes, Run};

/// A table of the runs with such flows; `None` without any.
pub(super) fn table(runs: &[Run]) -> Option<(&'static str, Table)> {
    let mut table = Table::new(&[
        "run",
        "#flows",
        "#time in Kick-Ass mode",
        "#signals received",
        "#to Kick-Ass mode, per flow",
        "#back for silence",
        "#back for loss or mark",
    ]);
    for run in runs.iter().filter(|run| !run.modes.is_empty()) {
        let modes = &run.modes;
        let sum = |of: fn(&Modes) -> f64| modes.iter().map(of).sum::<f64>();
        let per_flow = |of: fn(&Modes) -> u64| {
            let all: u64 = modes.iter().map(of).sum();
            format!("{:.2}", all as f64 / modes.len() as f64)
        };
        table.rows.push(vec![
            title(run),
            modes.len().to_string(),
            format!("{:.1} %", 100.0 * sum(|modes| modes.steered) / sum(|modes| modes.seconds)),
            modes.iter().map(|modes| modes.signals).sum::<u64>().to_string(),
            per_flow(|modes| modes.to_kickass),
            per_flow(|modes| modes.by_silence),
            per_flow(|modes| modes.by_congestion),
        ]);
    }
    (!table.rows.is_empty()).then_some(("Modes of Kick-Ass", table))
}
