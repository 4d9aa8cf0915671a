//! Whether a packet costs more the more flows a world has: Internet-2 at 30 % load (RC3 §5.1), on one core.
//!
//! ```text
//! cargo run --release -p rc3-sim --example growth [FLOWS...]
//! ```

mod meter;

use meter::{busy, resident};
use rc3_sim::{scenario::Scenario, simulation::Simulation};

const SCENARIO: &str = r#"
name = "growth"
title = "Growth"

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
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flows: Vec<u64> = std::env::args().skip(1).map(|count| count.parse()).collect::<Result<_, _>>()?;
    let flows = if flows.is_empty() { vec![1000, 5000, 20_000, 50_000] } else { flows };
    println!(
        "scheme measured   begun  most live  data packets  link-packets  CPU s  link-packets/CPU s  us/link-packet  MB resident"
    );
    for flows in flows {
        let mut scenario = Scenario::parse(SCENARIO, "growth.toml")?;
        scenario.set(&format!("measure.flows={flows}"))?;
        for run in scenario.expand()? {
            let start = busy();
            let mut simulation = Simulation::new(&run)?;
            let (mut live, mut memory, mut reported) = (0, 0, 0);
            while simulation.step()? {
                let counts = simulation.counts();
                live = live.max(counts.flows_started - counts.flows_ended);
                if counts.flows_started >= reported + 500 {
                    reported = counts.flows_started;
                    memory = memory.max(resident());
                }
                while simulation.poll_record().is_some() {}
            }
            let (seconds, counts) = (busy() - start, simulation.counts());
            let (begun, packets) = (counts.flows_started, counts.link_packets);
            let begun_flows = run.flows().take(usize::try_from(begun)?);
            let data: u64 = begun_flows.map(|flow| flow.bytes.div_ceil(1460)).sum();
            println!(
                "{:<6} {flows:>8} {begun:>7} {live:>10} {data:>13} {packets:>13} {seconds:>6.1} {:>19.0} {:>15.3} {:>12.0}",
                run.label.run,
                packets as f64 / seconds,
                seconds * 1e6 / packets as f64,
                memory as f64 / 1e6,
            );
        }
    }
    Ok(())
}
