//! What a run has left behind: the flows that arrived, and what the forwarder has counted at the bottleneck.

use std::{collections::HashSet, io, path::Path};

use rc3_picture::chart::{Colour, Point, Series, Shape};
use serde_json::Value;

use crate::{
    net::{
        act::load::{Arrived, PACKET},
        error::NetError,
    },
    statistics::Sample,
};

/// Reasons for which packets that were to leave by a port are dropped.
const WANTED: [&str; 3] = ["queue_full", "queue_delay", "device"];

/// A run with one setting.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) title: &'static str,
    pub(super) colour: Colour,
    pub(super) flows: Vec<Arrived>,
    /// All flows of Kick-Ass, also those that other runs do not have.
    pub(super) steered: Vec<Arrived>,
    pub(super) port: Bottleneck,
}

/// The port that all flows leave by.
#[derive(Debug, Clone, Default)]
pub(super) struct Bottleneck {
    /// How long packets waited: ends of buckets in seconds, packets. Those at the best level, if there are levels.
    delays: Vec<(f64, u64)>,
    /// Looked at over time: how long what waits will take to leave, in seconds. None where there are levels, of which
    /// the better ones wait less.
    pub(super) backlog: Option<Sample>,
    /// Packets that were to leave by it and did not; marked ones; signals.
    pub(super) counts: [u64; 3],
}

impl Run {
    /// From what the senders printed, and the totals of the forwarder over time.
    pub(super) fn new(lines: &[String], totals: &[Value]) -> Result<Self, NetError> {
        let flows = lines.iter().map(|line| serde_json::from_str(line)).collect::<Result<Vec<Arrived>, _>>();
        let flows = flows.map_err(io::Error::from)?;
        let steered = flows.iter().filter(|flow| flow.timed.modes.is_some()).cloned().collect();
        let port = Bottleneck::new(totals).ok_or_else(|| io::Error::other("the forwarder has no totals"))?;
        Ok(Self { title: "", colour: Colour::Black, flows, steered, port })
    }

    /// Completion times of flows between these sizes in packets, in seconds.
    pub(super) fn fcts(&self, packets: (f64, f64)) -> Sample {
        let within = |flow: &&Arrived| (packets.0..packets.1).contains(&(flow.bytes as f64 / PACKET as f64));
        self.flows.iter().filter(within).map(|flow| flow.timed.total()).collect()
    }

    /// A series of a chart.
    pub(super) fn series(&self, shape: Shape, points: impl IntoIterator<Item = Point>) -> Series {
        let points = points.into_iter().collect();
        Series { name: self.title.to_owned(), colour: self.colour, shape, points }
    }

    /// Sender and number: the same flow in each run.
    fn ids(&self) -> HashSet<(u32, u32)> {
        self.flows.iter().map(|flow| (flow.sender, flow.number)).collect()
    }
}

/// The runs with only the flows that all of them have: how many a sender begins depends on how long they take.
pub(super) fn compared(runs: &[Run]) -> Vec<Run> {
    let all = runs.iter().map(Run::ids).reduce(|all, ids| all.intersection(&ids).copied().collect());
    let all = all.unwrap_or_default();
    let only = |run: &Run| {
        let mut run = run.clone();
        run.flows.retain(|flow| all.contains(&(flow.sender, flow.number)));
        run
    };
    runs.iter().map(only).collect()
}

/// Writes all flows as CSV.
pub(super) fn write(out: &Path, name: &str, runs: &[Run]) -> Result<(), NetError> {
    let path = out.join(format!("{name}-flows.csv"));
    let all = || {
        let mut csv = csv::Writer::from_path(&path)?;
        csv.write_record(["run", "sender", "number", "scheme", "bytes", "connect_s", "fct_s", "kickass_s"])?;
        for run in runs {
            for Arrived { sender, number, scheme, bytes, timed } in &run.flows {
                let kickass = timed.modes.map(|modes| modes.steered);
                csv.serialize((
                    run.title,
                    sender,
                    number,
                    scheme,
                    bytes,
                    timed.connect,
                    timed.flow,
                    kickass,
                ))?;
            }
        }
        csv.flush()
    };
    all().map_err(|source| NetError::File { path: path.clone(), source })
}

