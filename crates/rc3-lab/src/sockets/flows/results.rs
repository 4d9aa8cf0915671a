//! What a run has left behind: the flows that arrived, and what the forwarder has counted at the bottleneck.

use std::{collections::HashSet, fs, path::Path};

use serde_json::Value;

use crate::{Result, statistics::Sample};

/// Reasons for which packets that were to leave by a port are dropped.
const WANTED: [&str; 3] = ["queue_full", "queue_delay", "device"];

/// A run of a load.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Its files are called so.
    pub(crate) name: String,
    pub(crate) flows: Vec<Flow>,
    pub(crate) bottleneck: Bottleneck,
    /// Of flows of Kick-Ass.
    pub(crate) modes: Vec<Modes>,
}

/// In which mode a flow of Kick-Ass was, until all of it was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Modes {
    pub(crate) seconds: f64,
    /// Of them in Kick-Ass mode.
    pub(crate) steered: f64,
    pub(crate) signals: u64,
    pub(crate) to_kickass: u64,
    pub(crate) by_silence: u64,
    pub(crate) by_congestion: u64,
}

/// A flow that has arrived.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) id: Id,
    pub(crate) scheme: String,
    pub(crate) bytes: u64,
    /// From the beginning of the connection to the last byte at the receiver.
    pub(crate) seconds: f64,
}

/// Sender and number: the same flow in each run.
pub(crate) type Id = (u32, u32);

/// The port that all flows leave by.
#[derive(Debug, Clone)]
pub(crate) struct Bottleneck {
    /// How long packets waited: ends of buckets in seconds, packets. Those at the best level, if there are levels.
    pub(crate) delays: Vec<(f64, u64)>,
    /// Looked at over time: how long what waits will take to leave, in seconds. None where there are levels, of which
    /// the better ones wait less.
    pub(crate) backlog: Option<Sample>,
    /// Packets that were to leave by it and did not.
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) signalled: u64,
}

impl Run {
    /// `None` if there was no such run.
    pub(crate) fn read(folder: &Path, name: &str) -> Result<Option<Self>> {
        let file = folder.join(format!("{name}.csv"));
        if !file.exists() {
            return Ok(None);
        }
        let flows = fs::read_to_string(&file)?.lines().skip(1).map(Flow::parse).collect::<Result<_>>()?;
        let events = fs::read_to_string(folder.join(format!("{name}.json")))?;
        let total = events.lines().last().ok_or("the forwarder has said nothing")?;
        let waiting = fs::read_to_string(folder.join(format!("{name}.waiting")))?;
        let waiting = waiting.lines().map(|line| Ok(line.parse()?)).collect::<Result<Vec<f64>>>()?;
        let bottleneck = Bottleneck::parse(total, &waiting)?;
        let modes = fs::read_to_string(folder.join(format!("{name}.modes")))?;
        let modes = modes.lines().map(Modes::parse).collect::<Result<_>>()?;
        Ok(Some(Self { name: name.to_owned(), flows, bottleneck, modes }))
    }

    /// Completion times of flows between these sizes, in seconds.
    pub(crate) fn fcts(&self, packets: (f64, f64)) -> Sample {
        let packet = crate::load::PACKET as f64;
        let (from, to) = (packets.0 * packet, packets.1 * packet);
        let flows = self.flows.iter().filter(|flow| (from..to).contains(&(flow.bytes as f64)));
        flows.map(|flow| flow.seconds).collect()
    }

    /// Only these flows.
    pub(crate) fn retain(&mut self, ids: &HashSet<Id>) {
        self.flows.retain(|flow| ids.contains(&flow.id));
    }
}

/// Flows that are in all of the runs: how many a sender begins depends on how long they take.
pub(crate) fn common<'a>(runs: impl IntoIterator<Item = &'a Run>) -> HashSet<Id> {
    let mut runs = runs.into_iter().map(|run| run.flows.iter().map(|flow| flow.id).collect::<HashSet<_>>());
    let Some(first) = runs.next() else { return HashSet::new() };
    runs.fold(first, |all, run| all.intersection(&run).copied().collect())
}

impl Flow {
    fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [sender, number, scheme, bytes, _begun, seconds] = fields[..] else {
            return Err(format!("not a flow: {line}").into());
        };
        let id = (sender.parse()?, number.parse()?);
        Ok(Self { id, scheme: scheme.to_owned(), bytes: bytes.parse()?, seconds: seconds.parse()? })
    }
}

impl Modes {
    fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        let [_sender, _number, seconds, steered, signals, to_kickass, by_silence, by_congestion] = fields[..]
        else {
            return Err(format!("not modes: {line}").into());
        };
        Ok(Self {
            seconds: seconds.parse()?,
            steered: steered.parse()?,
            signals: signals.parse()?,
            to_kickass: to_kickass.parse()?,
            by_silence: by_silence.parse()?,
            by_congestion: by_congestion.parse()?,
        })
    }
}

impl Bottleneck {
    /// Of its totals, and of the bytes that have waited each time somebody looked.
    fn parse(event: &str, waiting: &[f64]) -> Result<Self> {
        let event: Value = serde_json::from_str(event)?;
        let port = event["ports"].as_array().and_then(|ports| ports.last()).ok_or("no totals")?;
        let best = port.get("queue_delay_best");
        let delays = best.unwrap_or_else(|| &port["queue_delay"]);
        let rate = port["link_bits_per_second"].as_f64().ok_or("no rate")?;
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        Ok(Self {
            delays: serde_json::from_value(delays["buckets"].clone())?,
            backlog: best.is_none().then(|| waiting.iter().map(|bytes| 8.0 * bytes / rate).collect()),
            dropped: WANTED.map(|reason| count(&port["dropped"][reason])).iter().sum(),
            marked: count(&port["marked"]),
            signalled: count(&port["signalled"]),
        })
    }

    fn packets(&self) -> u64 {
        self.delays.iter().map(|(_, count)| count).sum()
    }

    /// Ends of buckets with the part of packets that have not waited longer.
    pub(crate) fn distribution(&self) -> impl Iterator<Item = (f64, f64)> {
        let all = self.packets() as f64;
        self.delays.iter().scan(0, move |below, (end, count)| {
            *below += count;
            Some((*end, *below as f64 / all))
        })
    }

    /// This part of the packets has not waited longer, in seconds.
    pub(crate) fn delay(&self, part: f64) -> f64 {
        self.distribution().find(|(_, below)| *below >= part).map_or(f64::NAN, |(end, _)| end)
    }

    /// The part of packets that have not waited longer.
    pub(crate) fn share_within(&self, seconds: f64) -> f64 {
        self.distribution().take_while(|(end, _)| *end <= seconds).last().map_or(0.0, |(_, below)| below)
    }
}
