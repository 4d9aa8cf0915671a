//! Kernel TCP beside Kick-Ass at a port with signals, under light load.

use std::collections::HashSet;

use rc3_lab::document::Table;
use rc3_picture::chart::{Axis, Chart, Point, Scale, Shape, Unit};

use super::{
    Claim, Figure, TESTBED,
    scene::{ALONE, SHARED, Scene, series},
};
use crate::{
    results::{Id, Run},
    statistics::Sample,
};

/// The scheme whose flows are TCP.
const TCP: &str = "cubic";
/// What is the same within so much is unharmed.
const HARM: f64 = 0.03;

pub(super) fn figure(light: &Scene) -> Option<Figure> {
    let (alone, shared) = (light.find(ALONE)?, light.find(SHARED)?);
    let ids: HashSet<Id> =
        shared.flows.iter().filter(|flow| flow.scheme == TCP).map(|flow| flow.id).collect();
    let paired = |run: &Run| {
        let mut run = run.clone();
        run.retain(&ids);
        run
    };
    let alone = paired(alone);
    let same: HashSet<Id> = alone.flows.iter().map(|flow| flow.id).collect();
    let mut beside = paired(shared);
    beside.retain(&same);
    let mut kickass = shared.clone();
    kickass.flows.retain(|flow| flow.scheme != TCP);

    let fcts = |run: &Run| run.flows.iter().map(|flow| flow.seconds).collect::<Sample>();
    let (before, after, others) = (fcts(&alone), fcts(&beside), fcts(&kickass));
    let ratio = after.mean() / before.mean();
    let mut table = Table::new(&["flows of", "#flows", "#mean FCT, s", "#median", "#99 %"]);
    for (name, fcts) in
        [("TCP, others TCP", &before), ("TCP, others Kick-Ass", &after), ("Kick-Ass, others TCP", &others)]
    {
        table.rows.push(vec![
            name.to_owned(),
            fcts.len().to_string(),
            format!("{:.3} ± {:.3}", fcts.mean(), fcts.standard_error()),
            format!("{:.3}", fcts.quantile(0.5)),
            format!("{:.3}", fcts.quantile(0.99)),
        ]);
    }
    let line = |run: &Run, fcts: &Sample| {
        let points: Vec<Point> = fcts.distribution().map(|(x, y)| Point::new(x, y)).collect();
        series(run, Shape::Line, points)
    };
    Some(Figure {
        name: "sockets-shared",
        title: "TCP beside Kick-Ass under light load, real sockets",
        command: TESTBED,
        about: vec![
            "Enabling Router-Assisted Congestion Control (NU-EECS-16-09) §4.1, which leaves out the figure".to_owned(),
            "As the light load of Fig. 8, at a port with signals: kernel TCP (CUBIC) from all eight senders, and from \
             every other one with Kick-Ass from those between. The flows of those that are TCP in both are compared."
                .to_owned(),
        ],
        charts: vec![Chart {
            title: "FCT of TCP alone and beside Kick-Ass".to_owned(),
            subtitle: "100 Mbit/s, 100 ms, 8 senders, real sockets".to_owned(),
            x: Axis::new("FCT", Scale::Log, Unit::Seconds),
            y: Axis::new("flows", Scale::Linear, Unit::Share).starting(0.0).ending(1.0),
            series: vec![line(&alone, &before), line(&beside, &after)], shaded: Vec::new() }],
        claims: vec![Claim {
            what: "mean FCT of TCP beside Kick-Ass over that among TCP".to_owned(),
            printed: "does not interfere",
            measured: format!("{ratio:.3}"),
            holds: ratio <= 1.0 + HARM,
        }],
        tables: vec![("Measured", table)],
    })
}
