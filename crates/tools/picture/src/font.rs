//! The typeface of pictures: its outlines are part of the program, so that text in a bitmap needs no font of the
//! system.

use std::sync::Once;

use plotters::style::{FontStyle, register_font};

/// What pictures ask for. Viewers of an SVG that lack Roboto take one of the others, which are about as wide.
pub const FAMILY: &str = "Roboto, Helvetica, Arial, sans-serif";

/// Makes [`FAMILY`] known to plotters. Cheap after the first time.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (style, outlines) in [
            (FontStyle::Normal, damascene_fonts_roboto::ROBOTO_REGULAR),
            (FontStyle::Bold, damascene_fonts_roboto::ROBOTO_MEDIUM),
        ] {
            // It fails for bytes that are no font, and these are constant.
            let _ = register_font(FAMILY, style, outlines);
        }
    });
}
