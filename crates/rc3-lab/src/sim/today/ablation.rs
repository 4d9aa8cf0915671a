//! What each number of RLP's law brings: guard mode with another value of it, beside guard mode as it is.

use std::fmt;

use rc3_core::internals::law::Constants;

use super::{
    DEFAULT,
    report::{ComparedFlow, SchemeSummary, names},
};

/// The columns of the table.
pub(super) const HEAD: &str = "\
| number | value | mean | most | worst cell | others keep | least |
|---|---:|---:|---|---|---:|---|
";

/// Numbers that change together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LawVariant {
    kind: &'static str,
    /// Each as `NAME=VALUE`.
    changes: Vec<String>,
}

impl LawVariant {
    /// All values of the `wanted` numbers, of none those of all. `NAME=VALUE,...` is one variant with these values.
    pub(super) fn of(wanted: &[String]) -> Vec<Self> {
        let all = Constants::variants();
        let (named, own): (Vec<_>, Vec<_>) =
            wanted.iter().partition(|word| all.iter().any(|variant| variant.name == *word));
        let is_wanted = |name: &str| wanted.is_empty() || named.iter().any(|known| *known == name);
        let mut known: Vec<_> = all.into_iter().filter(|variant| is_wanted(variant.name)).collect();
        known.sort_by_key(|variant| ["off", "half", "double"].iter().position(|kind| *kind == variant.kind));
        let known = known.into_iter().map(|variant| Self {
            kind: variant.kind,
            changes: vec![format!("{}={}", variant.name, variant.value)],
        });
        let own = own
            .into_iter()
            .map(|word| Self { kind: "", changes: word.split(',').map(str::to_owned).collect() });
        known.chain(own).collect()
    }

    /// The changes of a scenario.
    pub(super) fn changes(&self) -> impl Iterator<Item = String> {
        self.changes.iter().map(|change| format!("scheme.{DEFAULT}.constants.{change}"))
    }
}

impl fmt::Display for LawVariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.changes.join(", "))
    }
}

/// What guard mode reaches in a scenario: FCT over plain QUIC's, its mean and its worst, and the part of their bytes that
/// others keep.
#[derive(Debug, Clone, PartialEq)]
struct Figures {
    scenario: String,
    mean: f64,
    worst: f64,
    kept: Option<f64>,
}

fn figures(rows: &[ComparedFlow]) -> Vec<Figures> {
    let of = |scenario: &str| {
        let SchemeSummary { plain, kept, .. } =
            SchemeSummary::new(rows.iter().filter(|row| row.scenario == scenario), 1);
        Figures {
            scenario: scenario.to_owned(),
            mean: plain.mean,
            worst: plain.worst,
            kept: kept.map(|kept| kept.mean),
        }
    };
    names(rows).into_iter().map(of).collect()
}

/// A line of the table: what the `variant` reaches, by its cells and those of the product.
pub(super) fn line(variant: &LawVariant, product: &[ComparedFlow], varied: &[ComparedFlow]) -> String {
    let (product, varied) = (figures(product), figures(varied));
    let both = || product.iter().zip(&varied);
    let mean =
        both().map(|(before, after)| (after.mean / before.mean).ln()).sum::<f64>() / both().count() as f64;
    let moved = |(before, after): &(&Figures, &Figures)| (after.mean / before.mean).ln().abs();
    // A cell that stays faster than plain QUIC loses nothing.
    let lost = |(before, after): &(&Figures, &Figures)| after.worst / before.worst.max(1.0);
    let kept = || both().filter_map(|(before, after)| Some((after.kept? / before.kept?, before)));
    let mut line = format!("| {variant} | {} | {:.3} |", variant.kind, mean.exp());
    if let Some((before, after)) = both().max_by(|a, b| moved(a).total_cmp(&moved(b))) {
        line += &format!(" {:.2} {} |", after.mean / before.mean, before.scenario);
    }
    if let Some((before, after)) = both().max_by(|a, b| lost(a).total_cmp(&lost(b))) {
        line += &format!(" {:.2} to {:.2} {} |", before.worst, after.worst, before.scenario);
    }
    if let Some((least, of)) = kept().min_by(|a, b| a.0.total_cmp(&b.0)) {
        let mean = kept().map(|(kept, _)| kept).sum::<f64>() / kept().count() as f64;
        line += &format!(" {mean:.3} | {least:.3} {} |", of.scenario);
    }
    line
}
