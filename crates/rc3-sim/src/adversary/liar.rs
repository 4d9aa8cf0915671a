//! The host of a receiver that lies.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rc3_core::{
    ConnectionStats, Dir, Side, StreamId,
    internals::keys::{
        EXPORTER_CONTEXT_CLIENT, EXPORTER_CONTEXT_SERVER, EXPORTER_LABEL, RlpKeys, SECRET_LEN, receiver_id,
    },
    simulation::rlp_keys,
    units::Level,
};

use super::{
    Lie,
    script::{Delayed, Script},
    statement::Statement,
};
use crate::{
    Contents, IP_UDP_HEADERS, Packet,
    agent::{Agent, Body, Flow, FlowEvent, FlowId, Parcel},
    host::Host,
};

/// The first byte of a QUIC packet with a short header (RFC 9000 §17.3).
const SHORT_HEADER: u8 = 0b0100_0000;
const HEADER_FORM: u8 = 0b1100_0000;

/// What the liar got.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Got {
    /// New bytes of the stream.
    pub(super) bytes: u64,
    /// Bytes of UDP payload by RLP, each time that they arrived.
    pub(super) rlp_bytes: u64,
}

/// An honest host behind which a lie changes what leaves.
pub(super) struct Liar {
    host: Host,
    /// The flow that it receives and lies about.
    flow: FlowId,
    script: Script,
    keys: Option<Keys>,
    /// Since when it lies.
    began: Option<Instant>,
    /// What leaves later, in the order in which it was made if at one time.
    later: BTreeMap<(Instant, u64), Late>,
    made: u64,
    got: Arc<Mutex<Got>>,
}

/// The keys of the connection.
struct Keys {
    /// Opens as the sender would.
    of_sender: RlpKeys,
    of_liar: RlpKeys,
}

/// What leaves later.
enum Late {
    Packet(Packet<Parcel>),
    /// The payload of an RLP datagram, and a packet to be sent with it.
    Payload(Vec<u8>, Packet<Parcel>),
}

impl Liar {
    pub(super) fn new(host: Host, flow: FlowId, lie: &Lie, seed: u64, got: Arc<Mutex<Got>>) -> Self {
        let script = Script::new(lie, seed);
        Self { host, flow, script, keys: None, began: None, later: BTreeMap::new(), made: 0, got }
    }

    /// Replaces a packet of the honest host by what the lie makes of it.
    fn twist(&mut self, now: Instant, packet: Packet<Parcel>) {
        let Body::Udp { contents, .. } = &packet.payload.body else { return };
        let mut datagram = Vec::with_capacity(contents.len());
        contents.write_to(&mut datagram);
        if receiver_id(&datagram).is_some() {
            self.twist_rlp(now, packet, datagram);
        } else if datagram.first().is_some_and(|first| first & HEADER_FORM == SHORT_HEADER) {
            let at = self.since(now);
            if let Some(delay) = self.script.delay_of_primary(at) {
                self.put(now + delay, Late::Packet(packet));
            }
        } else {
            self.put(now, Late::Packet(packet));
        }
    }

    fn twist_rlp(&mut self, now: Instant, packet: Packet<Parcel>, mut datagram: Vec<u8>) {
        let at = self.since(now);
        let Some(keys) = self.keys(now) else { return };
        let Ok(opened) = keys.of_sender.open.open(&mut datagram) else { return };
        let payload = &datagram[opened.payload];
        let Some(statements) = Statement::parse(payload) else {
            return self.put(now, Late::Payload(payload.to_vec(), packet));
        };
        let mut payloads: BTreeMap<Duration, Vec<u8>> = BTreeMap::new();
        for (delay, statement) in self.script.alter(at, statements) as Vec<Delayed> {
            statement.emit(payloads.entry(delay).or_default());
        }
        for (delay, payload) in payloads {
            self.put(now + delay, Late::Payload(payload, packet.clone()));
        }
    }

    fn since(&mut self, now: Instant) -> Duration {
        now - *self.began.get_or_insert(now)
    }

