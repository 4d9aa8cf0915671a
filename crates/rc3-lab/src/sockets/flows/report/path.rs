//! Figure 11: the share of time in Kick-Ass mode of long flows, through a second router with cross traffic.

use rc3_lab::document::Table;
use rc3_picture::chart::{Axis, Chart, Point, Scale, Shape, Unit};

use super::{
    Claim, Figure, modes,
    scene::{FAST, SLOW, Scene, find, series, title},
};
use crate::{results::Run, statistics::Sample};

const ABOUT: &str = "Two senders in one network namespace, a kickass forward with signals whose link has the rate of the \
                     access, a namespace that forwards, a second kickass forward of 100 Mbit/s without signals, and the \
                     receiver in a third namespace. The round trip is 50 ms. Cross traffic enters between the routers: 32 \
                     senders of kernel TCP (CUBIC) with the sizes and silences of the light load, about half of the \
                     second link. Flows have 5 MB at 10 Mbit/s and 20 MB at 100 Mbit/s. Each line is one run on two cores.";
const DIFFERS: &str = "The paper's path is the Internet, 2000 miles long, with unknown cross traffic; its flows and their \
                       number are not printed, nor numbers of the figure. Here the second router is the only other queue, \
                       and its cross traffic is known. A flow counts from connect, so that the handshake and the round \
                       trip before its first rate count as TCP mode. At 10 Mbit/s the flows that \
                       leave Kick-Ass mode do so mostly for losses at the second router, whose buffer the cross traffic's slow \
                       starts fill at times.";
/// Two-sided 95 % of a normal distribution.
const DEVIATIONS: f64 = 1.96;
/// A figure agrees with the printed one within this part of it (docs/REPRODUCTION.md).
const TOLERANCE: f64 = 0.1;

pub(super) fn figure(long: &Scene) -> Option<Figure> {
    let runs = long.runs();
    runs.first()?;
    Some(Figure {
        name: "sockets-fig11",
        title: "Time in Kick-Ass mode over two routers, real sockets",
        command: "benches/kickass-path.sh",
        about: vec![
            "Enabling Router-Assisted Congestion Control (NU-EECS-16-09) §4.2, Fig. 11".to_owned(),
            ABOUT.to_owned(),
            DIFFERS.to_owned(),
        ],
        charts: vec![distribution(runs)],
        claims: claims(runs),
        tables: [("Share of time in Kick-Ass mode", table(runs))]
            .into_iter()
            .chain(modes::table(runs))
            .collect(),
    })
}

/// Of each flow.
fn shares(run: &Run) -> Sample {
    run.modes.iter().map(|modes| modes.steered / modes.seconds).collect()
}

/// The part of flows that are in Kick-Ass mode for at least so much of their time.
fn distribution(runs: &[Run]) -> Chart {
    let line = |run: &Run| {
        let shares = shares(run);
        let flows = shares.len() as f64;
        // At least: those above, and the flow itself.
        let points = shares.distribution().map(|(share, up_to)| Point::new(share, 1.0 - up_to + 1.0 / flows));
        series(run, Shape::Line, [Point::new(0.0, 1.0)].into_iter().chain(points))
    };
    Chart {
        title: "Flows by their share of time in Kick-Ass mode".to_owned(),
        subtitle: "two routers, 50 ms, cross traffic at the second, real sockets".to_owned(),
        x: Axis::new("share of time in Kick-Ass mode, at least", Scale::Linear, Unit::Share)
            .starting(0.0)
            .ending(1.0),
        y: Axis::new("flows", Scale::Linear, Unit::Share).starting(0.0).ending(1.0),
        series: runs.iter().map(line).collect(),
        shaded: Vec::new(),
    }
}

/// A mean and half of its interval.
fn interval(shares: &Sample) -> (f64, f64) {
    (shares.mean(), DEVIATIONS * shares.standard_error())
}

fn text((mean, half): (f64, f64)) -> String {
    format!("{:.1} ± {:.1} %", 100.0 * mean, 100.0 * half)
}

fn claims(runs: &[Run]) -> Vec<Claim> {
    let of = |name| find(runs, name).map(|run| interval(&shares(run)));
    let mut claims = Vec::new();
    if let Some(slow) = of(SLOW) {
        claims.push(Claim {
            what: "time in Kick-Ass mode at 10 Mbit/s".to_owned(),
            printed: "entirely",
            measured: text(slow),
            holds: slow.0 >= 1.0 - TOLERANCE,
        });
        if let Some(fast) = of(FAST) {
            claims.push(Claim {
                what: "time in TCP mode at 100 Mbit/s, over that at 10 Mbit/s".to_owned(),
                printed: "increases",
                measured: format!("{:.1} % to {:.1} %", 100.0 * (1.0 - slow.0), 100.0 * (1.0 - fast.0)),
                holds: fast.0 + fast.1 < slow.0 - slow.1,
            });
        }
    }
    claims
}

fn table(runs: &[Run]) -> Table {
    let mut table = Table::new(&["run", "#flows", "#mean, 95 % interval", "#lowest", "#median", "#highest"]);
    for run in runs {
        let shares = shares(run);
        let mut row = vec![title(run), shares.len().to_string(), text(interval(&shares))];
        row.extend([0.0, 0.5, 1.0].map(|part| format!("{:.1} %", 100.0 * shares.quantile(part))));
        table.rows.push(row);
    }
    table
}
