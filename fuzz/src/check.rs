//! What `rc3 check` makes of the messages of a visitor and of a listener.

use std::{net::SocketAddr, time::Duration};

use rc3::{
    check::{
        comparison::Comparison,
        message::{Hello, ReceiverCount, Reply, Request},
        outcome::MeasuredFlow,
        plan::{Amount, CheckPlan, RUNS_MAX, SECONDS_MAX, SIZE_BYTES_MAX, SIZES_MAX},
    },
    figures::PathFigures,
};

use super::rows::read_all;

/// A row of messages means the same when it is written and read again. A plan within the bounds has as many flows as
/// it lists, each within the bounds; whatever a listener replies, the report has one line per size. Returns whether the
/// input has no fault of form.
pub(crate) fn check(input: &[u8]) -> bool {
    let Some((&kind, stream)) = input.split_first() else { return false };
    if kind % 2 == 0 {
        let (hellos, is_faultless) = read_all(stream);
        for Hello { request, .. } in hellos {
            if let Request::Flows(plan) = request
                && plan.is_bounded()
            {
                flows(&plan);
            }
        }
        is_faultless
    } else {
        let (replies, is_faultless) = read_all(stream);
        report(replies);
        is_faultless
    }
}

fn flows(plan: &CheckPlan) {
    let sizes = plan.sizes.len();
    assert!(sizes <= SIZES_MAX && plan.runs <= RUNS_MAX);
    let turns = 2 * plan.directions().len();
    let mut count = 0;
    for flow in plan.flows() {
        count += 1;
        assert!((1..=plan.runs).contains(&flow.run));
        match flow.kind.amount {
            Amount::Bytes(bytes) => assert!((1..=SIZE_BYTES_MAX).contains(&bytes)),
            Amount::Seconds(seconds) => assert!((1..=SECONDS_MAX).contains(&seconds)),
        }
    }
    assert_eq!(count, turns * (sizes * plan.runs as usize + usize::from(plan.seconds > 0)));
}

/// A visitor's report of these replies: what they count and measured, in any combination.
fn report(replies: Vec<Reply>) {
    let (mut arrivals, mut paths): (Vec<ReceiverCount>, Vec<PathFigures>) = Default::default();
    for reply in replies {
        match reply {
            Reply::Accepted { .. } => {}
            Reply::Arrived(arrived) => arrivals.push(arrived),
            Reply::Sent { path } => paths.push(path),
        }
    }
    let (Some(&last), Some(path)) = (arrivals.last(), paths.last()) else { return };
    let plan = CheckPlan { sizes: vec![1], runs: 1, seconds: 1, both: true, forget: false };
    let arrivals = arrivals.iter().copied().chain(std::iter::repeat(last));
    let paths = paths.iter().chain(std::iter::repeat(path));
    let outcomes = plan.flows().zip(arrivals).zip(paths).map(|((flow, arrived), path)| MeasuredFlow {
        flow,
        fct: Duration::from_millis(80),
        arrived,
        path: path.clone(),
        rtt: Duration::from_millis(40),
        took: Duration::from_millis(90),
    });
    let outcomes = outcomes.collect();
    let peer = SocketAddr::from(([192, 0, 2, 1], 4433));
    let comparison = Comparison { outcomes, ..Comparison::new(plan, peer, Duration::from_millis(40)) };
    assert_eq!((comparison.rows().len(), comparison.bulk().len()), (2, 2));
    let text = comparison.text();
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "a reply reaches the terminal: {text:?}");
}
