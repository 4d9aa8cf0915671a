//! The typeface of pictures, compiled in, so that text in a bitmap needs no system font.
//!
//! The size of text is the height of a line in pixels, from the top of the highest glyph to the bottom of the lowest.

use ab_glyph_rasterizer::{Point, Rasterizer, point};
use damascene_fonts_roboto::{ROBOTO_MEDIUM, ROBOTO_REGULAR};
use plotters::style::FontStyle;
use skrifa::{
    FontRef, GlyphId, MetadataProvider,
    instance::{LocationRef, Size},
    outline::{DrawSettings, OutlinePen},
};

/// The font family in SVG. Viewers without Roboto use one of the others, which have a similar width.
pub const FAMILY: &str = "Roboto, Helvetica, Arial, sans-serif";

/// The typeface at one size.
pub(crate) struct Face {
    font: FontRef<'static>,
    size: Size,
}

impl Face {
    /// `height` is that of a line in pixels. `None` for invalid font data, which constants are not.
    pub(crate) fn new(style: FontStyle, height: f64) -> Option<Self> {
        let data = if matches!(style, FontStyle::Bold) { ROBOTO_MEDIUM } else { ROBOTO_REGULAR };
        let font = FontRef::new(data).ok()?;
        let metrics = font.metrics(Size::unscaled(), LocationRef::default());
        let line = metrics.ascent - metrics.descent;
        let size = Size::new(height as f32 * f32::from(metrics.units_per_em) / line);
        Some(Self { font, size })
    }

    /// The width of a line of text in pixels.
    pub(crate) fn width(&self, text: &str) -> f32 {
        self.glyphs(text).map(|(_, advance)| advance).sum()
    }

    /// Calls `pixel` with the place and coverage, 0 to 1, of each pixel of a line of text. Its baseline is at 0, its first
    /// glyph begins at 0.
    pub(crate) fn draw(&self, text: &str, mut pixel: impl FnMut(i32, i32, f32)) {
        let outlines = self.font.outline_glyphs();
        let mut left = 0.0;
        for (glyph, advance) in self.glyphs(text) {
            let mut outline = Outline::default();
            let settings = DrawSettings::unhinted(self.size, LocationRef::default());
            let drawn = outlines.get(glyph).and_then(|glyph| glyph.draw(settings, &mut outline).ok());
            if drawn.is_some() {
                outline.fill(left, &mut pixel);
            }
            left += advance;
        }
    }

    /// The glyphs of a text, each with its advance in pixels.
    fn glyphs(&self, text: &str) -> impl Iterator<Item = (GlyphId, f32)> {
        let (map, metrics) =
            (self.font.charmap(), self.font.glyph_metrics(self.size, LocationRef::default()));
        text.chars().map(move |letter| {
            let glyph = map.map(letter).unwrap_or(GlyphId::NOTDEF);
            (glyph, metrics.advance_width(glyph).unwrap_or_default())
        })
    }
}

/// The curves of a glyph. The vertical axis points up, as in fonts.
#[derive(Default)]
struct Outline {
    curves: Vec<[Point; 4]>,
    first: Point,
    last: Point,
}

impl Outline {
    fn curve(&mut self, by: Point, by_too: Point, to: Point) {
        self.curves.push([self.last, by, by_too, to]);
        self.last = to;
    }

    /// Calls `pixel` for what the outline covers, moved to the right by `left`.
    fn fill(&self, left: f32, pixel: &mut impl FnMut(i32, i32, f32)) {
        let points = || self.curves.iter().flatten();
        let bound = |of: fn(&Point) -> f32| {
            let (least, most) = points()
                .map(of)
                .fold((f32::MAX, f32::MIN), |(least, most), at| (least.min(at), most.max(at)));
            (least.floor(), most.ceil())
        };
        if self.curves.is_empty() {
            return;
        }
        let whole = left.floor();
        let ((from_x, to_x), (from_y, to_y)) = (bound(|point| point.x), bound(|point| point.y));
        // One more column for the fraction of the place.
        let (width, height) = ((to_x - from_x) as usize + 1, (to_y - from_y) as usize);
        let mut raster = Rasterizer::new(width, height);
        for curve in &self.curves {
            let [a, b, c, d] = curve.map(|at| point(at.x - from_x + left - whole, to_y - at.y));
            raster.draw_cubic(a, b, c, d);
        }
        let (at_x, at_y) = ((from_x + whole) as i32, -to_y as i32);
        raster.for_each_pixel_2d(|x, y, coverage| pixel(at_x + x as i32, at_y + y as i32, coverage));
    }
}

impl OutlinePen for Outline {
    fn move_to(&mut self, x: f32, y: f32) {
        (self.first, self.last) = (point(x, y), point(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let from = self.last;
        self.curve(from, point(x, y), point(x, y));
    }

    fn quad_to(&mut self, by_x: f32, by_y: f32, x: f32, y: f32) {
        // As a cubic one.
        let (from, by, to) = (self.last, point(by_x, by_y), point(x, y));
        let near = |end: Point| point(end.x + (by.x - end.x) * 2.0 / 3.0, end.y + (by.y - end.y) * 2.0 / 3.0);
        self.curve(near(from), near(to), to);
    }

    fn curve_to(&mut self, ax: f32, ay: f32, bx: f32, by: f32, x: f32, y: f32) {
        self.curve(point(ax, ay), point(bx, by), point(x, y));
    }

    fn close(&mut self) {
        let first = self.first;
        self.line_to(first.x, first.y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_text_is_wide_and_high_text_is_high() {
        let face = Face::new(FontStyle::Normal, 100.0).unwrap();
        assert!(face.width("WWW") > 2.0 * face.width("iii") && face.width("") == 0.0);
        let rows = |text: &str| {
            let (mut top, mut bottom, mut ink) = (i32::MAX, i32::MIN, 0.0);
            face.draw(text, |_, y, coverage| {
                ink += coverage;
                if coverage > 0.5 {
                    (top, bottom) = (top.min(y), bottom.max(y));
                }
            });
            assert!(ink > 0.0);
            (top, bottom)
        };
        // On the baseline, and below it.
        let ((top, bottom), (_, below)) = (rows("H"), rows("p"));
        assert!((-65..-55).contains(&top) && (-2..=0).contains(&bottom), "{top} {bottom}");
        assert!((8..30).contains(&below), "{below}");
    }

    #[test]
    fn holes_of_letters_are_empty() {
        let face = Face::new(FontStyle::Bold, 100.0).unwrap();
        let middle = face.width("O") as i32 / 2;
        let mut covered = None;
        face.draw("O", |x, y, coverage| {
            if (x, y) == (middle, -30) {
                covered = Some(coverage);
            }
        });
        assert_eq!(covered.map(|covered| covered < 0.01), Some(true));
    }
}
