//! Claims about a running emulator between real sockets on the loopback interface.

use std::{collections::VecDeque, sync::Arc};

use rc3_core::units::Level;
use rc3_net::socket::{Datagram, Options, Outgoing, RecvBatch};
use rc3_queue::Tally;

use super::*;
use crate::skip::{sends_code_points, skipped};

/// Longest wait for an expected packet.
const PATIENCE: Duration = Duration::from_secs(10);

/// A socket with the two calls that tests need.
struct Host {
    socket: Arc<Socket>,
    batch: RecvBatch,
    received: VecDeque<Datagram>,
}

impl Host {
    fn new() -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = Arc::new(Socket::bind_plain(address, &Options::default()).unwrap());
        Self { socket, batch: RecvBatch::new(), received: VecDeque::new() }
    }

    fn addr(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// One batch; without a segment size it is one datagram.
    fn send(&self, destination: SocketAddr, dscp: u8, ecn: u8, contents: &[u8], segment_size: Option<usize>) {
        let out = Outgoing {
            destination,
            source: None,
            ecn,
            dscp,
            priority: None,
            contents,
            segment_size,
            dont_fragment: true,
        };
        self.socket.try_send(&out).unwrap();
    }

    /// The next datagram, if it arrives within `patience`.
    fn receive(&mut self, patience: Duration) -> Option<Datagram> {
        let deadline = Instant::now() + patience;
        while self.received.is_empty() {
            match self.socket.try_recv(&mut self.batch) {
                Ok(_) => self.received.extend(self.batch.datagrams()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    wait(std::slice::from_ref(&self.socket), left);
                }
                Err(error) => panic!("{error}"),
            }
        }
        self.received.pop_front()
    }

    fn expect(&mut self) -> Datagram {
        self.receive(PATIENCE).expect("a datagram must come")
    }

    fn received_dscps(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.expect().meta.dscp).collect()
    }
}

fn megabits(megabits: u64) -> Rate {
    Rate::from_bits_per_second(megabits * 1_000_000).unwrap()
}

fn started(config: EmulatorConfig) -> (LinkEmulator, Host, Host) {
    let server = Host::new();
    let emulator = LinkEmulator::start(config, server.addr()).unwrap();
    (emulator, Host::new(), server)
}

