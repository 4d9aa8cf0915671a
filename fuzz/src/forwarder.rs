//! The whole path of a packet in `kickass forward`: any bytes, any segments, any order of reads, writes and refusals.
//! Apart from the other targets because it needs that crate; replayed by that crate's tests.
//!
//! Claims: nothing panics; what waits stays within the budgets; only packets leave; every packet is counted, once; and
//! once nothing arrives any more, everything leaves or is dropped, and all memory is free again.

use std::time::{Duration, Instant};

use arbitrary::{Arbitrary, Unstructured};
use etherparse::checksum::Sum16BitWords;
use kickass::{
    offload::{Offload, PartialChecksum, SegmentRun},
    packet::Packet,
};
use kickass_tools::forward::{
    config::Config,
    forwarder::{Forwarder, RunLimits},
    statistics::{PortTotals, Totals},
};

/// Operations taken from one input.
const OPS_MAX: usize = 256;
const PORTS: usize = 3;
/// Bytes of queues: one that overflows soon, and one that holds more short packets than it may.
const BUFFERS: [u64; 2] = [65_535, 4_000_000];
/// Budgets of a forwarder: short packets in a queue, packets of a line with a delay of a millisecond, and bytes of
/// super-packets beside twice the bytes that wait.
const SHORT_MAX: u64 = 8192;
const LINE_MAX: u64 = 1024 + 22_000;
const SHARED_MAX: u64 = 16 << 20;
/// The most that one super-packet adds before it counts.
const SUPER_MAX: u64 = 70_000;

#[derive(Debug, Arbitrary)]
struct Settings {
    queue: u8,
    rate: u8,
    signals: u8,
    short_mtu: bool,
    large: bool,
    delayed: bool,
    another: u8,
}

#[derive(Debug, Arbitrary)]
enum Op {
    /// A packet with addresses that have a route, and otherwise mostly as it should be.
    Datagram { from: u8, to: u8, len: u16, tcp: bool, dscp: u8, hop_limit: u8, whole: bool, left: Left },
    /// Any bytes.
    Bytes { from: u8, len: u8, left: Left },
    /// The same super-packet of short segments many times.
    Flood { from: u8, to: u8, count: u8, segments: u8 },
    /// Time passes.
    Advance { micros: u16 },
    /// As many packets or runs as the device takes now.
    Write { port: u8, count: u8, refused: bool, runs: bool },
    /// The other configuration.
    Reload,
}

/// What is left to the device.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Left {
    Nothing,
    Checksum,
    Segments(u16),
    Contradiction { size: Option<u16>, start: u16, offset: u16 },
    Unknown,
}

/// Runs one input.
pub(crate) fn forwarder(input: &[u8]) {
    let mut input = Unstructured::new(input);
    let Ok(settings) = Settings::arbitrary(&mut input) else { return };
    let configs = [settings.queue, settings.another].map(|queue| config(&settings, queue));
    let start = Instant::now();
    let buffer = BUFFERS[usize::from(settings.large)];
    let mut lab =
        Lab { forwarder: Forwarder::new(&configs[0], 7, start), buffer, now: start, fragments: false };
    let mut reloads = 0;
    for _ in 0..OPS_MAX {
        let Ok(op) = Op::arbitrary(&mut input) else { break };
        match op {
            Op::Datagram { from, to, len, tcp, dscp, hop_limit, whole, left } => {
                let packet = datagram(from, to, len, tcp, dscp, hop_limit, whole);
                lab.receive(from, packet, left);
            }
            Op::Bytes { from, len, left } => {
                let bytes = input.bytes(usize::from(len).min(input.len())).unwrap_or_default().to_vec();
                lab.receive(from, bytes, left);
            }
            Op::Flood { from, to, count, segments } => {
                let packet = datagram(from, to, u16::from(segments), false, 0, 64, true);
                for _ in 0..count {
                    lab.receive(from, packet.clone(), Left::Segments(1));
                }
            }
            Op::Advance { micros } => lab.advance(Duration::from_micros(micros.into())),
            Op::Write { port, count, refused, runs } => {
                for _ in 0..count {
                    if !lab.write(port, refused, runs) {
                        break;
                    }
                }
            }
            Op::Reload => {
                reloads += 1;
                lab.forwarder.reload(&configs[reloads % 2], lab.now);
            }
        }
        lab.check();
    }
    lab.wind_up();
}

