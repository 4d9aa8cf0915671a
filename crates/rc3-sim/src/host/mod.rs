//! A host whose flows ride on the real transport: one [`Endpoint`], as a client for the flows it sends and as a
//! server for those it receives.

mod block;
mod receiver;
mod remotes;
mod sender;
mod unread;

use std::{
    collections::{BTreeSet, VecDeque},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rc3_core::{
    ClientConfig, Connection, ConnectionHandle, ConnectionStats, DatagramMeta, Dir, Endpoint, EndpointEvent,
    Event, ServerConfig, StreamId, Transmit, TransportConfig, units::Level,
};
use receiver::StreamReader;
use remotes::Remotes;
use rustc_hash::FxHashMap;
use sender::StreamWriter;
use unread::Unread;

use crate::{
    Contents, IP_UDP_HEADERS, Packet,
    agent::{Agent, Body, Flow, FlowEvent, FlowId, HostId, Milestone, Parcel, RoutePosition},
    identity::{Crypto, SERVER_NAME},
};

/// Hosts are in 10.0.0.0/8.
const NETWORK: u32 = 10 << 24;

/// Each flow has a port, the same at both ends; the first.
const PORT_FIRST: u16 = 1024;

/// What carries the flows of a scheme.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// Settings of the sender's connection.
    pub client: ClientConfig,
    /// Added to the level of every packet of the flow, both ways: 0 for the best service (RC3 §5.1.4, QoS).
    pub shift: u8,
}

/// What all hosts of a world share.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The schemes flows may name.
    pub schemes: Vec<SenderConfig>,
    /// Settings of every receiver.
    pub server: ServerConfig,
    /// RLP waits while this many bytes wait on the uplink, above 0; without, everything is handed over at once, as
    /// by the papers' kernel.
    pub uplink_backlog: Option<u64>,
    /// Packets that a host makes at once at most, as sockets with segmentation offload take them: 1.
    pub batch: usize,
    /// When hosts read what has arrived: at once.
    pub reads: Reads,
    /// Seed of connection ids.
    pub seed: u64,
}

/// When a host reads the packets that have arrived, as a process that is not scheduled at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reads {
    /// It reads at multiples of this time from its first packet. Zero: when [`Endpoint::read_at`] asks for it.
    pub every: Duration,
    /// Its kernel stamps packets on arrival, and it reads the stamps; those of a process that is never late anyway.
    pub stamped: bool,
}

impl HostConfig {
    /// Schemes with these settings for the sender, best service for all; receivers have `receiver`. Encryption is
    /// that of `crypto`, and RLP leaves as fast as it is made.
    pub fn new(
        schemes: impl IntoIterator<Item = TransportConfig>,
        receiver: TransportConfig,
        crypto: Crypto,
        seed: u64,
    ) -> Self {
        let (client, mut server) = crypto.identity(&["sim"]);
        server.transport_config(Arc::new(receiver));
        let schemes = schemes.into_iter().map(|transport| {
            let mut client = client.clone();
            client.transport_config(Arc::new(transport));
            SenderConfig { client, shift: 0 }
        });
        Self {
            schemes: schemes.collect(),
            server,
            uplink_backlog: None,
            batch: 1,
            reads: Reads::default(),
            seed,
        }
    }
}

/// A host that sends and receives with rc3-core.
pub struct Host {
    id: HostId,
    config: Arc<HostConfig>,
    endpoint: Endpoint,
    connections: FxHashMap<ConnectionHandle, Peer>,
    /// Which flow rides between this host and an address.
    flows: Remotes,
    /// When an application has its next chunk to write, or gives up.
    chunks: BTreeSet<(Instant, ConnectionHandle)>,
    events: VecDeque<FlowEvent>,
    buf: Vec<u8>,
    /// The rest of a batch.
    made: VecDeque<Packet<Parcel>>,
    /// What has arrived, until it is read.
    unread: Unread,
    /// RLP has something, but the uplink was busy.
    held_back: bool,
}

/// The other end of a connection.
struct Peer {
    flow: FlowId,
    remote: SocketAddr,
    role: Role,
}

enum Role {
    Sender(StreamWriter),
    Receiver(StreamReader),
}

