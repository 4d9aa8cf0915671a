//! Worlds whose results are known without a simulator: slow start on an idle path, an M/D/1 queue, fair shares.

use std::time::{Duration, Instant};

use rc3_core::units::{Level, Rate};
use rc3_sim::{
    DropTail, Link, LinkConfig, Packet,
    agent::Writes,
    model::slow_start,
    record::FlowRecord,
    scenario::{Run, Scenario},
    simulation::Simulation,
    topology::{Access, dumbbell},
    workload::{ArrivalProcess, Ends, PACKET_ON_THE_WIRE, Poisson, Sizes, Workload},
};

fn runs(text: &str) -> Vec<Run> {
    Scenario::parse(text, "closed.toml").unwrap().expand().unwrap()
}

/// A world at its end, with its records.
fn run(run: &Run) -> (Simulation, Vec<FlowRecord>) {
    let mut simulation = Simulation::new(run).unwrap();
    while simulation.step().unwrap() {}
    let records = std::iter::from_fn(|| simulation.poll_record()).collect();
    (simulation, records)
}

/// The window doubles in each round trip, and packets of the papers leave as soon as it allows.
#[test]
fn slow_start_on_an_idle_path_takes_whole_round_trips() {
    let rtt = Duration::from_millis(40);
    let packet = Duration::from_nanos(12_000);
    for packets in [1, 3, 8, 20, 44, 92, 200] {
        let text = format!(
            "name = 'idle'\ntitle = 'Idle'\n[topology]\nkind = 'dumbbell'\nhosts = 1\n[workload]\narrivals = 'list'\n\
             flows = [{{ from = 0, to = 1, size = {} }}]\n[[scheme]]\nname = 'TCP'\nkind = 'plain'\n",
            packets * 1460
        );
        let fct = run(&runs(&text)[0]).1[0].fct.unwrap();
        let expected = slow_start(packets, 4, rtt, packet);
        let ratio = fct.as_secs_f64() / expected.as_secs_f64();
        assert!((1.0..1.02).contains(&ratio), "{packets} packets: {fct:?}, {expected:?}");
    }
}

/// Packets of one size that arrive at random wait load / (2 (1 - load)) service times on average (Pollaczek and Khinchine).
#[test]
#[expect(clippy::disallowed_methods, reason = "a name for time zero; all others are computed from it")]
fn packets_at_random_wait_as_long_as_in_an_m_d_1_queue() {
    const PACKETS: u32 = 400_000;
    let rate = Rate::from_bits_per_second(100_000_000).unwrap();
    let topology = dumbbell(rate, Duration::from_millis(40), 1, Access::uplink(rate));
    let service = rate.time_for(PACKET_ON_THE_WIRE);
    for load in [0.3, 0.5, 0.8] {
        let ends = Ends { from: Some(vec![0]), to: None };
        let poisson = ArrivalProcess::Poisson(Poisson { sizes: Sizes::fixed(1).unwrap(), load, ends });
        let workload = Workload { arrivals: poisson, writes: Writes::AtOnce };
        let config = LinkConfig { rate: Some(rate), ..LinkConfig::default() };
        let mut link = Link::new(config, DropTail::new(u64::MAX));
        let (start, mut waits) = (Instant::now(), Duration::ZERO);
        for flow in workload.flows(&topology, 1).take(PACKETS as usize) {
            let now = start + flow.at;
            while let Some(then) = link.poll_timeout().filter(|&then| then <= now) {
                while let Some(sent) = link.poll_output(then) {
                    waits += then - sent - service;
                }
            }
            let size = PACKET_ON_THE_WIRE as usize;
            link.send(now, Packet { size, level: Level::PRIMARY, payload: now });
        }
        let mean = waits.as_secs_f64() / f64::from(PACKETS) / service.as_secs_f64();
        let expected = load / (2.0 * (1.0 - load));
        assert!(
            (mean / expected - 1.0).abs() < 0.03,
            "load {load}: {mean} service times, {expected} in theory"
        );
    }
}

/// Long flows of one kind over one link have the same part of it.
#[test]
fn flows_alike_share_a_link_alike() {
    let text = "name = 'fair'\ntitle = 'Fair'\n[topology]\nkind = 'dumbbell'\nrate = '50Mbit'\nrtt = '20ms'\nhosts = 4\n\
                overhead = '240us'\n[queue]\ndiscipline = 'fq-codel'\n[workload]\narrivals = 'list'\n\
                flows = [{ from = 0, to = 4, count = 4, size = '1GB' }]\n[[scheme]]\nname = 'TCP'\nkind = 'plain'\n\
                [measure]\nuntil = '20s'\nsample = { link = 'core:0-1', epochs = ['0s', '20s'] }\n";
    let samples = run(&runs(text)[0]).0.take_samples();
    let mut bytes = [0.0; 4];
    for flow in samples.iter().filter(|sample| sample.at.as_secs() >= 5).flat_map(|sample| &sample.flows) {
        bytes[flow.flow.0 as usize] += flow.bytes as f64;
    }
    let fair = bytes.iter().sum::<f64>() / 4.0;
    assert!(fair > 0.9 * 50e6 / 8.0 * 15.0 / 4.0, "the link is full: {bytes:?}");
    assert!(bytes.iter().all(|&bytes| (bytes / fair - 1.0).abs() < 0.05), "{bytes:?}");
}
