//! Pictures: a [`Chart`] describes the content; output is SVG for documents, or PNG (with the feature `png`).
//!
//! Both come from the same drawing. Text is set in [`font`] ([`Typeset`]), so a machine without fonts draws the same.
#![forbid(unsafe_code)]

mod axis;
#[cfg(feature = "png")]
mod bitmap;
pub mod chart;
pub mod font;
mod paint;
mod typeset;

use std::{error::Error, io};

use chart::Chart;
use plotters::prelude::{IntoDrawingArea, SVGBackend};

#[cfg(feature = "png")]
pub use crate::bitmap::{Format, png, write};
pub use crate::typeset::Typeset;

/// The chart as SVG.
///
/// # Errors
/// When drawing fails, which is a bug of the library.
pub fn svg(chart: &Chart) -> io::Result<String> {
    svg_row(std::slice::from_ref(chart))
}

/// Charts beside each other as one SVG.
///
/// # Errors
/// When drawing fails, which is a bug of the library.
pub fn svg_row(charts: &[Chart]) -> io::Result<String> {
    let each = if charts.len() > 1 { paint::WIDTH_BESIDE } else { paint::WIDTH };
    let (display_width, display_height) = (each * charts.len() as u32, paint::HEIGHT);
    let (width, height) = (display_width * paint::SCALE, display_height * paint::SCALE);
    let mut text = String::new();
    let root = Typeset::text(SVGBackend::with_string(&mut text, (width, height))).into_drawing_area();
    for (chart, area) in charts.iter().zip(root.split_evenly((1, charts.len()))) {
        paint::paint(&area, chart).map_err(other)?;
    }
    drop(root);
    // The view box keeps the fine pixel grid; the size is that of display.
    Ok(text.replacen(
        &format!("width=\"{width}\" height=\"{height}\""),
        &format!("width=\"{display_width}\" height=\"{display_height}\""),
        1,
    ))
}

fn other(error: Box<dyn Error>) -> io::Error {
    io::Error::other(error.to_string())
}

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::{
        chart::{Axis, Colour, Point, Scale, Series, Shape, Unit},
        *,
    };

    pub(crate) fn every_shape() -> Chart {
        let shapes = [
            Shape::Marked,
            Shape::Line,
            Shape::Dashed,
            Shape::Steps,
            Shape::Bars,
            Shape::Frames,
            Shape::Stack,
            Shape::Dots,
        ];
        let series = |(index, shape): (usize, &Shape)| Series {
            name: format!("series {index} <&>"),
            colour: Colour::nth(index),
            shape: *shape,
            points: (0..4)
                .map(|x| Point { x: f64::from(x), y: 0.1 * (index as f64 + f64::from(x)), error: Some(0.02) })
                .collect(),
        };
        let names = ["1.46 kB", "2.92 kB", "4.38 kB", "7.3 kB"].map(str::to_owned).to_vec();
        Chart {
            title: "every shape".to_owned(),
            subtitle: "and a subtitle".to_owned(),
            x: Axis::new("flow size", Scale::Names(names), Unit::Bytes),
            y: Axis::new("reduction", Scale::Linear, Unit::Share),
            series: shapes.iter().enumerate().map(series).collect(),
            shaded: Vec::new(),
        }
    }

    #[test]
    fn svg_is_well_formed_and_names_everything() {
        let text = svg(&every_shape()).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let words: String = document.descendants().filter_map(|node| node.text()).collect();
        for word in ["every shape", "and a subtitle", "flow size", "reduction", "4.38 kB", "series 7 <&>"] {
            assert!(words.contains(word), "{word} is missing in {words}");
        }
        assert_eq!(document.root_element().attribute("width"), Some("760"));
        assert!(text.len() < 60_000);
    }

    #[test]
    fn twelve_series_have_twelve_colours() {
        let colours: BTreeSet<_> = (0..12).map(|index| Colour::nth(index).rgb()).collect();
        assert_eq!(colours.len(), 12);
    }

    #[test]
    fn long_lines_stay_small() {
        let wave = |x: u32| Point::new(f64::from(x), (f64::from(x) / 3000.0).sin());
        let chart = Chart {
            title: String::new(),
            subtitle: String::new(),
            x: Axis::new("", Scale::Linear, Unit::Number),
            y: Axis::new("", Scale::Linear, Unit::Number),
            series: vec![Series {
                name: String::new(),
                colour: Colour::Blue,
                shape: Shape::Line,
                points: (0..100_000).map(wave).collect(),
            }],
            shaded: Vec::new(),
        };
        assert!(svg(&chart).unwrap().len() < 20_000);
    }

    #[test]
    fn a_row_has_each_chart_at_its_place() {
        let chart = every_shape();
        let row = svg_row(&[chart.clone(), chart.clone()]).unwrap();
        assert_eq!(row.matches("every shape").count(), 2);
        assert!(row.contains("width=\"1120\" height=\"440\""));
        assert_eq!(svg_row(std::slice::from_ref(&chart)).unwrap(), svg(&chart).unwrap());
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        let mut chart = every_shape();
        chart.series.clear();
        assert!(svg(&chart).unwrap().contains("every shape"));
    }
}
