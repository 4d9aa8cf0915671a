//! Two endpoints and the two directions of a link between them, in virtual time: the real transport in a world
//! that is a value.
//!
//! ```
//! use std::time::Duration;
//! use rc3_sim::{Pair, PairConfig, LinkConfig};
//! use rc3_core::{Dir, units::Rate};
//!
//! let link = LinkConfig {
//!     rate: Rate::from_bits_per_second(100_000_000),
//!     delay: Duration::from_millis(20),
//!     ..LinkConfig::default()
//! };
//! let mut pair = Pair::new(PairConfig::symmetric(link, 1_000_000));
//! let connection = pair.connect();
//! // Streams need the handshake.
//! pair.drive();
//! let stream = pair.client.with(connection, |c| c.open(Dir::Uni)).unwrap();
//! pair.client.with(connection, |c| c.write(stream, vec![7; 100_000].into())).unwrap();
//! pair.client.with(connection, |c| c.finish(stream)).unwrap();
//! pair.drive();
//! ```

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use rc3_core::{
    BATCH_BYTES_MAX, ClientConfig, Connection, ConnectionHandle, DatagramMeta, Endpoint, EndpointEvent,
    Event, ServerConfig, Transmit, TransportConfig,
    units::{Level, Rate},
};
use rc3_link::PoissonProcess;

use crate::{
    DropTail, Link, LinkConfig, Packet, Queue, Strangers, StrictPriority, Traffic, Waiting,
    identity::{Crypto, SERVER_NAME},
};

/// IPv4 and UDP headers in bytes.
pub const IP_UDP_HEADERS: usize = 28;

/// More than any test needs: a world that has not come to rest by then never will.
const STEPS_MAX: u64 = 200_000_000;

/// More steps than ever happen at one time: an end whose deadline has passed and which does nothing about it.
const STEPS_AT_ONCE_MAX: u64 = 100_000;

/// A queue that a [`Pair`] may have.
pub type LinkQueue = Box<dyn Queue<Waiting<Datagram>> + Send>;

/// How a [`Pair`] is put together.
pub struct PairConfig {
    /// Settings of the client's connections.
    pub client: TransportConfig,
    /// Settings of the server's connections.
    pub server: TransportConfig,
    /// The link from client to server.
    pub forward: LinkConfig,
    /// The link from server to client.
    pub backward: LinkConfig,
    /// Bytes each queue holds.
    pub buffer: u64,
    /// Whether queues serve levels by strict priority; otherwise they are drop-tail and ignore the marks.
    pub priority: bool,
    /// Datagrams in one batch at most.
    pub batch: usize,
    /// What connections are secured with.
    pub crypto: Crypto,
}

impl PairConfig {
    /// The same link both ways, strict priority, default transport settings.
    pub fn symmetric(link: LinkConfig, buffer: u64) -> Self {
        Self {
            client: TransportConfig::default(),
            server: TransportConfig::default(),
            backward: LinkConfig { seed: link.seed.wrapping_add(1), ..link.clone() },
            forward: link,
            buffer,
            priority: true,
            batch: 1,
            crypto: Crypto::default(),
        }
    }
}

/// Two endpoints joined by a link.
///
/// ```
/// use std::time::Duration;
/// use rc3_sim::{Impairments, LinkConfig, Pair, PairConfig};
///
/// let link = LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
/// let mut config = PairConfig::symmetric(link, 1 << 20);
/// config.forward.impairments = Impairments::loss(0.2);
/// let mut pair = Pair::new(config);
/// let start = pair.now;
/// let client = pair.connect();
/// let up = |pair: &mut Pair| !pair.client.connection(client).unwrap().is_handshaking();
/// assert!(pair.drive_until(Duration::from_secs(10), up), "QUIC repeats what the link loses");
/// assert!(pair.now - start >= Duration::from_millis(20), "a round trip of virtual time");
/// ```
pub struct Pair {
    /// The virtual time.
    pub now: Instant,
    /// The side that connects.
    pub client: Node,
    /// The side that accepts.
    pub server: Node,
    /// From client to server.
    pub forward: Link<Datagram>,
    /// From server to client.
    pub backward: Link<Datagram>,
    /// Cross traffic from the client's side to the server's, and bytes of each packet on the wire.
    pub background: Option<(PoissonProcess, usize)>,
    /// What went to addresses that neither node has.
    pub strangers: Strangers,
    config: ClientConfig,
    /// The client's and the server's.
    transport: [Arc<TransportConfig>; 2],
}

