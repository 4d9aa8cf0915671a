//! Servers that have one port one after the other: connections of the older ones go on behind the newest.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use rc3_core::{
    ClientConfig, ConnectionError, ConnectionHandle, DatagramMeta, Detour, Dir, Endpoint, EndpointConfig,
    EndpointEvent, Event, FromPredecessor, HashedConnectionIdGenerator, HmacKey, Incoming, ServerConfig,
    StreamId,
};
use rc3_sim::identity::{SERVER_NAME, identity};

const STEP: Duration = Duration::from_millis(1);

/// Both servers' key for resets, as for load balancers.
struct ResetKey;

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], out: &mut [u8]) {
        out.fill(0x5a);
        out.iter_mut().zip(data).for_each(|(out, byte)| *out ^= byte);
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), rc3_core::CryptoError> {
        Err(rc3_core::CryptoError)
    }
}

struct Server {
    endpoint: Endpoint,
    /// Accept at once.
    accepts: bool,
    /// Does nothing at all.
    hangs: bool,
    incoming: Vec<Incoming>,
    accepted: Vec<ConnectionHandle>,
    received: usize,
    by_rlp: u64,
    detours: usize,
    lost: Vec<ConnectionError>,
}

impl Server {
    fn new(config: &ServerConfig) -> Self {
        let mut settings = EndpointConfig::new(Arc::new(ResetKey));
        settings.cid_generator(|| Box::new(HashedConnectionIdGenerator::from_key(7)));
        Self {
            endpoint: Endpoint::with_config(&settings, Some(config), true).unwrap(),
            accepts: true,
            hangs: false,
            incoming: Vec::new(),
            accepted: Vec::new(),
            received: 0,
            by_rlp: 0,
            detours: 0,
            lost: Vec::new(),
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                EndpointEvent::Incoming(incoming) => self.incoming.push(incoming),
                EndpointEvent::Connection(handle, Event::Opened(dir)) => {
                    self.endpoint.with_reader(|| now, handle, |connection| connection.accept(dir));
                }
                EndpointEvent::Connection(handle, Event::Readable(stream)) => self.read(now, handle, stream),
                EndpointEvent::Connection(_, Event::Lost(error)) => self.lost.push(error),
                _ => {}
            }
        }
        if self.accepts {
            for incoming in std::mem::take(&mut self.incoming) {
                self.accepted.push(self.endpoint.accept(now, incoming).unwrap());
            }
        }
    }

    fn read(&mut self, now: Instant, handle: ConnectionHandle, stream: StreamId) {
        let (received, by_rlp) = self
            .endpoint
            .with_reader(
                || now,
                handle,
                |connection| {
                    let mut received = 0;
                    while let Ok(Some(chunk)) = connection.read(stream, usize::MAX, true) {
                        received += chunk.bytes.len();
                    }
                    (received, connection.stats().received.rlp_bytes.iter().sum())
                },
            )
            .unwrap();
        self.received += received;
        self.by_rlp = by_rlp;
    }
}

struct World {
    now: Instant,
    client: Endpoint,
    config: ClientConfig,
    server_config: ServerConfig,
    /// Oldest first; the last one has the port.
    servers: Vec<Server>,
    client_address: SocketAddr,
    connected: Vec<ConnectionHandle>,
    lost: Vec<ConnectionError>,
    /// Delays what the client sends until it is set to false.
    holds: bool,
    held: Vec<(DatagramMeta, Vec<u8>)>,
}

