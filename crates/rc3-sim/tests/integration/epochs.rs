//! Kick-Ass flows while TCP comes and goes at a router that signals rates (Kick-Ass §3.4.1, Fig. 5), in small.

use std::{collections::HashMap, ops::Range};

use rc3_sim::{sample::LinkSample, scenario::Scenario, simulation::Simulation};

const SCENARIO: &str = r#"
name = "epochs"
title = "Epochs"

[topology]
kind = "dumbbell"
rate = "20Mbit"
rtt = "100ms"
hosts = 20

[queue]
discipline = "drop-tail"
buffer = "200KB"
kickass = true

[workload]
arrivals = "list"
flows = [{ from = 0, to = 20, count = 10, every = "5ms", size = "1GB" }]

[[background]]
arrivals = "list"
give-up = "12s"
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
until = "32s"
sample = { link = "core:0-1", every = "100ms", epochs = ["0s", "32s"] }
"#;

/// Share of the Kick-Ass flows that follow rates, and bits per second of all flows, in the samples of these seconds.
fn epoch(samples: &[LinkSample], seconds: Range<f64>) -> (f64, f64) {
    let chosen: Vec<_> = samples.iter().filter(|sample| seconds.contains(&sample.at.as_secs_f64())).collect();
    let modes = || chosen.iter().flat_map(|sample| &sample.flows).filter_map(|flow| flow.kickass);
    let following = modes().filter(|follows| *follows).count() as f64 / modes().count() as f64;
    let bytes: u64 = chosen.iter().flat_map(|sample| &sample.flows).map(|flow| flow.bytes).sum();
    (following, bytes as f64 * 8.0 / (seconds.end - seconds.start))
}

/// The samples of the only run, with this buffer.
fn samples(buffer: &str) -> Vec<LinkSample> {
    let run = Scenario::parse(&SCENARIO.replace("200KB", buffer), "epochs.toml")
        .unwrap()
        .expand()
        .unwrap()
        .remove(0);
    let mut simulation = Simulation::new(&run).unwrap();
    while simulation.step().unwrap() {}
    simulation.take_samples()
}

/// Of the epoch with TCP, bits per second of flows that can follow rates, or of the others.
fn beside(samples: &[LinkSample], kickass: bool) -> f64 {
    let chosen = samples.iter().filter(|sample| (15.0..18.0).contains(&sample.at.as_secs_f64()));
    let flows = chosen.flat_map(|sample| &sample.flows).filter(|flow| flow.kickass.is_some() == kickass);
    flows.map(|flow| flow.bytes).sum::<u64>() as f64 * 8.0 / 3.0
}

#[test]
fn flows_follow_the_rate_again_when_those_that_do_not_listen_have_gone() {
    // Of 0.8 and of four times the bandwidth-delay product: in the latter TCP mode never leaves the queue nearly empty.
    for buffer in ["200KB", "4bdp"] {
        let samples = samples(buffer);
        let (alone, rate_alone) = epoch(&samples, 3.0..6.0);
        let (kickass, tcp) = (beside(&samples, true), beside(&samples, false));
        println!("{buffer}: Kick-Ass {kickass} bit/s, TCP {tcp} bit/s");
        let (again, rate_again) = epoch(&samples, 27.0..32.0);
        assert!(alone > 0.95 && rate_alone > 18e6, "{buffer}: {alone}, {rate_alone} bit/s");
        assert!(again > 0.95 && rate_again > 18e6, "{buffer}: {again}, {rate_again} bit/s");
        if buffer == "200KB" {
            assert!(kickass.min(tcp) > 0.45 * (kickass + tcp), "about half each: {kickass}, {tcp} bit/s");
        }
    }
}

/// The uplinks, ten times as fast, signal rates as well, even while the bottleneck does not.
#[test]
fn no_flow_has_more_than_others_although_its_uplink_tells_it_so() {
    let samples = samples("200KB");
    let mut bytes = HashMap::new();
    for flow in samples.iter().filter(|sample| sample.at.as_secs() >= 27).flat_map(|sample| &sample.flows) {
        *bytes.entry(flow.flow).or_insert(0) += flow.bytes;
    }
    let (least, most) = (bytes.values().min().unwrap(), bytes.values().max().unwrap());
    assert!(bytes.len() == 10 && most * 10 < least * 11, "{least} to {most} bytes");
}
