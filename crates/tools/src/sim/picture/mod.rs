//! Pictures: a [`Chart`] says what to show; SVG for documents, PNG for everything else.
//!
//! Both come from the same drawing. Text is set in [`crate::font`], so a machine without fonts draws the same.

mod axis;
pub mod chart;
mod paint;

use std::{error::Error, fs, io, path::Path};

use chart::Chart;
use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};

/// Writes the chart as `STEM.svg` and `STEM.png`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(chart: &Chart, directory: &Path, stem: &str) -> io::Result<()> {
    fs::write(directory.join(format!("{stem}.svg")), svg(chart)?)?;
    fs::write(directory.join(format!("{stem}.png")), png(chart)?)
}

/// The chart as SVG.
///
/// # Errors
/// When the drawing fails, which is a fault of the library.
pub fn svg(chart: &Chart) -> io::Result<String> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, pixels()).into_drawing_area();
    paint::paint(&root, chart).map_err(other)?;
    drop(root);
    // The view box keeps the fine grid of pixels; the size is the one to be seen at.
    let (width, height) = pixels();
    Ok(text.replacen(
        &format!("width=\"{width}\" height=\"{height}\""),
        &format!("width=\"{}\" height=\"{}\"", paint::WIDTH, paint::HEIGHT),
        1,
    ))
}

/// The chart as PNG, with twice the pixels for fine screens.
///
/// # Errors
/// When the drawing fails, which is a fault of the library.
pub fn png(chart: &Chart) -> io::Result<Vec<u8>> {
    let (width, height) = pixels();
    let mut rgb = vec![0; 3 * width as usize * height as usize];
    let root = BitMapBackend::with_buffer(&mut rgb, (width, height)).into_drawing_area();
    paint::paint(&root, chart).map_err(other)?;
    drop(root);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(&rgb)?;
    Ok(file)
}

fn pixels() -> (u32, u32) {
    (paint::WIDTH * paint::SCALE, paint::HEIGHT * paint::SCALE)
}

fn other(error: Box<dyn Error>) -> io::Error {
    io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{
        chart::{Axis, Colour, Point, Scale, Series, Shape, Unit},
        *,
    };

    fn every_shape() -> Chart {
        let shapes = [
            Shape::Marked,
            Shape::Line,
            Shape::Dashed,
            Shape::Steps,
            Shape::Bars,
            Shape::Frames,
            Shape::Stack,
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
        }
    }

    #[test]
    fn svg_is_well_formed_and_names_everything() {
        let text = svg(&every_shape()).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let words: String = document.descendants().filter_map(|node| node.text()).collect();
        for word in ["every shape", "and a subtitle", "flow size", "reduction", "4.38 kB", "series 6 <&>"] {
            assert!(words.contains(word), "{word} is missing in {words}");
        }
        assert_eq!(document.root_element().attribute("width"), Some("760"));
        assert!(text.len() < 60_000);
    }

    #[test]
    fn png_has_text_without_fonts_of_the_system() {
        let mut chart = every_shape();
        let with = decode(&png(&chart).unwrap());
        chart.title = String::new();
        let without = decode(&png(&chart).unwrap());
        assert_eq!(with.len(), 3 * 1520 * 880);
        // The two differ where the title is, and only there.
        let rows: Vec<_> =
            (0..880).filter(|row| with[row * 4560..][..4560] != without[row * 4560..][..4560]).collect();
        assert!(rows.len() > 15 && rows.iter().all(|row| (16..64).contains(row)), "{rows:?}");
    }

    fn decode(file: &[u8]) -> Vec<u8> {
        let mut reader = png::Decoder::new(io::Cursor::new(file)).read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut rgb).unwrap();
        rgb
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
        };
        assert!(svg(&chart).unwrap().len() < 20_000);
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        let mut chart = every_shape();
        chart.series.clear();
        assert!(svg(&chart).unwrap().contains("every shape"));
    }
}
