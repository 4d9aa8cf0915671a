//! All that a run has measured, and the files of it.

use std::{fs, io, path::Path, time::Duration};

use serde::Serialize;

use super::{
    cell::Cell,
    error::NetError,
    path,
    sample::{CheckSample, FlowSample, OthersSample},
};
use crate::statistics::Estimate;

/// Measurements, as far as a run is.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// Cells that were measured, with the experiments they belong to.
    pub cells: Vec<(String, Cell)>,
    /// Names of the schemes, in the order of the tables.
    pub schemes: Vec<String>,
    /// Flows of schemes.
    pub flows: Vec<FlowSample>,
    /// What others felt.
    pub others: Vec<OthersSample>,
    /// Checks of the WAN.
    pub checks: Vec<CheckSample>,
    /// How late 99 % of the packets may leave the WAN, if the command line says so.
    pub lateness: Option<Duration>,
    /// Turns that failed, and why.
    pub failures: Vec<String>,
}

/// Which connections of a sender are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first, to a host that was never seen before.
    First,
    /// All later ones.
    Later,
}

impl Which {
    fn has(self, connection: u32) -> bool {
        (connection == 1) == (self == Self::First)
    }
}

impl Results {
    /// How late 99 % of the packets may leave the WAN on a path.
    pub fn lateness_limit(&self, path: &path::Path) -> Duration {
        self.lateness.unwrap_or_else(|| path.lateness_limit())
    }

    /// Flows that count: of a cell, a scheme, a size.
    pub fn flows_of(
        &self,
        cell: &Cell,
        scheme: &str,
        bytes: u64,
        which: Which,
    ) -> impl Iterator<Item = &FlowSample> {
        let of = move |sample: &&FlowSample| {
            sample.cell == cell.name && sample.scheme == scheme && sample.bytes == bytes
        };
        self.flows.iter().filter(of).filter(move |sample| sample.counts && which.has(sample.connection))
    }

    /// The estimate of a quantity of those flows.
    pub fn estimate(
        &self,
        cell: &Cell,
        scheme: &str,
        bytes: u64,
        which: Which,
        quantity: impl Fn(&FlowSample) -> Option<f64>,
    ) -> Option<Estimate> {
        let values: Vec<f64> = self.flows_of(cell, scheme, bytes, which).filter_map(quantity).collect();
        Estimate::of(&values)
    }

    /// Estimates of the completion time over the ideal, in the order of the schemes.
    pub fn ratios(&self, cell: &Cell, bytes: u64) -> Vec<Option<Estimate>> {
        let ratio = |sample: &FlowSample| Some(sample.fct_s / sample.ideal_s);
        self.schemes.iter().map(|scheme| self.estimate(cell, scheme, bytes, Which::First, ratio)).collect()
    }

    /// What others felt in a cell beside a scheme.
    pub fn others_of(&self, cell: &Cell, scheme: &str) -> impl Iterator<Item = &OthersSample> {
        self.others.iter().filter(move |sample| sample.cell == cell.name && sample.scheme == scheme)
    }

    /// Writes the measurements as CSV.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_csv(&self, out: &Path) -> Result<(), NetError> {
        write(&out.join("flows.csv"), &self.flows)?;
        write(&out.join("others.csv"), &self.others)?;
        write(&out.join("checks.csv"), &self.checks)
    }
}

fn write<T: Serialize>(path: &Path, rows: &[T]) -> Result<(), NetError> {
    let all = || {
        let mut csv = csv::Writer::from_writer(Vec::new());
        rows.iter().try_for_each(|row| csv.serialize(row))?;
        let text = csv.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
        fs::write(path, text)
    };
    all().map_err(|source| NetError::File { path: path.to_owned(), source })
}

#[cfg(test)]
pub(super) mod tests;