/// One UDP datagram under way.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// As its receiver sees it: `remote` is where it claims to come from.
    pub meta: DatagramMeta,
    /// Where it goes to.
    pub to: SocketAddr,
    /// The UDP payload.
    pub contents: Vec<u8>,
    /// Whether routers may not fragment it.
    pub dont_fragment: bool,
    /// Whether it is cross traffic.
    is_background: bool,
}

/// What a sender and its marks say of a datagram.
fn meta(remote: SocketAddr, ecn: u8) -> DatagramMeta {
    DatagramMeta { remote, local_ip: None, ecn, leading_len: None, arrived: None }
}

/// A middlebox right behind a node: sees each datagram with its level, may change it, and returns how many copies go on to
/// the link.
pub type Tamper = Box<dyn FnMut(Level, &mut Datagram) -> usize + Send>;

/// One end of the link.
pub struct Node {
    endpoint: Endpoint,
    address: SocketAddr,
    now: Instant,
    batch: usize,
    /// Connections accepted, in order.
    pub accepted: VecDeque<ConnectionHandle>,
    /// What happened on connections.
    pub events: VecDeque<(ConnectionHandle, Event)>,
    tamper: Option<Tamper>,
    /// What it has sent and received, by address.
    pub traffic: Traffic,
}

impl Pair {
    /// A world at rest.
    ///
    /// # Panics
    /// When the TLS settings do not work, which would be a fault of this crate.
    pub fn new(config: PairConfig) -> Self {
        let (mut client, mut server) = config.crypto.identity(&["sim"]);
        let transport = [&config.client, &config.server].map(|settings| Arc::new(settings.clone()));
        client.transport_config(transport[0].clone());
        server.transport_config(transport[1].clone());
        #[expect(
            clippy::disallowed_methods,
            reason = "a name for time zero; all others are computed from it"
        )]
        let epoch = Instant::now();
        let node = |server: Option<&ServerConfig>, host: u8| Node {
            endpoint: Endpoint::new(server, Some([host; 32])).expect("TLS settings that work"),
            address: SocketAddr::from((Ipv4Addr::new(10, 0, 0, host), 4433)),
            now: epoch,
            batch: config.batch,
            accepted: VecDeque::new(),
            events: VecDeque::new(),
            tamper: None,
            traffic: Traffic::default(),
        };
        let queue = || -> LinkQueue {
            match config.priority {
                true => Box::new(StrictPriority::by_level(config.buffer)),
                false => Box::new(DropTail::new(config.buffer)),
            }
        };
        Self {
            now: epoch,
            client: node(None, 1),
            server: node(Some(&server), 2),
            forward: Link::new(config.forward.clone(), queue()),
            backward: Link::new(config.backward.clone(), queue()),
            background: None,
            strangers: Strangers::default(),
            config: client,
            transport,
        }
    }

    /// Replaces the queue from client to server, before anything was sent: for your own disciplines.
    pub fn set_forward_queue(&mut self, config: LinkConfig, queue: LinkQueue) {
        self.forward = Link::new(config, queue);
    }

    /// Starts cross traffic on the forward link: packets of `size` bytes on the wire, with this mean rate.
    pub fn set_background(&mut self, rate: Rate, size: usize, seed: u64) {
        self.background = Some((PoissonProcess::new(self.now, rate.time_for(size as u64), seed), size));
    }

    /// Replaces what secures connections from now on, and keeps the transport settings.
    ///
    /// # Panics
    /// When the TLS settings do not work.
    pub fn set_identity(&mut self, (client, server): (rustls::ClientConfig, rustls::ServerConfig)) {
        let mut client = ClientConfig::new(Arc::new(client));
        client.transport_config(self.transport[0].clone());
        self.config = client;
        let mut server = ServerConfig::with_crypto(Arc::new(server));
        server.transport_config(self.transport[1].clone());
        self.server.endpoint.set_server_config(Some(&server)).expect("settings that work");
    }

    /// Begins a handshake; nothing is sent before the next step.
    ///
    /// # Panics
    /// When the settings do not allow it.
    pub fn connect(&mut self) -> ConnectionHandle {
        let remote = self.server.address;
        let connected = self.client.endpoint.connect(self.now, &self.config, remote, SERVER_NAME);
        connected.expect("settings that work")
    }

    /// Lets both ends send, then moves on to the next thing that happens. `false`: nothing ever will.
    pub fn step(&mut self) -> bool {
        self.send();
        let Some(next) = self.next() else { return false };
        self.advance(next);
        true
    }

    fn send(&mut self) {
        if let Some((background, size)) = &mut self.background {
            while background.poll(self.now).is_some() {
                let payload = Datagram {
                    meta: meta(self.client.address, 0),
                    to: self.server.address,
                    contents: Vec::new(),
                    dont_fragment: true,
                    is_background: true,
                };
                self.forward.send(self.now, Packet { size: *size, level: Level::PRIMARY, payload });
            }
        }
        self.client.send(self.now, &mut self.forward);
        self.server.send(self.now, &mut self.backward);
    }

    fn next(&self) -> Option<Instant> {
        let next = [
            self.forward.poll_timeout().map(|at| self.server.read_at(at)),
            self.backward.poll_timeout().map(|at| self.client.read_at(at)),
            self.client.endpoint.poll_timeout(),
            self.server.endpoint.poll_timeout(),
            self.background.as_ref().map(|(background, _)| background.poll_timeout()),
        ];
        next.into_iter().flatten().min()
    }

    fn advance(&mut self, to: Instant) {
        self.now = self.now.max(to);
        let Self { now, client, server, forward, backward, strangers, .. } = self;
        server.receive(*now, forward, strangers);
        client.receive(*now, backward, strangers);
    }

    /// Steps until `done` returns true, the world comes to rest or `limit` has passed; returns the last `done`.
    ///
    /// # Panics
    /// When the world never comes to rest, or its time stands still.
    pub fn drive_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let deadline = self.now + limit;
        let mut begun = (0, self.now);
        for step in 0..STEPS_MAX {
            if begun.1 != self.now {
                begun = (step, self.now);
            }
            assert!(step - begun.0 < STEPS_AT_ONCE_MAX, "time stands still");
            if done(self) {
                return true;
            }
            self.send();
            match self.next() {
                Some(next) if next <= deadline => self.advance(next),
                Some(_) => {
                    self.advance(deadline);
                    return done(self);
                }
                None => return done(self),
            }
        }
        panic!("the world never comes to rest");
    }

    /// Steps until nothing happens any more, or ten virtual seconds have passed.
    pub fn drive(&mut self) {
        self.drive_until(Duration::from_secs(10), |_| false);
    }
}

