//! The host of a receiver that lies.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rc3_core::{
    Connection, ConnectionStats, Dir, Side, StreamId,
    internals::keys::{
        EXPORTER_CONTEXT_CLIENT, EXPORTER_CONTEXT_SERVER, EXPORTER_LABEL, RlpKeys, SECRET_LEN, receiver_id,
    },
    units::Level,
};

use super::{Lie, script::Script, statement::Statement};
use crate::{
    Contents, IP_UDP_HEADERS, Packet,
    agent::{Agent, Body, Flow, FlowEvent, FlowId, Parcel},
    host::Host,
    insecure::rlp_keys,
};

/// The two top bits of a QUIC packet with a short header (RFC 9000 §17.3).
const SHORT_HEADER: u8 = 0b0100_0000;
const HEADER_FORM: u8 = 0b1100_0000;

/// What the liar got.
#[derive(Debug, Clone, Default)]
pub(super) struct Got {
    /// New bytes of the streams, by flow.
    pub(super) bytes: BTreeMap<FlowId, u64>,
    /// Bytes of UDP payload by RLP, each time that they arrived.
    pub(super) rlp_bytes: u64,
}

/// An honest host behind which a lie changes what leaves.
pub(super) struct Liar {
    host: Host,
    lie: Lie,
    seed: u64,
    victims: BTreeMap<FlowId, Victim>,
    /// What leaves later, in the order in which it was made if at one time.
    later: BTreeMap<(Instant, u64), Late>,
    made: u64,
    got: Arc<Mutex<Got>>,
}

/// The sender of a flow.
struct Victim {
    script: Script,
    /// Since when it is lied to.
    began: Instant,
    keys: Option<Keys>,
}

/// The keys of a connection.
struct Keys {
    /// Opens as the sender would.
    of_sender: RlpKeys,
    of_liar: RlpKeys,
}

/// What leaves later.
enum Late {
    Packet(Packet<Parcel>),
    /// The payload of an RLP datagram, and the packet that it leaves in.
    Payload(Vec<u8>, Packet<Parcel>),
}

impl Liar {
    pub(super) fn new(host: Host, lie: Lie, seed: u64, got: Arc<Mutex<Got>>) -> Self {
        Self { host, lie, seed, victims: BTreeMap::new(), later: BTreeMap::new(), made: 0, got }
    }

    /// Replaces a packet of the honest host by what the lie makes of it.
    fn replace_packet(&mut self, now: Instant, packet: Packet<Parcel>) {
        let datagram = datagram(&packet.payload.body);
        if receiver_id(&datagram).is_some() {
            self.replace_rlp(now, packet, datagram);
        } else if datagram.first().is_some_and(|first| first & HEADER_FORM == SHORT_HEADER) {
            let victim = self.victim(now, packet.payload.flow);
            if let Some(delay) = victim.script.delay_of_primary(now - victim.began) {
                self.put(now + delay, Late::Packet(packet));
            }
        } else {
            self.put(now, Late::Packet(packet));
        }
    }

    fn replace_rlp(&mut self, now: Instant, packet: Packet<Parcel>, mut datagram: Vec<u8>) {
        let flow = packet.payload.flow;
        self.victim(now, flow);
        let (Some(victim), Some(connection)) = (self.victims.get_mut(&flow), self.host.received(flow)) else {
            return;
        };
        if victim.keys.is_none() {
            victim.keys = Keys::of(connection);
        }
        let Some(keys) = &mut victim.keys else { return };
        let Ok(opened) = keys.of_sender.open.open(&mut datagram) else { return };
        let payload = &datagram[opened.payload];
        let mut payloads: BTreeMap<Duration, Vec<u8>> = BTreeMap::new();
        match Statement::parse(payload) {
            Some(statements) => {
                for (delay, statement) in victim.script.alter(now - victim.began, statements) {
                    statement.emit(payloads.entry(delay).or_default());
                }
            }
            None => {
                payloads.insert(Duration::ZERO, payload.to_vec());
            }
        }
        for (delay, payload) in payloads {
            self.put(now + delay, Late::Payload(payload, packet.clone()));
        }
    }

    fn victim(&mut self, now: Instant, flow: FlowId) -> &mut Victim {
        let Self { victims, lie, seed, .. } = self;
        let victim = || Victim { script: Script::new(lie, *seed), began: now, keys: None };
        victims.entry(flow).or_insert_with(victim)
    }

    fn put(&mut self, at: Instant, late: Late) {
        self.later.insert((at, self.made), late);
        self.made += 1;
    }

    /// The packet, sealed now, so that packet numbers leave in order.
    fn finish(&mut self, late: Late) -> Option<Packet<Parcel>> {
        match late {
            Late::Packet(packet) => Some(packet),
            Late::Payload(payload, mut packet) => {
                let keys = self.victims.get_mut(&packet.payload.flow)?.keys.as_mut()?;
                let datagram = keys.seal(packet.level, &payload);
                packet.size = datagram.len() + IP_UDP_HEADERS;
                if let Body::Udp { contents, .. } = &mut packet.payload.body {
                    *contents = Contents::new(&datagram);
                }
                Some(packet)
            }
        }
    }

    /// Writes what the lie adds to the control streams.
    fn write_control(&mut self, now: Instant) {
        for (&flow, victim) in &mut self.victims {
            let frames = victim.script.control(now - victim.began);
            if frames.is_empty() {
                continue;
            }
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| frame.emit(&mut bytes));
            self.host.write(now, flow, StreamId::new(Side::Server, Dir::Uni, 0), bytes.into());
        }
    }

    fn count(&self, flow: FlowId, rlp_bytes: u64) {
        let mut got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
        got.rlp_bytes += rlp_bytes;
        if let Some(connection) = self.host.received(flow) {
            let received = connection.stats().received;
            got.bytes.insert(flow, received.primary_bytes + received.rlp_bytes.iter().sum::<u64>());
        }
    }
}

impl Keys {
    /// Those of both ends; `None` before the end of the handshake.
    fn of(connection: &Connection) -> Option<Self> {
        let secret = |context| {
            let mut secret = [0; SECRET_LEN];
            connection.export_keying_material(&mut secret, EXPORTER_LABEL, context).map(|()| secret)
        };
        let (client, server) = (secret(EXPORTER_CONTEXT_CLIENT)?, secret(EXPORTER_CONTEXT_SERVER)?);
        let keys = |of_client| rlp_keys([&client, &server], of_client);
        Some(Self { of_sender: keys(true), of_liar: keys(false) })
    }

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
        let (flow, datagram) = (parcel.flow, datagram(&parcel.body));
        self.host.handle(now, parcel);
        self.count(flow, receiver_id(&datagram).map_or(0, |_| datagram.len() as u64));
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
            self.replace_packet(now, packet);
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

/// The UDP payload of a parcel; empty if it has none.
fn datagram(body: &Body) -> Vec<u8> {
    let mut datagram = Vec::new();
    if let Body::Udp { contents, .. } = body {
        datagram.reserve(contents.len());
        contents.write_to(&mut datagram);
    }
    datagram
}
