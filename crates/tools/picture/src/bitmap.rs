//! Marks as pixels.

use std::io;

use zeno::{Command, Fill, Mask, PathBuilder, Stroke, Style, Transform};

use crate::{
    canvas::{Across, DASHES, Mark, Pixel, Rgb, Upright},
    font,
};

/// Height of small letters over the size of text.
const X_HEIGHT: f32 = 0.53;

/// An image of red, green and blue bytes.
pub(crate) struct Bitmap {
    size: (u32, u32),
    rgb: Vec<u8>,
}

impl Bitmap {
    /// Width and height in pixels.
    pub(crate) fn new(size: (u32, u32)) -> Self {
        Self { size, rgb: vec![0; 3 * size.0 as usize * size.1 as usize] }
    }

    /// The image as PNG.
    pub(crate) fn png(&self) -> io::Result<Vec<u8>> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.size.0, self.size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::High);
        encoder.write_header()?.write_image_data(&self.rgb)?;
        Ok(file)
    }

    pub(crate) fn draw(&mut self, mark: &Mark) {
        let mut path: Vec<Command> = Vec::new();
        match mark {
            Mark::Rectangle { corners: [from, to], is_filled, colour } => {
                let ([left, top], [right, bottom]) = (place(*from), place(*to));
                path.add_rect([left, top], right - left, bottom - top);
                let style = if *is_filled { Fill::NonZero.into() } else { Stroke::new(2.0).into() };
                self.fill(&path, style, None, *colour, 1.0);
            }
            Mark::Line { places, width, is_dashed, colour } => {
                let mut stroke = Stroke::new(*width as f32);
                if *is_dashed {
                    stroke.dash(&DASHES, 0.0);
                }
                if let Some((first, rest)) = places.split_first() {
                    path.move_to(place(*first));
                    rest.iter().for_each(|next| _ = path.line_to(place(*next)));
                }
                self.fill(&path, stroke.into(), None, *colour, 1.0);
            }
            Mark::Circle { centre, radius, opacity, colour } => {
                path.add_circle(place(*centre), *radius as f32);
                self.fill(&path, Fill::NonZero.into(), None, *colour, *opacity);
            }
            Mark::Text { text, at, height, anchor: (across, upright), is_upwards, colour } => {
                let (height, width) = (*height as f32, font::width(text, *height as f32));
                let left = match across {
                    Across::Left => 0.0,
                    Across::Middle => -width / 2.0,
                    Across::Right => -width,
                };
                let size = height / 1.24;
                let down = match upright {
                    Upright::Top => 0.76 * size,
                    Upright::Middle => 0.5 * X_HEIGHT * size,
                    Upright::Bottom => -0.5 * X_HEIGHT * size,
                };
                let [x, y] = place(*at);
                let placed = if *is_upwards {
                    Transform::new(0.0, -1.0, 1.0, 0.0, x + down, y - left)
                } else {
                    Transform::translation(x + left, y + down)
                };
                self.fill(&font::outline(text, height), Fill::NonZero.into(), Some(placed), *colour, 1.0);
            }
        }
    }

    /// Mixes the colour into the pixels that the path covers.
    fn fill(
        &mut self,
        path: &Vec<Command>,
        style: Style<'_>,
        transform: Option<Transform>,
        (red, green, blue): Rgb,
        opacity: f32,
    ) {
        let (covered, placed) = Mask::new(path).style(style).transform(transform).render();
        for (at, coverage) in covered.iter().enumerate().filter(|(_, coverage)| **coverage > 0) {
            let (row, column) = (at as i32 / placed.width as i32, at as i32 % placed.width as i32);
            let (x, y) = (placed.left + column, placed.top + row);
            let ((width, height), share) = (self.size, opacity * f32::from(*coverage) / 255.0);
            if (0..width as i32).contains(&x) && (0..height as i32).contains(&y) {
                let first = 3 * (y as usize * width as usize + x as usize);
                for (old, new) in self.rgb[first..first + 3].iter_mut().zip([red, green, blue]) {
                    *old = (f32::from(*old) * (1.0 - share) + f32::from(new) * share).round() as u8;
                }
            }
        }
    }
}

fn place((x, y): Pixel) -> [f32; 2] {
    [x as f32, y as f32]
}
