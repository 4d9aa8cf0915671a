//! What a WAN does to packets on purpose: loss and corruption both ways, outages, and a NAT that forgets.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddrV4},
    time::{Duration, Instant},
};

use etherparse::Ipv4HeaderSlice;
use kickass::packet::Packet;
use rc3_link::random::Random;
use serde::{Deserialize, Serialize};

use super::seen::Seen;

/// So many packets in a row are lost or corrupted at most.
const BURST_MAX: u32 = 3;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// Port of the server.
const SERVER: u16 = 443;
/// The first port behind the NAT.
const NAT_PORT: u16 = 20_000;
/// Last byte of the first address of the NAT behind the client's own.
const NAT_HOST: u8 = 100;

/// What happens to UDP packets of IPv4 with port 443, both ways; to nothing else.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Meddling {
    /// Share of the packets that are lost.
    pub lost: f64,
    /// Share of the packets in which a byte of the payload is changed.
    pub corrupted: f64,
    /// The client's packets of these numbers are lost, counted from 1.
    pub dropped: Vec<u64>,
    /// The path is away for so long, after it was there for so long.
    pub outages: Option<[Duration; 2]>,
    /// A NAT gives the client another port: first after so long, then each time after so long.
    pub rebinding: Option<[Duration; 2]>,
    /// And another address.
    pub readdressing: bool,
    /// Header bytes of short packets are recorded.
    pub sampled: bool,
}

/// At work, and what came through.
pub(super) struct Meddler {
    meddling: Meddling,
    random: Random,
    /// First packet.
    began: Option<Instant>,
    client_packets: u64,
    /// Packets in a row that were lost or corrupted, by direction.
    streak: [u32; 2],
    /// Who is behind the present addresses of the NAT.
    behind: HashMap<SocketAddrV4, SocketAddrV4>,
    pub(super) seen: Seen,
}

impl Meddler {
    pub(super) fn new(meddling: Meddling, seed: u64) -> Self {
        let random = Random::new(seed);
        let seen = Seen::new(meddling.sampled);
        Self {
            meddling,
            random,
            began: None,
            client_packets: 0,
            streak: [0; 2],
            behind: HashMap::new(),
            seen,
        }
    }

    /// What goes on of a packet from a client's or a server's side.
    pub(super) fn handle(&mut self, now: Instant, from_server: bool, packet: Packet) -> Option<Packet> {
        let Some(ends) = ends(&packet).filter(|ends| ends[usize::from(!from_server)].port() == SERVER) else {
            return Some(packet);
        };
        let began = *self.began.get_or_insert(now);
        let time = now.saturating_duration_since(began);
        let ecn = packet.ecn();
        // The server's view: what it sends, and what gets through to it.
        if from_server {
            self.seen.note(true, ecn, ends, datagram(packet.as_bytes()));
        } else {
            self.client_packets += 1;
        }
        if self.is_away(time) || !from_server && self.meddling.dropped.contains(&self.client_packets) {
            return None;
        }
        let mut bytes = packet.into_bytes();
        self.translate(time, from_server, &mut bytes)?;
        if self.happens(self.meddling.lost, from_server) {
            return None;
        }
        if self.happens(self.meddling.corrupted, from_server) {
            self.corrupt(&mut bytes);
        }
        if !from_server {
            let ends = ends_of(&bytes)?;
            self.seen.note(false, ecn, ends, datagram(&bytes));
        }
        Packet::parse(bytes).ok()
    }

    fn is_away(&self, time: Duration) -> bool {
        self.meddling
            .outages
            .is_some_and(|[on, off]| time.as_secs_f64() % (on + off).as_secs_f64() >= on.as_secs_f64())
    }

    fn happens(&mut self, share: f64, from_server: bool) -> bool {
        if share == 0.0 {
            return false;
        }
        let drawn = self.random.unit() < share;
        let streak = &mut self.streak[usize::from(from_server)];
        let happens = drawn && *streak < BURST_MAX;
        *streak = if happens { *streak + 1 } else { 0 };
        happens
    }

    /// The checksum is that of the changed packet, or hosts would drop it before QUIC sees it.
    fn corrupt(&mut self, bytes: &mut [u8]) {
        let payload = header_len(bytes) + UDP_HEADER;
        if let Some(len) = bytes.len().checked_sub(payload).filter(|len| *len > 0) {
            bytes[payload + self.random.below(len)] ^= 1 << self.random.below(8);
            forget_checksum(bytes);
        }
    }

