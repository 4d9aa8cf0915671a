//! What a link-packet costs in the simulator: Internet-2 at 30 % load (RC3 §5.1, Fig. 7), with few flows.

use crate::{
    net::transport::{Result, cpu_time},
    sim::catalogue,
};
use rc3_sim::simulation::Simulation;

use super::yardstick;

/// Ratios with plain QUIC and with rc3.
pub(super) fn ratios(runs: usize) -> Result<Vec<Vec<f64>>> {
    let mut scenario = catalogue::find("fig7").ok_or("no such experiment")??;
    for change in ["measure.flows=300", "measure.warm-up=0", "measure.repetitions=1"] {
        scenario.set(change)?;
    }
    let worlds = scenario.expand()?;
    let mut ratios = vec![Vec::new(); worlds.len()];
    for _ in 0..runs {
        for (ratios, world) in ratios.iter_mut().zip(&worlds) {
            let hash = yardstick::hash();
            let begun = cpu_time();
            let mut simulation = Simulation::new(world)?;
            while simulation.step()? {
                while simulation.poll_record().is_some() {}
            }
            let spent = cpu_time() - begun;
            ratios.push(spent.as_nanos() as f64 / simulation.counts().link_packets as f64 / hash);
        }
    }
    Ok(ratios)
}
