//! The sockets and the two directions between them: the whole state of the emulator's thread.
//!
//! Invariant: a packet keeps its payload, its DSCP and its ECN bits from one side to the other.

use std::{
    collections::btree_map::{BTreeMap, Entry},
    io,
    net::SocketAddr,
    sync::Arc,
    time::Instant,
};

use rc3_core::units::Level;
use rc3_link::{Impairments, Link, LinkConfig, Packet};
use rc3_net::{
    marks::Marks,
    socket::{Datagram, RECV_MESSAGES_MAX, RecvBatch, Socket},
};

use super::{
    CLIENTS_MAX, Discipline, EmulatorConfig, EmulatorStats,
    path::{Carried, EmulatedPath, background},
    port::EmulatorPort,
    train::{TrafficClass, Train},
};
use crate::transfer::addresses::canonical;

/// IPv4 and UDP headers in front of each payload.
const HEADER_BYTES: usize = 28;

/// Receive calls in a row on one socket, so that a flood from one side does not starve the other.
const RECV_CALLS_MAX: usize = 8;

/// Rounds of such calls with which a reset empties one socket: far more than its buffer holds.
const RESET_DRAINS_MAX: usize = 64;

/// The port towards the server of each client, by the client's own address.
type Clients = BTreeMap<SocketAddr, EmulatorPort>;

/// Sockets, clients and links.
#[derive(Debug)]
pub(super) struct EmulatedNetwork {
    config: EmulatorConfig,
    server: SocketAddr,
    /// Local address of sockets towards the server.
    local: SocketAddr,
    levels: LevelOfDscp,
    client_side: EmulatorPort,
    clients: Clients,
    to_server: EmulatedPath,
    to_client: EmulatedPath,
    batch: RecvBatch,
    train: Train,
    /// Packets refused and receive calls that failed since the last reset.
    failed: u64,
    /// Losses of the sockets until the last reset.
    lost_before: u64,
}

/// Whether the order of arrival among levels is irrelevant, so that they may be read separately.
fn is_steered(queue: Discipline) -> bool {
    queue == Discipline::Priority
}

impl EmulatedNetwork {
    pub(super) fn new(
        config: EmulatorConfig,
        server: SocketAddr,
        local: SocketAddr,
        now: Instant,
    ) -> io::Result<Self> {
        let (to_server, to_client) = paths(&config, now);
        Ok(Self {
            server: canonical(server),
            local,
            levels: LevelOfDscp::new(&config.marks),
            client_side: EmulatorPort::bind(local, is_steered(config.queue))?,
            clients: Clients::new(),
            to_server,
            to_client,
            batch: RecvBatch::new(),
            train: Train::default(),
            failed: 0,
            lost_before: 0,
            config,
        })
    }

    pub(super) fn client_addr(&self) -> io::Result<SocketAddr> {
        self.client_side.primary().local_addr()
    }

