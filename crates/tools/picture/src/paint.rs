//! Draws a chart on a plotters back end: SVG or a bitmap.
//!
//! All lengths are in points of a picture of [`HEIGHT`] and any width; the back end has [`SCALE`] times as many pixels,
//! since plotters rounds to whole pixels.

use std::error::Error;

use plotters::{
    coord::Shift,
    element::DashedPathElement,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::{
    axis::{self, Range},
    chart::{Chart, Colour, Point, Scale, Series, Shape, Unit},
    font,
};

/// Width of a picture in points.
pub(super) const WIDTH: u32 = 760;
/// Width of each of several beside each other.
pub(super) const WIDTH_BESIDE: u32 = 560;
/// Height of a picture in points.
pub(super) const HEIGHT: u32 = 440;
/// Pixels of the back end per point.
pub(super) const SCALE: u32 = 2;

const INK: RGBColor = RGBColor(32, 32, 32);
const SOFT: RGBColor = RGBColor(96, 96, 96);
const GRID: RGBColor = RGBColor(228, 228, 228);
const SHADE: RGBColor = RGBColor(242, 242, 242);
const TITLE: f64 = 16.0;
const TEXT: f64 = 12.0;
/// Smallest distance between labels.
const LINE: f64 = 15.0;
/// From one row of the legend to the next.
const LEGEND_LINE: f64 = 20.0;
/// How far a line may move to need fewer points, in points.
const TOLERANCE: f64 = 0.35;

type Drawn = Result<(), Box<dyn Error>>;

/// Draws the chart.
pub(super) fn paint<DB: DrawingBackend>(root: &DrawingArea<DB, Shift>, chart: &Chart) -> Drawn
where
    DB::ErrorType: 'static,
{
    root.fill(&WHITE)?;
    let canvas = Canvas { root };
    let frame = Frame::new(&canvas, chart)?;
    canvas.text(&chart.title, (16.0, 12.0), TITLE, INK, (HPos::Left, VPos::Top))?;
    canvas.text(&chart.subtitle, (16.0, 34.0), TEXT, SOFT, (HPos::Left, VPos::Top))?;
    shades(&canvas, &frame, chart)?;
    axes(&canvas, &frame, chart)?;
    if frame.legend {
        for (series, place) in chart.series.iter().zip(legend(&canvas, &chart.series)?) {
            key(&canvas, series, place)?;
        }
    }
    bars(&canvas, &frame, &chart.series)?;
    for series in &chart.series {
        line(&canvas, &frame, series)?;
    }
    if !frame.legend {
        names(&canvas, &frame, &chart.series)?;
    }
    root.present()?;
    Ok(())
}

fn is_bar(shape: Shape) -> bool {
    matches!(shape, Shape::Bars | Shape::Stack | Shape::Frames)
}

/// The smallest and the largest value.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// The area of the axes.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Range,
    y: Range,
    /// Names in a row on top, instead of at the ends of lines.
    legend: bool,
}

impl Frame {
    fn new<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, chart: &Chart) -> Result<Self, Box<dyn Error>>
    where
        DB::ErrorType: 'static,
    {
        let legend = chart.series.len() > 1 && chart.series.iter().any(|series| is_bar(series.shape));
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let bars = chart.series.iter().any(|series| is_bar(series.shape)) && chart.y.scale == Scale::Linear;
        // An interval of a few flows can be many times as long as all bars; it ends at the frame.
        let (low, high) = span(points().map(|point| point.y));
        let heights = points().flat_map(|point| {
            let error = point.error.unwrap_or(0.0).min((high - low) / 2.0);
            [point.y - error, point.y + error]
        });
        let stacks = stacks(&chart.series).into_iter().map(|(_, top)| top);
        let floor = bars.then_some(0.0);
        let y = Range::new(&chart.y, heights.chain(stacks).chain(floor));
        let x = Range::new(&chart.x, points().map(|point| point.x));

        let mut widest = 0.0f64;
        for (_, text) in y.ticks() {
            widest = widest.max(canvas.width_of(&text, TEXT)?);
        }
        let mut room = 24.0f64;
        if !legend && chart.series.len() > 1 {
            for series in &chart.series {
                room = room.max(canvas.width_of(&series.name, TEXT)? + 28.0);
            }
        }
        Ok(Self {
            left: 42.0 + widest,
            right: canvas.width() - room,
            top: 62.0 + if legend { legend_height(canvas, &chart.series)? } else { 0.0 },
            bottom: f64::from(HEIGHT) - 56.0,
            x,
            y,
            legend,
        })
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.x.place(value) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.place(value) * (self.bottom - self.top)
    }
}

