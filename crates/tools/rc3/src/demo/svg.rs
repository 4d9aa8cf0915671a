//! FCT over size as a picture file, both axes logarithmic.

use std::{error::Error, io, path::Path};

use plotters::{coord::Shift, prelude::*};
use rc3_picture::{Typeset, font};
use rc3_text::units::about_bytes;

use super::{
    links::Links,
    report::{Measured, Report},
};
use crate::table::time;

/// The size of one link's panel. Two of them side by side stay legible at the width of a README.
const SIZE: (u32, u32) = (560, 420);

type Panel<'a> = DrawingArea<Typeset<SVGBackend<'a>>, Shift>;

/// Draws the reports into an SVG file, side by side.
///
/// # Errors
/// When the file cannot be written.
pub fn write(reports: &Links<Report>, path: &Path) -> io::Result<()> {
    let mut text = String::new();
    draw(reports, &mut text).map_err(|error| io::Error::other(error.to_string()))?;
    std::fs::write(path, text)
}

fn draw(reports: &Links<Report>, text: &mut String) -> Result<(), Box<dyn Error>> {
    let panels = reports.iter().count();
    let back_end = SVGBackend::with_string(text, (SIZE.0 * panels as u32, SIZE.1));
    let root = Typeset::text(back_end).into_drawing_area();
    root.fill(&WHITE)?;
    for (report, panel) in reports.iter().zip(root.split_evenly((1, panels))) {
        draw_panel(report, &panel)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(report: &Report, panel: &Panel<'_>) -> Result<(), Box<dyn Error>> {
    let rows = &report.rows;
    let all = || rows.iter().flat_map(|row| [&row.plain, &row.rc3]);
    let times = || all().flat_map(|m| m.fct_ms_all.iter().copied().chain([m.ideal_ms]));
    let sizes = || all().map(|m| m.bytes as f64);
    let low = |values: f64| if values.is_finite() { values } else { 1.0 };
    let x_from = low(sizes().fold(f64::INFINITY, f64::min)) / 1.5;
    let x_to = sizes().fold(x_from * 2.0, f64::max) * 1.5;
    let y_from = low(times().fold(f64::INFINITY, f64::min)) / 1.5;
    let y_to = times().fold(y_from * 2.0, f64::max) * 1.5;

    let mut chart = ChartBuilder::on(panel)
        .caption(report.scenario.headline(), (font::FAMILY, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(88)
        .build_cartesian_2d((x_from..x_to).log_scale(), (y_from..y_to).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("size")
        .y_desc("FCT: connect to last byte, median")
        .x_label_formatter(&|bytes| about_bytes(bytes.round() as u64))
        .y_label_formatter(&|ms| time(*ms))
        .y_labels(5)
        .light_line_style(TRANSPARENT)
        .label_style((font::FAMILY, 16))
        .draw()?;

    let plain: Vec<&Measured> = rows.iter().map(|row| &row.plain).collect();
    let rc3: Vec<&Measured> = rows.iter().map(|row| &row.rc3).collect();
    let ideal = rc3.iter().map(|m| (m.bytes as f64, m.ideal_ms));
    let grey = RGBColor(110, 110, 110);
    chart
        .draw_series(DashedLineSeries::new(ideal, 6, 4, grey.stroke_width(2)))?
        .label("ideal")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], grey.stroke_width(2)));
    for (measured, name, colour) in
        [(&plain, "plain QUIC", RGBColor(213, 94, 0)), (&rc3, "rc3", RGBColor(0, 114, 178))]
    {
        let line = measured.iter().map(|m| (m.bytes as f64, m.fct_ms_median));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        let runs = measured.iter().flat_map(|m| m.fct_ms_all.iter().map(|&fct| (m.bytes as f64, fct)));
        chart.draw_series(runs.map(|at| Circle::new(at, 3, colour.mix(0.5).filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font((font::FAMILY, 16))
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::report, *};

    #[test]
    fn picture_names_its_lines_and_its_link() {
        let mut text = String::new();
        draw(&Links { link: report(), fast_card: None }, &mut text).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        for word in ["plain QUIC", "rc3", "ideal", "200mbit x 80ms", "1 MB"] {
            assert!(text.contains(word), "{word} is missing");
        }
        // Exactly six runs are drawn as dots.
        assert_eq!(text.matches("<circle").count(), 6);
        let mut both = String::new();
        draw(&Links { link: report(), fast_card: Some(report()) }, &mut both).unwrap();
        assert_eq!(both.matches("<circle").count(), 12);
    }
}
