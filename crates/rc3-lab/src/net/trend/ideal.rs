//! Completion times to the ideal, in virtual time: 200 Mbit/s x 80 ms, a buffer of one BDP, a card ten times as fast.

use rc3_sim::{scenario::Scenario, simulation::Simulation};

use crate::net::transport::Result;

/// One value each: the same commit always has the same.
pub(super) fn ratios() -> Result<Vec<Vec<f64>>> {
    let cells =
        [("drop-tail", "1M", ""), ("drop-tail", "20M", ""), ("priority", "1M", "workload.taught-at = 1.0\n")];
    cells.into_iter().map(|(queue, size, known)| Ok(vec![ratio(queue, size, known)?])).collect()
}

fn ratio(queue: &str, size: &str, known: &str) -> Result<f64> {
    let file = format!(
        "base = 'today'\nname = 'trend'\nqueue.discipline = '{queue}'\n{known}\
         run = [{{ name = 'guard', scheme = 'guard' }}]\n[sweep]\ntopology.rate = ['200Mbit']\n\
         topology.rtt = ['80ms']\nqueue.buffer = ['1bdp']\nworkload.size = ['{size}']\n"
    );
    let runs = Scenario::parse(&file, "trend.toml")?.expand()?;
    let run = runs.first().ok_or("no cell")?;
    let fct = Simulation::run(run)?.0.and_then(|record| record.fct).ok_or("the flow does not end")?;
    Ok(fct.as_secs_f64() / run.ideal().ok_or("more than one flow")?.as_secs_f64())
}
