//! Pictures of a report.

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

use super::{cell::Cell, results::Results};

/// Completion time over the ideal by size; `None` if there is one size only. Kernel TCP is dashed, and so is what was
/// simulated, in the colour of what was measured.
pub fn completion(results: &Results, cell: &Cell) -> Option<Chart> {
    if cell.sizes.len() < 2 {
        return None;
    }
    let columns: Vec<_> = cell.sizes.iter().map(|bytes| (*bytes, results.ratios(cell, *bytes))).collect();
    let of = |(nth, scheme): (usize, &String)| {
        let measured = scheme.strip_suffix(SIMULATED).unwrap_or(scheme);
        let colour = results.schemes.iter().position(|scheme| scheme == measured).unwrap_or(nth);
        let is_dashed = scheme.starts_with("tcp") || measured.len() < scheme.len();
        let shape = if is_dashed { Shape::Dashed } else { Shape::Marked };
        let points = columns
            .iter()
            .filter_map(|(bytes, estimates)| Some(Point::new(*bytes as f64, estimates[nth]?.median)));
        Series::new(scheme.clone(), Colour::nth(colour), shape, points)
    };
    Some(Chart::new(
        format!("{}: completion time over the ideal", cell.name),
        cell.path.to_string(),
        Axis::new("flow size", Scale::Log, Unit::Bytes),
        Axis::new("FCT / ideal", Scale::Log, Unit::Number),
        results.schemes.iter().enumerate().map(of),
    ))
}

/// What the name of a simulated scheme ends with.
pub const SIMULATED: &str = ", simulated";
