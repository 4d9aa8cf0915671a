//! `flows.csv` and `summary.csv`.
//!
//! Times are seconds, sizes bytes. Nothing in them depends on the wall clock or on threads: one seed, one file.

use std::{io::Write, time::Duration};

use rc3_sim::{
    record::FlowRecord,
    scenario::{Label, Run},
    summary::{Bucket, Estimate, Flows, Weight, percentile},
};
use serde::{Deserialize, Serialize};

use super::results::{Group, Results, Totals};

/// A line of `flows.csv`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowRow {
    /// Case and point of the sweep.
    pub setting: String,
    /// The run.
    pub run: String,
    /// Counted from 0.
    pub repetition: u32,
    /// The scheme that carried it.
    pub scheme: String,
    /// Its number in the world.
    pub flow: u32,
    /// When the sender connected.
    pub start_s: String,
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Bytes of the application.
    pub bytes: u64,
    /// Links between routers on the way.
    pub hops: u8,
    /// From connect to the last byte at the receiver; empty if it never arrived.
    pub fct_s: Option<String>,
    /// From the first data sent to the last byte at the receiver.
    pub fct_data_s: Option<String>,
    /// From connect to the last acknowledgement at the sender.
    pub fct_acked_s: Option<String>,
    /// Bytes the primary loop delivered first.
    pub primary_bytes: u64,
    /// Bytes RLP delivered first.
    pub rlp_bytes: u64,
    /// Packets the primary loop sent.
    pub primary_packets: u64,
    /// Packets RLP sent.
    pub rlp_packets: u64,
    /// Packets of the primary loop declared lost.
    pub lost_packets: u64,
}

impl FlowRow {
    /// The line of a flow of a world.
    pub fn new(run: &Run, record: &FlowRecord) -> Self {
        let label = &run.label;
        let scheme = run.schemes.get(usize::from(record.scheme.0));
        Self {
            setting: label.setting(),
            run: label.run.clone(),
            repetition: label.repetition,
            scheme: scheme.map(|scheme| scheme.name.clone()).unwrap_or_default(),
            flow: record.flow.0,
            start_s: seconds(record.start),
            from: record.from.0,
            to: record.to.0,
            bytes: record.bytes,
            hops: record.hops,
            fct_s: record.fct.map(seconds),
            fct_data_s: record.fct_data.map(seconds),
            fct_acked_s: record.fct_acked.map(seconds),
            primary_bytes: record.received.primary_bytes,
            rlp_bytes: record.received.rlp_bytes,
            primary_packets: record.sent.primary_packets,
            rlp_packets: record.sent.rlp_packets,
            lost_packets: record.sent.lost_packets,
        }
    }
}

/// Exact to the nanosecond.
fn seconds(time: Duration) -> String {
    format!("{}.{:09}", time.as_secs(), time.subsec_nanos())
}

/// A line of `summary.csv`: flows of one scheme at one place, of all sizes or of a bucket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// Case and point of the sweep.
    pub setting: String,
    /// The run.
    pub run: String,
    /// The scheme that carried them; empty for all flows of the run.
    pub scheme: String,
    /// Smallest size; empty for all sizes.
    pub from_bytes: Option<u64>,
    /// Largest size; empty for all sizes.
    pub to_bytes: Option<u64>,
    /// Flows that ended.
    pub flows: usize,
    /// Flows that did not.
    pub unfinished: u64,
    /// Mean FCT over flows.
    pub fct_s: Option<f64>,
    /// Half of its 95 % confidence interval.
    pub fct_margin_s: Option<f64>,
    /// Mean FCT weighted by bytes.
    pub fct_bytes_s: Option<f64>,
    /// Half of its 95 % confidence interval.
    pub fct_bytes_margin_s: Option<f64>,
    /// Smallest FCT that at least 1 % do not exceed.
    pub p1_s: Option<f64>,
    /// Median FCT.
    pub median_s: Option<f64>,
    /// Smallest FCT that at least 99 % do not exceed.
    pub p99_s: Option<f64>,
    /// Reduction of the mean FCT over flows relative to the first run, in per cent.
    pub reduction_percent: Option<f64>,
    /// Half of its 95 % confidence interval, in percentage points.
    pub reduction_margin: Option<f64>,
    /// Reduction of the mean FCT weighted by bytes, in per cent.
    pub reduction_bytes_percent: Option<f64>,
    /// Half of its 95 % confidence interval, in percentage points.
    pub reduction_bytes_margin: Option<f64>,
    /// Packets of the primary loop.
    pub primary_packets: Option<u64>,
    /// Of them, declared lost.
    pub lost_packets: Option<u64>,
    /// Packets of RLP.
    pub rlp_packets: Option<u64>,
    /// Bytes the primary loop delivered first.
    pub primary_bytes: Option<u64>,
    /// Bytes RLP delivered first.
    pub rlp_bytes: Option<u64>,
}

