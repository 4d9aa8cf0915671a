//! Pictures of a report.

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

use super::{cell::Cell, priorities::Goodput, results::Results, simulated::Simulated};

/// Completion time over the ideal by size; `None` if there is one size only.
pub fn completion(results: &Results, cell: &Cell) -> Option<Chart> {
    if cell.sizes.len() < 2 {
        return None;
    }
    let columns: Vec<_> = cell.sizes.iter().map(|bytes| (*bytes, results.ratios(cell, *bytes))).collect();
    let series = results.schemes.iter().enumerate().map(|(nth, scheme)| {
        let point = |(bytes, estimates): &(u64, Vec<Option<crate::statistics::Estimate>>)| {
            Some(Point::new(*bytes as f64, estimates[nth]?.median))
        };
        let shape = if scheme.starts_with("tcp") { Shape::Dashed } else { Shape::Marked };
        series(scheme, nth, shape, columns.iter().filter_map(point).collect())
    });
    Some(Chart {
        title: format!("{}: completion time over the ideal", cell.name),
        subtitle: cell.path.to_string(),
        x: Axis::new("flow size", Scale::Log, Unit::Bytes),
        y: Axis::new("FCT / ideal", Scale::Log, Unit::Number),
        series: series.collect(),
        shaded: Vec::new(),
    })
}

/// Completion times measured, as marks, and simulated, as dashed lines.
pub fn simulated(cell: &Cell, rows: &[Simulated]) -> Chart {
    let mut schemes: Vec<&str> = rows.iter().map(|row| row.scheme.as_str()).collect();
    schemes.dedup();
    let mut all = Vec::new();
    for (nth, scheme) in schemes.into_iter().enumerate() {
        let of = |time: fn(&Simulated) -> f64| {
            let rows = rows.iter().filter(|row| row.scheme == scheme);
            rows.map(|row| Point::new(row.bytes as f64, time(row))).collect()
        };
        all.push(series(scheme, nth, Shape::Marked, of(|row| row.measured.median)));
        all.push(series(&format!("{scheme}, simulated"), nth, Shape::Dashed, of(|row| row.simulated)));
    }
    Chart {
        title: format!("{}: measured and simulated", cell.name),
        subtitle: cell.path.to_string(),
        x: Axis::new("flow size", Scale::Log, Unit::Bytes),
        y: Axis::new("FCT", Scale::Log, Unit::Seconds),
        series: all,
        shaded: Vec::new(),
    }
}

/// Goodput of two flows over time.
pub fn goodput(title: &str, subtitle: &str, goodput: &Goodput) -> Chart {
    let line = |(nth, (name, rates)): (usize, (&str, &Vec<f64>))| {
        let point = |(bin, rate): (usize, &f64)| Point::new(bin as f64 * Goodput::BIN.as_secs_f64(), *rate);
        series(name, nth, Shape::Line, rates.iter().enumerate().map(point).collect())
    };
    let rates = [("high priority", &goodput.high), ("low priority", &goodput.low)];
    Chart {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        x: Axis::new("time", Scale::Linear, Unit::Seconds).starting(0.0),
        y: Axis::new("rate behind the bottleneck", Scale::Linear, Unit::BitsPerSecond).starting(0.0),
        series: rates.into_iter().enumerate().map(line).collect(),
        shaded: Vec::new(),
    }
}

fn series(name: &str, nth: usize, shape: Shape, points: Vec<Point>) -> Series {
    Series { name: name.to_owned(), colour: Colour::nth(nth), shape, points }
}
