//! The bar chart for terminals.
//!
//! Bars are proportional to FCT within one size; each size has its own scale, so that small sizes stay readable beside
//! large ones. Colour is used only if the terminal supports it and `NO_COLOR` is not set.

use rc3_text::units::about_bytes;

use super::report::{DemoReport, SizeResult};
use crate::table::time;

/// What the terminal supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Eighths of blocks, or `#`.
    pub unicode: bool,
    /// ANSI colours.
    pub colour: bool,
    /// Columns.
    pub width: usize,
}

/// Columns for the labels at the left, a number at the right, and blanks.
const LABELS: usize = 8 + 2 + 5 + 2 + 2 + 9;

/// The chart: for each size the ideal, plain QUIC, and rc3.
pub fn picture(report: &DemoReport, look: Look) -> String {
    report.rows.iter().map(|row| group(row, look)).collect()
}

fn group(SizeResult { plain, rc3 }: &SizeResult, look: Look) -> String {
    let room = look.width.clamp(LABELS + 10, 120) - LABELS;
    let longest = plain.fct_ms_median.max(rc3.fct_ms_median).max(rc3.ideal_ms);
    let size = about_bytes(rc3.bytes);
    let bars = [
        (size.as_str(), "plain", plain.fct_ms_median, "33"),
        ("", "rc3", rc3.fct_ms_median, "32"),
        ("", "ideal", rc3.ideal_ms, "2"),
    ];
    let mut text = String::new();
    for (size, name, value, colour) in bars {
        let bar = bar(value / longest * room as f64, look.unicode);
        let (on, off) =
            if look.colour { (format!("\x1b[{colour}m"), "\x1b[0m") } else { (String::new(), "") };
        text += &format!("{size:>8}  {name:>5}  {on}{bar}{off} {}\n", time(value));
    }
    text
}

/// A bar of this many columns.
fn bar(columns: f64, unicode: bool) -> String {
    if !unicode {
        return "#".repeat((columns.round() as usize).max(1));
    }
    let eighths = ((columns * 8.0).round() as usize).max(1);
    let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    "█".repeat(eighths / 8) + rest.get(eighths % 8).copied().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::report, *};

    const PLAIN: Look = Look { unicode: false, colour: false, width: 80 };

    #[test]
    fn bars_are_proportional_and_fit() {
        let text = picture(&report(), PLAIN);
        let lengths: Vec<_> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(lengths[0], 80 - LABELS);
        assert_eq!(lengths[1], (168.0f64 / 410.0 * (80 - LABELS) as f64).round() as usize);
        assert!(text.is_ascii());
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn blocks_and_colours_only_where_they_are_shown() {
        let unicode = picture(&report(), Look { unicode: true, ..PLAIN });
        assert!(unicode.contains('█') && !unicode.contains('\x1b'));
        let colour = picture(&report(), Look { colour: true, ..PLAIN });
        assert_eq!(colour.matches("\x1b[0m").count(), 3);
        assert_eq!(bar(0.0, true), "▏");
        assert_eq!(bar(1.5, true), "█▌");
    }
}
