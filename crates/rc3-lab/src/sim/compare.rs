//! Printed figures beside measured ones.

use rc3_sim::{
    scenario::{ExpectSpec, Label, Metric},
    summary::Estimate,
};

use super::results::{Cell, PACKET_BYTES, Results, short, value_text};

/// A printed figure and ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Where in the experiment: case and point, for people.
    pub setting: String,
    /// Of which run, and which scheme in it.
    pub run: String,
    /// What is printed.
    pub metric: Metric,
    /// As printed, in the metric's unit.
    pub printed: f64,
    /// As measured, in the metric's unit; `None` if it was not.
    pub measured: Option<Estimate>,
    /// How far off is still the same, if the experiment says so.
    pub tolerance: Option<f64>,
    /// Remarks.
    pub note: String,
}

/// Whether a measured figure is the printed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Within the tolerance.
    Within,
    /// Outside of it.
    Outside,
    /// There is no tolerance.
    Open,
    /// It was not measured.
    Missing,
}

impl Row {
    /// Measured minus printed: percentage points of a metric in per cent, per cent of the printed value of others.
    pub fn difference(&self) -> Option<f64> {
        let measured = self.measured?.value;
        match self.metric.unit() {
            "%" => Some(measured - self.printed),
            _ => Some(100.0 * (measured / self.printed - 1.0)),
        }
    }

    /// The unit of [`Self::difference`].
    pub fn difference_unit(&self) -> &'static str {
        if self.metric.unit() == "%" { "points" } else { "%" }
    }

    /// Whether they are the same.
    pub fn verdict(&self) -> Verdict {
        match (self.difference(), self.tolerance) {
            (None, _) => Verdict::Missing,
            (Some(_), None) => Verdict::Open,
            (Some(difference), Some(tolerance)) if difference.abs() <= tolerance => Verdict::Within,
            _ => Verdict::Outside,
        }
    }
}

/// Every printed figure beside the measured one.
pub fn compare(expected: &[ExpectSpec], results: &Results) -> Vec<Row> {
    expected.iter().map(|expect| row(expect, results)).collect()
}

fn row(expect: &ExpectSpec, results: &Results) -> Row {
    let cell = find(expect, &expect.run, results);
    let base = match &expect.against {
        Some(run) => find(expect, run, results),
        None => cell.and_then(|cell| results.base(&cell.place)),
    };
    // The other run may call the same part of the flows by another scheme.
    let part = expect
        .scheme
        .as_ref()
        .map(|name| cell.and_then(|cell| cell.parts.iter().position(|part| part.scheme == *name)));
    let group = |cell: Option<&Cell>| {
        let group = match part {
            None => &cell?.all,
            Some(part) => &cell?.parts.get(part?)?.group,
        };
        Some(match expect.packets {
            None => group.clone(),
            Some((from, to)) => group.of_size(from * PACKET_BYTES, to * PACKET_BYTES),
        })
    };
    let of_flows = group(cell).and_then(|of| of.metric(expect.metric, group(base).as_ref()));
    let measured = of_flows.or_else(|| of_link(expect, cell?));
    let mut run = expect.run.clone();
    if let Some(scheme) = &expect.scheme {
        run += &format!(": {scheme}");
    }
    if let Some((from, to)) = expect.packets {
        run += &format!(", flows of {from} to {to} packets");
    }
    if let Some((from, to)) = expect.between {
        run += &format!(", {} to {} s", from.as_secs_f64(), to.as_secs_f64());
    }
    Row {
        setting: setting(expect, cell),
        run,
        metric: expect.metric,
        printed: expect.value,
        measured,
        tolerance: expect.tolerance,
        note: expect.note.clone(),
    }
}

/// What was seen of the sampled link.
fn of_link(expect: &ExpectSpec, cell: &Cell) -> Option<Estimate> {
    let then = expect.between.map(|between| cell.sampled.between(between));
    let sampled = then.as_ref().unwrap_or(&cell.sampled);
    let value = match &expect.scheme {
        Some(scheme) => sampled.of_scheme(scheme).metric(expect.metric),
        None => sampled.metric(expect.metric),
    };
    value.map(|value| Estimate { value, error: None, parts: 1 })
}

fn setting(expect: &ExpectSpec, cell: Option<&Cell>) -> String {
    match cell {
        Some(cell) => cell.place.setting(),
        None => {
            let at = flatten(&expect.at);
            let values = at.iter().map(|(key, value)| format!("{} {}", short(key), value_text(value)));
            expect.case.iter().cloned().chain(values).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The first place with this run, the case and the values of `at`.
fn find<'a>(expect: &ExpectSpec, run: &str, results: &'a Results) -> Option<&'a Cell> {
    let is_there = |cell: &&Cell| cell.place.run == run && is_at(expect, &cell.place.case, &cell.place.point);
    results.cells.iter().find(is_there)
}

/// Whether a printed figure is one of this world's.
pub fn is_of(expect: &ExpectSpec, label: &Label) -> bool {
    label.run == expect.run && is_at(expect, &label.case, &label.point)
}

fn is_at(expect: &ExpectSpec, case: &Option<String>, point: &[(String, toml::Value)]) -> bool {
    let has = |(key, value): &(String, toml::Value)| {
        point.iter().any(|(swept, at)| swept == key && same(at, value))
    };
    expect.case == *case && flatten(&expect.at).iter().all(has)
}

/// Values are the same if they read the same: `0.30` and `0.3`, `1` and `1.0`.
fn same(a: &toml::Value, b: &toml::Value) -> bool {
    let number = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// Nested tables as dotted keys: `at = { workload.load = 0.1 }` and `at = { "workload.load" = 0.1 }`.
fn flatten(table: &toml::Table) -> Vec<(String, toml::Value)> {
    table
        .iter()
        .flat_map(|(key, value)| match value {
            toml::Value::Table(inner) => {
                flatten(inner).into_iter().map(|(rest, value)| (format!("{key}.{rest}"), value)).collect()
            }
            _ => vec![(key.clone(), value.clone())],
        })
        .collect()
}
