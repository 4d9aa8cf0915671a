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

/// Lets a law try rates on a link of this capacity without a buffer, and says where it is after each interval. Results
/// come one interval late.
fn rates(capacity: f64, loss: f64, intervals: usize) -> Vec<f64> {
    let mut law = Law::new(1e4, 7);
    let mut pending = None;
    (0..intervals)
        .map(|_| {
            let trial = law.next();
            if let Some(before) = pending.replace(trial) {
                let Trial { rate, .. } = before;
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
    let mut law = Law::new(1e4, 1);
    let trials: Vec<Trial> = (0..4).map(|_| law.next()).collect();
    law.on_result(trials[0], Some(2.0));
    law.on_result(trials[1], Some(1.0));
    let before = law.next();
    assert!(matches!(before.role, Role::Test(0)) && (before.rate / 1e4 - 1.0).abs() < 0.011);
    law.on_result(trials[2], Some(9.0));
    assert_eq!(law.next().role, Role::Test(1));
}

#[test]
fn packets_count_in_the_interval_in_which_they_were_sent() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut law = Law::new(1e4, 1);
    let mut monitor = Monitor::default();
    assert!(monitor.is_over(start));
    let (first, second) = (law.next(), law.next());
    monitor.begin(start, first, Duration::from_millis(100));
    monitor.begin(at(100), second, Duration::from_millis(100));
    monitor.on_ack(at(99), 9900);
    monitor.on_loss(at(50), 100);
    assert_eq!(monitor.poll_result(Duration::from_millis(10)), None);
    monitor.on_ack(at(111), 1000);
    let (trial, utility) = monitor.poll_result(Duration::from_millis(10)).unwrap();
    assert_eq!((trial, utility), (first, Some(super::utility(1e5, 0.01))));
    assert_eq!(monitor.poll_result(Duration::ZERO), None, "the second is under way");
}

/// Bytes per second of a flow on 10 Mbit/s and 100 ms, as a share of the link.
fn share(congestion: &str, loss: f64) -> f64 {
    let text = format!(
        "name='x'\ntitle='x'\n[topology]\nkind='dumbbell'\nrate='10Mbit'\nrtt='100ms'\nhosts=1\n[queue]\nloss={loss}\n\
         [workload]\narrivals='list'\nflows=[{{from=0,to=1,size='50MB'}}]\n\
         [[scheme]]\nname='x'\nkind='plain'\ncongestion='{congestion}'\n"
    );
    let run = Scenario::parse(&text, "x.toml").unwrap().expand().unwrap().remove(0);
    let mut simulation = Simulation::new(&run).unwrap();
    while simulation.step().unwrap() {}
    let record = simulation.poll_record().unwrap();
    // With the headers of full packets.
    50e6 * 1525.0 / 1464.0 / 1.25e6 / record.fct.unwrap().as_secs_f64()
}

#[test]
fn a_flow_alone_fills_its_link() {
    let share = share("pcc", 0.0);
    assert!(share > 0.85, "{share}");
}

#[test]
fn random_loss_does_not_slow_it_down_as_it_does_newreno() {
    let (pcc, newreno) = (share("pcc", 0.01), share("newreno", 0.01));
    assert!(pcc > 0.8, "{pcc}");
    assert!(newreno < 0.3, "{newreno}");
}