impl Host {
    /// A host at rest.
    ///
    /// # Panics
    /// When the TLS settings do not work.
    pub fn new(id: HostId, config: Arc<HostConfig>) -> Self {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&config.seed.to_le_bytes());
        seed[8..12].copy_from_slice(&id.0.to_le_bytes());
        let mut endpoint = Endpoint::new(Some(&config.server), Some(seed)).expect("TLS settings that work");
        // Hosts of the papers have memory enough.
        endpoint.set_memory_max(u64::MAX);
        Self {
            id,
            endpoint,
            config,
            connections: FxHashMap::default(),
            flows: Remotes::default(),
            chunks: BTreeSet::new(),
            events: VecDeque::new(),
            buf: Vec::new(),
            made: VecDeque::new(),
            unread: Unread::default(),
            held_back: false,
        }
    }

    /// The connection of a flow that this host receives.
    pub(crate) fn received(&self, flow: FlowId) -> Option<&Connection> {
        self.endpoint.connection(self.receiver(flow)?)
    }

    /// Writes to a stream of a flow that this host receives; what finds no room is dropped.
    pub(crate) fn write(&mut self, now: Instant, flow: FlowId, stream: StreamId, bytes: Bytes) {
        let handle = self.receiver(flow);
        handle.and_then(|handle| self.endpoint.with_connection(now, handle, |c| c.write(stream, bytes)));
    }

    fn receiver(&self, flow: FlowId) -> Option<ConnectionHandle> {
        self.find(flow, |role| matches!(role, Role::Receiver(_)))
    }

    fn find(&self, flow: FlowId, has: fn(&Role) -> bool) -> Option<ConnectionHandle> {
        let mut peers = self.connections.iter();
        peers.find(|(_, peer)| peer.flow == flow && has(&peer.role)).map(|(&handle, _)| handle)
    }

    /// Hands over what has arrived, if it is time to read.
    fn read(&mut self, now: Instant) {
        let datagrams = self.unread.take(now);
        if !datagrams.is_empty() {
            self.endpoint.handle_datagrams(now, datagrams);
            self.take_events(now);
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Incoming(incoming) => {
                    let remote = incoming.remote_address();
                    let Ok(handle) = self.endpoint.accept(now, incoming) else { continue };
                    if let Some((flow, _)) = self.flows.get(remote) {
                        let role = Role::Receiver(StreamReader::default());
                        self.connections.insert(handle, Peer { flow, remote, role });
                    }
                }
                EndpointEvent::Connection(handle, event) => self.on_event(now, handle, event),
                EndpointEvent::Drained(drained) => self.forget(drained.handle),
                EndpointEvent::Learned(_) => {}
            }
        }
    }

    fn on_event(&mut self, now: Instant, handle: ConnectionHandle, event: Event) {
        let Some(Peer { flow, role, .. }) = self.connections.get_mut(&handle) else { return };
        let flow = *flow;
        let reached = match (role, event) {
            (Role::Sender(sender), Event::Connected) => {
                sender.connected(now, &mut self.endpoint, handle);
                self.chunks.extend(sender.next_write(now).map(|at| (at, handle)));
                Some(Milestone::FirstData)
            }
            (Role::Sender(sender), Event::Writable(_)) => {
                sender.write(now, &mut self.endpoint, handle);
                None
            }
            (Role::Sender(sender), Event::Finished(_)) => {
                Some(sender.finished(now, &mut self.endpoint, handle))
            }
            (Role::Sender(sender), Event::Lost(_)) => sender.lost(),
            (Role::Receiver(receiver), Event::Opened(Dir::Uni) | Event::Readable(_)) => {
                receiver.read(now, &mut self.endpoint, handle)
            }
            (Role::Receiver(receiver), Event::Lost(_)) => {
                receiver.lost();
                None
            }
            _ => None,
        };
        self.events.extend(reached.map(|milestone| FlowEvent { flow, at: now, milestone }));
    }

    /// Lets applications write whose next chunk is due, or give up.
    fn write_chunks(&mut self, now: Instant) {
        while let Some(&(at, handle)) = self.chunks.first()
            && at <= now
        {
            self.chunks.pop_first();
            if let Some(Peer { flow, role: Role::Sender(sender), .. }) = self.connections.get_mut(&handle) {
                let flow = *flow;
                let given_up = sender.give_up(now, &mut self.endpoint, handle);
                self.events.extend(given_up.map(|milestone| FlowEvent { flow, at: now, milestone }));
                sender.write(now, &mut self.endpoint, handle);
                self.chunks.extend(sender.next_write(now).map(|at| (at, handle)));
            }
        }
    }

    /// Forgets a connection, unless its handle belongs to a newer one already.
    fn forget(&mut self, handle: ConnectionHandle) {
        if self.connections.get(&handle).is_some_and(|peer| peer.role.is_over())
            && let Some(peer) = self.connections.remove(&handle)
        {
            self.flows.remove(peer.remote);
        }
    }

    /// Addresses the packets in `buf`.
    fn address(&mut self, transmit: &Transmit) {
        let buf = std::mem::take(&mut self.buf);
        for contents in buf.chunks(transmit.segment_size.unwrap_or(buf.len()).max(1)) {
            let packet = self.packet(transmit, contents);
            self.made.extend(packet);
        }
        self.buf = buf;
        self.buf.clear();
    }

    /// A packet with these contents; `None` if its flow is over.
    fn packet(&mut self, transmit: &Transmit, contents: &[u8]) -> Option<Packet<Parcel>> {
        let contents = Contents::new(contents);
        let (flow, scheme) = self.flows.get(transmit.destination)?;
        let to = host_at(transmit.destination)?;
        let level = self.config.schemes[usize::from(scheme.0)].level(transmit.level);
        let size = contents.len() + IP_UDP_HEADERS;
        let dont_fragment = transmit.dont_fragment;
        let body = Body::Udp { ecn: transmit.ecn, contents, leading: None, dont_fragment };
        let progress = RoutePosition::default();
        Some(Packet { size, level, payload: Parcel { flow, scheme, from: self.id, to, progress, body } })
    }

    fn poll_datagram(&mut self, now: Instant, backlog: u64) -> Option<Transmit> {
        // One at a time in the papers' worlds: whole batches would leave before the window allows
        // (docs/DECISIONS.md 6).
        if let Some(transmit) = self.endpoint.poll_primary(now, self.config.batch, &mut self.buf) {
            return Some(transmit);
        }
        let full = self.config.uplink_backlog.is_some_and(|limit| backlog >= limit);
        self.held_back = full && self.endpoint.wants_rlp();
        if self.held_back {
            return None;
        }
        self.endpoint.poll_rlp(now, self.config.batch, &mut self.buf)
    }
}

