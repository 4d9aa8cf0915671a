//! All that a run has measured, and the files of it.

use std::{collections::BTreeMap, fs, ops::RangeInclusive, path::Path, time::Duration};

use serde::Serialize;

use super::{
    cell::Cell,
    error::NetError,
    path,
    sample::{CheckSample, MeasuredFlow, OthersSample},
};
use crate::{sim::table, statistics::MedianInterval};

/// Measurements, as far as a run is.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// Cells that were measured, with the experiments they belong to.
    pub cells: Vec<(String, Cell)>,
    /// Names of the schemes, in the order of the tables.
    pub schemes: Vec<String>,
    /// Flows of schemes.
    pub flows: Vec<MeasuredFlow>,
    /// What others felt.
    pub others: Vec<OthersSample>,
    /// Checks of the WAN.
    pub checks: Vec<CheckSample>,
    /// How late 99 % of the packets may leave the WAN, if the command line says so.
    pub lateness: Option<Duration>,
    /// What was not measured, and why.
    pub left_out: Vec<String>,
    /// Turns and flows that failed, and why.
    pub failures: Vec<String>,
}

/// The first connection of a sender, to a host that was never seen before.
pub const FIRST: RangeInclusive<u32> = 1..=1;
/// All later ones.
pub const LATER: RangeInclusive<u32> = 2..=u32::MAX;

impl Results {
    /// How late 99 % of the packets may leave the WAN on a path.
    pub fn lateness_limit(&self, path: &path::Path) -> Duration {
        self.lateness.unwrap_or_else(|| path.lateness_limit())
    }

    /// The estimate of a quantity of the flows that count: of a cell, a scheme, a size, and these connections. Those of one
    /// turn met the same queue, so that they are one value, their median.
    pub fn estimate(
        &self,
        cell: &Cell,
        scheme: &str,
        bytes: u64,
        connections: RangeInclusive<u32>,
        quantity: impl Fn(&MeasuredFlow) -> Option<f64>,
    ) -> Option<MedianInterval> {
        let of = |sample: &&MeasuredFlow| {
            sample.cell == cell.name
                && sample.scheme == scheme
                && sample.bytes == bytes
                && sample.counts
                && connections.contains(&sample.connection)
        };
        let mut turns: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for flow in self.flows.iter().filter(of) {
            turns.entry(flow.run).or_default().extend(quantity(flow));
        }
        let medians = turns.values().filter_map(|values| Some(MedianInterval::of(values)?.median));
        MedianInterval::of(&medians.collect::<Vec<_>>())
    }

    /// Estimates of the completion time over the ideal, in the order of the schemes.
    pub fn ratios(&self, cell: &Cell, bytes: u64) -> Vec<Option<MedianInterval>> {
        let ratio = |sample: &MeasuredFlow| Some(sample.fct_s / sample.ideal_s);
        self.schemes.iter().map(|scheme| self.estimate(cell, scheme, bytes, FIRST, ratio)).collect()
    }

    /// What others felt in a cell beside a scheme.
    pub fn others_of(&self, cell: &Cell, scheme: &str) -> impl Iterator<Item = &OthersSample> {
        self.others.iter().filter(move |sample| sample.cell == cell.name && sample.scheme == scheme)
    }

    /// Writes the measurements as CSV.
    pub fn write_csv(&self, out: &Path) -> Result<(), NetError> {
        write(&out.join("flows.csv"), &self.flows)?;
        write(&out.join("others.csv"), &self.others)?;
        write(&out.join("checks.csv"), &self.checks)
    }
}

/// Writes rows as CSV.
pub fn write<T: Serialize>(path: &Path, rows: &[T]) -> Result<(), NetError> {
    let written = fs::File::create(path).map_err(csv::Error::from).and_then(|file| table::write(file, rows));
    written.map_err(|error| NetError::File { path: path.to_owned(), source: error.into() })
}

#[cfg(test)]
pub(super) mod tests;
