//! Figure 8: completion times under light load.

use rc3_lab::document::Table;
use rc3_picture::chart::{Axis, Chart, Point, Scale, Shape, Unit};
use rc3_text::units::three_digits;

use super::{
    Claim, Figure, TESTBED, modes,
    scene::{Scene, VARIANTS, find, series, title},
};
use crate::{results::Run, statistics::Sample};

/// Sizes in packets of which flows are told together; the law has none below 44.
const BINS: [(f64, f64); 5] = [(1.0, 60.0), (60.0, 100.0), (100.0, 200.0), (200.0, 500.0), (500.0, 2001.0)];
const ALL: (f64, f64) = (0.0, f64::INFINITY);

pub(super) fn figure(light: &Scene) -> Option<Figure> {
    let runs = light.schemes();
    let flows = runs.first()?.flows.len();
    Some(Figure {
        name: "sockets-fig8",
        title: "Completion times under light load, real sockets",
        command: TESTBED,
        about: vec![
            "Enabling Router-Assisted Congestion Control (NU-EECS-16-09) §4.1, Fig. 8".to_owned(),
            format!(
                "Eight senders in one network namespace, their receiver in another, `kickass forward` between them: \
                 100 Mbit/s, a buffer of 1000 packets, a round trip of 100 ms. Sizes are Pareto, on average 100 \
                 packets of 1460 bytes, 2000 at most; silences are exponential, on average 0.5 s. All schemes have the \
                 same sizes and silences, and the {flows} flows that all of them have finished are compared. Each has \
                 a connection of its own, and its time is from connect to the last byte at the receiver. TCP is the \
                 kernel's and has no TLS; rc3 has, and its handshake takes one round trip, too."
            ),
            VARIANTS.to_owned(),
        ],
        charts: vec![by_size(&runs), distribution(&runs)],
        claims: claims(&runs),
        tables: [("All flows", overall(&runs)), ("By flow size", sizes(&runs))]
            .into_iter()
            .chain(modes::table(&runs))
            .collect(),
    })
}

fn by_size(runs: &[Run]) -> Chart {
    let names = BINS.map(|(from, to)| format!("{from} to {}", to - 1.0)).to_vec();
    let bars = |run: &Run| {
        let bins = BINS.iter().enumerate().map(|(x, bin)| (x as f64, run.fcts(*bin)));
        let points: Vec<Point> = bins
            .filter(|(_, fcts)| fcts.len() > 1)
            .map(|(x, fcts)| Point { x, y: fcts.mean(), error: Some(fcts.standard_error()) })
            .collect();
        series(run, Shape::Bars, points)
    };
    Chart {
        title: "Mean FCT under light load".to_owned(),
        subtitle: "100 Mbit/s, 100 ms, 8 senders, real sockets".to_owned(),
        x: Axis::new("packets", Scale::Names(names), Unit::Number),
        y: Axis::new("FCT", Scale::Linear, Unit::Seconds).starting(0.0),
        series: runs.iter().map(bars).collect(),
        shaded: Vec::new(),
    }
}

fn distribution(runs: &[Run]) -> Chart {
    let line = |run: &Run| {
        let fcts = run.fcts(ALL);
        let points: Vec<Point> = fcts.distribution().map(|(x, y)| Point::new(x, y)).collect();
        series(run, Shape::Line, points)
    };
    Chart {
        title: "Distribution of the FCT under light load".to_owned(),
        subtitle: "100 Mbit/s, 100 ms, 8 senders, real sockets".to_owned(),
        x: Axis::new("FCT", Scale::Log, Unit::Seconds),
        y: Axis::new("flows", Scale::Linear, Unit::Share).starting(0.0).ending(1.0),
        series: runs.iter().map(line).collect(),
        shaded: Vec::new(),
    }
}

fn mean(runs: &[Run], name: &str) -> Option<f64> {
    find(runs, name).map(|run| run.fcts(ALL).mean())
}

fn claims(runs: &[Run]) -> Vec<Claim> {
    let Some(cubic) = mean(runs, "cubic") else { return Vec::new() };
    let mut claims = Vec::new();
    for (name, what) in
        [("kickass", "Kick-Ass"), ("kickass-fct", "Kick-Ass, other RCP"), ("kickass-rlp", "Kick-Ass and RLP")]
    {
        if let Some(fct) = mean(runs, name) {
            claims.push(Claim {
                what: format!("mean FCT of CUBIC over that of {what}"),
                printed: "2 on average",
                measured: format!("{:.2}", cubic / fct),
                holds: cubic / fct >= 2.0,
            });
        }
    }
    if let Some(fct) = mean(runs, "pcc") {
        claims.push(Claim {
            what: "mean FCT of PCC over that of CUBIC".to_owned(),
            printed: "longer",
            measured: format!("{:.2}", fct / cubic),
            holds: fct > cubic,
        });
    }
    if let Some(fct) = mean(runs, "cubic-fq-codel") {
        claims.push(Claim {
            what: "mean FCT with FQ-CoDel and ECN over that without".to_owned(),
            printed: "no improvement",
            measured: format!("{:.2}", fct / cubic),
            holds: fct / cubic >= 0.9,
        });
    }
    claims
}

fn cells(fcts: &Sample) -> [String; 4] {
    [
        fcts.len().to_string(),
        format!("{:.3} ± {:.3}", fcts.mean(), fcts.standard_error()),
        format!("{:.3}", fcts.quantile(0.5)),
        format!("{:.3}", fcts.quantile(0.99)),
    ]
}

fn overall(runs: &[Run]) -> Table {
    let mut table = Table::new(&[
        "run",
        "#flows",
        "#mean FCT, s",
        "#median",
        "#99 %",
        "#CUBIC's mean over it",
        "#packets dropped",
        "#marked",
        "#signals",
    ]);
    let cubic = mean(runs, "cubic");
    for run in runs {
        let fcts = run.fcts(ALL);
        let factor = cubic.map_or_else(String::new, |cubic| three_digits(cubic / fcts.mean()));
        let counted = [run.bottleneck.dropped, run.bottleneck.marked, run.bottleneck.signalled];
        let row = [title(run)].into_iter().chain(cells(&fcts)).chain([factor]);
        table.rows.push(row.chain(counted.map(|count| count.to_string())).collect());
    }
    table
}

fn sizes(runs: &[Run]) -> Table {
    let mut table = Table::new(&["packets", "run", "#flows", "#mean FCT, s", "#median", "#99 %"]);
    for bin in BINS {
        for run in runs {
            let fcts = run.fcts(bin);
            if fcts.len() > 1 {
                let packets = format!("{} to {}", bin.0, bin.1 - 1.0);
                table.rows.push([packets, title(run)].into_iter().chain(cells(&fcts)).collect());
            }
        }
    }
    table
}