fn axes<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, frame: &Frame, chart: &Chart) -> Drawn
where
    DB::ErrorType: 'static,
{
    for (value, text) in frame.y.ticks() {
        let y = frame.y(value);
        canvas.line(&[(frame.left, y), (frame.right, y)], GRID, 1.0)?;
        canvas.text(&text, (frame.left - 8.0, y), TEXT, SOFT, (HPos::Right, VPos::Center))?;
    }
    let mut free_from = f64::NEG_INFINITY;
    for (value, text) in frame.x.ticks() {
        let x = frame.x(value);
        let half = canvas.width_of(&text, TEXT)? / 2.0;
        canvas.line(&[(x, frame.bottom), (x, frame.bottom + 4.0)], SOFT, 1.0)?;
        if x - half > free_from {
            canvas.text(&text, (x, frame.bottom + 8.0), TEXT, SOFT, (HPos::Center, VPos::Top))?;
            free_from = x + half + 6.0;
        }
    }
    let floor = frame.y(frame.y.floor());
    canvas.line(&[(frame.left, floor), (frame.right, floor)], SOFT, 1.0)?;
    let middle = (frame.left + frame.right) / 2.0;
    let below = (middle, f64::from(HEIGHT) - 12.0);
    canvas.text(&chart.x.name, below, TEXT, INK, (HPos::Center, VPos::Bottom))?;
    canvas.text_upwards(&chart.y.name, (14.0, (frame.top + frame.bottom) / 2.0))
}

fn shades<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, frame: &Frame, chart: &Chart) -> Drawn
where
    DB::ErrorType: 'static,
{
    for &(from, to) in &chart.shaded {
        let corners = [(frame.x(from), frame.top), (frame.x(to), frame.bottom)];
        canvas.bar(corners, SHADE, true)?;
    }
    Ok(())
}

/// Place of the key of each series: rows from the left, as many as they need.
fn legend<DB: DrawingBackend>(
    canvas: &Canvas<'_, DB>,
    all: &[Series],
) -> Result<Vec<(f64, f64)>, Box<dyn Error>>
where
    DB::ErrorType: 'static,
{
    let (mut x, mut y) = (16.0, 64.0);
    let mut places = Vec::with_capacity(all.len());
    for series in all {
        let width = canvas.width_of(&series.name, TEXT)? + 34.0;
        if x > 16.0 && x + width > canvas.width() {
            (x, y) = (16.0, y + LEGEND_LINE);
        }
        places.push((x, y));
        x += width;
    }
    Ok(places)
}

fn legend_height<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, all: &[Series]) -> Result<f64, Box<dyn Error>>
where
    DB::ErrorType: 'static,
{
    let last = legend(canvas, all)?.last().map_or(0.0, |(_, y)| y - 64.0);
    Ok(last + 24.0)
}

/// The key of a series: its style and its name.
fn key<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, series: &Series, (x, y): (f64, f64)) -> Drawn
where
    DB::ErrorType: 'static,
{
    let corners = [(x, y - 5.0), (x + 12.0, y + 5.0)];
    match series.shape {
        Shape::Bars | Shape::Stack => canvas.bar(corners, colour(series), true)?,
        Shape::Frames => canvas.bar(corners, colour(series), false)?,
        Shape::Marked | Shape::Dots | Shape::Line | Shape::Dashed | Shape::Steps => {
            canvas.line(&[(x, y), (x + 12.0, y)], colour(series), 2.0)?;
        }
    }
    canvas.text(&series.name, (x + 17.0, y), TEXT, INK, (HPos::Left, VPos::Center))
}

/// Foot and top of every bar of a stack, in the order of the series and their points.
fn stacks(series: &[Series]) -> Vec<(f64, f64)> {
    let mut tops: Vec<(f64, f64)> = Vec::new();
    let mut bars = Vec::new();
    for point in series.iter().filter(|series| series.shape == Shape::Stack).flat_map(|s| &s.points) {
        let index = tops.iter().position(|(x, _)| *x == point.x).unwrap_or_else(|| {
            tops.push((point.x, 0.0));
            tops.len() - 1
        });
        let foot = tops[index].1;
        tops[index].1 += point.y;
        bars.push((foot, tops[index].1));
    }
    bars
}

