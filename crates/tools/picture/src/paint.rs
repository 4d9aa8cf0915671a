//! Draws a chart: decides what is where. All lengths are in points.

use rc3_text::units::three_digits;

use crate::{
    axis::Range,
    canvas::{Across, Canvas, HEIGHT, Rgb, Upright, width_of},
    chart::{Chart, Point, Scale, Series, Shape},
};

const INK: Rgb = (32, 32, 32);
const SOFT: Rgb = (96, 96, 96);
const GRID: Rgb = (228, 228, 228);
const SHADE: Rgb = (242, 242, 242);
const WHITE: Rgb = (255, 255, 255);
const TITLE: f64 = 16.0;
const TEXT: f64 = 12.0;
/// Smallest distance between labels.
const LINE: f64 = 15.0;
/// From one row of the legend to the next.
const LEGEND_LINE: f64 = 20.0;
/// How far a line may move to need fewer points, in points.
const TOLERANCE: f64 = 0.35;

/// Draws the chart.
pub(super) fn paint(canvas: &mut Canvas, chart: &Chart) {
    let frame = Frame::new(canvas.width(), chart);
    canvas.text(&chart.title, (16.0, 12.0), TITLE, INK, (Across::Left, Upright::Top));
    canvas.text(&chart.subtitle, (16.0, 34.0), TEXT, SOFT, (Across::Left, Upright::Top));
    for &(from, to) in &chart.shaded {
        let corners = [(frame.x(from), frame.top), (frame.x(to), frame.bottom)];
        canvas.bar(corners, SHADE, true);
    }
    axes(canvas, &frame, chart);
    if frame.legend {
        for (series, place) in chart.series.iter().zip(legend(canvas.width(), &chart.series)) {
            key(canvas, series, place);
        }
    }
    bars(canvas, &frame, &chart.series);
    for series in &chart.series {
        line(canvas, &frame, series);
    }
    if !frame.legend {
        names(canvas, &frame, &chart.series);
    }
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
    fn new(width: f64, chart: &Chart) -> Self {
        let has_key = |series: &Series| is_bar(series.shape) || series.shape == Shape::Growing;
        let legend = chart.series.len() > 1 && chart.series.iter().any(has_key);
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
            widest = widest.max(width_of(&text, TEXT));
        }
        let mut room = 24.0f64;
        if !legend && chart.series.len() > 1 {
            for series in &chart.series {
                room = room.max(width_of(&series.name, TEXT) + 28.0);
            }
        }
        Self {
            left: 42.0 + widest,
            right: width - room,
            top: 62.0 + if legend { legend_height(width, &chart.series) } else { 0.0 },
            bottom: f64::from(HEIGHT) - 56.0,
            x,
            y,
            legend,
        }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.x.place(value) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.place(value) * (self.bottom - self.top)
    }
}

fn axes(canvas: &mut Canvas, frame: &Frame, chart: &Chart) {
    for (value, text) in frame.y.ticks() {
        let y = frame.y(value);
        canvas.line(&[(frame.left, y), (frame.right, y)], GRID, 1.0, false);
        canvas.text(&text, (frame.left - 8.0, y), TEXT, SOFT, (Across::Right, Upright::Middle));
    }
    let mut free_from = f64::NEG_INFINITY;
    for (value, text) in frame.x.ticks() {
        let x = frame.x(value);
        let half = width_of(&text, TEXT) / 2.0;
        canvas.line(&[(x, frame.bottom), (x, frame.bottom + 4.0)], SOFT, 1.0, false);
        if x - half > free_from {
            canvas.text(&text, (x, frame.bottom + 8.0), TEXT, SOFT, (Across::Middle, Upright::Top));
            free_from = x + half + 6.0;
        }
    }
    let floor = frame.y(frame.y.floor());
    canvas.line(&[(frame.left, floor), (frame.right, floor)], SOFT, 1.0, false);
    let middle = (frame.left + frame.right) / 2.0;
    let below = (middle, f64::from(HEIGHT) - 12.0);
    canvas.text(&chart.x.name, below, TEXT, INK, (Across::Middle, Upright::Bottom));
    canvas.text_upwards(&chart.y.name, (14.0, (frame.top + frame.bottom) / 2.0), TEXT, INK);
}

/// Place of the key of each series: rows from the left, as many as they need.
fn legend(whole: f64, all: &[Series]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (16.0, 64.0);
    let mut places = Vec::with_capacity(all.len());
    for series in all {
        let width = width_of(&series.name, TEXT) + 34.0;
        if x > 16.0 && x + width > whole {
            (x, y) = (16.0, y + LEGEND_LINE);
        }
        places.push((x, y));
        x += width;
    }
    places
}

fn legend_height(whole: f64, all: &[Series]) -> f64 {
    legend(whole, all).last().map_or(0.0, |(_, y)| y - 64.0) + 24.0
}