    /// All sockets.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &Arc<Socket>> {
        let towards_server = self.clients.values().flat_map(EmulatorPort::sockets);
        self.client_side.sockets().chain(towards_server)
    }

    /// Reads all sockets, and sends due packets. Returns whether there was any work.
    pub(super) fn step(&mut self, now: Instant) -> bool {
        let received = self.receive(now);
        let sent = self.deliver(now);
        received || sent
    }

    /// When the next packet is due, if one is in flight.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [&self.to_server, &self.to_client].into_iter().filter_map(|path| path.link.poll_timeout()).min()
    }

    /// Resets to an empty link at `now`, and discards what the sockets hold.
    pub(super) fn reset(&mut self, now: Instant) {
        let Self { client_side, clients, batch, .. } = self;
        for socket in client_side.sockets().chain(clients.values().flat_map(EmulatorPort::sockets)) {
            // Bounded, since a peer may send faster than this discards.
            for _ in 0..RESET_DRAINS_MAX {
                if !matches!(drain(socket, batch, |_| {}), Ok(true)) {
                    break;
                }
            }
        }
        (self.to_server, self.to_client) = paths(&self.config, now);
        self.failed = 0;
        self.lost_before = self.lost();
    }

    pub(super) fn stats(&self) -> EmulatorStats {
        EmulatorStats {
            to_server: self.to_server.link.stats().clone(),
            to_client: self.to_client.link.stats().clone(),
            clients: self.clients.len(),
            failed: self.failed + self.lost().saturating_sub(self.lost_before),
        }
    }

    fn receive(&mut self, now: Instant) -> bool {
        let Self { config, server, local, levels, client_side, clients, to_server, to_client, batch, .. } =
            self;
        let (mut found, mut failed, mut refused) = (false, 0, 0);
        let mut note = |received: io::Result<bool>| {
            found |= !matches!(received, Ok(false));
            failed += u64::from(received.is_err());
        };
        for (&client, port) in &*clients {
            for socket in port.sockets() {
                note(drain(socket, batch, |datagram| {
                    // Any process on this host may send to the socket; only the server's datagrams count.
                    if canonical(datagram.meta.remote) == *server {
                        to_client.send(now, levels.packet(client, &datagram));
                    }
                }));
            }
        }
        for socket in client_side.sockets() {
            note(drain(socket, batch, |datagram| {
                let client = datagram.meta.remote;
                if admit(clients, client, || EmulatorPort::bind(*local, is_steered(config.queue))) {
                    to_server.send(now, levels.packet(client, &datagram));
                } else {
                    refused += 1;
                }
            }));
        }
        self.failed += failed + refused;
        found
    }

    fn deliver(&mut self, now: Instant) -> bool {
        let mut found = false;
        while let Some((client, Carried { class, contents, .. })) = self.to_server.poll_output(now) {
            found = true;
            if let Some(port) = self.clients.get(&client) {
                self.train.push(port.primary(), self.server, class, &contents);
            }
        }
        while let Some((client, Carried { class, contents, .. })) = self.to_client.poll_output(now) {
            found = true;
            self.train.push(self.client_side.primary(), client, class, &contents);
        }
        self.train.flush();
        found
    }

    /// Packets that the sockets lost since the start.
    fn lost(&self) -> u64 {
        let ports = self.clients.values().chain([&self.client_side]);
        self.train.failed() + ports.map(EmulatorPort::lost).sum::<u64>()
    }
}

/// The level of each code point: the inverse of the endpoints' table.
#[derive(Debug)]
struct LevelOfDscp([Level; 64]);

impl LevelOfDscp {
    /// A code point shared by several levels has the best of them; one missing in the table is normal priority.
    fn new(marks: &Marks) -> Self {
        let mut table = [Level::PRIMARY; 64];
        for level in (0..=Level::MAX.get()).rev().filter_map(Level::new) {
            if let Some(entry) = table.get_mut(usize::from(marks.dscp(level))) {
                *entry = level;
            }
        }
        table[0] = Level::PRIMARY;
        Self(table)
    }

    fn level(&self, dscp: u8) -> Level {
        self.0.get(usize::from(dscp)).copied().unwrap_or(Level::PRIMARY)
    }

    fn packet(&self, client: SocketAddr, datagram: &Datagram) -> Packet<Carried> {
        let Datagram { meta, data } = datagram;
        Packet {
            size: data.len() + HEADER_BYTES,
            level: self.level(meta.dscp),
            payload: Carried {
                client: Some(client),
                class: TrafficClass { dscp: meta.dscp, ecn: meta.ecn },
                contents: data.as_ref().into(),
            },
        }
    }
}