fn server_address() -> SocketAddr {
    "192.0.2.1:443".parse().unwrap()
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "tests need some instant to start from")]
    fn new() -> Self {
        let (config, server_config) = identity(&["sim"]);
        let servers = vec![Server::new(&server_config)];
        Self {
            now: Instant::now(),
            client: Endpoint::new(None, None).unwrap(),
            config,
            server_config,
            servers,
            client_address: "192.0.2.9:999".parse().unwrap(),
            connected: Vec::new(),
            lost: Vec::new(),
            holds: false,
            held: Vec::new(),
        }
    }

    fn connect(&mut self) -> ConnectionHandle {
        self.client.connect(self.now, &self.config, server_address(), SERVER_NAME).unwrap()
    }

    /// A new server takes the port over.
    fn restart(&mut self) {
        let mut server = Server::new(&self.server_config);
        server.endpoint.follow_predecessor();
        let now = self.now;
        let last = self.servers.last_mut().unwrap();
        last.endpoint.retire(now);
        self.servers.push(server);
    }

    fn newest(&mut self) -> &mut Server {
        self.servers.last_mut().unwrap()
    }

    fn send_to_newest(&mut self, meta: DatagramMeta, datagram: &[u8]) {
        let now = self.now;
        self.newest().endpoint.handle_datagram(now, meta, datagram.into());
    }

    fn step(&mut self) {
        let (now, remote) = (self.now, self.client_address);
        loop {
            let mut buf = Vec::new();
            let Some(transmit) =
                self.client.poll_primary(now, 1, &mut buf).or_else(|| self.client.poll_rlp(now, 1, &mut buf))
            else {
                break;
            };
            let meta =
                DatagramMeta { remote, local_ip: None, ecn: transmit.ecn, leading_len: None, arrived: None };
            self.held.push((meta, buf));
        }
        if !self.holds {
            for (meta, datagram) in std::mem::take(&mut self.held) {
                self.send_to_newest(meta, &datagram);
            }
        }
        self.relay();
        for server in self.servers.iter_mut().filter(|server| !server.hangs) {
            server.take_events(now);
            if server.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                server.endpoint.handle_timeout(now);
            }
            loop {
                let mut buf = Vec::new();
                let endpoint = &mut server.endpoint;
                let transmit = endpoint.poll_primary(now, 1, &mut buf);
                let Some(transmit) = transmit.or_else(|| endpoint.poll_rlp(now, 1, &mut buf)) else { break };
                if transmit.destination != self.client_address {
                    continue;
                }
                let meta = DatagramMeta { remote: server_address(), ecn: transmit.ecn, ..meta(0) };
                self.client.handle_datagram(now, meta, buf.as_slice().into());
            }
        }
        if self.client.poll_timeout().is_some_and(|at| at <= now) {
            self.client.handle_timeout(now);
        }
        while let Some(event) = self.client.poll_event() {
            match event {
                EndpointEvent::Connection(handle, Event::Connected) => self.connected.push(handle),
                EndpointEvent::Connection(_, Event::Lost(error)) => self.lost.push(error),
                _ => {}
            }
        }
        self.now += STEP;
    }

    /// Carries detours to older servers and reports to newer ones.
    fn relay(&mut self) {
        let now = self.now;
        for newer in (1..self.servers.len()).rev() {
            let (older, newer) = self.servers.split_at_mut(newer);
            let (older, newer) = (older.last_mut().unwrap(), &mut newer[0]);
            let detours: Vec<Detour> = std::iter::from_fn(|| newer.endpoint.poll_detour()).collect();
            if older.hangs {
                continue;
            }
            older.detours += detours.len();
            older.endpoint.handle_detours(now, detours);
        }
        for newer in 1..self.servers.len() {
            let (older, newer) = self.servers.split_at_mut(newer);
            let older = older.last_mut().unwrap();
            while let Some(report) = older.endpoint.poll_for_successor() {
                newer[0].endpoint.handle_from_predecessor(report);
            }
        }
    }

    fn steps_until(&mut self, done: impl Fn(&Self) -> bool) {
        for _ in 0..30_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("it does not end: {:?}", self.lost);
    }

    fn write(&mut self, handle: ConnectionHandle, bytes: usize) {
        self.client.with_connection(self.now, handle, |connection| {
            let stream = connection.open(Dir::Uni).unwrap();
            assert_eq!(connection.write(stream, vec![7; bytes].into()).unwrap(), bytes);
            connection.finish(stream).unwrap();
        });
    }
}

fn meta(host: u8) -> DatagramMeta {
    let remote = ([198, 51, 100, host], 5).into();
    DatagramMeta { remote, local_ip: None, ecn: 0, leading_len: None, arrived: None }
}

/// A packet with a short header, of no connection.
fn short(nth: u64) -> Vec<u8> {
    use rc3_core::ConnectionIdGenerator;
    let id = HashedConnectionIdGenerator::from_key(7).generate_cid();
    [&[0x41][..], &id, &nth.to_be_bytes(), &[9; 60]].concat()
}

#[test]
fn connections_of_all_servers_go_on_behind_the_newest() {
    let mut world = World::new();
    let mut handles = Vec::new();
    for nth in 0..3 {
        let handle = world.connect();
        world.steps_until(|world| world.connected.contains(&handle));
        handles.push(handle);
        assert_eq!(world.newest().accepted.len(), 1, "of server {nth}");
        if nth < 2 {
            world.restart();
        }
    }
    let rlp_before: Vec<_> = world.servers.iter().map(|server| server.by_rlp).collect();
    for &handle in &handles {
        world.write(handle, 700_000);
    }
    world.steps_until(|world| world.servers.iter().all(|server| server.received == 700_000));
    for (server, before) in world.servers.iter().zip(rlp_before) {
        assert!(server.by_rlp > before, "RLP arrived");
        assert!(server.lost.is_empty());
    }
    // A client with another address is still known by its ids.
    world.client_address = "203.0.113.5:77".parse().unwrap();
    for &handle in &handles {
        world.write(handle, 300_000);
    }
    world.steps_until(|world| world.servers.iter().all(|server| server.received == 1_000_000));
    assert!(world.lost.is_empty());
}