    fn put(&mut self, at: Instant, late: Late) {
        self.later.insert((at, self.made), late);
        self.made += 1;
    }

    fn keys(&mut self, now: Instant) -> Option<&mut Keys> {
        if self.keys.is_none() {
            let secrets = self.host.with_received(now, self.flow, |connection| {
                [EXPORTER_CONTEXT_CLIENT, EXPORTER_CONTEXT_SERVER].map(|context| {
                    let mut secret = [0; SECRET_LEN];
                    connection.export_keying_material(&mut secret, EXPORTER_LABEL, context).map(|()| secret)
                })
            })?;
            let [Some(client), Some(server)] = secrets else { return None };
            let keys = |of_client| rlp_keys([&client, &server], of_client);
            self.keys = Some(Keys { of_sender: keys(true), of_liar: keys(false) });
        }
        self.keys.as_mut()
    }

    /// The packet, sealed now, so that packet numbers leave in order.
    fn finish(&mut self, late: Late) -> Option<Packet<Parcel>> {
        match late {
            Late::Packet(packet) => Some(packet),
            Late::Payload(payload, mut packet) => {
                let datagram = self.keys.as_mut()?.seal(packet.level, &payload);
                packet.size = datagram.len() + IP_UDP_HEADERS;
                if let Body::Udp { contents, .. } = &mut packet.payload.body {
                    *contents = Contents::new(&datagram);
                }
                Some(packet)
            }
        }
    }

    /// Writes what the lie adds to the control stream.
    fn write_control(&mut self, now: Instant) {
        let Some(began) = self.began else { return };
        let frames = self.script.control(now - began);
        if frames.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.emit(&mut bytes));
        let control = StreamId::new(Side::Server, Dir::Uni, 0);
        // A sender that reads no control frames gets no more of them.
        let _ = self.host.with_received(now, self.flow, |connection| connection.write(control, bytes.into()));
    }

    fn count(&mut self, now: Instant, rlp_bytes: u64) {
        let received = self.host.with_received(now, self.flow, |connection| connection.stats().received);
        let mut got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
        got.rlp_bytes += rlp_bytes;
        if let Some(received) = received {
            got.bytes = received.primary_bytes + received.rlp_bytes.iter().sum::<u64>();
        }
    }
}

impl Keys {
    fn seal(&mut self, level: Level, payload: &[u8]) -> Vec<u8> {
        let mut datagram = Vec::new();
        let sealing = self.of_liar.seal.begin(level, &mut datagram);
        datagram.extend_from_slice(payload);
        self.of_liar.seal.finish(sealing, &mut datagram);
        datagram
    }
}

impl Agent for Liar {
    fn start(&mut self, now: Instant, flow: &Flow) {
        self.host.start(now, flow);
    }

    fn handle(&mut self, now: Instant, parcel: Parcel) {
        let mut rlp_bytes = 0;
        if let Body::Udp { contents, .. } = &parcel.body {
            let mut datagram = Vec::with_capacity(contents.len());
            contents.write_to(&mut datagram);
            rlp_bytes = receiver_id(&datagram).map_or(0, |_| datagram.len() as u64);
        }
        self.host.handle(now, parcel);
        self.count(now, rlp_bytes);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let later = self.later.keys().next().map(|&(at, _)| at);
        self.host.poll_timeout().into_iter().chain(later).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.host.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, backlog: u64) -> Option<Packet<Parcel>> {
        self.write_control(now);
        while let Some(packet) = self.host.poll_transmit(now, backlog) {
            self.twist(now, packet);
        }
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let late = entry.remove();
            if let Some(packet) = self.finish(late) {
                return Some(packet);
            }
        }
        None
    }

    fn sender_stats(&self, flow: FlowId) -> Option<ConnectionStats> {
        self.host.sender_stats(flow)
    }

    fn poll_event(&mut self) -> Option<FlowEvent> {
        self.host.poll_event()
    }
}
