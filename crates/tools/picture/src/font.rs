//! The typeface of pictures, compiled in, so that text in a bitmap needs no system font.
//!
//! The size of text is the height of a line in pixels, from the top of the highest glyph to the bottom of the lowest.

use damascene_fonts_roboto::ROBOTO_REGULAR;
use skrifa::{
    FontRef, GlyphId, MetadataProvider,
    instance::{LocationRef, Size},
    outline::{DrawSettings, OutlinePen},
};
use zeno::{Command, PathBuilder};

/// The font family in SVG. Viewers without Roboto use one of the others, which have a similar width.
pub(crate) const FAMILY: &str = "Roboto, Helvetica, Arial, sans-serif";

/// The typeface at one size.
pub(crate) struct Face {
    font: FontRef<'static>,
    size: Size,
}

impl Face {
    /// `height` is that of a line in pixels. `None` for invalid font data, which constants are not.
    pub(crate) fn new(height: f64) -> Option<Self> {
        let font = FontRef::new(ROBOTO_REGULAR).ok()?;
        let metrics = font.metrics(Size::unscaled(), LocationRef::default());
        let line = metrics.ascent - metrics.descent;
        let size = Size::new(height as f32 * f32::from(metrics.units_per_em) / line);
        Some(Self { font, size })
    }

    /// The width of a line of text in pixels.
    pub(crate) fn width(&self, text: &str) -> f32 {
        self.glyphs(text).map(|(_, advance)| advance).sum()
    }

    /// The outline of a line of text, in pixels. Its baseline is at 0, its first glyph begins at 0.
    pub(crate) fn outline(&self, text: &str) -> Vec<Command> {
        let outlines = self.font.outline_glyphs();
        let mut pen = Pen { path: Vec::new(), left: 0.0 };
        for (glyph, advance) in self.glyphs(text) {
            let settings = DrawSettings::unhinted(self.size, LocationRef::default());
            if let Some(outline) = outlines.get(glyph) {
                // A damaged glyph is left out; the compiled-in font has none.
                let _ = outline.draw(settings, &mut pen);
            }
            pen.left += advance;
        }
        pen.path
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

/// Adds glyphs to a path. Their vertical axis points up, that of pixels down.
struct Pen {
    path: Vec<Command>,
    /// Where the glyph begins.
    left: f32,
}

impl OutlinePen for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to([self.left + x, -y]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to([self.left + x, -y]);
    }

    fn quad_to(&mut self, by_x: f32, by_y: f32, x: f32, y: f32) {
        self.path.quad_to([self.left + by_x, -by_y], [self.left + x, -y]);
    }

    fn curve_to(&mut self, ax: f32, ay: f32, bx: f32, by: f32, x: f32, y: f32) {
        self.path.curve_to([self.left + ax, -ay], [self.left + bx, -by], [self.left + x, -y]);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use zeno::Mask;

    use super::*;

    #[test]
    fn wide_text_is_wide_and_high_text_is_high() {
        let face = Face::new(100.0).unwrap();
        assert!(face.width("WWW") > 2.0 * face.width("iii") && face.width("") == 0.0);
        let rows = |text: &str| {
            let (_, placed) = Mask::new(&face.outline(text)).render();
            (placed.top, placed.top + placed.height as i32)
        };
        // On the baseline, and below it.
        let ((top, bottom), (_, below)) = (rows("H"), rows("p"));
        assert!((-65..-55).contains(&top) && (0..=1).contains(&bottom), "{top} {bottom}");
        assert!((8..30).contains(&below), "{below}");
    }

    #[test]
    fn holes_of_letters_are_empty() {
        let face = Face::new(100.0).unwrap();
        let (covered, placed) = Mask::new(&face.outline("O")).render();
        let middle = (placed.height / 2 * placed.width + placed.width / 2) as usize;
        assert_eq!(covered[middle], 0);
        assert!(covered.contains(&255));
    }
}