impl Node {
    /// Does something with a connection of this node.
    ///
    /// # Panics
    /// When there is no such connection.
    pub fn with<T>(&mut self, handle: ConnectionHandle, change: impl FnOnce(&mut Connection) -> T) -> T {
        self.endpoint.with_connection(self.now, handle, change).expect("a connection of this node")
    }

    /// As [`Self::with`], for what only accepts streams and reads, as applications do.
    ///
    /// # Panics
    /// As [`Self::with`].
    pub fn with_reader<T>(&mut self, handle: ConnectionHandle, read: impl FnOnce(&mut Connection) -> T) -> T {
        self.endpoint.with_reader(|| self.now, handle, read).expect("a connection of this node")
    }

    /// A connection, read only.
    pub fn connection(&self, handle: ConnectionHandle) -> Option<&Connection> {
        self.endpoint.connection(handle)
    }

    /// The endpoint itself.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// This node's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Moves the node to another address, as a client does that changes networks. What still goes to the old one
    /// does not arrive.
    pub fn set_address(&mut self, address: SocketAddr) {
        self.address = address;
    }

    /// From now on all that the node sends passes through `tamper`.
    pub fn set_tamper(&mut self, tamper: Tamper) {
        self.tamper = Some(tamper);
    }

    /// Hands the endpoint a datagram from anywhere.
    pub fn inject(&mut self, remote: SocketAddr, contents: &[u8]) {
        self.traffic.on_received(remote, contents.len());
        self.endpoint.handle_datagram(self.now, meta(remote, 0), BytesMut::from(contents));
        self.take_events();
    }

