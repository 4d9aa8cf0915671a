//! What a picture consists of, in pixels: the same marks for SVG and for bitmaps.

use std::fmt::Write as _;

use crate::font;

/// Width of a picture in points.
pub(crate) const WIDTH: u32 = 760;
/// Width of each of several beside each other.
pub(crate) const WIDTH_BESIDE: u32 = 560;
/// Height of a picture in points.
pub(crate) const HEIGHT: u32 = 440;
/// Pixels per point.
pub(crate) const SCALE: u32 = 2;
/// Lengths of a dash and of the gap after it, in pixels.
pub(crate) const DASHES: [f32; 2] = [12.0, 8.0];

/// Red, green, blue.
pub(crate) type Rgb = (u8, u8, u8);
/// A place in pixels, from the left and from the top.
pub(crate) type Pixel = (i32, i32);

/// Which side of a text its place is at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Across {
    Left,
    Middle,
    Right,
}

/// Which height of a text its place is at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Upright {
    Top,
    Middle,
    Bottom,
}

/// Where the place of a text is in it.
pub(crate) type Anchor = (Across, Upright);

/// One mark.
#[derive(Debug)]
pub(crate) enum Mark {
    /// Corners: left and top, right and bottom.
    Rectangle { corners: [Pixel; 2], is_filled: bool, colour: Rgb },
    /// A line through these places.
    Line { places: Vec<Pixel>, width: u32, is_dashed: bool, colour: Rgb },
    /// A filled circle.
    Circle { centre: Pixel, radius: u32, opacity: f32, colour: Rgb },
    /// A line of text of this height in pixels, from left to right or upwards.
    Text { text: String, at: Pixel, height: f64, anchor: Anchor, is_upwards: bool, colour: Rgb },
}

/// Converts points to pixels.
#[derive(Debug)]
pub(crate) struct Canvas {
    pub(crate) marks: Vec<Mark>,
    /// Width of each picture in points.
    width: u32,
    /// Where the present picture begins, in pixels.
    left: i32,
}

impl Canvas {
    /// For pictures of this width in points.
    pub(crate) fn new(width: u32) -> Self {
        Self { marks: Vec::new(), width, left: 0 }
    }

    /// Begins the picture at this index of a row.
    pub(crate) fn begin(&mut self, index: usize) {
        let width = (self.width * SCALE) as i32;
        self.left = width * index as i32;
        let corners = [(self.left, 0), (self.left + width, (HEIGHT * SCALE) as i32)];
        self.marks.push(Mark::Rectangle { corners, is_filled: true, colour: (255, 255, 255) });
    }

    /// Of the whole picture.
    pub(crate) fn width(&self) -> f64 {
        f64::from(self.width)
    }

    fn pixel(&self, (x, y): (f64, f64)) -> Pixel {
        let scale = f64::from(SCALE);
        (self.left + (x * scale).round() as i32, (y * scale).round() as i32)
    }

    /// A line of text of this size in points, from left to right.
    pub(crate) fn text(&mut self, text: &str, at: (f64, f64), size: f64, colour: Rgb, anchor: Anchor) {
        let (text, at, height) = (text.to_owned(), self.pixel(at), size * f64::from(SCALE));
        self.marks.push(Mark::Text { text, at, height, anchor, is_upwards: false, colour });
    }

    /// One that is read upwards, to the right of the middle of its line.
    pub(crate) fn text_upwards(&mut self, text: &str, at: (f64, f64), size: f64, colour: Rgb) {
        let (text, at, height) = (text.to_owned(), self.pixel(at), size * f64::from(SCALE));
        let anchor = (Across::Middle, Upright::Top);
        self.marks.push(Mark::Text { text, at, height, anchor, is_upwards: true, colour });
    }

