//! Printed figures beside measured ones.

use rc3_sim::{
    scenario::{Basis, Bound, ExpectSpec, Label, Metric, Spec},
    summary::Estimate,
};
use rc3_text::document::flatten;

use super::results::{Cell, PACKET_BYTES, Results};

/// Differences up to this part of the printed value agree, in per cent.
pub const AGREES: f64 = 10.0;

/// A printed figure and ours.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedFigure {
    /// Where in the experiment: case and point, for people.
    pub setting: String,
    /// Of which run, and which scheme in it.
    pub run: String,
    /// What is printed.
    pub metric: Metric,
    /// As printed, in the metric's unit.
    pub printed: f64,
    /// Whether a bound is printed.
    pub bound: Option<Bound>,
    /// As measured, in the metric's unit; `None` if it was not.
    pub measured: Option<Estimate>,
    /// Whether the setting was chosen without looking at the printed figure.
    pub basis: Basis,
    /// Remarks.
    pub note: String,
    /// The tested cause of a difference; empty where there is none.
    pub cause: String,
}

/// Whether a measured figure agrees with the printed one: the same rule for all figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureVerdict {
    /// The difference is at most [`AGREES`] per cent of the printed value; a bound is kept.
    Agrees,
    /// It is not, but the 95 % interval contains values that would agree.
    Uncertain,
    /// No value of the 95 % interval would agree.
    Differs,
    /// A fit or a what-if: agreement would show nothing.
    NotScored,
    /// It was not measured.
    Missing,
}

impl FigureVerdict {
    /// All, best first.
    pub const ALL: [Self; 5] = [Self::Agrees, Self::Uncertain, Self::Differs, Self::NotScored, Self::Missing];

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Uncertain => "uncertain",
            Self::Differs => "differs",
            Self::NotScored => "not scored",
            Self::Missing => "not measured",
        }
    }
}

impl ComparedFigure {
    /// Measured minus printed, in per cent of the printed value.
    pub fn difference(&self) -> Option<f64> {
        Some(self.difference_of(self.measured?.value))
    }

    fn difference_of(&self, value: f64) -> f64 {
        100.0 * (value - self.printed) / self.printed.abs()
    }

    /// See [`FigureVerdict`].
    pub fn verdict(&self) -> FigureVerdict {
        let Some(measured) = self.measured else { return FigureVerdict::Missing };
        if self.basis != Basis::Independent {
            return FigureVerdict::NotScored;
        }
        let (low, high) = measured.interval();
        let band = self.printed.abs() * AGREES / 100.0;
        let (from, to) = match self.bound {
            None => (self.printed - band, self.printed + band),
            Some(Bound::AtLeast) => (self.printed, f64::INFINITY),
            Some(Bound::AtMost) => (f64::NEG_INFINITY, self.printed),
        };
        match (from..=to).contains(&measured.value) {
            true => FigureVerdict::Agrees,
            false if high >= from && low <= to => FigureVerdict::Uncertain,
            false => FigureVerdict::Differs,
        }
    }
}

/// Every printed figure beside the measured one.
pub fn compare(spec: &Spec, results: &Results) -> Vec<ComparedFigure> {
    spec.expect.iter().map(|expect| row(expect, spec.basis, results)).collect()
}

fn row(expect: &ExpectSpec, basis: Basis, results: &Results) -> ComparedFigure {
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
    let mut row = ComparedFigure {
        setting: setting(expect, cell),
        run,
        metric: expect.metric,
        printed: expect.value,
        measured,
        bound: expect.bound,
        basis: expect.basis.unwrap_or(basis),
        note: expect.note.clone(),
        cause: String::new(),
    };
    if matches!(row.verdict(), FigureVerdict::Uncertain | FigureVerdict::Differs) {
        row.cause.clone_from(&expect.cause);
    }
    row
}

/// What was seen of the sampled link.
fn of_link(expect: &ExpectSpec, cell: &Cell) -> Option<Estimate> {
    let then = expect.between.map(|between| cell.sampled.between(between));
    let sampled = then.as_ref().unwrap_or(&cell.sampled);
    let value = match &expect.scheme {
        Some(scheme) => sampled.of_scheme(scheme).metric(expect.metric),
        None => sampled.metric(expect.metric),
    };
    value.map(Estimate::exact)
}

fn setting(expect: &ExpectSpec, cell: Option<&Cell>) -> String {
    match cell {
        Some(cell) => cell.place.setting(),
        None => {
            let at = flatten(&expect.at).into_iter().map(|(key, value)| (key, value.clone()));
            let (case, point) = (expect.case.clone(), at.collect());
            Label { case, point, run: String::new(), repetition: 0 }.setting()
        }
    }
}

/// The first place with this run, the case and the values of `at`.
fn find<'a>(expect: &ExpectSpec, run: &str, results: &'a Results) -> Option<&'a Cell> {
    results.cells.iter().find(|cell| cell.place.run == run && is_at(expect, &cell.place))
}

/// Whether a place has the case of a printed figure and its values of `at`.
pub fn is_at(expect: &ExpectSpec, place: &Label) -> bool {
    let has = |(key, value): &(String, &toml::Value)| {
        place.point.iter().any(|(swept, at)| swept == key && same(at, value))
    };
    place.case == expect.case && flatten(&expect.at).iter().all(has)
}

/// Values are the same if they read the same: `0.30` and `0.3`, `1` and `1.0`.
fn same(a: &toml::Value, b: &toml::Value) -> bool {
    let number = |value: &toml::Value| value.as_float().or_else(|| value.as_integer().map(|n| n as f64));
    match (number(a), number(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}
