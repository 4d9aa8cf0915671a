//! Numbers and columns of tables.

use std::time::Duration;

use rc3_text::units::about_time;

/// A time in milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Milliseconds in readable units.
pub fn time(milliseconds: f64) -> String {
    about_time(Duration::try_from_secs_f64(milliseconds / 1e3).unwrap_or_default())
}

/// Right-aligned columns, separated by two blanks.
pub fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| Some(line.get(column)?.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}
