//! The results of an experiment: the flows of each place in it, pooled over repetitions.

use super::{
    engine::{Cost, SentPacket, WorldOutcome},
    sampled::Sampled,
};
use rc3_sim::{
    record::{Fct, FlowRecord},
    scenario::{Label, Metric, Run},
    summary::{Estimate, Flows, Observation, Weight, mean},
};

/// Bytes of the application in a full packet of the papers.
pub const PACKET_BYTES: u64 = 1460;

/// The flows of one scheme at a place.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// Completion times, from connect to the last byte.
    pub flows: Flows,
    /// Flows that never ended.
    pub unfinished: u64,
    /// Sums over the flows.
    pub totals: Totals,
}

/// Sums over flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets the primary loop sent.
    pub primary_packets: u64,
    /// Of them, declared lost.
    pub lost_packets: u64,
    /// Packets RLP sent.
    pub rlp_packets: u64,
    /// Bytes the primary loop delivered first.
    pub primary_bytes: u64,
    /// Bytes RLP delivered first.
    pub rlp_bytes: u64,
}

impl Totals {
    fn add(&mut self, record: &FlowRecord) {
        self.primary_packets += record.sent.primary_packets;
        self.lost_packets += record.sent.lost_packets;
        self.rlp_packets += record.sent.rlp_packets;
        self.primary_bytes += record.received.primary_bytes;
        self.rlp_bytes += record.received.rlp_bytes;
    }
}

/// The flows of a run that use one of its two schemes.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemePart {
    /// The scheme.
    pub scheme: String,
    /// Its flows.
    pub group: Group,
}

/// A place and what was measured there.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The place: a label without the repetition.
    pub place: Label,
    /// All flows.
    pub all: Group,
    /// Where some of the flows use a second scheme: those of the first, then those of the second.
    pub parts: Vec<SchemePart>,
    /// Packets of the first flow's sender, if it was traced.
    pub sent: Vec<SentPacket>,
    /// Samples of the sampled link, in the first repetition.
    pub sampled: Sampled,
}

/// What an experiment has measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// Its places, in the order of the scenario.
    pub cells: Vec<Cell>,
    /// How much work it was.
    pub cost: Cost,
}

impl Results {
    /// Adds the outcome of a world.
    pub fn add(&mut self, run: &Run, outcome: WorldOutcome) {
        let place = run.label.pooled();
        let index = self.cells.iter().position(|cell| cell.place == place).unwrap_or_else(|| {
            let (all, parts) = (Group::default(), parts(run));
            self.cells.push(Cell { place, all, parts, sent: Vec::new(), sampled: Sampled::default() });
            self.cells.len() - 1
        });
        let cell = &mut self.cells[index];
        self.cost += outcome.cost;
        if cell.sent.is_empty() {
            cell.sent = outcome.sent;
        }
        if cell.sampled.samples.is_empty() {
            cell.sampled = Sampled::new(run, outcome.samples);
        }
        let fct = run.measure.fct;
        absorb(&mut cell.all, fct, outcome.records.iter());
        let second = run.assignment.mix.as_ref().map(|mix| mix.scheme);
        for (index, part) in cell.parts.iter_mut().enumerate() {
            let of_part = |record: &&FlowRecord| (Some(record.scheme) == second) == (index == 1);
            absorb(&mut part.group, fct, outcome.records.iter().filter(of_part));
        }
    }

    /// The run reductions of `place` are relative to: the first of the same setting.
    pub fn base(&self, place: &Label) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.place.is_of_setting(place))
    }
}

fn parts(run: &Run) -> Vec<SchemePart> {
    let Some(mix) = &run.assignment.mix else { return Vec::new() };
    [run.assignment.scheme, mix.scheme]
        .iter()
        .filter_map(|scheme| run.schemes.get(usize::from(scheme.0)))
        .map(|scheme| SchemePart { scheme: scheme.name.clone(), group: Group::default() })
        .collect()
}

fn absorb<'a>(group: &mut Group, fct: Fct, records: impl Iterator<Item = &'a FlowRecord>) {
    let mut flows = Vec::new();
    for record in records {
        group.totals.add(record);
        match record.completion(fct) {
            Some(fct) => flows.push(Observation { bytes: record.bytes, fct: fct.as_secs_f64() }),
            None => group.unfinished += 1,
        }
    }
    group.flows.push(flows);
}

impl Group {
    /// The flows of `from..=to` bytes; packets and bytes of the loops are not counted by size.
    pub fn of_size(&self, from: u64, to: u64) -> Self {
        Self { flows: self.flows.of_size(from, to), ..Self::default() }
    }

    /// A metric of these flows in its own unit, reductions relative to `base`; `None` if nothing was measured.
    pub fn metric(&self, metric: Metric, base: Option<&Self>) -> Option<Estimate> {
        match metric {
            Metric::Fct => self.flows.mean(Weight::Flows),
            Metric::FctBytes => self.flows.mean(Weight::Bytes),
            Metric::Reduction => base?.flows.reduction(&self.flows, Weight::Flows).map(per_cent),
            Metric::ReductionBytes => base?.flows.reduction(&self.flows, Weight::Bytes).map(per_cent),
            Metric::Speedup => base?.flows.compared(&self.flows, |base, flows| {
                Some(mean(base, Weight::Flows)? / mean(flows, Weight::Flows)?)
            }),
            Metric::Delay => base?.flows.compared(&self.flows, |base, flows| {
                Some(mean(flows, Weight::Flows)? - mean(base, Weight::Flows)?)
            }),
            Metric::Loss => {
                let Totals { primary_packets, lost_packets, .. } = self.totals;
                let value = 100.0 * lost_packets as f64 / primary_packets as f64;
                value.is_finite().then_some(Estimate::exact(value))
            }
            // Of the sampled link.
            _ => None,
        }
    }
}

/// A share as per cent.
pub fn per_cent(share: Estimate) -> Estimate {
    Estimate { value: 100.0 * share.value, error: share.error.map(|error| 100.0 * error), ..share }
}