fn bars<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, frame: &Frame, all: &[Series]) -> Drawn
where
    DB::ErrorType: 'static,
{
    let points = all.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let group = frame.x.share_of_one(points) * (frame.right - frame.left) * 0.8;
    let beside: Vec<&Series> =
        all.iter().filter(|series| matches!(series.shape, Shape::Bars | Shape::Frames)).collect();
    let width = group / beside.len().max(1) as f64;
    for (index, series) in beside.iter().enumerate() {
        for point in &series.points {
            let left = frame.x(point.x) - group / 2.0 + width * index as f64;
            let (foot, top) = (frame.y(frame.y.floor()), frame.y(point.y));
            let corners = [(left, foot.min(top)), (left + width * 0.92, foot.max(top))];
            canvas.bar(corners, colour(series), series.shape == Shape::Bars)?;
            whisker(canvas, frame, left + width * 0.46, point)?;
        }
    }
    let mut ends = stacks(all).into_iter();
    for series in all.iter().filter(|series| series.shape == Shape::Stack) {
        for (point, (foot, top)) in series.points.iter().zip(&mut ends) {
            let x = frame.x(point.x);
            let corners = [(x - group * 0.35, frame.y(top)), (x + group * 0.35, frame.y(foot))];
            canvas.bar(corners, colour(series), true)?;
            if corners[1].1 - corners[0].1 > LINE {
                let middle = (x, f64::midpoint(corners[0].1, corners[1].1));
                let text = axis::text(point.y, Unit::Number);
                canvas.text(&text, middle, TEXT, WHITE, (HPos::Center, VPos::Center))?;
            }
        }
    }
    Ok(())
}

fn line<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, frame: &Frame, series: &Series) -> Drawn
where
    DB::ErrorType: 'static,
{
    if is_bar(series.shape) {
        return Ok(());
    }
    if series.shape == Shape::Dots {
        let style = colour(series).mix(0.5).filled();
        for point in &series.points {
            canvas.root.draw(&Circle::new(pixel((frame.x(point.x), frame.y(point.y))), 2 * SCALE, style))?;
        }
        return Ok(());
    }
    let mut places: Vec<(f64, f64)> =
        series.points.iter().map(|point| (frame.x(point.x), frame.y(point.y))).collect();
    if series.shape == Shape::Steps {
        let corner = |pair: &[(f64, f64)]| [pair[0], (pair[1].0, pair[0].1)];
        places = places.windows(2).flat_map(corner).chain(places.last().copied()).collect();
    }
    let places = thin(&places);
    match series.shape {
        Shape::Dashed => {
            let pixels = places.iter().map(|&place| pixel(place)).collect::<Vec<_>>();
            let style = colour(series).stroke_width(SCALE * 3 / 2);
            canvas.root.draw(&DashedPathElement::new(pixels, 6 * SCALE, 4 * SCALE, style))?;
        }
        _ => canvas.line(&places, colour(series), 2.0)?,
    }
    if series.shape == Shape::Marked {
        for point in &series.points {
            let (x, y) = (frame.x(point.x), frame.y(point.y));
            whisker(canvas, frame, x, point)?;
            canvas.root.draw(&Circle::new(pixel((x, y)), 3 * SCALE, colour(series).filled()))?;
        }
    }
    Ok(())
}

fn whisker<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, frame: &Frame, x: f64, point: &Point) -> Drawn
where
    DB::ErrorType: 'static,
{
    let Some(error) = point.error else { return Ok(()) };
    let (low, high) = (frame.y(point.y - error), frame.y(point.y + error));
    canvas.line(&[(x, low), (x, high)], INK, 1.0)?;
    canvas.line(&[(x - 3.0, low), (x + 3.0, low)], INK, 1.0)?;
    canvas.line(&[(x - 3.0, high), (x + 3.0, high)], INK, 1.0)
}

/// The name of each line at its right end, moved apart to avoid overlaps.
fn names<DB: DrawingBackend>(canvas: &Canvas<'_, DB>, frame: &Frame, all: &[Series]) -> Drawn
where
    DB::ErrorType: 'static,
{
    if all.len() < 2 {
        return Ok(());
    }
    let mut labels: Vec<(f64, f64, &Series)> = all
        .iter()
        .filter(|series| !series.name.is_empty())
        .filter_map(|series| {
            let last = series.points.last()?;
            Some((frame.x(last.x), frame.y(last.y), series))
        })
        .collect();
    labels.sort_by(|a, b| a.1.total_cmp(&b.1));
    let heights = apart(&labels.iter().map(|label| label.1).collect::<Vec<_>>(), frame.bottom);
    for ((x, y, series), height) in labels.into_iter().zip(heights) {
        let start = frame.right + 16.0;
        if (height - y).abs() > 2.0 || x < frame.right - 24.0 {
            canvas.line(&[(x + 5.0, y), (start - 3.0, height)], GRID, 1.0)?;
        }
        canvas.text(&series.name, (start, height), TEXT, colour(series), (HPos::Left, VPos::Center))?;
    }
    Ok(())
}

/// Ascending heights, moved until no two are closer than a line of text and none is below `bottom`.
fn apart(wanted: &[f64], bottom: f64) -> Vec<f64> {
    let mut heights = wanted.to_vec();
    for index in 1..heights.len() {
        heights[index] = heights[index].max(heights[index - 1] + LINE);
    }
    let mut limit = bottom;
    for height in heights.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - LINE;
    }
    heights
}

