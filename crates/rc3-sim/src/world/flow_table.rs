//! The flows under way, and the records of those that have ended.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use rustc_hash::FxHashMap;

use crate::{
    agent::{Flow, FlowEvent, FlowId, Milestone, ReceiverCounters, SenderCounters},
    record::FlowRecord,
};

/// The flows under way and the records of those that are done.
#[derive(Debug)]
pub(super) struct FlowTable {
    epoch: Instant,
    live: FxHashMap<FlowId, Live>,
    done: VecDeque<FlowRecord>,
}

#[derive(Debug)]
struct Live {
    record: FlowRecord,
    first_data: Option<Duration>,
}

impl FlowTable {
    pub(super) fn new(epoch: Instant) -> Self {
        Self { epoch, live: FxHashMap::default(), done: VecDeque::new() }
    }

    pub(super) fn live(&self) -> usize {
        self.live.len()
    }

    pub(super) fn poll(&mut self) -> Option<FlowRecord> {
        self.done.pop_front()
    }

    pub(super) fn start(&mut self, flow: &Flow, hops: u8) {
        let record = FlowRecord {
            flow: flow.id,
            start: flow.at,
            from: flow.from,
            to: flow.to,
            bytes: flow.bytes,
            scheme: flow.scheme,
            hops,
            fct: None,
            fct_data: None,
            fct_acked: None,
            received: ReceiverCounters::default(),
            sent: SenderCounters::default(),
        };
        self.live.insert(flow.id, Live { record, first_data: None });
    }

    /// Whether the flow has ended with this.
    pub(super) fn on_event(&mut self, event: FlowEvent) -> bool {
        let Some(live) = self.live.get_mut(&event.flow) else { return false };
        let at = event.at - self.epoch;
        let record = &mut live.record;
        let ended = match event.milestone {
            Milestone::FirstData => {
                live.first_data.get_or_insert(at);
                false
            }
            Milestone::LastByte(received) => {
                record.fct = Some(at - record.start);
                record.fct_data = live.first_data.map(|first| at - first);
                record.received = received;
                record.fct_acked.is_some()
            }
            Milestone::LastAck(sent) => {
                record.fct_acked = Some(at - record.start);
                record.sent = sent;
                record.fct.is_some()
            }
            Milestone::Failed => true,
        };
        if ended {
            self.done.extend(self.live.remove(&event.flow).map(|live| live.record));
        }
        ended
    }
}