fn config(settings: &Settings, queue: u8) -> Config {
    let queue = [
        "{ kind = \"drop-tail\" }",
        "{ kind = \"strict-priority\", levels = { 8 = 15, 3 = 1 } }",
        "{ kind = \"fq-codel\", target = \"1ms\", interval = \"2ms\" }",
    ][usize::from(queue % 3)];
    let rate = ["100kbit", "10mbit", "1gbit", "100gbit"][usize::from(settings.rate % 4)];
    let signals = [
        "{ on = false }",
        "{ fixed = \"5mbit\", ipv6 = \"all\" }",
        "{ sampling = { interval = \"1ms\" } }",
        "{ sampling = { flows = 4 }, silence = \"threshold\" }",
    ][usize::from(settings.signals % 4)];
    let mtu = if settings.short_mtu { 1280 } else { 65_535 };
    let delay = if settings.delayed { "1ms" } else { "0s" };
    let buffer = BUFFERS[usize::from(settings.large)];
    let mut text = String::from("[forward]\naddresses = [\"10.0.9.1\", \"fd00:9::1\"]\n");
    for port in 0..PORTS {
        text += &format!(
            "[[port]]\nname = \"p{port}\"\nroutes = [\"10.0.{port}.0/24\", \"fd00:{port}::/32\"]\nrate = \"{rate}\"\n\
             delay = \"{delay}\"\nbuffer = \"{buffer}\"\nqueue = {queue}\nkickass = {signals}\nmtu = {mtu}\n"
        );
    }
    Config::parse(&text, "fuzz.toml").expect("a configuration")
}

struct Lab {
    forwarder: Forwarder,
    /// Bytes that a queue may hold.
    buffer: u64,
    now: Instant,
    /// Whether a packet may have been fragmented for its length, which adds packets.
    fragments: bool,
}

impl Lab {
    fn receive(&mut self, from: u8, packet: Vec<u8>, left: Left) {
        let offload = |size, start, offset| {
            Some(Offload { segment_size: size, checksum: Some(PartialChecksum { start, offset }) })
        };
        let header = if packet.first().is_some_and(|byte| byte >> 4 == 6) { 40 } else { 20 };
        let field = if packet.get(if header == 40 { 6 } else { 9 }) == Some(&6) { 16 } else { 6 };
        let offload = match left {
            Left::Nothing => Some(Offload::default()),
            Left::Checksum => offload(None, header, field),
            Left::Segments(size) => offload(Some(size), header, field),
            Left::Contradiction { size, start, offset: at } => offload(size, start, at),
            Left::Unknown => None,
        };
        self.fragments |= packet.len() > 1280;
        self.forwarder.advance(self.now);
        let packets = self.forwarder.receive(self.now, port(from), packet, offload);
        assert!((1..=65_535).contains(&packets));
    }

    fn advance(&mut self, time: Duration) {
        self.now += time;
        self.forwarder.advance(self.now);
    }

    /// Writes a packet or a run; false if there was none.
    fn write(&mut self, to: u8, refused: bool, runs: bool) -> bool {
        let to = port(to);
        let limits = if runs { RunLimits { segments: 64, datagrams: 64 } } else { RunLimits::default() };
        let mut run = SegmentRun::default();
        if let Some(packet) = self.forwarder.poll_transmit(self.now, to, limits, &mut run) {
            assert!(run.is_empty());
            assert_eq!(Packet::parse(packet.clone()).map(Packet::into_bytes).as_ref(), Ok(&packet));
            self.forwarder.on_transmit(to, 1, packet.len(), !refused);
            self.forwarder.recycle(packet);
            return true;
        }
        let segments = run.segments();
        if segments > 0 {
            let mut bytes = Vec::new();
            run.write_header(&mut bytes);
            run.payload().for_each(|piece| bytes.extend_from_slice(piece));
            assert!(Packet::parse(bytes).is_ok(), "a run is a packet");
            self.forwarder.on_transmit(to, segments, run.bytes(), !refused);
            run.clear(|buffer| self.forwarder.recycle(buffer));
        }
        segments > 0
    }

