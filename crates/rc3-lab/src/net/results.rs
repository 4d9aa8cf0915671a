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
pub(super) mod tests {
    use rc3_core::units::Rate;

    use super::*;
    use crate::net::cell::Company;

    pub(in crate::net) fn cell(name: &str, company: Company, connections: u32) -> Cell {
        let path =
            path::Path::new(Rate::from_bits_per_second(100_000_000).unwrap(), Duration::from_millis(40));
        Cell {
            name: name.to_owned(),
            path,
            company,
            sizes: vec![10_000, 1_000_000],
            connections,
            card_known: false,
        }
    }

    pub(in crate::net) fn flow(cell: &Cell, scheme: &str, bytes: u64, run: u32, ratio: f64) -> FlowSample {
        let ideal_s = cell.path.ideal(bytes).as_secs_f64();
        FlowSample {
            experiment: "idle".to_owned(),
            cell: cell.name.clone(),
            scheme: scheme.to_owned(),
            bytes,
            run,
            connection: 1,
            connect_s: 0.04,
            fct_s: ideal_s * ratio,
            ideal_s,
            sender_cpu_s: 0.002,
            receiver_cpu_s: 0.001,
            others_share: None,
            late_p99_s: 0.0002,
            late_max_s: 0.001,
            dropped: 0,
            lost: 0,
            attempts: 1,
            counts: true,
        }
    }

    #[test]
    fn only_flows_that_count_are_in_an_estimate() {
        let cell = cell("idle", Company::Nobody, 1);
        let mut flows: Vec<FlowSample> = [1.0, 1.2, 1.1]
            .into_iter()
            .zip(1..)
            .map(|(ratio, run)| flow(&cell, "rc3", 10_000, run, ratio))
            .collect();
        flows.push(FlowSample { counts: false, ..flow(&cell, "rc3", 10_000, 4, 9.0) });
        flows.push(FlowSample { connection: 2, ..flow(&cell, "rc3", 10_000, 1, 5.0) });
        let results =
            Results { schemes: vec!["rc3".to_owned(), "tcp".to_owned()], flows, ..Results::default() };
        let ratios = results.ratios(&cell, 10_000);
        let rc3 = ratios[0].unwrap();
        assert!((rc3.median - 1.1).abs() < 1e-12 && rc3.count == 3);
        assert_eq!(ratios[1], None);
        assert_eq!(results.flows_of(&cell, "rc3", 10_000, Which::Later).count(), 1);
    }

    #[test]
    fn files_have_a_row_for_each_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let cell = cell("idle", Company::Nobody, 1);
        let flows = vec![flow(&cell, "rc3", 10_000, 1, 1.5), flow(&cell, "tcp", 10_000, 1, 2.0)];
        let results = Results { flows: flows.clone(), ..Results::default() };
        results.write_csv(folder.path()).unwrap();
        let mut reader = csv::Reader::from_path(folder.path().join("flows.csv")).unwrap();
        let read: Vec<FlowSample> = reader.deserialize().collect::<Result<_, _>>().unwrap();
        assert_eq!(read, flows);
    }
}
