//! Pictures of a sampled link against time (Kick-Ass Figs. 2, 5, 7), and of its queue (Fig. 9).

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};
use rc3_sim::{
    agent::FlowId,
    sample::LinkSample,
    scenario::{Metric, PictureKind, PictureSpec, Spec, WorkloadSpec},
};

use super::{cumulative, name, shown};
use crate::{
    sim::{
        results::{Cell, Results},
        sampled::{Sampled, following},
    },
    statistics::Sample,
};

/// A line of each run; the times of the background flows are shaded, and a printed rate of a flow is a dashed line.
pub(super) fn chart(picture: &PictureSpec, spec: &Spec, results: &Results) -> Chart {
    let value = |sampled: &Sampled, first: Option<FlowId>, sample: &LinkSample| {
        let every = sampled.every.as_secs_f64();
        let bytes = |bytes: u64| bytes as f64 / every;
        match picture.kind {
            PictureKind::RateOverTime => {
                let flow = sample.flows.iter().find(|flow| Some(flow.flow) == first);
                Some(8.0 * bytes(flow.map_or(0, |flow| flow.bytes)))
            }
            PictureKind::UtilisationOverTime => {
                Some(bytes(sample.flows.iter().map(|flow| flow.bytes).sum()) / sampled.rate)
            }
            PictureKind::QueueOverTime => Some(sample.queue_bytes as f64),
            _ => following(sample),
        }
    };
    let cells: Vec<&Cell> = shown(picture, results).collect();
    let line = |(index, cell): (usize, &&Cell)| {
        let sampled = &cell.sampled;
        // Flows are numbered in the order in which they begin.
        let first = sampled.samples.iter().flat_map(|sample| &sample.flows).map(|flow| flow.flow).min();
        let point =
            |sample: &LinkSample| Some(Point::new(sample.at.as_secs_f64(), value(sampled, first, sample)?));
        let points = sampled.samples.iter().filter_map(point);
        Series::new(name(cell, &cells), colour(index, cells.len()), Shape::Steps, points)
    };
    let mut series: Vec<Series> =
        cells.iter().enumerate().map(line).filter(|series| !series.points.is_empty()).collect();
    if picture.kind == PictureKind::RateOverTime && !series.is_empty() {
        series.extend(printed_rate(spec));
    }
    let (what, unit) = match picture.kind {
        PictureKind::RateOverTime => ("throughput of one flow", Unit::BitsPerSecond),
        PictureKind::UtilisationOverTime => ("use of the link", Unit::Share),
        PictureKind::QueueOverTime => ("bytes in the queue", Unit::Bytes),
        _ => ("flows in Kick-Ass mode", Unit::Share),
    };
    let x = Axis::new("time", Scale::Linear, Unit::Seconds).starting(0.0);
    let y = Axis::new(what, Scale::Linear, unit).starting(0.0);
    let shaded = background(spec);
    let subtitle = match shaded.is_empty() {
        true => "on the sampled link",
        false => "on the sampled link; shaded: with background flows",
    };
    Chart { shaded, ..Chart::new("", subtitle, x, y, series) }
}

/// The first of several runs is what the others are compared with: it swings the most, and is drawn paler.
fn colour(index: usize, of: usize) -> Colour {
    if index == 0 && of > 2 { Colour::Grey } else { Colour::nth(index) }
}

/// From when to when background flows are there that give up at some time, in seconds.
fn background(spec: &Spec) -> Vec<(f64, f64)> {
    let times = |workload: &WorkloadSpec| {
        let lasts = workload.give_up?;
        let begins = workload.flows.iter().flatten().map(|flow| flow.at.unwrap_or_default());
        Some(begins.map(|at| (at.as_secs_f64(), (at + lasts).as_secs_f64())).collect::<Vec<_>>())
    };
    spec.background.iter().filter_map(times).flatten().collect()
}

/// What the paper prints for the rate of a flow, over the times for which it does.
fn printed_rate(spec: &Spec) -> Option<Series> {
    let rates =
        spec.expect.iter().filter(|expect| expect.metric == Metric::FlowRate && expect.scheme.is_none());
    let mut points: Vec<Point> = rates
        .filter_map(|expect| Some((expect.between?, expect.value * 1e6)))
        .flat_map(|((from, to), rate)| [from, to].map(|at| Point::new(at.as_secs_f64(), rate)))
        .collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points.dedup();
    (!points.is_empty()).then(|| Series::new("fair share, printed", Colour::Black, Shape::Dashed, points))
}

/// How long a packet that came at a random time would have waited.
pub(super) fn distribution(picture: &PictureSpec, results: &Results) -> Chart {
    let cells: Vec<&Cell> = shown(picture, results).collect();
    let line = |(index, cell): (usize, &&Cell)| {
        let sampled = &cell.sampled;
        let waits: Sample =
            sampled.samples.iter().map(|sample| sample.queue_bytes as f64 / sampled.rate).collect();
        Series::new(name(cell, &cells), Colour::nth(index), Shape::Line, cumulative(&waits))
    };
    let series = cells.iter().enumerate().map(line);
    let x = Axis::new("wait in the queue", Scale::Linear, Unit::Seconds).starting(0.0);
    let y = Axis::new("share of the time", Scale::Linear, Unit::Share).starting(0.0).ending(1.0);
    Chart::new("", "cumulative distribution", x, y, series)
}
