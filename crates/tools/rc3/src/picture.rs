//! FCT over size as a picture, both axes logarithmic: medians as lines, all runs as dots.

use rc3_picture::chart::{Axis, Chart, Colour, Point, Scale, Series, Shape, Unit};

use crate::table::median;

/// FCTs of one scheme.
#[derive(Debug, Clone)]
pub(crate) struct PictureLine {
    /// Its name in the picture.
    pub(crate) name: String,
    /// Its colour.
    pub(crate) colour: Colour,
    /// The FCTs of all runs in milliseconds, for each size in bytes.
    pub(crate) sizes: Vec<(u64, Vec<f64>)>,
}

impl PictureLine {
    fn series(mut self) -> [Series; 2] {
        self.sizes.sort_by_key(|(bytes, _)| *bytes);
        let medians = self.sizes.iter().filter_map(|(bytes, runs)| Some(point(*bytes, median(runs)?)));
        let runs = self.sizes.iter().flat_map(|(bytes, runs)| runs.iter().map(|&run| point(*bytes, run)));
        [
            Series::new(self.name, self.colour, Shape::Marked, medians),
            Series::new("", self.colour, Shape::Dots, runs),
        ]
    }
}

fn point(bytes: u64, milliseconds: f64) -> Point {
    Point::new(bytes as f64, milliseconds / 1e3)
}

/// The picture of these lines, with a dashed one for the shortest possible FCTs in milliseconds, if they are known.
pub(crate) fn chart(title: String, subtitle: String, lines: Vec<PictureLine>, ideal: &[(u64, f64)]) -> Chart {
    let points = ideal.iter().map(|&(bytes, time)| point(bytes, time));
    let ideal = (!ideal.is_empty()).then(|| Series::new("ideal", Colour::Grey, Shape::Dashed, points));
    let x = Axis::new("flow size", Scale::Log, Unit::Bytes);
    let y = Axis::new("FCT: connect to last byte", Scale::Log, Unit::Seconds);
    let lines = lines.into_iter().flat_map(PictureLine::series);
    Chart::new(title, subtitle, x, y, ideal.into_iter().chain(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_names_and_dots_have_none() {
        let line = PictureLine {
            name: "a".to_owned(),
            colour: Colour::Blue,
            sizes: vec![(9, vec![4.0]), (1, vec![2.0, 4.0])],
        };
        let chart = chart(String::new(), String::new(), vec![line], &[(1, 1.0)]);
        let names: Vec<_> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["ideal", "a", ""]);
        assert_eq!(chart.series[1].points, [Point::new(1.0, 0.003), Point::new(9.0, 0.004)]);
        assert_eq!(chart.series[2].points.len(), 3);
    }
}