/// All lines of `summary.csv`.
pub fn summary(results: &Results, buckets: &[Bucket]) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    for cell in &results.cells {
        let base = results.base(&cell.place).filter(|base| base.place != cell.place);
        let all = std::iter::once((String::new(), &cell.all, base.map(|base| &base.all)));
        let parts = cell.parts.iter().enumerate().map(|(index, part)| {
            let base = base.and_then(|base| base.parts.get(index));
            (part.scheme.clone(), &part.group, base.map(|part| &part.group))
        });
        for (scheme, group, base) in all.chain(parts) {
            rows.push(row(&cell.place, &scheme, None, group, base));
            let of_size = |bucket: &Bucket| {
                let narrow = |group: &Group| group.of_size(bucket.from, bucket.to);
                row(&cell.place, &scheme, Some(*bucket), &narrow(group), base.map(narrow).as_ref())
            };
            rows.extend(buckets.iter().map(of_size).filter(|row| row.flows > 0));
        }
    }
    rows
}

fn row(
    place: &Label,
    scheme: &str,
    bucket: Option<Bucket>,
    group: &Group,
    base: Option<&Group>,
) -> SummaryRow {
    let sorted = group.flows.sorted();
    let mean = |weight| group.flows.mean(weight);
    let reduction = |weight| base?.flows.reduction(&group.flows, weight).map(super::results::per_cent);
    let (fct, fct_bytes) = (mean(Weight::Flows), mean(Weight::Bytes));
    let (reduction, reduction_bytes) = (reduction(Weight::Flows), reduction(Weight::Bytes));
    let value = |estimate: Option<Estimate>| estimate.map(|estimate| round(estimate.value));
    let margin = |estimate: Option<Estimate>| estimate.and_then(|estimate| estimate.margin()).map(round);
    // Packets are not counted by size.
    let total = |pick: fn(&Totals) -> u64| bucket.is_none().then(|| pick(&group.totals));
    SummaryRow {
        setting: place.setting(),
        run: place.run.clone(),
        scheme: scheme.to_owned(),
        from_bytes: bucket.map(|bucket| bucket.from),
        to_bytes: bucket.map(|bucket| bucket.to),
        flows: group.flows.len(),
        unfinished: group.unfinished,
        fct_s: value(fct),
        fct_margin_s: margin(fct),
        fct_bytes_s: value(fct_bytes),
        fct_bytes_margin_s: margin(fct_bytes),
        p1_s: percentile(&sorted, 0.01).map(round),
        median_s: percentile(&sorted, 0.5).map(round),
        p99_s: percentile(&sorted, 0.99).map(round),
        reduction_percent: value(reduction),
        reduction_margin: margin(reduction),
        reduction_bytes_percent: value(reduction_bytes),
        reduction_bytes_margin: margin(reduction_bytes),
        primary_packets: total(|totals| totals.primary_packets),
        lost_packets: total(|totals| totals.lost_packets),
        rlp_packets: total(|totals| totals.rlp_packets),
        primary_bytes: total(|totals| totals.primary_bytes),
        rlp_bytes: total(|totals| totals.rlp_bytes),
    }
}

/// Nine decimals, the resolution of the clock.
fn round(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

/// Sizes of all flows of an experiment in buckets.
pub fn buckets(results: &Results) -> Vec<Bucket> {
    let flows = |flows: &Flows| flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>();
    rc3_sim::summary::buckets(results.cells.iter().flat_map(|cell| flows(&cell.all.flows)))
}

/// Writes rows with a header line.
pub fn write<T: Serialize>(out: impl Write, rows: impl IntoIterator<Item = T>) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()?;
    Ok(())
}