    /// A line of this width in points.
    pub(crate) fn line(&mut self, points: &[(f64, f64)], colour: Rgb, width: f64, is_dashed: bool) {
        let places = points.iter().map(|&point| self.pixel(point)).collect();
        let width = (width * f64::from(SCALE)).round() as u32;
        self.marks.push(Mark::Line { places, width, is_dashed, colour });
    }

    pub(crate) fn bar(&mut self, corners: [(f64, f64); 2], colour: Rgb, is_filled: bool) {
        let corners = corners.map(|corner| self.pixel(corner));
        self.marks.push(Mark::Rectangle { corners, is_filled, colour });
    }

    /// A circle of this radius in points.
    pub(crate) fn circle(&mut self, centre: (f64, f64), radius: u32, opacity: f32, colour: Rgb) {
        let (centre, radius) = (self.pixel(centre), radius * SCALE);
        self.marks.push(Mark::Circle { centre, radius, opacity, colour });
    }
}

/// The width of a line of text in points.
pub(crate) fn width_of(text: &str, size: f64) -> f64 {
    let height = size * f64::from(SCALE);
    f64::from(font::width(text, height as f32).floor()) / f64::from(SCALE)
}

impl Mark {
    /// Writes the mark as an element of SVG.
    pub(crate) fn write_svg(&self, svg: &mut String) {
        let hex = |(red, green, blue): Rgb| format!("#{red:02X}{green:02X}{blue:02X}");
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Rectangle { corners: [(left, top), (right, bottom)], is_filled, colour } => {
                let (width, height, colour, none) =
                    (right - left, bottom - top, hex(*colour), "none".to_owned());
                let (fill, stroke) = if *is_filled { (colour, none) } else { (none, colour) };
                let place = format!(r#"x="{left}" y="{top}" width="{width}" height="{height}""#);
                writeln!(svg, r#"<rect {place} opacity="1" fill="{fill}" stroke="{stroke}"/>"#)
            }
            Self::Line { places, width, is_dashed, colour } => {
                let points: String = places.iter().map(|(x, y)| format!("{x},{y} ")).collect();
                let [dash, gap] = DASHES;
                let dashes =
                    if *is_dashed { format!(r#" stroke-dasharray="{dash},{gap}""#) } else { String::new() };
                let stroke = format!(r#"stroke="{}" stroke-width="{width}"{dashes}"#, hex(*colour));
                writeln!(svg, r#"<polyline fill="none" opacity="1" {stroke} points="{points}"/>"#)
            }
            Self::Circle { centre: (x, y), radius, opacity, colour } => {
                let style =
                    format!(r#"opacity="{opacity}" fill="{}" stroke="none" stroke-width="1""#, hex(*colour));
                writeln!(svg, r#"<circle cx="{x}" cy="{y}" r="{radius}" {style}/>"#)
            }
            Self::Text { text, at: (x, y), height, anchor: (across, upright), is_upwards, colour } => {
                let anchor = match across {
                    Across::Left => "start",
                    Across::Middle => "middle",
                    Across::Right => "end",
                };
                let dy = match upright {
                    Upright::Top => "0.76em",
                    Upright::Middle => "0.5ex",
                    Upright::Bottom => "-0.5ex",
                };
                let font = format!(r#"font-family="{}" font-size="{}""#, font::FAMILY, height / 1.24);
                let turned = if *is_upwards {
                    format!(r#" transform="rotate(270, {x}, {y})""#)
                } else {
                    String::new()
                };
                let style = format!(r#"{font} opacity="1" fill="{}"{turned}"#, hex(*colour));
                let text = escaped(text);
                writeln!(
                    svg,
                    "<text x=\"{x}\" y=\"{y}\" dy=\"{dy}\" text-anchor=\"{anchor}\" {style}>\n{text}\n</text>"
                )
            }
        };
    }
}

fn escaped(text: &str) -> String {
    let signs = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&quot;"), ('\'', "&apos;")];
    signs.into_iter().fold(text.to_owned(), |text, (sign, entity)| text.replace(sign, entity))
}