impl Bottleneck {
    /// Of the last port.
    fn new(totals: &[Value]) -> Option<Self> {
        let port = |event: &Value| event["ports"].as_array()?.last().cloned();
        let last = port(totals.last()?)?;
        let best = last.get("queue_delay_best");
        let rate = last["link_bits_per_second"].as_f64()?;
        let waiting = totals.iter().filter_map(|event| port(event)?["waiting"]["bytes"].as_f64());
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let dropped = WANTED.map(|reason| count(&last["dropped"][reason])).iter().sum();
        Some(Self {
            delays: serde_json::from_value(best.unwrap_or(&last["queue_delay"])["buckets"].clone()).ok()?,
            backlog: best.is_none().then(|| waiting.map(|bytes| 8.0 * bytes / rate).collect()),
            counts: [dropped, count(&last["marked"]), count(&last["signalled"])],
        })
    }

    /// Ends of buckets with the share of packets that have not waited longer.
    pub(super) fn distribution(&self) -> impl Iterator<Item = (f64, f64)> {
        let all: u64 = self.delays.iter().map(|(_, count)| count).sum();
        self.delays.iter().scan(0, move |below, (end, count)| {
            *below += count;
            Some((*end, *below as f64 / all as f64))
        })
    }

    /// This share of the packets has not waited longer, in seconds.
    pub(super) fn delay(&self, share: f64) -> f64 {
        self.distribution().find(|(_, below)| *below >= share).map_or(f64::NAN, |(end, _)| end)
    }

    /// The share of packets that have not waited longer.
    pub(super) fn share_within(&self, seconds: f64) -> f64 {
        self.distribution().take_while(|(end, _)| *end <= seconds).last().map_or(0.0, |(_, below)| below)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;
    use crate::net::transport::{Modes, Timed};

    /// A run whose flows take so many seconds.
    pub(in crate::net::kickass) fn run(title: &'static str, seconds: &[f64]) -> Run {
        let flows = seconds.iter().zip(0..).map(|(seconds, number)| {
            let modes = Modes {
                seconds: *seconds,
                steered: seconds / 2.0,
                signals: 4,
                to_kickass: 1,
                by_silence: 1,
                by_congestion: 0,
            };
            let timed = Timed {
                begun: 0,
                connect: 0.1,
                flow: seconds - 0.1,
                sender_cpu: 0.0,
                receiver_cpu: 0.0,
                modes: title.contains("Kick-Ass").then_some(modes),
            };
            let scheme = if title.starts_with("TCP alone") { "tcp" } else { "rc3" }.to_owned();
            let flow = Arrived { sender: number % 2, number, scheme, bytes: 100 * PACKET, timed };
            serde_json::to_string(&flow).unwrap()
        });
        let event = |waiting: u64| {
            json!({ "ports": [{}, {
                "link_bits_per_second": 8_000_000, "waiting": { "packets": 1, "bytes": waiting },
                "queue_delay": { "buckets": [[0.001, 30], [0.01, 60], [0.5, 10]] },
                "dropped": { "queue_full": 3, "device": 1, "no_route": 7 }, "marked": 5, "signalled": 6,
            }] })
        };
        let run = Run::new(&flows.collect::<Vec<_>>(), &[event(0), event(2000), event(1000)]).unwrap();
        Run { title, ..run }
    }

    #[test]
    fn a_run_is_read_from_lines_and_totals() {
        let run = run("rc3, Kick-Ass", &[0.5, 0.25]);
        assert_eq!((run.flows.len(), run.steered.len()), (2, 2));
        assert!((run.fcts((100.0, 200.0)).quantile(1.0) - 0.5).abs() < 1e-12);
        assert_eq!(run.fcts((1.0, 100.0)).len(), 0);
        assert_eq!(run.port.counts, [4, 5, 6]);
        assert_eq!(run.port.backlog.as_ref().unwrap().quantile(1.0), 0.002);
        assert_eq!((run.port.delay(0.5), run.port.delay(1.0), run.port.share_within(0.01)), (0.01, 0.5, 0.9));
        assert!(Run::new(&["no flow".to_owned()], &[]).is_err());
        assert!(Run::new(&[], &[json!({ "ports": [] })]).is_err());
    }

    #[test]
    fn only_flows_that_all_runs_have_are_compared() {
        let runs = compared(&[run("a", &[0.5, 0.25, 0.3]), run("b", &[0.5, 0.25])]);
        assert_eq!([runs[0].flows.len(), runs[1].flows.len()], [2, 2]);
        assert!(compared(&[]).is_empty());
    }
}
