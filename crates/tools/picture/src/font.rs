//! The typeface of pictures, compiled in, so that text in a bitmap needs no system font.

use std::sync::Once;

use plotters::style::{FontStyle, register_font};

/// The font family in SVG. Viewers without Roboto use one of the others, which have a similar width.
pub const FAMILY: &str = "Roboto, Helvetica, Arial, sans-serif";

/// Registers [`FAMILY`] with plotters. Cheap after the first call.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (style, outlines) in [
            (FontStyle::Normal, damascene_fonts_roboto::ROBOTO_REGULAR),
            (FontStyle::Bold, damascene_fonts_roboto::ROBOTO_MEDIUM),
        ] {
            // It fails only for invalid font data, and this is constant.
            let _ = register_font(FAMILY, style, outlines);
        }
    });
}
