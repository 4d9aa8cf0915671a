//! Pictures: a [`Chart`] describes the content; output is SVG for documents, or PNG.
//!
//! Both come from the same marks. Text is measured, and in PNG set, in a compiled-in typeface, so a machine without
//! fonts draws the same.
#![forbid(unsafe_code)]

mod axis;
mod bitmap;
mod canvas;
pub mod chart;
mod font;
mod paint;

use std::{fs, io, path::Path};

use bitmap::Bitmap;
use canvas::{Canvas, HEIGHT, SCALE, WIDTH, WIDTH_BESIDE};
use chart::Chart;

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

    /// The content of the file.
    ///
    /// # Errors
    /// When PNG cannot be encoded, which is a bug of the library.
    pub fn draw(self, chart: &Chart) -> io::Result<Vec<u8>> {
        match self {
            Self::Svg => Ok(svg(chart).into_bytes()),
            Self::Png => png(chart),
        }
    }
}

/// Writes the chart as `STEM.svg` and `STEM.png`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(chart: &Chart, directory: &Path, stem: &str) -> io::Result<()> {
    fs::write(directory.join(format!("{stem}.svg")), svg(chart))?;
    fs::write(directory.join(format!("{stem}.png")), png(chart)?)
}

/// The chart as PNG, at twice the resolution for fine screens.
///
/// # Errors
/// When it cannot be encoded, which is a bug of the library.
pub fn png(chart: &Chart) -> io::Result<Vec<u8>> {
    let mut bitmap = Bitmap::new((WIDTH * SCALE, HEIGHT * SCALE));
    painted(std::slice::from_ref(chart), WIDTH).marks.iter().for_each(|mark| bitmap.draw(mark));
    bitmap.png()
}

/// The chart as SVG.
pub fn svg(chart: &Chart) -> String {
    svg_row(std::slice::from_ref(chart))
}

/// Charts beside each other as one SVG.
pub fn svg_row(charts: &[Chart]) -> String {
    let each = if charts.len() > 1 { WIDTH_BESIDE } else { WIDTH };
    let (width, height) = (each * charts.len() as u32, HEIGHT);
    // The view box keeps the fine pixel grid; the size is that of display.
    let mut text = format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {} {}\" xmlns=\"http://www.w3.org/2000/svg\">\n",
        width * SCALE,
        height * SCALE,
    );
    painted(charts, each).marks.iter().for_each(|mark| mark.write_svg(&mut text));
    text + "</svg>\n"
}

/// Charts beside each other, each of this width in points.
fn painted(charts: &[Chart], width: u32) -> Canvas {
    let mut canvas = Canvas::new(width);
    for (index, chart) in charts.iter().enumerate() {
        canvas.begin(index);
        paint::paint(&mut canvas, chart);
    }
    canvas
}

/// The README's example runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
            Shape::Dots,
            Shape::Growing,
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
        let text = svg(&every_shape());
        let document = roxmltree::Document::parse(&text).unwrap();
        let words: String = document.descendants().filter_map(|node| node.text()).collect();
        for word in ["every shape", "and a subtitle", "flow size", "reduction", "4.38 kB", "series 8 <&>"] {
            assert!(words.contains(word), "{word} is missing in {words}");
        }
        assert_eq!(document.root_element().attribute("width"), Some("760"));
        assert!(text.len() < 60_000);
    }

    #[test]
    fn twelve_series_have_twelve_colours() {
        let colours: BTreeSet<_> = (0..12).map(|index| Colour::nth(index).rgb()).collect();
        assert_eq!(colours.len(), 12);
        assert!((0..12).all(|index| Colour::nth(index) as usize == index));
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
        assert!(svg(&chart).len() < 20_000);
    }

    #[test]
    fn a_row_has_each_chart_at_its_place() {
        let chart = every_shape();
        let row = svg_row(&[chart.clone(), chart.clone()]);
        assert_eq!(row.matches("every shape").count(), 2);
        assert!(row.contains("width=\"1120\" height=\"440\""));
        assert_eq!(svg_row(std::slice::from_ref(&chart)), svg(&chart));
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        let mut chart = every_shape();
        chart.series.clear();
        assert!(svg(&chart).contains("every shape"));
    }

    #[test]
    fn the_name_of_the_file_decides_its_format() {
        let formats = ["a.svg", "a.PNG", "a", "svg"].map(|name| Format::of(Path::new(name)));
        assert_eq!(formats, [Some(Format::Svg), Some(Format::Png), None, None]);
        assert!(Format::Svg.draw(&every_shape()).unwrap().starts_with(b"<svg"));
        assert!(Format::Png.draw(&every_shape()).unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn png_has_text_without_fonts_of_the_system() {
        let mut chart = every_shape();
        let with = decode(&png(&chart).unwrap());
        chart.title = String::new();
        let without = decode(&png(&chart).unwrap());
        assert_eq!(with.len(), 3 * 1520 * 880);
        // The two differ only at the title.
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
}