#[test]
fn a_handshake_in_progress_ends_where_it_began() {
    // In the accept queue, and in the middle.
    for accepts in [false, true] {
        let mut world = World::new();
        world.servers[0].accepts = accepts;
        let handle = world.connect();
        world.step();
        world.holds = true;
        world.step();
        assert_eq!(
            (world.servers[0].incoming.len(), world.servers[0].accepted.len()),
            (usize::from(!accepts), usize::from(accepts))
        );
        world.restart();
        // First packets are sent again.
        for _ in 0..1500 {
            world.step();
        }
        assert!(world.held.len() > 1);
        world.holds = false;
        world.servers[0].accepts = true;
        world.steps_until(|world| world.connected.contains(&handle));
        world.write(handle, 50_000);
        world.steps_until(|world| world.servers[0].received == 50_000);
        assert_eq!((world.servers[0].accepted.len(), world.servers[1].accepted.len()), (1, 0));
        assert!(world.servers[1].incoming.is_empty() && world.lost.is_empty());
    }
}

#[test]
fn a_new_client_gets_its_answer_from_the_newest_server() {
    let mut world = World::new();
    let old = world.connect();
    world.steps_until(|world| world.connected.contains(&old));
    world.restart();
    world.restart();
    let new = world.connect();
    world.steps_until(|world| world.connected.contains(&new));
    assert_eq!(world.servers.iter().map(|server| server.accepted.len()).collect::<Vec<_>>(), [1, 0, 1]);
    assert!(world.servers[0].detours > 0, "it was offered");
    world.steps_until(|world| world.servers[0].endpoint.poll_timeout().is_some());
    // Once the old servers have no handshakes, first packets are not offered any more.
    for _ in 0..6000 {
        world.step();
    }
    let before = world.servers[0].detours;
    let next = world.connect();
    world.steps_until(|world| world.connected.contains(&next));
    assert_eq!(world.servers[0].detours, before);
    assert_eq!(world.servers[2].accepted.len(), 2);
}

#[test]
fn a_predecessor_that_hangs_delays_new_clients_but_does_not_stop_them() {
    let mut world = World::new();
    world.servers[0].hangs = true;
    world.restart();
    let handle = world.connect();
    let begun = world.now;
    world.steps_until(|world| world.connected.contains(&handle));
    assert!(world.now - begun < Duration::from_millis(400), "{:?}", world.now - begun);
    // When it is gone, there is no delay.
    world.newest().endpoint.handle_predecessor_gone();
    let (handle, begun) = (world.connect(), world.now);
    world.steps_until(|world| world.connected.contains(&handle));
    assert!(world.now - begun < Duration::from_millis(20));
}

#[test]
fn only_the_last_predecessor_resets_what_nobody_knows() {
    let resets = |server: &mut Server, now| {
        let mut buf = Vec::new();
        std::iter::from_fn(|| {
            buf.clear();
            server.endpoint.poll_primary(now, 1, &mut buf)
        })
        .count()
    };
    let mut world = World::new();
    world.restart();
    world.restart();
    let now = world.now;
    for nth in 0..10 {
        world.send_to_newest(meta(nth), &short(nth.into()));
    }
    world.relay();
    let counts: Vec<_> = world.servers.iter_mut().map(|server| resets(server, now)).collect();
    assert_eq!(counts, [1, 0, 0], "one in the shortest interval");
    world.newest().endpoint.handle_predecessor_gone();
    // One interval later.
    world.now += 20 * STEP;
    let now = world.now;
    world.send_to_newest(meta(1), &short(77));
    assert_eq!(resets(world.newest(), now), 1);
}

#[test]
fn reports_that_answer_nothing_change_nothing() {
    let mut world = World::new();
    world.restart();
    for offer in [0, 1, u64::MAX] {
        for claimed in [false, true] {
            world.newest().endpoint.handle_from_predecessor(FromPredecessor::Claim { offer, claimed });
        }
    }
    let handle = world.connect();
    world.steps_until(|world| world.connected.contains(&handle));
    world.newest().endpoint.handle_predecessor_gone();
    world.newest().endpoint.handle_from_predecessor(FromPredecessor::Settled);
    assert!(world.newest().endpoint.poll_detour().is_none());
}

#[test]
fn a_server_that_gets_its_port_back_accepts_again() {
    let mut world = World::new();
    let old = world.connect();
    world.steps_until(|world| world.connected.contains(&old));
    world.restart();
    world.servers.pop();
    world.servers[0].endpoint.resume();
    world.write(old, 100_000);
    let new = world.connect();
    world.steps_until(|world| world.connected.contains(&new) && world.servers[0].received == 100_000);
    assert_eq!(world.servers[0].accepted.len(), 2);
}
