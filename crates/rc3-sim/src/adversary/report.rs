//! Trials as a table.

use super::{Harms, Trial, TrialResult};

/// The head of a table of trials, in Markdown.
pub const HEAD: &str = "\
| setting | RLP Mbit/s | RLP lost kB | cross loss % | records kB | work | third ms | reads Mbit/s | ratios to honest: flood, loss, memory, work, third, gain | lie |
|---|---|---|---|---|---|---|---|---|---|";

/// A row of it.
pub fn row(trial: &Trial, outcome: &TrialResult, harms: &Harms) -> String {
    let ratios = harms.0.map(|ratio| format!("{ratio:.2}")).join(", ");
    format!(
        "| {} | {:.2} | {:.0} | {:.2} | {:.0} | {} | {:.0} | {:.2} | {ratios} | `{}` |",
        trial.setting.name,
        outcome.rlp_rate() / 1e6,
        outcome.rlp_lost as f64 / 1e3,
        outcome.cross_loss * 100.0,
        outcome.records as f64 / 1e3,
        outcome.work,
        outcome.third * 1e3,
        outcome.reading_rate() / 1e6,
        trial.lie,
    )
}
