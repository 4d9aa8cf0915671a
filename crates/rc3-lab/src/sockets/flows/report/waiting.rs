//! Figure 9: how long packets wait at the bottleneck under heavy load.

use rc3_lab::document::Table;
use rc3_picture::chart::{Axis, Chart, Point, Scale, Shape, Unit};

use super::{
    Claim, Figure, TESTBED,
    scene::{Scene, VARIANTS, find, series, title},
};
use crate::results::Run;

/// What has not waited is drawn here: there is no zero on the axis.
const SHORTEST: f64 = 0.0001;

pub(super) const ABOUT: &str = "Eight senders in one network namespace, their receiver in another, `kickass forward` \
                                between them: 10 Mbit/s, a buffer of 1000 packets, a round trip of 100 ms. Sizes are \
                                Pareto, on average 1 MB, 20 MB at most; silences are exponential, on average 8 s. All \
                                schemes have the same sizes and silences.";

pub(super) fn figure(heavy: &Scene) -> Option<Figure> {
    let runs = heavy.schemes();
    runs.first()?;
    Some(Figure {
        name: "sockets-fig9",
        title: "Queueing delay under heavy load, real sockets",
        command: TESTBED,
        about: vec![
            "Enabling Router-Assisted Congestion Control (NU-EECS-16-09) §4.1, Fig. 9".to_owned(),
            ABOUT.to_owned(),
            VARIANTS.to_owned(),
            "Of the queue, looked at 20 times per second, what is drawn is how long it would take to send it, and of \
             packets, how long each has waited, to 5 % of it. With RLP these are the packets of the primary level, and \
             the whole queue says nothing about their delay."
                .to_owned(),
        ],
        charts: vec![over_time(&runs), over_packets(&runs)],
        claims: claims(&runs),
        tables: vec![("Over time", backlogs(&runs)), ("Over packets", delays(&runs))],
    })
}

fn over_time(runs: &[Run]) -> Chart {
    let line = |run: &Run| {
        let backlog = run.bottleneck.backlog.as_ref()?;
        let points: Vec<Point> =
            backlog.distribution().map(|(x, y)| Point::new(x.max(SHORTEST), y)).collect();
        Some(series(run, Shape::Line, points))
    };
    Chart {
        title: "Instantaneous queueing delay under heavy load".to_owned(),
        subtitle: "10 Mbit/s, 100 ms, 8 senders, real sockets; no delay at all is drawn as 0.1 ms".to_owned(),
        x: Axis::new("queueing delay", Scale::Log, Unit::Seconds).starting(SHORTEST),
        y: Axis::new("time", Scale::Linear, Unit::Share).starting(0.0).ending(1.0),
        series: runs.iter().filter_map(line).collect(),
        shaded: Vec::new(),
    }
}

fn over_packets(runs: &[Run]) -> Chart {
    let line = |run: &Run| {
        let points: Vec<Point> =
            run.bottleneck.distribution().map(|(x, y)| Point::new(x.max(SHORTEST), y)).collect();
        series(run, Shape::Line, points)
    };
    Chart {
        title: "Queueing delay of packets under heavy load".to_owned(),
        subtitle: "10 Mbit/s, 100 ms, 8 senders, real sockets; no delay at all is drawn as 0.1 ms".to_owned(),
        x: Axis::new("queueing delay", Scale::Log, Unit::Seconds).starting(SHORTEST),
        y: Axis::new("packets", Scale::Linear, Unit::Share).starting(0.0).ending(1.0),
        series: runs.iter().map(line).collect(),
        shaded: Vec::new(),
    }
}

fn claims(runs: &[Run]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (name, what) in [("kickass", "Kick-Ass"), ("kickass-fct", "Kick-Ass, other RCP")] {
        if let Some(backlog) = find(runs, name).and_then(|run| run.bottleneck.backlog.as_ref()) {
            let median = 1e3 * backlog.quantile(0.5);
            claims.push(Claim {
                what: format!("median queueing delay of {what} over time"),
                printed: "0 ms",
                measured: format!("{median:.2} ms"),
                holds: median < 0.5,
            });
        }
    }
    for (name, what) in [("cubic", "CUBIC, drop-tail"), ("pcc", "PCC")] {
        if let Some(run) = find(runs, name) {
            let longest = run.bottleneck.delay(1.0);
            claims.push(Claim {
                what: format!("longest queueing delay of {what}"),
                printed: "above 1 s",
                measured: format!("{longest:.2} s"),
                holds: longest > 1.0,
            });
        }
    }
    claims
}

const PARTS: [f64; 5] = [0.5, 0.75, 0.9, 0.99, 1.0];

fn backlogs(runs: &[Run]) -> Table {
    let mut table = Table::new(&["run", "#median, ms", "#75 %", "#90 %", "#99 %", "#longest", "#mean"]);
    for run in runs {
        if let Some(backlog) = &run.bottleneck.backlog {
            let mut row = vec![title(run)];
            row.extend(PARTS.map(|part| format!("{:.2}", 1e3 * backlog.quantile(part))));
            row.push(format!("{:.2}", 1e3 * backlog.mean()));
            table.rows.push(row);
        }
    }
    table
}

fn delays(runs: &[Run]) -> Table {
    let mut table = Table::new(&[
        "run",
        "#median, ms",
        "#75 %",
        "#90 %",
        "#99 %",
        "#longest",
        "#below 1 ms",
        "#packets dropped",
        "#marked",
        "#signals",
    ]);
    for run in runs {
        let port = &run.bottleneck;
        let mut row = vec![title(run)];
        row.extend(PARTS.map(|part| format!("{:.2}", 1e3 * port.delay(part))));
        row.push(format!("{:.1} %", 100.0 * port.share_within(0.001)));
        row.extend([port.dropped, port.marked, port.signalled].map(|count| count.to_string()));
        table.rows.push(row);
    }
    table
}
