//! Runs that were never measured, for tests of figures; and tests of how runs are read.

use serde_json::json;

use super::*;
use crate::net::transport::{Modes, Timed};

/// A run whose flows take so many seconds.
pub(in crate::net::kickass) fn run(title: &'static str, seconds: &[f64]) -> ForwarderRun {
    let flows = seconds.iter().zip(0..).map(|(seconds, number)| {
        let modes = Modes {
            seconds: *seconds,
            steered: seconds / 2.0,
            signals: 4,
            to_kickass: 1,
            by_silence: 1,
            by_congestion: 0,
        };
        let modes = title.contains("Kick-Ass").then_some(modes);
        let timed = Timed { connect: 0.1, flow: seconds - 0.1, modes, ..Timed::default() };
        let scheme = if title.starts_with("TCP alone") { "tcp" } else { "rc3" }.to_owned();
        let flow = Arrived { sender: number % 2, number, scheme, bytes: 100 * PACKET, timed };
        serde_json::to_string(&flow).unwrap()
    });
    let event = |waiting: u64| {
        json!({ "ports": [{}, {
            "link_bits_per_second": 8_000_000, "waiting": { "packets": 1, "bytes": waiting },
            "queue_delay": { "buckets": [[0.001, 30], [0.01, 60], [0.5, 10]] },
            "dropped": { "queue_full": 3, "device": 1, "no_route": 7 }, "marked": 5, "signalled": 6,
        }] })
    };
    let run = ForwarderRun::new(&flows.collect::<Vec<_>>(), &[event(0), event(2000), event(1000)]).unwrap();
    ForwarderRun { title, ..run }
}

#[test]
fn a_run_is_read_from_lines_and_totals() {
    let run = run("rc3, Kick-Ass", &[0.5, 0.25]);
    assert_eq!(run.flows.iter().filter(|flow| flow.timed.modes.is_some()).count(), 2);
    assert!((run.fcts((100.0, 200.0)).quantile(1.0) - 0.5).abs() < 1e-12);
    assert_eq!(run.fcts((1.0, 100.0)).len(), 0);
    assert_eq!(run.port.counts, [4, 5, 6]);
    assert_eq!(run.port.backlog.as_ref().unwrap().quantile(1.0), 0.002);
    assert_eq!([0.5, 0.9, 1.0].map(|share| run.port.delays.quantile(share)), [0.01, 0.01, 0.5]);
    assert!(ForwarderRun::new(&["no flow".to_owned()], &[]).is_err());
    assert!(ForwarderRun::new(&[], &[json!({ "ports": [] })]).is_err());
}

#[test]
fn a_flow_that_fails_is_a_failure_of_the_report() {
    let lines = [format!("{FAILED}flow 3 of sender 1: timed out")];
    let totals = json!({ "ports": [{
        "link_bits_per_second": 8_000_000, "queue_delay": { "buckets": [] }, "waiting": { "bytes": 0 },
    }] });
    let run = ForwarderRun { title: "PCC", ..ForwarderRun::new(&lines, &[totals]).unwrap() };
    let mut results = Results::default();
    keep(&mut results, "kickass-fig8", &[run]);
    assert_eq!(results.failures, ["kickass-fig8, PCC: failed: flow 3 of sender 1: timed out"]);
    assert!(results.flows.is_empty());
}

#[test]
fn only_flows_that_all_runs_have_are_compared() {
    let runs = compared(&[run("a", &[0.5, 0.25, 0.3]), run("b", &[0.5, 0.25])]);
    assert_eq!([runs[0].flows.len(), runs[1].flows.len()], [2, 2]);
    assert!(compared(&[]).is_empty());
}