/// The statistics once they satisfy `condition`.
fn stats_when(emulator: &LinkEmulator, condition: impl Fn(&EmulatorStats) -> bool) -> EmulatorStats {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = emulator.stats();
        if condition(&stats) {
            return stats;
        }
        assert!(Instant::now() < deadline, "{stats:#?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// 300 low-priority packets of 1000 bytes on the wire, then 15 normal ones, into a link that takes 8 ms for each and
/// holds 30. Returns what the server sees, in order, and the final statistics.
fn overload(queue: Discipline) -> (Vec<u8>, EmulatorStats) {
    let config = EmulatorConfig {
        buffer: 30_000,
        queue,
        ..EmulatorConfig::new(megabits(1), Duration::from_millis(2))
    };
    let (emulator, client, mut server) = started(config);
    for _ in 0..10 {
        client.send(emulator.client_addr(), 1, 0, &[7; 30 * 972], Some(972));
    }
    client.send(emulator.client_addr(), 0, 0, &[7; 15 * 972], Some(972));
    let stats = stats_when(&emulator, |stats| {
        let total = stats.to_server.total();
        total.offered.packets == 315 && total.delivered.packets + total.dropped.packets == 315
    });
    let dscps = server.received_dscps(stats.to_server.total().delivered.packets);
    assert_eq!(stats.failed, 0);
    (dscps, stats)
}

#[test]
fn a_round_trip_takes_at_least_the_configured_time() {
    let rtt = Duration::from_millis(40);
    let (emulator, mut client, mut server) = started(EmulatorConfig::new(megabits(100), rtt));
    for _ in 0..3 {
        let sent = Instant::now();
        client.send(emulator.client_addr(), 0, 0, b"ping", None);
        let ping = server.expect();
        assert!(sent.elapsed() >= rtt / 2);
        assert_eq!(ping.data[..], *b"ping");
        server.send(ping.meta.remote, 0, 0, b"pong", None);
        let pong = client.expect();
        assert!(sent.elapsed() >= rtt);
        assert_eq!(pong.data[..], *b"pong");
        assert_eq!(pong.meta.remote, emulator.client_addr());
    }
}

#[test]
fn code_points_and_ecn_survive_in_both_directions() {
    if !sends_code_points() {
        return skipped("code points");
    }
    let (emulator, mut client, mut server) = started(EmulatorConfig::new(megabits(1000), Duration::ZERO));
    for dscp in 0..64_u8 {
        for ecn in 0..4_u8 {
            client.send(emulator.client_addr(), dscp, ecn, &[dscp, ecn], None);
            let there = server.expect();
            assert_eq!((there.meta.dscp, there.meta.ecn, &there.data[..]), (dscp, ecn, &[dscp, ecn][..]));
            server.send(there.meta.remote, 63 - dscp, 3 - ecn, &[ecn, dscp], None);
            let back = client.expect();
            assert_eq!(
                (back.meta.dscp, back.meta.ecn, &back.data[..]),
                (63 - dscp, 3 - ecn, &[ecn, dscp][..])
            );
        }
    }
}

#[test]
fn batches_arrive_whole_and_in_order() {
    let (emulator, client, mut server) = started(EmulatorConfig {
        buffer: 1 << 20,
        ..EmulatorConfig::new(megabits(1000), Duration::from_millis(1))
    });
    let sent: Vec<u8> = (0..40 * 1000 + 300).map(|byte| (byte / 1000 + byte) as u8).collect();
    client.send(emulator.client_addr(), 1, 2, &sent, Some(1000));
    client.send(emulator.client_addr(), 1, 2, &sent[..500], None);
    let mut received = vec![];
    for _ in 0..41 {
        received.extend_from_slice(&server.expect().data);
    }
    assert_eq!(received, sent);
    assert_eq!(server.expect().data[..], sent[..500]);
    let wire_bytes = sent.len() as u64 + 500 + 42 * 28;
    assert_eq!(emulator.stats().to_server.total().delivered, Tally { packets: 42, bytes: wire_bytes });
}

#[test]
fn normal_priority_loses_nothing_in_an_overload_of_low_priority() {
    if !sends_code_points() {
        return skipped("code points");
    }
    let (dscps, stats) = overload(Discipline::Priority);
    assert_eq!(stats.to_server.level(Level::PRIMARY).dropped.packets, 0);
    assert_eq!(dscps.iter().filter(|dscp| **dscp == 0).count(), 15);
    assert!(stats.to_server.level(Level::FIRST).dropped.packets >= 200);
    assert_eq!(dscps.last(), Some(&1), "normal packets must overtake what was queued: {dscps:?}");
}

#[test]
fn without_priority_normal_packets_are_lost_like_others() {
    let (dscps, stats) = overload(Discipline::Fifo);
    assert!(stats.to_server.level(Level::PRIMARY).dropped.packets > 0, "{dscps:?}");
    assert!(dscps.is_sorted_by(|a, b| a >= b), "a queue that ignores marks must keep the order: {dscps:?}");
}

#[test]
fn flows_take_turns_in_fair_queues() {
    if !sends_code_points() {
        return skipped("code points");
    }
    let config = EmulatorConfig {
        buffer: 60_000,
        queue: Discipline::FlowFair,
        ..EmulatorConfig::new(Rate::from_bits_per_second(100_000).unwrap(), Duration::from_millis(2))
    };
    let (emulator, fat, mut server) = started(config);
    let sparse = Host::new();
    fat.send(emulator.client_addr(), 0, 0, &[7; 40 * 972], Some(972));
    stats_when(&emulator, |stats| stats.to_server.total().offered.packets == 40);
    sparse.send(emulator.client_addr(), 1, 0, &[7; 2 * 972], Some(972));
    let (mut fat_before, mut sparse_after) = (0, 0);
    while sparse_after < 2 {
        let datagram = server.expect();
        if datagram.meta.dscp == 1 {
            sparse_after += 1;
        } else {
            fat_before += 1;
        }
    }
    // The fat flow has more than three seconds to send; how much left before the sparse flow started depends on the
    // machine.
    assert!(fat_before < 35, "the sparse flow waited for {fat_before}");
}

#[test]
fn a_policer_drops_what_exceeds_its_rate_and_delays_nothing() {
    let began = Instant::now();
    let (dscps, stats) = overload(Discipline::Policer);
    let total = stats.to_server.total();
    // The bucket, plus what it gained during the test.
    let allowed = 30_000 + began.elapsed().as_millis() as u64 * 125 + 1000;
    assert!((30_000..=allowed).contains(&total.delivered.bytes), "{total:?} of {allowed}");
    assert!(total.dropped.packets > 0, "{total:?}");
    assert!(dscps.is_sorted_by(|a, b| a >= b), "a policer must keep the order: {dscps:?}");
}

#[test]
fn clients_are_peers_of_their_own_and_get_their_own_answers() {
    let (emulator, _, mut server) = started(EmulatorConfig::new(megabits(100), Duration::from_millis(1)));
    let mut clients: Vec<Host> = (0..5).map(|_| Host::new()).collect();
    let mut peers = vec![];
    for number in [0, 1, 2, 3, 4, 2] {
        clients[number].send(emulator.client_addr(), 0, 0, &[number as u8], None);
        let datagram = server.expect();
        assert_eq!(datagram.data[..], [number as u8]);
        peers.push(datagram.meta.remote);
    }
    assert_eq!(peers.pop(), Some(peers[2]));
    for (number, peer) in peers.iter().enumerate() {
        assert!(!peers[..number].contains(peer));
        server.send(*peer, 0, 0, &[number as u8], None);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.expect().data[..], [number as u8]);
    }
    assert_eq!(emulator.stats().clients, 5);
}

#[test]
fn a_stranger_cannot_speak_for_the_server() {
    let (emulator, mut client, mut server) = started(EmulatorConfig::new(megabits(100), Duration::ZERO));
    client.send(emulator.client_addr(), 0, 0, b"ping", None);
    let peer = server.expect().meta.remote;
    Host::new().send(peer, 0, 0, b"forged", None);
    server.send(peer, 0, 0, b"pong", None);
    assert_eq!(client.expect().data[..], *b"pong");
    assert_eq!(emulator.stats().to_client.total().offered.packets, 1);
}

#[test]
fn a_reset_empties_the_link_and_its_counts() {
    let config =
        EmulatorConfig { buffer: 1 << 20, ..EmulatorConfig::new(megabits(1), Duration::from_secs(2)) };
    let (emulator, client, mut server) = started(config);
    client.send(emulator.client_addr(), 0, 0, &[1; 20_000], Some(1000));
    stats_when(&emulator, |stats| stats.to_server.total().offered.packets == 20);
    emulator.reset();
    let stats = emulator.stats();
    assert_eq!((stats.to_server, stats.to_client), (LinkStats::default(), LinkStats::default()));
    client.send(emulator.client_addr(), 0, 0, &[2], None);
    assert_eq!(server.expect().data[..], [2]);
}

#[test]
fn background_traffic_loads_its_direction_only() {
    let config = EmulatorConfig { load: 0.5, ..EmulatorConfig::new(megabits(100), Duration::from_millis(2)) };
    let (emulator, mut client, mut server) = started(config);
    let stats = stats_when(&emulator, |stats| stats.to_server.total().delivered.packets > 500);
    assert_eq!(stats.to_client.total().offered.packets, 0);
    client.send(emulator.client_addr(), 0, 0, b"ping", None);
    let peer = server.expect().meta.remote;
    server.send(peer, 0, 0, b"pong", None);
    assert_eq!(client.expect().data[..], *b"pong");
}

#[test]
fn total_loss_delivers_nothing() {
    let config = EmulatorConfig { loss: 1.0, ..EmulatorConfig::new(megabits(100), Duration::ZERO) };
    let (emulator, client, mut server) = started(config);
    client.send(emulator.client_addr(), 0, 0, &[1; 20_000], Some(1000));
    let stats = stats_when(&emulator, |stats| stats.to_server.total().lost.packets == 20);
    assert_eq!(stats.to_server.total().delivered.packets, 0);
    assert!(server.receive(Duration::from_millis(20)).is_none());
}

#[test]
fn dropping_the_emulator_frees_its_port() {
    let (emulator, ..) = started(EmulatorConfig::new(megabits(100), Duration::ZERO));
    let address = emulator.client_addr();
    assert!(std::net::UdpSocket::bind(address).is_err());
    drop(emulator);
    std::net::UdpSocket::bind(address).unwrap();
}

#[test]
fn an_ipv6_server_is_reached_over_ipv6() {
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let Ok(server) = std::net::UdpSocket::bind(address) else { return skipped("IPv6") };
    let emulator =
        LinkEmulator::start(EmulatorConfig::new(megabits(100), Duration::ZERO), server.local_addr().unwrap())
            .unwrap();
    let client = std::net::UdpSocket::bind(address).unwrap();
    client.send_to(b"ping", emulator.client_addr()).unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 10];
    let (len, peer) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(buffer[..len], *b"ping");
    server.send_to(b"pong", peer).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let (len, from) = client.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..len], from), (&b"pong"[..], emulator.client_addr()));
}