    /// What must hold at any time.
    fn check(&self) {
        let totals = self.forwarder.totals();
        let mut held = 0;
        for port in &totals.ports {
            let PortTotals { waiting, line, .. } = port;
            // The second fragment of a packet is not in the queue any more.
            assert!(waiting.bytes <= self.buffer + 65_535, "{port:?}");
            assert!(waiting.packets <= SHORT_MAX + waiting.bytes / 256 + 1, "{port:?}");
            assert!(line.packets <= LINE_MAX, "{port:?}");
            held += waiting.bytes + line.bytes;
        }
        assert!(
            totals.shared_bytes <= SHARED_MAX + 2 * held + SUPER_MAX,
            "{} for {held}",
            totals.shared_bytes
        );
        let (before, after) = balance(&totals);
        assert!(
            before == after || (self.fragments && before < after),
            "{before} in, {after} out: {totals:?}"
        );
    }

    /// Lets everything leave.
    fn wind_up(&mut self) {
        while let Some(next) = self.forwarder.poll_timeout() {
            self.now = self.now.max(next);
            self.forwarder.advance(self.now);
            for port in 0..PORTS as u8 {
                while self.write(port, false, true) {}
            }
        }
        self.check();
        let totals = self.forwarder.totals();
        for port in &totals.ports {
            assert_eq!((port.waiting.packets, port.waiting.bytes), (0, 0), "{port:?}");
            assert_eq!((port.line.packets, port.line.bytes), (0, 0), "{port:?}");
        }
        assert_eq!(totals.shared_bytes, 0);
    }
}

/// Packets that came, and those that left, were dropped, or are here.
fn balance(totals: &Totals) -> (u64, u64) {
    let came = |port: &PortTotals| port.received.packets + port.icmp + port.signalled + port.lowered;
    let went =
        |port: &PortTotals| port.sent.packets + port.drops() + port.waiting.packets + port.line.packets;
    (totals.ports.iter().map(came).sum(), totals.ports.iter().map(went).sum())
}

fn port(byte: u8) -> usize {
    usize::from(byte) % PORTS
}

/// A packet of UDP or TCP with this much payload. Every other source has IPv6.
fn datagram(from: u8, to: u8, payload: u16, tcp: bool, dscp: u8, hop_limit: u8, whole: bool) -> Vec<u8> {
    let (protocol, transport) = if tcp { (6, 20) } else { (17, 8) };
    let is_ipv6 = from & 0x80 != 0;
    let header = if is_ipv6 { 40 } else { 20 };
    let payload = usize::from(payload).min(65_535 - header - transport);
    let len = header + transport + payload;
    let mut packet = vec![0x5a; len];
    let net = [from, to].map(|byte| port(byte) as u8);
    if is_ipv6 {
        packet[..40].fill(0);
        (packet[0], packet[1]) = (0x60 | (dscp & 0x3f) >> 2, dscp << 6);
        packet[4..6].copy_from_slice(&((transport + payload) as u16).to_be_bytes());
        (packet[6], packet[7]) = (protocol, hop_limit);
        for (at, net) in [(8, net[0]), (24, net[1])] {
            packet[at..at + 4].copy_from_slice(&[0xfd, 0, 0, net]);
            packet[at + 15] = 2;
        }
    } else {
        let flags = if whole { 0x40 } else { 0 };
        packet[..12].copy_from_slice(&[0x45, dscp << 2, 0, 0, 0, 7, flags, 0, hop_limit, protocol, 0, 0]);
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[12..20].copy_from_slice(&[10, 0, net[0], 2, 10, 0, net[1], 2]);
        let checksum = Sum16BitWords::new().add_slice(&packet[..20]).ones_complement();
        packet[10..12].copy_from_slice(&checksum.to_ne_bytes());
    }
    if tcp {
        // Five words of header, ACK.
        (packet[header + 12], packet[header + 13]) = (0x50, 0x10);
    } else {
        packet[header + 4..header + 6].copy_from_slice(&((transport + payload) as u16).to_be_bytes());
    }
    packet
}