impl Agent for Host {
    fn start(&mut self, now: Instant, flow: &Flow) {
        let remote = address(flow.to, port_of(flow.id));
        let scheme = &self.config.schemes[usize::from(flow.scheme.0)];
        let connected = self.endpoint.connect(now, &scheme.client, remote, SERVER_NAME);
        let handle = connected.expect("settings that work");
        self.flows.insert(remote, (flow.id, flow.scheme));
        let sender = StreamWriter::new(now, flow);
        self.chunks.extend(sender.until.map(|at| (at, handle)));
        self.connections.insert(handle, Peer { flow: flow.id, remote, role: Role::Sender(sender) });
    }

    fn handle(&mut self, now: Instant, parcel: Parcel) {
        let Body::Udp { ecn, contents, leading, .. } = parcel.body else { return };
        let remote = address(parcel.from, port_of(parcel.flow));
        self.flows.insert(remote, (parcel.flow, parcel.scheme));
        let Reads { every, stamped } = self.config.reads;
        // A process that reads at once may still leave datagrams in a socket for a moment, as [`Endpoint::read_at`] asks.
        let arrived = (stamped || every.is_zero()).then_some(now);
        let meta = DatagramMeta {
            remote,
            local_ip: Some(ip_of(self.id).into()),
            ecn,
            leading_len: leading,
            arrived,
        };
        let datagram = block::restore(&contents);
        let from = self.endpoint.read_at(now).unwrap_or(now);
        self.unread.push(now, from, every, (meta, datagram));
        self.read(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let chunk = self.chunks.first().map(|&(at, _)| at);
        self.endpoint.poll_timeout().into_iter().chain(chunk).chain(self.unread.due()).min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.read(now);
        self.endpoint.handle_timeout(now);
        self.take_events(now);
        self.write_chunks(now);
    }

    fn poll_transmit(&mut self, now: Instant, backlog: u64) -> Option<Packet<Parcel>> {
        loop {
            if let Some(packet) = self.made.pop_front() {
                return Some(packet);
            }
            let transmit = self.poll_datagram(now, backlog);
            self.take_events(now);
            if let Some(transmit) = transmit {
                self.address(&transmit);
            } else if !self.endpoint.wants_primary() {
                return None;
            }
        }
    }

    fn waits_for_uplink(&self) -> bool {
        self.held_back
    }

    fn sender_stats(&self, flow: FlowId) -> Option<ConnectionStats> {
        // Called rarely and for single flows, so a linear search is fine.
        let handle = self.find(flow, |role| matches!(role, Role::Sender(_)))?;
        Some(self.endpoint.connection(handle)?.stats())
    }

    fn poll_event(&mut self) -> Option<FlowEvent> {
        self.events.pop_front()
    }
}

impl Role {
    fn is_over(&self) -> bool {
        match self {
            Self::Sender(sender) => sender.is_over(),
            Self::Receiver(receiver) => receiver.is_over(),
        }
    }
}

impl SenderConfig {
    fn level(&self, level: Level) -> Level {
        Level::new(level.get().saturating_add(self.shift)).unwrap_or(Level::MAX)
    }
}

/// The UDP port of a flow, which separates the flows between two hosts.
pub(crate) fn port_of(flow: FlowId) -> u16 {
    PORT_FIRST + (flow.0 % u32::from(u16::MAX - PORT_FIRST)) as u16
}

/// Where a host is, as its peer in a flow sees it.
fn address(host: HostId, port: u16) -> SocketAddr {
    SocketAddr::from((ip_of(host), port))
}

/// The address of a host.
pub(crate) fn ip_of(host: HostId) -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK | host.0)
}

fn host_at(address: SocketAddr) -> Option<HostId> {
    match address.ip() {
        std::net::IpAddr::V4(ip) => Some(HostId(ip.to_bits() & !NETWORK)),
        std::net::IpAddr::V6(_) => None,
    }
}
