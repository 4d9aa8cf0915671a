//! Kick-Ass flows while TCP comes and goes at a router that signals rates (Kick-Ass §3.4.1, Fig. 5), in small.

use std::{collections::HashMap, ops::Range};

use rc3_sim::{sample::Sample, scenario::Scenario, simulation::Simulation};

const SCENARIO: &str = r#"
name = "epochs"
title = "Epochs"

[topology]
kind = "dumbbell"
rate = "50Mbit"
rtt = "100ms"
hosts = 20

[queue]
discipline = "drop-tail"
buffer = "500KB"
kickass = true

[workload]
arrivals = "list"
flows = [{ from = 0, to = 20, count = 10, every = "5ms", size = "1GB" }]

[[background]]
arrivals = "list"
give-up = "5s"
flows = [{ at = "6s", from = 10, to = 30, count = 10, every = "5ms", size = "1GB" }]

[[scheme]]
name = "KA"
kind = "plain"
congestion = "kickass"

[[scheme]]
name = "TCP"
kind = "plain"

[[run]]
name = "KA"
scheme = "KA"
background = "TCP"

[measure]
until = "20s"
sample = { link = "core:0-1", every = "100ms", epochs = ["0s", "20s"] }
"#;

/// Share of the Kick-Ass flows that follow rates, and bits per second of all flows, in the samples of these seconds.
fn epoch(samples: &[Sample], seconds: Range<f64>) -> (f64, f64) {
    let chosen: Vec<_> = samples.iter().filter(|sample| seconds.contains(&sample.at.as_secs_f64())).collect();
    let modes = || chosen.iter().flat_map(|sample| &sample.flows).filter_map(|flow| flow.kickass);
    let following = modes().filter(|follows| *follows).count() as f64 / modes().count() as f64;
    let bytes: u64 = chosen.iter().flat_map(|sample| &sample.flows).map(|flow| flow.bytes).sum();
    (following, bytes as f64 * 8.0 / (seconds.end - seconds.start))
}

/// The samples of the only run.
fn samples() -> Vec<Sample> {
    let run = Scenario::parse(SCENARIO, "epochs.toml").unwrap().expand().unwrap().remove(0);
    let mut simulation = Simulation::new(&run).unwrap();
    while simulation.step().unwrap() {}
    simulation.take_samples()
}

#[test]
fn flows_follow_the_rate_again_when_those_that_do_not_listen_have_gone() {
    let samples = samples();
    let (alone, rate_alone) = epoch(&samples, 3.0..6.0);
    let beside = |scheme| {
        let chosen = samples.iter().filter(|sample| (7.0..10.0).contains(&sample.at.as_secs_f64()));
        let bytes = chosen.flat_map(|sample| &sample.flows).filter(|flow| flow.kickass.is_some() == scheme);
        bytes.map(|flow| flow.bytes).sum::<u64>() as f64 * 8.0 / 3.0
    };
    let (again, rate_again) = epoch(&samples, 15.0..20.0);
    assert!(alone > 0.95 && rate_alone > 45e6, "{alone}, {rate_alone} bit/s");
    assert!(beside(false) > 25e6, "TCP has its half: {}", beside(false));
    assert!(beside(true) > 10e6, "nobody is to be starved by rates that others ignore: {}", beside(true));
    assert!(again > 0.95 && rate_again > 45e6, "{again}, {rate_again} bit/s");
}

/// The uplinks, ten times as fast, signal rates as well, even while the bottleneck does not.
#[test]
fn no_flow_has_more_than_others_although_its_uplink_tells_it_so() {
    let samples = samples();
    let mut bytes = HashMap::new();
    for flow in samples.iter().filter(|sample| sample.at.as_secs() >= 15).flat_map(|sample| &sample.flows) {
        *bytes.entry(flow.flow).or_insert(0) += flow.bytes;
    }
    let (least, most) = (bytes.values().min().unwrap(), bytes.values().max().unwrap());
    assert!(bytes.len() == 10 && most * 10 < least * 11, "{least} to {most} bytes");
}
