//! A back end of plotters that measures and draws text in the compiled-in typeface.

use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    text_anchor::{HPos, VPos},
};

use crate::font::Face;

/// Where text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    /// The back end writes text itself, as SVG does.
    Its,
    /// From pixels.
    Pixels,
}

/// Another back end, with the typeface of pictures.
#[derive(Debug)]
pub struct Typeset<B> {
    back_end: B,
    letters: Letters,
}

impl<B: DrawingBackend> Typeset<B> {
    /// One that writes text itself, as SVG does: only its size is measured here.
    pub fn text(back_end: B) -> Self {
        Self { back_end, letters: Letters::Its }
    }

    /// One that has only pixels.
    pub fn pixels(back_end: B) -> Self {
        Self { back_end, letters: Letters::Pixels }
    }
}

type Done<B> = Result<(), DrawingErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Width and height of a line in pixels: the height is that of a capital letter.
fn measured(text: &str, style: &impl BackendTextStyle) -> (i32, i32) {
    let width = Face::new(style.style(), style.size()).map_or(0.0, |face| face.width(text));
    (width as i32, (style.size() / 1.24) as i32)
}

impl<B: DrawingBackend> DrawingBackend for Typeset<B> {
    type ErrorType = B::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.back_end.get_size()
    }

    fn ensure_prepared(&mut self) -> Done<B> {
        self.back_end.ensure_prepared()
    }

    fn present(&mut self) -> Done<B> {
        self.back_end.present()
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Done<B> {
        self.back_end.draw_pixel(at, colour)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done<B> {
        self.back_end.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done<B> {
        self.back_end.draw_rect(from, to, style, fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done<B> {
        self.back_end.draw_path(path, style)
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        at: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Done<B> {
        self.back_end.draw_circle(at, radius, style, fill)
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Done<B> {
        self.back_end.fill_polygon(corners, style)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done<B> {
        if self.letters == Letters::Its {
            return self.back_end.draw_text(text, style, at);
        }
        let Some(face) = Face::new(style.style(), style.size()) else { return Ok(()) };
        let ((width, height), colour) = (measured(text, style), style.color());
        let left = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        // From the anchor to the middle of the line, where half a size above the baseline is its top.
        let top = style.size() as i32 / 2
            + match style.anchor().v_pos {
                VPos::Top => 0,
                VPos::Center => -height / 2,
                VPos::Bottom => -height,
            };
        let ((most_x, most_y), turned) = (self.get_size(), style.transform());
        let mut done = Ok(());
        face.draw(text, |x, y, coverage| {
            let (x, y) = turned.transform(x + left, y + top);
            let (x, y) = (at.0 + x, at.1 + y);
            let inside = x >= 0 && y >= 0 && (x as u32) < most_x && (y as u32) < most_y;
            if inside && coverage > 0.0 && done.is_ok() {
                let alpha = colour.alpha * f64::from(coverage.min(1.0));
                done = self.back_end.draw_pixel((x, y), BackendColor { alpha, ..colour });
            }
        });
        done
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Self::ErrorType>> {
        let (width, height) = measured(text, style);
        Ok((width.unsigned_abs(), height.unsigned_abs()))
    }

    fn blit_bitmap(&mut self, at: BackendCoord, size: (u32, u32), pixels: &[u8]) -> Done<B> {
        self.back_end.blit_bitmap(at, size, pixels)
    }
}
