//! The runs of one load, and what they are called.

use std::path::Path;

use rc3_picture::chart::{Colour, Point, Series, Shape};

use crate::{
    Result,
    results::{Run, common},
};

/// Names of files, what people call them, and colours.
const RUNS: [(&str, &str, Colour); 13] = [
    ("cubic", "CUBIC, drop-tail", Colour::Vermillion),
    ("cubic-fq-codel", "CUBIC, FQ-CoDel with ECN", Colour::Orange),
    ("pcc", "rc3, PCC", Colour::Black),
    ("rc3", "rc3, NewReno", Colour::Grey),
    ("kickass", "rc3, Kick-Ass", Colour::Blue),
    ("kickass-fct", "rc3, Kick-Ass, other RCP", Colour::Purple),
    ("rlp", "rc3, NewReno and RLP", Colour::Green),
    ("kickass-rlp", "rc3, Kick-Ass and RLP", Colour::Sky),
    (ALONE, "TCP alone", Colour::Vermillion),
    (SHARED, "TCP beside Kick-Ass", Colour::Blue),
    (SLOW, "10 Mbit/s access", Colour::Blue),
    (FAST, "100 Mbit/s access", Colour::Vermillion),
    (FAST_ALONE, "100 Mbit/s access, no cross traffic", Colour::Green),
];
/// Of them, those that have the port for themselves and make the paper's figures.
const SCHEMES: usize = 8;

/// Kernel TCP alone at a port with signals.
pub(super) const ALONE: &str = "alone";
/// Every other sender is one of Kick-Ass instead.
pub(super) const SHARED: &str = "shared";

/// Long flows through two routers, of which the first signals: its link at 10 and at 100 Mbit/s, with cross traffic
/// at the second, and without.
pub(super) const SLOW: &str = "access-10";
pub(super) const FAST: &str = "access-100";
pub(super) const FAST_ALONE: &str = "access-100-alone";

/// What tells the runs of Kick-Ass and RLP apart.
pub(super) const VARIANTS: &str = "Ports without signals have drop-tail queues unless the run says otherwise. Those of \
                                   Kick-Ass have RCP with the gains of its authors' model (alpha and beta 0.4), and as \
                                   other RCP with those of their scripts for completion times (0.1 and 1). With RLP \
                                   ports have strict priorities. One run of each, on two cores that had other work \
                                   as well.";

/// The runs of one load that are there.
#[derive(Debug)]
pub(super) struct Scene(Vec<Run>);

impl Scene {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let runs = RUNS.iter().map(|(name, ..)| Run::read(folder, name));
        Ok(Self(runs.filter_map(Result::transpose).collect::<Result<_>>()?))
    }

    /// Those of the paper's figures, with the flows that all of them have.
    pub(super) fn schemes(&self) -> Vec<Run> {
        let runs = RUNS[..SCHEMES].iter().filter_map(|(name, ..)| find(&self.0, name));
        let mut runs: Vec<Run> = runs.cloned().collect();
        let ids = common(&runs);
        runs.iter_mut().for_each(|run| run.retain(&ids));
        runs
    }

    /// All runs.
    pub(super) fn runs(&self) -> &[Run] {
        &self.0
    }

    /// A run with all its flows.
    pub(super) fn find(&self, name: &str) -> Option<&Run> {
        find(&self.0, name)
    }
}

/// The run of this name.
pub(super) fn find<'a>(runs: &'a [Run], name: &str) -> Option<&'a Run> {
    runs.iter().find(|run| run.name == name)
}

fn row(run: &Run) -> &'static (&'static str, &'static str, Colour) {
    RUNS.iter().find(|(name, ..)| *name == run.name).unwrap_or(&RUNS[0])
}

/// What people call it.
pub(super) fn title(run: &Run) -> String {
    row(run).1.to_owned()
}

/// A series of a chart.
pub(super) fn series(run: &Run, shape: Shape, points: impl IntoIterator<Item = Point>) -> Series {
    Series { name: title(run), colour: row(run).2, shape, points: points.into_iter().collect() }
}
