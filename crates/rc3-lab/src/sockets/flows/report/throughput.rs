//! Figure 10: the throughput of each flow under heavy load.

use rc3_lab::document::Table;
use rc3_picture::chart::{Axis, Chart, Point, Scale, Shape, Unit};

use super::{
    Claim, Figure, TESTBED, modes,
    scene::{Scene, VARIANTS, find, series, title},
    waiting,
};
use crate::{results::Run, statistics::Sample};

pub(super) fn figure(heavy: &Scene) -> Option<Figure> {
    let runs = heavy.schemes();
    let flows = runs.first()?.flows.len();
    Some(Figure {
        name: "sockets-fig10",
        title: "Throughput of flows under heavy load, real sockets",
        command: TESTBED,
        about: vec![
            "Enabling Router-Assisted Congestion Control (NU-EECS-16-09) §4.1, Fig. 10".to_owned(),
            waiting::ABOUT.to_owned(),
            VARIANTS.to_owned(),
            format!(
                "The throughput of a flow is its bytes by the time from connect to the last byte at the receiver. The \
                 {flows} flows that all schemes have finished are compared."
            ),
        ],
        charts: vec![distribution(&runs)],
        claims: claims(&runs),
        tables: [("Throughput", rates(&runs))].into_iter().chain(modes::table(&runs)).collect(),
    })
}

fn rates_of(run: &Run) -> Sample {
    run.flows.iter().map(|flow| 8.0 * flow.bytes as f64 / flow.seconds).collect()
}

fn distribution(runs: &[Run]) -> Chart {
    let line = |run: &Run| {
        let points: Vec<Point> = rates_of(run).distribution().map(|(x, y)| Point::new(x, y)).collect();
        series(run, Shape::Line, points)
    };
    Chart {
        title: "Throughput of flows under heavy load".to_owned(),
        subtitle: "10 Mbit/s, 100 ms, 8 senders, real sockets".to_owned(),
        x: Axis::new("throughput of a flow", Scale::Linear, Unit::BitsPerSecond).starting(0.0),
        y: Axis::new("flows", Scale::Linear, Unit::Share).starting(0.0).ending(1.0),
        series: runs.iter().map(line).collect(),
        shaded: Vec::new(),
    }
}

fn claims(runs: &[Run]) -> Vec<Claim> {
    let median = |name: &str| find(runs, name).map(|run| rates_of(run).quantile(0.5));
    let Some(kickass) = median("kickass") else { return Vec::new() };
    let others =
        [("cubic", "CUBIC, drop-tail"), ("cubic-fq-codel", "CUBIC, FQ-CoDel with ECN"), ("pcc", "PCC")];
    let claim = |(name, what): (&str, &str)| {
        let factor = kickass / median(name)?;
        Some(Claim {
            what: format!("median throughput of Kick-Ass over that of {what}"),
            printed: "higher",
            measured: format!("{factor:.2}"),
            holds: factor > 1.0,
        })
    };
    others.into_iter().filter_map(claim).collect()
}

fn rates(runs: &[Run]) -> Table {
    let mut table =
        Table::new(&["run", "#flows", "#mean, Mbit/s", "#10 %", "#median", "#90 %", "#mean FCT, s"]);
    for run in runs {
        let rates = rates_of(run);
        let fcts: Sample = run.flows.iter().map(|flow| flow.seconds).collect();
        let mut row = vec![title(run), rates.len().to_string(), format!("{:.2}", rates.mean() / 1e6)];
        row.extend([0.1, 0.5, 0.9].map(|part| format!("{:.2}", rates.quantile(part) / 1e6)));
        row.push(format!("{:.2} ± {:.2}", fcts.mean(), fcts.standard_error()));
        table.rows.push(row);
    }
    table
}