    fn send(&mut self, now: Instant, link: &mut Link<Datagram>) {
        self.now = now;
        let mut buf = Vec::new();
        loop {
            while let Some(transmit) = self.endpoint.poll_primary(now, self.batch, &mut buf) {
                self.put(now, &transmit, &buf, link);
                buf.clear();
            }
            while let Some(transmit) = self.endpoint.poll_rlp(now, self.batch, &mut buf) {
                self.put(now, &transmit, &buf, link);
                buf.clear();
            }
            if !self.endpoint.wants_primary() {
                break;
            }
        }
        self.take_events();
    }

    fn put(&mut self, now: Instant, transmit: &Transmit, buf: &[u8], link: &mut Link<Datagram>) {
        assert!(transmit.dont_fragment || transmit.segment_size.is_none(), "{transmit:?}");
        assert!(transmit.size == buf.len() && transmit.size <= BATCH_BYTES_MAX, "{transmit:?}");
        // ECT(1) would put RLP into the protected queue of L4S (RFC 9331).
        assert!(transmit.level == Level::PRIMARY || transmit.ecn != 1, "{transmit:?}");
        for contents in buf.chunks(transmit.segment_size.unwrap_or(buf.len())) {
            let meta = meta(self.address, transmit.ecn);
            let (contents, dont_fragment) = (contents.to_vec(), transmit.dont_fragment);
            self.traffic.on_sent(transmit.destination, contents.len());
            let to = transmit.destination;
            let mut datagram = Datagram { meta, to, contents, dont_fragment, is_background: false };
            let copies = self.tamper.as_mut().map_or(1, |tamper| tamper(transmit.level, &mut datagram));
            let size = datagram.contents.len() + IP_UDP_HEADERS;
            for payload in std::iter::repeat_n(datagram, copies) {
                link.send(now, Packet { size, level: transmit.level, payload });
            }
        }
    }

    /// When the node reads what arrives at this time.
    fn read_at(&self, at: Instant) -> Instant {
        self.endpoint.read_at(self.now).map_or(at, |read| read.max(at))
    }

    fn receive(&mut self, now: Instant, link: &mut Link<Datagram>, strangers: &mut Strangers) {
        let reads = self.read_at(now) <= now;
        self.now = now;
        while reads && let Some(Datagram { meta, to, contents, is_background, .. }) = link.poll_output(now) {
            if is_background {
                continue;
            }
            if to != self.address {
                strangers.deliver(now, to, contents);
                continue;
            }
            self.traffic.on_received(meta.remote, contents.len());
            let meta = DatagramMeta { local_ip: Some(to.ip()), ..meta };
            self.endpoint.handle_datagram(now, meta, BytesMut::from(&contents[..]));
        }
        if self.endpoint.poll_timeout().is_some_and(|deadline| deadline <= now) {
            self.endpoint.handle_timeout(now);
        }
        self.take_events();
    }

    fn take_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Incoming(incoming) => {
                    self.accepted.extend(self.endpoint.accept(self.now, incoming));
                }
                EndpointEvent::Connection(handle, event) => self.events.push_back((handle, event)),
                EndpointEvent::Drained(_) | EndpointEvent::Learned(_) => {}
            }
        }
    }
}