/// A line with fewer points that looks the same (Douglas and Peucker).
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut keep = vec![false; points.len()];
    if let Some(last) = points.len().checked_sub(1) {
        (keep[0], keep[last]) = (true, true);
        let mut spans = vec![(0, last)];
        while let Some((from, to)) = spans.pop() {
            let far = |index: usize| distance(points[index], points[from], points[to]);
            let between = (from + 1..to).map(|index| (far(index), index));
            let Some((most, index)) = between.max_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            if most > TOLERANCE {
                keep[index] = true;
                spans.extend([(from, index), (index, to)]);
            }
        }
    }
    points.iter().zip(keep).filter(|(_, keep)| *keep).map(|(point, _)| *point).collect()
}

/// Distance of a point from the line through two others, or from the first if they coincide.
fn distance(point: (f64, f64), from: (f64, f64), to: (f64, f64)) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (px, py) = (point.0 - from.0, point.1 - from.1);
    let length = dx.hypot(dy);
    if length == 0.0 { px.hypot(py) } else { (dx * py - dy * px).abs() / length }
}

fn colour(series: &Series) -> RGBColor {
    let (red, green, blue) = Colour::rgb(series.colour);
    RGBColor(red, green, blue)
}

fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    let scale = f64::from(SCALE);
    ((x * scale).round() as i32, (y * scale).round() as i32)
}

/// Converts points to pixels.
struct Canvas<'a, DB: DrawingBackend> {
    root: &'a DrawingArea<DB, Shift>,
}

impl<DB: DrawingBackend> Canvas<'_, DB>
where
    DB::ErrorType: 'static,
{
    /// Of the whole picture.
    fn width(&self) -> f64 {
        f64::from(self.root.dim_in_pixel().0) / f64::from(SCALE)
    }

    fn width_of(&self, text: &str, size: f64) -> Result<f64, Box<dyn Error>> {
        let (width, _) = self.root.estimate_text_size(text, &style(size))?;
        Ok(f64::from(width) / f64::from(SCALE))
    }

    fn text(&self, text: &str, at: (f64, f64), size: f64, colour: RGBColor, (h, v): (HPos, VPos)) -> Drawn {
        let style = style(size).color(&colour).pos(Pos::new(h, v));
        self.root.draw(&Text::new(text.to_owned(), pixel(at), style))?;
        Ok(())
    }

    fn text_upwards(&self, text: &str, at: (f64, f64)) -> Drawn {
        let style = style(TEXT)
            .transform(FontTransform::Rotate270)
            .color(&INK)
            .pos(Pos::new(HPos::Center, VPos::Top));
        self.root.draw(&Text::new(text.to_owned(), pixel(at), style))?;
        Ok(())
    }

    fn line(&self, points: &[(f64, f64)], colour: RGBColor, width: f64) -> Drawn {
        let pixels: Vec<_> = points.iter().map(|&point| pixel(point)).collect();
        let width = (width * f64::from(SCALE)).round() as u32;
        self.root.draw(&PathElement::new(pixels, colour.stroke_width(width)))?;
        Ok(())
    }

    fn bar(&self, corners: [(f64, f64); 2], colour: RGBColor, filled: bool) -> Drawn {
        let corners = corners.map(pixel);
        let style = if filled { colour.filled() } else { colour.stroke_width(SCALE) };
        self.root.draw(&Rectangle::new(corners, style))?;
        Ok(())
    }
}

fn style(size: f64) -> TextStyle<'static> {
    (font::FAMILY, size * f64::from(SCALE)).into_font().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_touch_nor_leave_the_picture() {
        let heights = apart(&[10.0, 11.0, 12.0, 100.0, 100.0], 100.0);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= LINE), "{heights:?}");
        assert!(heights.iter().all(|height| *height <= 100.0));
        assert_eq!(apart(&[10.0, 50.0], 100.0), [10.0, 50.0]);
    }

    #[test]
    fn thinning_keeps_the_shape() {
        let straight: Vec<_> = (0..100).map(|x| (f64::from(x), 2.0 * f64::from(x))).collect();
        assert_eq!(thin(&straight), [(0.0, 0.0), (99.0, 198.0)]);
        let corner = [(0.0, 0.0), (5.0, 0.0), (5.0, 5.0)];
        assert_eq!(thin(&corner), corner);
        assert_eq!(thin(&[]), []);
        assert_eq!(thin(&[(1.0, 1.0)]), [(1.0, 1.0)]);
    }
}
