//! Charts as bitmaps.

use std::{fs, io, path::Path};

use plotters::prelude::{BitMapBackend, IntoDrawingArea};

use crate::{Typeset, chart::Chart, other, paint, svg};

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
    /// When drawing fails, which is a bug of the library.
    pub fn draw(self, chart: &Chart) -> io::Result<Vec<u8>> {
        match self {
            Self::Svg => svg(chart).map(String::into_bytes),
            Self::Png => png(chart),
        }
    }
}

/// Writes the chart as `STEM.svg` and `STEM.png`.
///
/// # Errors
/// When a file cannot be written.
pub fn write(chart: &Chart, directory: &Path, stem: &str) -> io::Result<()> {
    fs::write(directory.join(format!("{stem}.svg")), svg(chart)?)?;
    fs::write(directory.join(format!("{stem}.png")), png(chart)?)
}

/// The chart as PNG, at twice the resolution for fine screens.
///
/// # Errors
/// When drawing fails, which is a bug of the library.
pub fn png(chart: &Chart) -> io::Result<Vec<u8>> {
    let (width, height) = (paint::WIDTH * paint::SCALE, paint::HEIGHT * paint::SCALE);
    let mut rgb = vec![0; 3 * width as usize * height as usize];
    let root = Typeset::pixels(BitMapBackend::with_buffer(&mut rgb, (width, height))).into_drawing_area();
    paint::paint(&root, chart).map_err(other)?;
    drop(root);
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    encoder.write_header()?.write_image_data(&rgb)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::every_shape;

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
