//! Completion times to the ideal, in virtual time: 200 Mbit/s x 80 ms, a buffer of one BDP, a card ten times as fast.

use std::num::NonZero;

use crate::net::transport::Result;
use rc3_sim::today::{self, Scenario, Scheme};

/// One value each: the same commit always has the same.
pub(super) fn ratios() -> Result<Vec<Vec<f64>>> {
    let cells = [("fifo", "1M", ""), ("fifo", "20M", ""), ("priority", "1M", "taught-at = 1.0\n")];
    cells.into_iter().map(|(queue, size, known)| Ok(vec![ratio(queue, size, known)?])).collect()
}

fn ratio(queue: &str, size: &str, known: &str) -> Result<f64> {
    let file = format!(
        "name = 'trend'\ntitle = 'trend'\nqueue = '{queue}'\nrate = ['200mbit']\nrtt = ['80ms']\nsize = ['{size}']\n\
         card = [10]\nbuffer = [1.0]\n{known}"
    );
    let cells = Scenario::parse(&file, "trend.toml")?.cells();
    let rows = today::run(&cells, &[Scheme::Guard], NonZero::<usize>::MIN, |_| ());
    let row = rows.first().ok_or("no cell")?;
    row.ratio_to_ideal(Scheme::Guard).ok_or_else(|| "the flow does not end".into())
}
