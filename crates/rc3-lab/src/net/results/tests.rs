//! Flows that were never measured, for tests of tables and reports; and tests of estimates.

use super::*;
use crate::net::{cell::Company, transport::Timed};

pub(in crate::net) fn cell(name: &str, company: Company, connections: u32) -> Cell {
    let sizes = vec![10_000, 1_000_000];
    Cell { company, sizes, connections, ..Cell::new(name, path::Path::of(100, 40)) }
}

pub(in crate::net) fn flow(cell: &Cell, scheme: &str, bytes: u64, run: u32, ratio: f64) -> MeasuredFlow {
    let ideal_s = cell.path.ideal(bytes).as_secs_f64();
    let timed = Timed {
        connect: 0.04,
        flow: ideal_s * ratio,
        sender_cpu: 0.002,
        receiver_cpu: 0.001,
        ..Timed::default()
    };
    let connection = 1;
    MeasuredFlow { run, connection, ideal_s, ..MeasuredFlow::new("idle", &cell.name, scheme, bytes, &timed) }
}

#[test]
fn only_flows_that_count_are_in_an_estimate() {
    let cell = cell("idle", Company::Nobody, 1);
    let mut flows: Vec<MeasuredFlow> = [1.0, 1.2, 1.1]
        .into_iter()
        .zip(1..)
        .map(|(ratio, run)| flow(&cell, "rc3", 10_000, run, ratio))
        .collect();
    flows.push(MeasuredFlow { counts: false, ..flow(&cell, "rc3", 10_000, 4, 9.0) });
    flows.push(MeasuredFlow { connection: 2, ..flow(&cell, "rc3", 10_000, 1, 5.0) });
    let results = Results { schemes: vec!["rc3".to_owned(), "tcp".to_owned()], flows, ..Results::default() };
    let ratios = results.ratios(&cell, 10_000);
    let rc3 = ratios[0].unwrap();
    assert!((rc3.median - 1.1).abs() < 1e-12 && rc3.count == 3);
    assert_eq!(ratios[1], None);
    let later = results.estimate(&cell, "rc3", 10_000, LATER, |sample| Some(sample.fct_s));
    assert_eq!(later.map(|later| later.count), Some(1));
}

#[test]
fn flows_of_one_turn_are_one_value() {
    let cell = cell("each-second", Company::Long, 1);
    let flows_of = |run| (0..30).map(move |_| (run, f64::from(run)));
    let flows = (1..=10).flat_map(flows_of).map(|(run, ratio)| flow(&cell, "rc3", 10_000, run, ratio));
    let results = Results { flows: flows.collect(), ..Results::default() };
    let run = |sample: &MeasuredFlow| Some(f64::from(sample.run));
    let estimate = results.estimate(&cell, "rc3", 10_000, FIRST, run).unwrap();
    assert_eq!((estimate.median, estimate.low, estimate.high), (5.5, 2.0, 9.0), "as of ten values");
}

#[test]
fn files_have_a_row_for_each_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let cell = cell("idle", Company::Nobody, 1);
    let flows = vec![flow(&cell, "rc3", 10_000, 1, 1.5), flow(&cell, "tcp", 10_000, 1, 2.0)];
    let results = Results { flows: flows.clone(), ..Results::default() };
    results.write_csv(folder.path()).unwrap();
    let mut reader = csv::Reader::from_path(folder.path().join("flows.csv")).unwrap();
    let read: Vec<MeasuredFlow> = reader.deserialize().collect::<Result<_, _>>().unwrap();
    assert_eq!(read, flows);
}
