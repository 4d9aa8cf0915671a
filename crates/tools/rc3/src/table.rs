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

/// The median, of an even number the mean of the two in the middle; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut all = values.to_vec();
    all.sort_by(f64::total_cmp);
    Some(f64::midpoint(*all.get(all.len().checked_sub(1)? / 2)?, *all.get(all.len() / 2)?))
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