/// Reads from `socket`, within [`RECV_CALLS_MAX`] calls; whether there was anything.
fn drain(socket: &Socket, batch: &mut RecvBatch, mut each: impl FnMut(Datagram)) -> io::Result<bool> {
    let mut received = false;
    for _ in 0..RECV_CALLS_MAX {
        match socket.try_recv(batch) {
            Ok(messages) => {
                batch.datagrams().for_each(&mut each);
                received = true;
                if messages < RECV_MESSAGES_MAX {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

/// One direction of the link, idle, with this background traffic. `lane` separates the random choices of the two.
fn path(config: &EmulatorConfig, lane: u64, load: f64, now: Instant) -> EmulatedPath {
    let EmulatorConfig { rate, rtt, buffer, loss, queue, seed, .. } = *config;
    let seed = seed.wrapping_mul(4);
    let law = LinkConfig {
        // Packets that pass a policer leave at line rate.
        rate: (queue != Discipline::Policer).then_some(rate),
        delay: rtt / 2,
        impairments: Impairments::loss(loss),
        seed: seed.wrapping_add(lane),
        ..LinkConfig::default()
    };
    let link = Link::new(law, queue.queue(buffer, rate, seed));
    EmulatedPath::new(link, background(now, rate, load, seed.wrapping_add(2)))
}

/// The directions to the server, with the background traffic, and to the clients.
fn paths(config: &EmulatorConfig, now: Instant) -> (EmulatedPath, EmulatedPath) {
    (path(config, 0, config.load, now), path(config, 1, 0.0, now))
}

/// Whether `client` has a port; a new one gets it from `bind`, unless there are [`CLIENTS_MAX`].
fn admit(clients: &mut Clients, client: SocketAddr, bind: impl FnOnce() -> io::Result<EmulatorPort>) -> bool {
    let is_full = clients.len() >= CLIENTS_MAX;
    match clients.entry(client) {
        Entry::Occupied(_) => true,
        Entry::Vacant(new) => !is_full && bind().map(|port| new.insert(port)).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use rc3_net::marks::MarkChoice;

    use super::*;

    fn level(number: u8) -> Level {
        Level::new(number).unwrap()
    }

    fn client(number: usize) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 1000 + number as u16))
    }

    fn bind() -> io::Result<EmulatorPort> {
        EmulatorPort::bind(SocketAddr::from(([127, 0, 0, 1], 0)), false)
    }

    #[test]
    fn a_known_client_keeps_its_port() {
        let mut clients = Clients::new();
        assert!(admit(&mut clients, client(1), bind));
        let address = clients[&client(1)].primary().local_addr().unwrap();
        assert!(admit(&mut clients, client(1), || panic!("it has a port")));
        assert_eq!(clients[&client(1)].primary().local_addr().unwrap(), address);
        assert_eq!(clients.len(), 1);
    }

    #[test]
    fn one_client_too_many_and_one_without_a_port_are_refused() {
        let mut clients = Clients::new();
        assert!(!admit(&mut clients, client(0), || Err(io::ErrorKind::Other.into())));
        assert!((0..CLIENTS_MAX).all(|number| admit(&mut clients, client(number), bind)));
        assert!(!admit(&mut clients, client(999), bind));
        assert_eq!(clients.len(), CLIENTS_MAX);
    }

    #[test]
    fn code_points_map_back_to_the_levels_they_were_made_from() {
        let marks = Marks::from(MarkChoice::PerLevel);
        let levels = LevelOfDscp::new(&marks);
        for number in 0..=15 {
            assert_eq!(levels.level(marks.dscp(level(number))), level(number));
        }
    }

    #[test]
    fn a_shared_code_point_is_the_best_level_and_an_unknown_one_is_normal() {
        let levels = LevelOfDscp::new(&Marks::default());
        assert_eq!(levels.level(1), Level::FIRST);
        assert_eq!(levels.level(46), Level::PRIMARY);
        assert_eq!(levels.level(63), Level::PRIMARY);
    }

    #[test]
    fn unmarked_packets_are_normal_whatever_the_table_says() {
        let marks = Marks::default().with_dscp(level(3), 0).unwrap().with_dscp(Level::PRIMARY, 5).unwrap();
        assert_eq!(LevelOfDscp::new(&marks).level(0), Level::PRIMARY);
    }
}