/// The key of a series: its style and its name.
fn key(canvas: &mut Canvas, series: &Series, (x, y): (f64, f64)) {
    let corners = [(x, y - 5.0), (x + 12.0, y + 5.0)];
    match series.shape {
        Shape::Bars | Shape::Stack => canvas.bar(corners, series.colour.rgb(), true),
        Shape::Frames => canvas.bar(corners, series.colour.rgb(), false),
        Shape::Marked | Shape::Growing | Shape::Dots | Shape::Line | Shape::Dashed | Shape::Steps => {
            canvas.line(&[(x, y), (x + 12.0, y)], series.colour.rgb(), 2.0, false);
        }
    }
    canvas.text(&series.name, (x + 17.0, y), TEXT, INK, (Across::Left, Upright::Middle))
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

fn bars(canvas: &mut Canvas, frame: &Frame, all: &[Series]) {
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
            canvas.bar(corners, series.colour.rgb(), series.shape == Shape::Bars);
            whisker(canvas, frame, left + width * 0.46, point);
        }
    }
    let mut ends = stacks(all).into_iter();
    for series in all.iter().filter(|series| series.shape == Shape::Stack) {
        for (point, (foot, top)) in series.points.iter().zip(&mut ends) {
            let x = frame.x(point.x);
            let corners = [(x - group * 0.35, frame.y(top)), (x + group * 0.35, frame.y(foot))];
            canvas.bar(corners, series.colour.rgb(), true);
            if corners[1].1 - corners[0].1 > LINE {
                let middle = (x, f64::midpoint(corners[0].1, corners[1].1));
                canvas.text(&three_digits(point.y), middle, TEXT, WHITE, (Across::Middle, Upright::Middle));
            }
        }
    }
}

fn line(canvas: &mut Canvas, frame: &Frame, series: &Series) {
    if is_bar(series.shape) {
        return;
    }
    let colour = series.colour.rgb();
    let mut places: Vec<(f64, f64)> =
        series.points.iter().map(|point| (frame.x(point.x), frame.y(point.y))).collect();
    if series.shape == Shape::Dots {
        places.into_iter().for_each(|place| canvas.circle(place, 2, 0.5, colour));
        return;
    }
    if series.shape == Shape::Steps {
        let corner = |pair: &[(f64, f64)]| [pair[0], (pair[1].0, pair[0].1)];
        places = places.windows(2).flat_map(corner).chain(places.last().copied()).collect();
    }
    let is_dashed = series.shape == Shape::Dashed;
    let width = match series.shape {
        Shape::Growing => 1.0,
        Shape::Dashed => 1.5,
        _ => 2.0,
    };
    canvas.line(&thin(&places), colour, width, is_dashed);
    if matches!(series.shape, Shape::Marked | Shape::Growing) {
        for (radius, point) in (3..).zip(&series.points) {
            let x = frame.x(point.x);
            whisker(canvas, frame, x, point);
            let radius = if series.shape == Shape::Growing { radius } else { 3 };
            canvas.circle((x, frame.y(point.y)), radius, 1.0, colour);
        }
    }
}

fn whisker(canvas: &mut Canvas, frame: &Frame, x: f64, point: &Point) {
    let Some(error) = point.error else { return };
    let ends = [point.y - error, point.y + error];
    let y = |end| frame.y(end).clamp(frame.top, frame.bottom);
    canvas.line(&ends.map(|end| (x, y(end))), INK, 1.0, false);
    // One beyond the frame goes on there.
    for end in ends.into_iter().filter(|end| frame.y.contains(*end)) {
        canvas.line(&[(x - 3.0, y(end)), (x + 3.0, y(end))], INK, 1.0, false);
    }
}

/// The name of each line at its right end, moved apart to avoid overlaps.
fn names(canvas: &mut Canvas, frame: &Frame, all: &[Series]) {
    if all.len() < 2 {
        return;
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
            canvas.line(&[(x + 5.0, y), (start - 3.0, height)], GRID, 1.0, false);
        }
        canvas.text(
            &series.name,
            (start, height),
            TEXT,
            series.colour.rgb(),
            (Across::Left, Upright::Middle),
        );
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        canvas::Mark,
        chart::{Axis, Colour, Unit},
    };

    #[test]
    fn an_error_bar_beyond_the_frame_has_no_end_there() {
        let points = [(0.5, 0.1), (0.9, 50.0), (0.0, 50.0)].into_iter().zip([1.0, 2.0, 3.0]);
        let series = Series {
            name: String::new(),
            colour: Colour::Blue,
            shape: Shape::Marked,
            points: points.map(|((y, error), x)| Point { x, y, error: Some(error) }).collect(),
        };
        let axis = || Axis::new("", Scale::Linear, Unit::Number);
        let chart = Chart {
            title: String::new(),
            subtitle: String::new(),
            x: axis(),
            y: axis().starting(0.0).ending(1.0),
            series: vec![series],
            shaded: Vec::new(),
        };
        let mut canvas = Canvas::new(760);
        paint(&mut canvas, &chart);
        let lines = canvas.marks.iter().filter_map(|mark| match mark {
            Mark::Line { places, colour: INK, .. } => Some((places[0], places[1])),
            _ => None,
        });
        let (upright, across): (Vec<_>, Vec<_>) = lines.partition(|(from, to)| from.0 == to.0);
        let frame = Frame::new(760.0, &chart);
        let inside = |y: i32| (frame.top..=frame.bottom).contains(&(f64::from(y) / 2.0));
        assert!(upright.iter().all(|(from, to)| inside(from.1) && inside(to.1)), "{upright:?}");
        assert_eq!((upright.len(), across.len()), (3, 2), "{across:?}");
    }

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
