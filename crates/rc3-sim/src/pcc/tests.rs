use std::time::{Duration, Instant};

use super::*;
use crate::{scenario::Scenario, simulation::Simulation};

#[test]
fn utility_rises_with_the_rate_until_a_twentieth_is_lost() {
    assert!(utility(2.0, 0.0) > utility(1.0, 0.0));
    assert!(utility(1.05, 0.0) > utility(1.0, 0.0));
    // A link of 1: what is sent beyond is lost.
    let of = |rate: f64| utility(rate, (1.0 - 1.0 / rate).max(0.0));
    assert!(of(1.0) > of(0.97) && of(1.0) > of(1.1) && of(1.1) > of(1.5));
    assert!(utility(1.0, 0.01) > 0.9 && utility(1.0, 0.2) < 0.0);
}

/// Lets a law try rates on a link of this capacity without a buffer, and returns its rate after each interval. Results
/// come one interval late.
fn rates(capacity: f64, loss: f64, intervals: usize) -> Vec<f64> {
    let mut law = RateSearch::new(1e4, 7);
    let mut pending = None;
    (0..intervals)
        .map(|_| {
            let trial = law.next(100.0);
            if let Some(before) = pending.replace(trial) {
                let RateTrial { rate, .. } = before;
                let through = (1.0 - loss) * (capacity / rate).min(1.0);
                law.on_result(before, Some(utility(rate, 1.0 - through)));
            }
            trial.rate
        })
        .collect()
}

#[test]
fn the_law_finds_the_capacity_and_stays_there() {
    for loss in [0.0, 0.01] {
        let rates = rates(1.25e6, loss, 400);
        assert_eq!(rates[..6], [1e4, 2e4, 4e4, 8e4, 16e4, 32e4], "doubling");
        let settled = &rates[100..];
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        assert!((0.93..1.07).contains(&(mean / 1.25e6)), "{loss}: {mean}");
        assert!(settled.iter().all(|rate| (0.8..1.25).contains(&(rate / 1.25e6))), "{loss}");
    }
}

#[test]
fn results_that_nobody_waits_for_count_for_nothing() {
    let mut law = RateSearch::new(1e4, 1);
    let trials: Vec<RateTrial> = (0..4).map(|_| law.next(100.0)).collect();
    law.on_result(trials[0], Some(2.0));
    law.on_result(trials[1], Some(1.0));
    let before = law.next(100.0);
    assert!(matches!(before.role, Role::Test(0)) && (before.rate / 1e4 - 1.0).abs() < 0.011);
    law.on_result(trials[2], Some(9.0));
    assert_eq!(law.next(100.0).role, Role::Test(1));
}

#[test]
fn packets_count_in_the_interval_in_which_they_were_sent() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut law = RateSearch::new(1e4, 1);
    let mut monitor = Monitor::default();
    assert!(monitor.is_over(start));
    let (first, second) = (law.next(100.0), law.next(100.0));
    monitor.begin(start, first, Duration::from_millis(100));
    monitor.begin(at(100), second, Duration::from_millis(100));
    monitor.on_ack(at(99), 900);
    monitor.on_loss(at(50), 100);
    assert_eq!(monitor.poll_result(Duration::from_millis(10), 100), None);
    monitor.on_ack(at(111), 500);
    let result = monitor.poll_result(Duration::from_millis(10), 100);
    assert_eq!(result, Some((first, Some(super::utility(1e4, 0.1)))));
    assert_eq!(monitor.poll_result(Duration::ZERO, 100), None, "the second is under way");
    // 500 bytes and a packet of 100 in 100 ms, which is less than the trial's 20,000 a second.
    monitor.begin(at(200), law.next(100.0), Duration::from_millis(100));
    monitor.on_ack(at(201), 100);
    assert_eq!(monitor.poll_result(Duration::ZERO, 100), Some((second, Some(super::utility(6e3, 0.0)))));
}

