//! What a link-packet costs in the simulator: Internet-2 at 30 % load (RC3 §5.1).

use rc3_lab::sockets::contenders::Result;
use rc3_sim::{scenario::Scenario, simulation::Simulation};

use super::yardstick;

const SCENARIO: &str = r#"
name = "trend"
title = "Trend"

[topology]
kind = "internet2"

[workload]
arrivals = "poisson"
sizes = "allman2013"
load = 0.3

[[scheme]]
name = "plain"
kind = "plain"

[[scheme]]
name = "rc3"
kind = "rc3"

[measure]
warm-up = 0
flows = 300
"#;

/// Ratios with plain QUIC and with rc3.
pub(super) fn ratios(runs: usize) -> Result<Vec<Vec<f64>>> {
    let worlds = Scenario::parse(SCENARIO, "trend.toml")?.expand()?;
    let mut ratios = vec![Vec::new(); worlds.len()];
    for _ in 0..runs {
        for (ratios, world) in ratios.iter_mut().zip(&worlds) {
            let hash = yardstick::hash()?;
            let begun = yardstick::cpu()?;
            let mut simulation = Simulation::new(world)?;
            while simulation.step()? {
                while simulation.poll_record().is_some() {}
            }
            let spent = yardstick::cpu()? - begun;
            ratios.push(spent.as_nanos() as f64 / simulation.counts().link_packets as f64 / hash);
        }
    }
    Ok(ratios)
}
