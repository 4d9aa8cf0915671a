//! An RCP host: the flows it sends, the flows it receives, and which of them acts next.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map},
    time::{Duration, Instant},
};

use rc3_core::units::{Level, Span};

use super::{
    HEADER_BYTES, RcpHeader, RcpKind,
    receiver::RcpReceiver,
    sender::{RcpSender, SenderOutput},
};
use crate::{
    Packet,
    agent::{
        Agent, Body, Flow, FlowEvent, FlowId, HostId, Milestone, Parcel, ReceiverCounters, RoutePosition,
        SchemeId,
    },
};

/// How long a receiver that has everything goes on answering: two maximum segment lifetimes (RFC 9293 §3.6.1).
const TIME_WAIT: Duration = Duration::from_secs(120);

/// An RCP host.
#[derive(Debug, Default)]
pub struct RcpHost {
    outgoing: BTreeMap<FlowId, OutgoingFlow>,
    incoming: BTreeMap<FlowId, IncomingFlow>,
    /// The flows of `outgoing` that are due at some time.
    timers: BTreeSet<(Instant, FlowId)>,
    /// Complete flows of `incoming` and when to forget them, in order of time.
    time_wait: VecDeque<(Instant, FlowId)>,
    ready: VecDeque<Packet<Parcel>>,
    events: VecDeque<FlowEvent>,
}

#[derive(Debug)]
struct OutgoingFlow {
    route: FlowRoute,
    sender: RcpSender,
    /// Its time among the timers.
    due: Option<Instant>,
}

/// What all parcels of a flow in one direction have in common.
#[derive(Debug, Clone, Copy)]
struct FlowRoute {
    scheme: SchemeId,
    from: HostId,
    to: HostId,
}

#[derive(Debug)]
enum IncomingFlow {
    Open(RcpReceiver),
    /// Everything has come: so many bytes.
    TimeWait(u64),
}

impl RcpHost {
    /// Lets every flow do what is due by `now`.
    fn serve(&mut self, now: Instant) {
        while let Some(&(at, flow)) = self.timers.first()
            && at <= now
        {
            let Some(outgoing) = self.outgoing.get_mut(&flow) else { break };
            match outgoing.sender.step(now) {
                SenderOutput::Packet(header) => {
                    if let RcpKind::Data(segment) = header.kind
                        && segment.number == 0
                    {
                        self.events.push_back(FlowEvent { flow, at: now, milestone: Milestone::FirstData });
                    }
                    self.ready.push_back(packet(flow, outgoing.route, header));
                    self.schedule(flow);
                }
                SenderOutput::Quiet => self.schedule(flow),
                SenderOutput::Failed => self.forget(now, flow, Milestone::Failed),
            }
        }
        while let Some(&(at, flow)) = self.time_wait.front()
            && at <= now
        {
            self.time_wait.pop_front();
            self.incoming.remove(&flow);
        }
    }

    /// Puts a flow of `outgoing` where it belongs among the timers.
    fn schedule(&mut self, flow: FlowId) {
        let Some(outgoing) = self.outgoing.get_mut(&flow) else { return };
        let due = outgoing.sender.due();
        if due == outgoing.due {
            return;
        }
        if let Some(at) = outgoing.due {
            self.timers.remove(&(at, flow));
        }
        self.timers.extend(due.map(|at| (at, flow)));
        outgoing.due = due;
    }

    /// Ends a flow of `outgoing`.
    fn forget(&mut self, now: Instant, flow: FlowId, milestone: Milestone) {
        if let Some(at) = self.outgoing.remove(&flow).and_then(|outgoing| outgoing.due) {
            self.timers.remove(&(at, flow));
        }
        self.events.push_back(FlowEvent { flow, at: now, milestone });
    }

    /// Processes a packet of a remote sender; returns the answer, if there is one.
    fn receive(&mut self, now: Instant, flow: FlowId, kind: RcpKind) -> Option<RcpKind> {
        match (kind, self.incoming.entry(flow)) {
            (RcpKind::Syn, entry) => {
                entry.or_insert_with(|| IncomingFlow::Open(RcpReceiver::default()));
                Some(RcpKind::SynAck)
            }
            (RcpKind::Ref, _) => Some(RcpKind::RefAck),
            (RcpKind::Data(segment), btree_map::Entry::Occupied(mut entry)) => match entry.get_mut() {
                IncomingFlow::TimeWait(bytes) => {
                    Some(RcpKind::Ack { segment, run: Span::new(0, *bytes), received: *bytes })
                }
                IncomingFlow::Open(receiver) => {
                    receiver.on_segment(segment);
                    let received = receiver.received();
                    let run = receiver.run(segment);
                    if receiver.is_complete() {
                        entry.insert(IncomingFlow::TimeWait(received));
                        self.time_wait.push_back((now + TIME_WAIT, flow));
                        let received = ReceiverCounters { primary_bytes: received, rlp_bytes: 0 };
                        let milestone = Milestone::LastByte(received);
                        self.events.push_back(FlowEvent { flow, at: now, milestone });
                    }
                    Some(RcpKind::Ack { segment, run, received })
                }
            },
            _ => None,
        }
    }
}

impl Agent for RcpHost {
    fn start(&mut self, now: Instant, flow: &Flow) {
        let sender = RcpSender::new(now, flow);
        let route = FlowRoute { scheme: flow.scheme, from: flow.from, to: flow.to };
        self.outgoing.insert(flow.id, OutgoingFlow { route, sender, due: None });
        self.schedule(flow.id);
        self.serve(now);
    }

    fn handle(&mut self, now: Instant, parcel: Parcel) {
        let Parcel { flow, scheme, from, to, body: Body::Rcp(header), .. } = parcel else { return };
        match header.kind {
            RcpKind::Syn | RcpKind::Data(_) | RcpKind::Ref => {
                if let Some(kind) = self.receive(now, flow, header.kind) {
                    let answer = RcpHeader { kind, rtt: Duration::ZERO, ..*header };
                    self.ready.push_back(packet(flow, FlowRoute { scheme, from: to, to: from }, answer));
                }
            }
            RcpKind::SynAck | RcpKind::Ack { .. } | RcpKind::RefAck => {
                let Some(outgoing) = self.outgoing.get_mut(&flow) else { return };
                if outgoing.sender.handle(now, &header) {
                    let sent = outgoing.sender.sent();
                    self.forget(now, flow, Milestone::LastAck(sent));
                } else {
                    self.schedule(flow);
                }
            }
        }
        self.serve(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.serve(now);
    }

    fn poll_transmit(&mut self, _now: Instant, _backlog: u64) -> Option<Packet<Parcel>> {
        self.ready.pop_front()
    }

    fn poll_event(&mut self) -> Option<FlowEvent> {
        self.events.pop_front()
    }
}

fn packet(flow: FlowId, FlowRoute { scheme, from, to }: FlowRoute, header: RcpHeader) -> Packet<Parcel> {
    let size = HEADER_BYTES + header.kind.payload() as usize;
    let body = Body::Rcp(Box::new(header));
    let payload = Parcel { flow, scheme, from, to, progress: RoutePosition::default(), body };
    Packet { size, level: Level::PRIMARY, payload }
}