#[test]
fn an_interval_in_which_there_was_nothing_to_send_begins_anew() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut law = RateSearch::new(1e4, 1);
    let mut monitor = Monitor::default();
    let (first, second) = (law.next(100.0), law.next(100.0));
    monitor.begin(start, first, Duration::from_millis(100));
    monitor.begin(at(100), second, Duration::from_millis(100));
    monitor.on_app_limited();
    assert!(monitor.is_void());
    monitor.begin(at(150), second, Duration::from_millis(100));
    assert!(!monitor.is_void() && !monitor.is_over(at(249)));
    monitor.on_ack(at(99), 1000);
    monitor.on_loss(at(149), 1000);
    monitor.on_ack(at(150), 2000);
    assert_eq!(monitor.poll_result(Duration::ZERO, 100), Some((first, Some(super::utility(1e4, 0.0)))));
    monitor.begin(at(250), law.next(100.0), Duration::from_millis(100));
    monitor.on_ack(at(251), 100);
    assert_eq!(monitor.poll_result(Duration::ZERO, 100), Some((second, Some(super::utility(2e4, 0.0)))));
}

/// How long flows of so many bytes take that share 10 Mbit/s and 100 ms from their start on; infinity for those that have
/// not ended after 400 s.
fn seconds(congestion: &str, sizes: &[u64], loss: f64, seed: u64) -> Vec<f64> {
    let flows: Vec<String> = sizes.iter().map(|bytes| format!("{{from=0,to=1,size='{bytes}B'}}")).collect();
    let text = format!(
        "name='x'\ntitle='x'\n[topology]\nkind='dumbbell'\nrate='10Mbit'\nrtt='100ms'\nhosts=1\n[queue]\nloss={loss}\n\
         [workload]\narrivals='list'\nflows=[{}]\n[measure]\nuntil='400s'\nseed={seed}\n\
         [[scheme]]\nname='x'\nkind='plain'\ncongestion='{congestion}'\n",
        flows.join(",")
    );
    let run = Scenario::parse(&text, "x.toml").unwrap().expand().unwrap().remove(0);
    let mut simulation = Simulation::new(&run).unwrap();
    while simulation.step().unwrap() {}
    let mut seconds = vec![f64::INFINITY; sizes.len()];
    while let Some(record) = simulation.poll_record() {
        seconds[record.flow.0 as usize] = record.fct.map_or(f64::INFINITY, |fct| fct.as_secs_f64());
    }
    seconds
}

/// The share of the link that a flow of 50 MB has, with the headers of full packets.
fn share(congestion: &str, loss: f64, seed: u64) -> f64 {
    50e6 * 1525.0 / 1464.0 / 1.25e6 / seconds(congestion, &[50_000_000], loss, seed)[0]
}

#[test]
fn a_flow_alone_fills_its_link() {
    for seed in 1..4 {
        let share = share("pcc", 0.0, seed);
        assert!(share > 0.9, "{seed}: {share}");
    }
}

#[test]
fn random_loss_does_not_slow_it_down_as_it_does_newreno() {
    let newreno = share("newreno", 0.01, 1);
    assert!(newreno < 0.25, "{newreno}");
    for seed in 1..3 {
        let pcc = share("pcc", 0.01, seed);
        assert!(pcc > 0.85, "{seed}: {pcc}");
    }
}

#[test]
fn two_flows_share_a_link() {
    for seed in 1..4 {
        let seconds = seconds("pcc", &[25_000_000; 2], 0.0, seed);
        let (first, last) = (seconds[0].min(seconds[1]), seconds[0].max(seconds[1]));
        // Fair would be both at the end, 42 s; one after the other would be half.
        assert!(first > 0.62 * last && last < 50.0, "{seed}: {first} {last}");
    }
}

#[test]
fn a_short_flow_doubles_from_two_packets_on() {
    // The handshake, ten packets at two in a round trip, ten at four, and the rest at eight.
    let seconds = seconds("pcc", &[40_000], 0.0, 1)[0];
    assert!((0.9..1.3).contains(&seconds), "{seconds}");
}
