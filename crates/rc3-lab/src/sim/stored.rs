//! Outcomes of worlds as JSON, for worlds that run on one machine and are reported on another.
//!
//! Times are whole nanoseconds and shares whole millionths, so that an outcome reads back exactly. Counters of guard mode are
//! left out: no result uses them.

use std::time::Duration;

use rc3_core::units::Level;
use rc3_sim::{
    agent::{FlowId, HostId, Received, SchemeId, Sent},
    record::FlowRecord,
    sample::{FlowSample, Sample},
};
use serde::{Deserialize, Serialize};

use super::{
    engine::{Cost, Outcome, SentPacket},
    links::LinkRow,
};

/// An [`Outcome`] as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoredOutcome {
    flows: Vec<StoredFlow>,
    /// Time, level and size of each packet.
    sent: Vec<(u64, u8, usize)>,
    samples: Vec<StoredSample>,
    links: Vec<LinkRow>,
    cost: Cost,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredFlow {
    flow: u32,
    start: u64,
    from: u32,
    to: u32,
    bytes: u64,
    scheme: u16,
    hops: u8,
    /// To the last byte, from the first data to the last byte, to the last acknowledgement.
    fct: [Option<u64>; 3],
    /// Bytes that the primary loop and RLP delivered first.
    received: [u64; 2],
    /// Packets lost and sent by the primary loop, and sent by RLP.
    sent: [u64; 3],
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredSample {
    at: u64,
    queue_bytes: u64,
    /// Flow, scheme, bytes, and whether it is in Kick-Ass mode.
    flows: Vec<(u32, u16, u64, Option<bool>)>,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl From<&Outcome> for StoredOutcome {
    fn from(outcome: &Outcome) -> Self {
        let packet = |packet: &SentPacket| (nanos(packet.at), packet.level.get(), packet.size);
        Self {
            flows: outcome.records.iter().map(StoredFlow::from).collect(),
            sent: outcome.sent.iter().map(packet).collect(),
            samples: outcome.samples.iter().map(StoredSample::from).collect(),
            links: outcome.links.clone(),
            cost: outcome.cost,
        }
    }
}

impl From<StoredOutcome> for Outcome {
    fn from(stored: StoredOutcome) -> Self {
        let packet = |(at, level, size): (u64, u8, usize)| SentPacket {
            at: Duration::from_nanos(at),
            level: Level::new(level).unwrap_or(Level::MAX),
            size,
        };
        Self {
            records: stored.flows.into_iter().map(FlowRecord::from).collect(),
            sent: stored.sent.into_iter().map(packet).collect(),
            samples: stored.samples.into_iter().map(Sample::from).collect(),
            links: stored.links,
            cost: stored.cost,
        }
    }
}

impl From<&FlowRecord> for StoredFlow {
    fn from(record: &FlowRecord) -> Self {
        Self {
            flow: record.flow.0,
            start: nanos(record.start),
            from: record.from.0,
            to: record.to.0,
            bytes: record.bytes,
            scheme: record.scheme.0,
            hops: record.hops,
            fct: [record.fct, record.fct_data, record.fct_acked].map(|time| time.map(nanos)),
            received: [record.received.primary_bytes, record.received.rlp_bytes],
            sent: [record.sent.lost_packets, record.sent.primary_packets, record.sent.rlp_packets],
        }
    }
}

impl From<StoredFlow> for FlowRecord {
    fn from(stored: StoredFlow) -> Self {
        let [fct, fct_data, fct_acked] = stored.fct.map(|time| time.map(Duration::from_nanos));
        let [primary_bytes, rlp_bytes] = stored.received;
        let [lost_packets, primary_packets, rlp_packets] = stored.sent;
        Self {
            flow: FlowId(stored.flow),
            start: Duration::from_nanos(stored.start),
            from: HostId(stored.from),
            to: HostId(stored.to),
            bytes: stored.bytes,
            scheme: SchemeId(stored.scheme),
            hops: stored.hops,
            fct,
            fct_data,
            fct_acked,
            received: Received { primary_bytes, rlp_bytes },
            sent: Sent { lost_packets, primary_packets, rlp_packets, guard: None },
        }
    }
}

impl From<&Sample> for StoredSample {
    fn from(sample: &Sample) -> Self {
        let flow = |flow: &FlowSample| (flow.flow.0, flow.scheme.0, flow.bytes, flow.kickass);
        Self {
            at: nanos(sample.at),
            queue_bytes: sample.queue_bytes,
            flows: sample.flows.iter().map(flow).collect(),
        }
    }
}

impl From<StoredSample> for Sample {
    fn from(stored: StoredSample) -> Self {
        let flow = |(flow, scheme, bytes, kickass)| FlowSample {
            flow: FlowId(flow),
            scheme: SchemeId(scheme),
            bytes,
            kickass,
        };
        Self {
            at: Duration::from_nanos(stored.at),
            queue_bytes: stored.queue_bytes,
            flows: stored.flows.into_iter().map(flow).collect(),
        }
    }
}
