//! The typeface of pictures, compiled in, so that text in a bitmap needs no system font.
//!
//! `roboto.tsv` has a line for each glyph of Roboto Regular 2 (Apache licence) that pictures use: the character, how far
//! the next glyph is, and the outline as path data of SVG, in font units with the vertical axis down. A library that reads
//! fonts takes longer to compile than the rest of a picture.
//!
//! The size of text is the height of a line in pixels, from the top of the highest glyph to the bottom of the lowest.

use std::{collections::HashMap, sync::LazyLock};

use zeno::{Command, PathData, Transform};

/// The font family in SVG. Viewers without Roboto use one of the others, which have a similar width.
pub(crate) const FAMILY: &str = "Roboto, Helvetica, Arial, sans-serif";

/// Height of a line in font units: from the ascent to the descent.
const LINE_UNITS: f32 = 2400.0;

/// Advance and outline of each character.
static GLYPHS: LazyLock<HashMap<char, (f32, &str)>> = LazyLock::new(|| {
    let glyph = |line: &'static str| {
        let (letter, rest) = line.split_once('\t')?;
        let (advance, outline) = rest.split_once('\t')?;
        Some((letter.chars().next()?, (advance.parse().ok()?, outline)))
    };
    include_str!("roboto.tsv").lines().filter_map(glyph).collect()
});

/// The glyphs of a text; `?` stands for those that are not compiled in.
fn glyphs(text: &str) -> impl Iterator<Item = (f32, &'static str)> {
    text.chars().filter_map(|letter| GLYPHS.get(&letter).or_else(|| GLYPHS.get(&'?')).copied())
}

/// The width in pixels of a line of text of this height.
pub(crate) fn width(text: &str, height: f32) -> f32 {
    glyphs(text).map(|(advance, _)| advance * height / LINE_UNITS).sum()
}

/// The outline in pixels of a line of text of this height. Its baseline is at 0, its first glyph begins at 0.
pub(crate) fn outline(text: &str, height: f32) -> Vec<Command> {
    let (scale, mut left, mut path) = (height / LINE_UNITS, 0.0, Vec::new());
    for (advance, glyph) in glyphs(text) {
        let placed = Transform::new(scale, 0.0, 0.0, scale, left, 0.0);
        path.extend(glyph.commands().map(|command| command.transform(&placed)));
        left += advance * scale;
    }
    path
}

#[cfg(test)]
mod tests {
    use zeno::Mask;

    use super::*;

    #[test]
    fn wide_text_is_wide_and_high_text_is_high() {
        assert!(width("WWW", 100.0) > 2.0 * width("iii", 100.0) && width("", 100.0) == 0.0);
        let rows = |text: &str| {
            let (_, placed) = Mask::new(&outline(text, 100.0)).render();
            (placed.top, placed.top + placed.height as i32)
        };
        // On the baseline, and below it.
        let ((top, bottom), (_, below)) = (rows("H"), rows("p"));
        assert!((-65..-55).contains(&top) && (0..=1).contains(&bottom), "{top} {bottom}");
        assert!((8..30).contains(&below), "{below}");
    }

    #[test]
    fn holes_of_letters_are_empty() {
        let (covered, placed) = Mask::new(&outline("O", 100.0)).render();
        let middle = (placed.height / 2 * placed.width + placed.width / 2) as usize;
        assert_eq!(covered[middle], 0);
        assert!(covered.contains(&255));
    }

    #[test]
    fn every_line_of_the_file_is_a_glyph() {
        assert_eq!(GLYPHS.len(), include_str!("roboto.tsv").lines().count());
        assert!((' '..='~').all(|letter| GLYPHS.contains_key(&letter)));
        assert!(
            GLYPHS.iter().all(|(letter, (_, glyph))| letter.is_whitespace() || glyph.commands().count() > 3)
        );
        assert_eq!(width("\u{4e00}", 10.0), width("?", 10.0));
    }
}