    /// Another port and address for the client, or its own again. `None`: the NAT no longer knows it.
    fn translate(&mut self, time: Duration, from_server: bool, bytes: &mut [u8]) -> Option<()> {
        let Some([first, every]) = self.meddling.rebinding else { return Some(()) };
        let period =
            time.checked_sub(first).map_or(0, |after| 1 + (after.as_millis() / every.as_millis()) as u16);
        let [source, destination] = ends_of(bytes)?;
        let (end, address) = if from_server {
            (destination, *self.behind.get(&destination)?)
        } else {
            let [a, b, c, d] = source.ip().octets();
            let host = if self.meddling.readdressing && period > 0 { NAT_HOST + period as u8 } else { d };
            let port = NAT_PORT + (source.port() % 1000) * 32 + period;
            let outside = SocketAddrV4::new(Ipv4Addr::new(a, b, c, host), port);
            // Mappings of the period before are gone.
            self.behind.retain(|outside, inside| outside.port() == port || *inside != source);
            self.behind.insert(outside, source);
            (source, outside)
        };
        let header = header_len(bytes);
        let (ip, port) = if end == source && !from_server { (12, header) } else { (16, header + 2) };
        bytes[ip..ip + 4].copy_from_slice(&address.ip().octets());
        bytes[port..port + 2].copy_from_slice(&address.port().to_be_bytes());
        forget_checksum(bytes);
        let sum = Ipv4HeaderSlice::from_slice(bytes).ok()?.to_header().calc_header_checksum();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        Some(())
    }
}

fn header_len(bytes: &[u8]) -> usize {
    usize::from(bytes[0] & 0xf) * 4
}

/// No checksum is a valid one over IPv4 (RFC 768).
fn forget_checksum(bytes: &mut [u8]) {
    let at = header_len(bytes) + 6;
    bytes[at..at + 2].fill(0);
}

fn datagram(bytes: &[u8]) -> &[u8] {
    bytes.get(header_len(bytes) + UDP_HEADER..).unwrap_or_default()
}

/// Source and destination, if it is a whole packet of UDP.
fn ends(packet: &Packet) -> Option<[SocketAddrV4; 2]> {
    let is_udp = !packet.is_ipv6() && packet.protocol() == UDP && packet.fragment().is_none();
    if is_udp { ends_of(packet.as_bytes()) } else { None }
}

fn ends_of(bytes: &[u8]) -> Option<[SocketAddrV4; 2]> {
    let header = header_len(bytes);
    let end = |ip: usize, port: usize| {
        let ip: [u8; 4] = bytes.get(ip..ip + 4)?.try_into().ok()?;
        let port: [u8; 2] = bytes.get(port..port + 2)?.try_into().ok()?;
        Some(SocketAddrV4::new(ip.into(), u16::from_be_bytes(port)))
    };
    // Nothing is left to change in a packet without a UDP header.
    bytes.get(header..header + UDP_HEADER)?;
    Some([end(12, header)?, end(16, header + 2)?])
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    const CLIENT: ([u8; 4], u16) = ([10, 93, 0, 1], 5000);

    fn packet(source: ([u8; 4], u16), destination: ([u8; 4], u16)) -> Packet {
        let builder = PacketBuilder::ipv4(source.0, destination.0, 64).udp(source.1, destination.1);
        let mut bytes = Vec::new();
        builder.write(&mut bytes, b"payload").unwrap();
        Packet::parse(bytes).unwrap()
    }

    #[test]
    fn a_nat_changes_the_client_and_finds_it_again() {
        let second = Duration::from_secs(1);
        let meddling =
            Meddling { rebinding: Some([second, second]), readdressing: true, ..Meddling::default() };
        let (mut meddler, now) = (Meddler::new(meddling, 1), Instant::now());
        let to_server = packet(CLIENT, ([10, 93, 2, 1], SERVER));
        let mut outside = Vec::new();
        for period in 0..3 {
            let at = now + second * period;
            let out = meddler.handle(at, false, to_server.clone()).unwrap();
            let [source, _] = ends(&out).unwrap();
            let back = packet(([10, 93, 2, 1], SERVER), (source.ip().octets(), source.port()));
            let back = meddler.handle(at, true, back).unwrap();
            let [_, inside] = ends(&back).unwrap();
            assert_eq!((inside.ip().octets(), inside.port()), CLIENT);
            outside.push(source);
        }
        assert!(outside[0].ip() != outside[1].ip() && outside[1] != outside[2]);
        let late = packet(([10, 93, 2, 1], SERVER), (outside[0].ip().octets(), outside[0].port()));
        assert!(meddler.handle(now + second * 2, true, late).is_none());
    }

    #[test]
    fn packets_are_lost_changed_or_none_of_it() {
        let now = Instant::now();
        let to_server = packet(CLIENT, ([10, 93, 2, 1], SERVER));
        let outages = Some([Duration::from_secs(5), Duration::from_secs(2)]);
        let mut meddler = Meddler::new(Meddling { dropped: vec![2], outages, ..Meddling::default() }, 1);
        let passes = [0, 1, 2, 6, 8].map(|second| {
            meddler.handle(now + Duration::from_secs(second), false, to_server.clone()).is_some()
        });
        assert_eq!(passes, [true, false, true, false, true]);
        let mut meddler = Meddler::new(Meddling { corrupted: 1.0, ..Meddling::default() }, 1);
        let changed = meddler.handle(now, false, to_server.clone()).unwrap();
        assert_ne!(datagram(changed.as_bytes()), datagram(to_server.as_bytes()));
        let tcp = packet(CLIENT, ([10, 93, 2, 1], SERVER + 1));
        assert_eq!(meddler.handle(now, false, tcp.clone()).unwrap().as_bytes(), tcp.as_bytes());
    }
}
