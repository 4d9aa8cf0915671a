//! FCT over size as a picture, both axes logarithmic: medians as lines, least to most as vertical intervals.

use std::{io, path::Path};

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

use super::{
    plan::Direction,
    report::{Report, Row, Times},
};
use crate::{
    scheme::Scheme,
    table::{milliseconds, time},
    transfer::progress::count,
};

/// The format of a picture file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines and text.
    Svg,
    /// A bitmap.
    Png,
}

impl Format {
    /// By the end of the file's name; `None` if it is another.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "svg" => Some(Self::Svg),
            "png" => Some(Self::Png),
            _ => None,
        }
    }
}

/// Writes the picture.
///
/// # Errors
/// When the file cannot be written.
pub fn write(report: &Report, path: &Path, format: Format) -> io::Result<()> {
    let chart = chart(report);
    std::fs::write(
        path,
        match format {
            Format::Svg => rc3_picture::svg(&chart)?.into_bytes(),
            Format::Png => rc3_picture::png(&chart)?,
        },
    )
}

fn chart(report: &Report) -> Chart {
    let rows = report.rows();
    let lines = report.plan.directions().iter().flat_map(|&direction| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.direction == direction).collect();
        Scheme::BOTH.map(|scheme| series(&rows, direction, scheme, report.plan.both))
    });
    let series = lines.flatten().collect();
    Chart {
        title: format!("plain QUIC and rc3, {}", report.peer),
        subtitle: format!(
            "round trip {}, median and least to most of {}",
            time(milliseconds(report.rtt)),
            count(report.plan.runs as usize, "run"),
        ),
        x: Axis::new("flow size", Scale::Log, Unit::Bytes),
        y: Axis::new("FCT: connect to last byte", Scale::Log, Unit::Seconds),
        series,
        shaded: Vec::new(),
    }
}

/// The medians of one scheme in one direction, and an interval at each size.
fn series(rows: &[&Row], direction: Direction, scheme: Scheme, both: bool) -> Vec<Series> {
    let colour = match (direction, scheme) {
        (Direction::There, Scheme::Plain) => Colour::Vermillion,
        (Direction::There, Scheme::Rc3) => Colour::Blue,
        (Direction::Back, Scheme::Plain) => Colour::Orange,
        (Direction::Back, Scheme::Rc3) => Colour::Sky,
    };
    let times = |row: &Row| match scheme {
        Scheme::Plain => row.plain.clone(),
        Scheme::Rc3 => row.rc3.clone(),
    };
    let point = |row: &Row, ms: f64| Point::new(row.bytes as f64, ms / 1e3);
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| row.bytes);
    let medians = sorted.iter().map(|row| point(row, times(row).fct_ms_median)).collect();
    let way = if both { format!(", {}", direction.words()) } else { String::new() };
    let line =
        Series { name: format!("{}{way}", scheme.name()), colour, shape: Shape::Marked, points: medians };
    let interval = |row: &&Row| {
        let Times { fct_ms_least, fct_ms_most, .. } = times(row);
        let points = vec![point(row, fct_ms_least), point(row, fct_ms_most)];
        Series { name: String::new(), colour, shape: Shape::Line, points }
    };
    std::iter::once(line).chain(sorted.iter().map(interval)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::report, *};

    #[test]
    fn lines_have_names_and_intervals_have_none() {
        let chart = chart(&report());
        let names: Vec<_> =
            chart.series.iter().map(|series| series.name.as_str()).filter(|name| !name.is_empty()).collect();
        let there_and_back = ["to the listener", "from the listener"];
        assert_eq!(
            names,
            there_and_back.map(|way| ["plain", "rc3"].map(|name| format!("{name}, {way}"))).concat()
        );
        // Two sizes, two directions, two schemes.
        assert_eq!(chart.series.len() - names.len(), 8);
        let interval = &chart.series[1];
        assert_eq!((interval.points[0], interval.points[1]), (Point::new(1e4, 0.2), Point::new(1e4, 0.22)));
        let svg = rc3_picture::svg(&chart).unwrap();
        assert!(svg.contains("rc3, to the listener") && svg.contains("192.0.2.1:4433"));
    }

    #[test]
    fn the_name_of_the_file_decides_its_format() {
        let directory = tempfile::tempdir().unwrap();
        for (name, format, head) in
            [("a.svg", Format::Svg, &b"<svg"[..]), ("a.PNG", Format::Png, &b"\x89PNG"[..])]
        {
            let path = directory.path().join(name);
            assert_eq!(Format::of(&path), Some(format));
            write(&report(), &path, format).unwrap();
            assert!(std::fs::read(&path).unwrap().starts_with(head), "{name}");
        }
        assert_eq!((Format::of(Path::new("a")), Format::of(Path::new("svg"))), (None, None));
    }
}
