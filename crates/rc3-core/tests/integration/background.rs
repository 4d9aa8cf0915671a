//! Connections that yield to all others (`Congestion::Background`).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use rc3_core::{
    Congestion, Verdict,
    units::{Level, Rate},
};
use rc3_sim::{LinkConfig, Pair, PairConfig, scenario::Scenario, simulation::Simulation};

const LIMIT: Duration = Duration::from_secs(60);

/// 100 Mbit/s x 40 ms with a buffer of one BDP.
fn world(honours: bool) -> Pair {
    let link = LinkConfig {
        rate: Rate::from_bits_per_second(100_000_000),
        delay: Duration::from_millis(20),
        ..LinkConfig::default()
    };
    let mut config = PairConfig::symmetric(link, 500_000);
    config.priority = honours;
    config.client.congestion(Congestion::Background);
    Pair::new(config)
}

#[test]
fn an_idle_path_is_filled_at_the_lowest_priority() {
    let mut pair = world(false);
    let levels = Arc::new(Mutex::new(HashMap::<Level, usize>::new()));
    let seen = levels.clone();
    pair.client.set_tamper(Box::new(move |level, _| {
        *seen.lock().unwrap().entry(level).or_default() += 1;
        1
    }));
    let fct = pair.flow(10_000_000, LIMIT).expect("it arrives").fct.as_secs_f64();
    // A handshake, half a round trip, and the bytes with 5 % of headers.
    let ideal = 0.06 + 10e6 * 1.05 * 8.0 / 100e6;
    assert!(fct < 1.15 * ideal, "{fct} s, ideal {ideal} s");
    let levels = levels.lock().unwrap();
    assert!(levels.len() == 1 && levels[&Level::MAX] > 6900, "{levels:?}");
}

#[test]
fn the_window_stays_the_least_when_packets_get_longer() {
    let link = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
    let mut config = PairConfig::symmetric(link, 500_000);
    config.client.congestion(Congestion::Background).path_mtu_max(1500);
    let mut pair = Pair::new(config);
    let client = pair.connect();
    let path = |pair: &Pair| pair.client.connection(client).expect("it is alive").stats().path;
    let grown = pair.drive_until(LIMIT, |pair| path(pair).current_mtu > 1400);
    assert!(grown, "{:?}", path(&pair));
    assert_eq!(path(&pair).cwnd, 2 * u64::from(path(&pair).current_mtu) + 1);
}

/// Both loops have one mark, so no packet of one overtakes the other's where priorities are honoured. That the path
/// ignores them does not follow.
#[test]
fn nothing_follows_for_other_connections_from_packets_of_one_priority() {
    for honours in [false, true] {
        let mut pair = world(honours);
        pair.set_background(Rate::from_bits_per_second(30_000_000).unwrap(), 1500, 1);
        for _ in 0..5 {
            let guard = pair.flow(20_000_000, LIMIT).expect("it arrives").sender.guard.expect("guard mode");
            assert_eq!(
                (guard.verdict, guard.waited, guard.lost, guard.overtook),
                (Verdict::Unproven, 0, 0, 0)
            );
        }
        let now = pair.now;
        let known: Vec<_> = pair.client.endpoint().verdicts(now).collect();
        assert!(known.iter().all(|known| known.verdict == Verdict::Unproven), "{known:?}");
        // The rate is that of the path all the same.
        let rates: Vec<_> =
            known.iter().filter_map(|known| known.pace).map(|pace| pace.rate.bits_per_second()).collect();
        assert!(matches!(rates[..], [rate] if (60_000_000..101_000_000).contains(&rate)), "{rates:?}");
    }
}

#[test]
fn a_long_flow_in_a_queue_that_ignores_marks_keeps_97_per_cent() {
    let scenario = r#"
        name = "background"
        title = "Beside one long CUBIC flow"
        topology = { kind = "dumbbell", rate = "100Mbit", rtt = "40ms", hosts = 2, batch = 10 }
        queue = { discipline = "drop-tail", buffer = "1bdp", uplink-discipline = "priority" }
        workload = { arrivals = "list", flows = [{ at = "3s", from = 1, to = 3, size = "1GB" }] }
        background = [{ arrivals = "list", flows = [{ from = 0, to = 2, size = "1GB" }] }]
        scheme = [
            { name = "long", kind = "plain", defaults = "library" },
            { name = "ours", kind = "rc3", congestion = "background", defaults = "library" },
        ]
        run = [{ name = "ours", scheme = "ours", background = "long" }]
        measure = { until = "13s", sample = { link = "core:0-1", every = "100ms", epochs = ["3s", "13s"] } }
    "#;
    let runs = Scenario::parse(scenario, "background.toml").unwrap().expand().unwrap();
    let mut simulation = Simulation::new(&runs[0]).unwrap();
    while simulation.step().unwrap() {}
    let mut bytes = HashMap::<_, u64>::new();
    for sample in simulation.take_samples().iter().filter(|sample| sample.at >= Duration::from_secs(3)) {
        for flow in &sample.flows {
            *bytes.entry(flow.flow).or_default() += flow.bytes;
        }
    }
    let (all, most) = (bytes.values().sum::<u64>(), *bytes.values().max().unwrap());
    let rate = all as f64 * 8.0 / 10.0;
    assert!(bytes.len() == 2 && rate > 92e6, "{bytes:?} bytes, {rate} bit/s");
    assert!(all - most < all * 3 / 100, "{} of {all} bytes", all - most);
}
