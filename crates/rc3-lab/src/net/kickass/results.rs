//! What a run has left behind: the flows that arrived, and what the forwarder has counted at the bottleneck.

use std::{collections::HashSet, io, iter::repeat_n};

use rc3_picture::chart::{Colour, Point, Series, Shape};
use serde_json::Value;

use crate::{
    net::{
        act::load::{Arrived, FAILED, PACKET},
        error::NetError,
        results::Results,
        sample::MeasuredFlow,
    },
    statistics::Sample,
};

/// Reasons for which packets that were to leave by a port are dropped.
const WANTED: [&str; 3] = ["queue_full", "queue_delay", "device"];

/// A run with one setting.
#[derive(Debug, Clone)]
pub(super) struct ForwarderRun {
    pub(super) title: &'static str,
    pub(super) colour: Colour,
    pub(super) flows: Vec<Arrived>,
    /// Why other flows did not arrive.
    pub(super) failures: Vec<String>,
    pub(super) port: BottleneckPort,
}

/// The port that all flows leave by.
#[derive(Debug, Clone, Default)]
pub(super) struct BottleneckPort {
    /// How long packets waited, up to the end of a bucket, in seconds. Those at the best level, if there are levels.
    pub(super) delays: Sample,
    /// Looked at over time: how long what waits will take to leave, in seconds. None where there are levels, of which
    /// the better ones wait less.
    pub(super) backlog: Option<Sample>,
    /// Packets that were to leave by it and did not; marked ones; signals.
    pub(super) counts: [u64; 3],
}

impl ForwarderRun {
    /// From what the senders printed, and the totals of the forwarder over time.
    pub(super) fn new(lines: &[String], totals: &[Value]) -> Result<Self, NetError> {
        let (failures, flows): (Vec<_>, Vec<_>) =
            lines.iter().cloned().partition(|line| line.starts_with(FAILED));
        let flows = flows.iter().map(|line| serde_json::from_str(line)).collect::<Result<Vec<Arrived>, _>>();
        let port =
            BottleneckPort::new(totals).ok_or_else(|| io::Error::other("the forwarder has no totals"))?;
        Ok(Self { title: "", colour: Colour::Black, flows: flows?, failures, port })
    }

    /// Completion times of flows between these sizes in packets, in seconds.
    pub(super) fn fcts(&self, packets: (f64, f64)) -> Sample {
        let within = |flow: &&Arrived| (packets.0..packets.1).contains(&(flow.bytes as f64 / PACKET as f64));
        self.flows.iter().filter(within).map(|flow| flow.timed.total()).collect()
    }

    /// A series of a chart.
    pub(super) fn series(&self, shape: Shape, points: impl IntoIterator<Item = Point>) -> Series {
        Series::new(self.title, self.colour, shape, points)
    }

    /// Sender and number: the same flow in each run.
    fn ids(&self) -> HashSet<(u32, u32)> {
        self.flows.iter().map(|flow| (flow.sender, flow.number)).collect()
    }
}

/// The runs with only the flows that all of them have: how many a sender begins depends on how long they take.
pub(super) fn compared(runs: &[ForwarderRun]) -> Vec<ForwarderRun> {
    let all = runs.iter().map(ForwarderRun::ids).reduce(|all, ids| all.intersection(&ids).copied().collect());
    let all = all.unwrap_or_default();
    let only = |run: &ForwarderRun| {
        let mut run = run.clone();
        run.flows.retain(|flow| all.contains(&(flow.sender, flow.number)));
        run
    };
    runs.iter().map(only).collect()
}

/// Keeps all flows for `flows.csv`, and those that failed for the report.
pub(super) fn keep(results: &mut Results, experiment: &str, runs: &[ForwarderRun]) {
    for run in runs {
        let failure = |failure| format!("{experiment}, {}: {failure}", run.title);
        results.failures.extend(run.failures.iter().map(failure));
        results.flows.extend(run.flows.iter().map(|flow| MeasuredFlow {
            run: flow.sender + 1,
            connection: flow.number + 1,
            ..MeasuredFlow::new(experiment, run.title, &flow.scheme, flow.bytes, &flow.timed)
        }));
    }
}

impl BottleneckPort {
    /// Of the last port.
    fn new(totals: &[Value]) -> Option<Self> {
        let port = |event: &Value| event["ports"].as_array()?.last().cloned();
        let last = port(totals.last()?)?;
        let best = last.get("queue_delay_best");
        let rate = last["link_bits_per_second"].as_f64()?;
        let waiting = totals.iter().filter_map(|event| port(event)?["waiting"]["bytes"].as_f64());
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let dropped = WANTED.map(|reason| count(&last["dropped"][reason])).iter().sum();
        let buckets = best.unwrap_or_else(|| &last["queue_delay"])["buckets"].clone();
        let buckets: Vec<(f64, usize)> = serde_json::from_value(buckets).ok()?;
        Some(Self {
            delays: buckets.into_iter().flat_map(|(end, packets)| repeat_n(end, packets)).collect(),
            backlog: best.is_none().then(|| waiting.map(|bytes| 8.0 * bytes / rate).collect()),
            counts: [dropped, count(&last["marked"]), count(&last["signalled"])],
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
