//! A router handles super-packets exactly as it handles their segments, which are built here independently.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use etherparse::{IpHeaders, Ipv4Header, Ipv6FlowLabel, Ipv6Header, PacketBuilder, TcpHeader};
use kickass::{
    Rate,
    law::Fixed,
    offload::{Account, DevicePacket, Offload, PartialChecksum, Segment, SegmentRun, SuperSegment},
    packet::Packet,
    queue::{DropTail, FqCodel, FqCodelConfig, Levels, Queue, Queued, Routed, StrictPriority},
    router::{Router, RouterConfig, RouterPacket},
    sampling::Sampling,
    signal::{Ipv6, SignalConfig},
};
use proptest::{collection::vec, prelude::*};
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// Bytes of one flow that a host sends at once.
#[derive(Debug, Clone)]
struct Burst {
    ipv6: bool,
    tcp: bool,
    port: u16,
    identification: u16,
    sequence: u32,
    flags: u8,
    dscp: u8,
    ecn: u8,
    dont_fragment: bool,
    payload: usize,
    size: usize,
}

impl Burst {
    fn headers(&self) -> usize {
        let ip = if self.ipv6 { 40 } else { 20 };
        ip + if self.tcp { TCP_HEADER } else { UDP_HEADER }
    }

    /// The packet with these bytes of the payload and these fields.
    fn packet(&self, from: usize, to: usize, identification: u16, flags: u8) -> Vec<u8> {
        let payload: Vec<u8> = (from..to).map(|n| (n * n / 251 + usize::from(self.port)) as u8).collect();
        let ip = if self.ipv6 {
            let mut header = Ipv6Header {
                traffic_class: self.dscp << 2 | self.ecn,
                flow_label: Ipv6FlowLabel::ZERO,
                hop_limit: 64,
                source: [0xfd; 16],
                destination: [0xfe; 16],
                ..Default::default()
            };
            header.next_header = if self.tcp { 6 } else { 17 }.into();
            IpHeaders::Ipv6(header, Default::default())
        } else {
            let mut header = Ipv4Header::new(0, 64, 17.into(), [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
            header.dscp = self.dscp.try_into().unwrap();
            header.ecn = self.ecn.try_into().unwrap();
            (header.dont_fragment, header.identification) = (self.dont_fragment, identification);
            IpHeaders::Ipv4(header, Default::default())
        };
        let mut bytes = Vec::new();
        let builder = PacketBuilder::ip(ip);
        if self.tcp {
            let sequence = self.sequence.wrapping_add(from as u32);
            let mut header = TcpHeader::new(self.port, 2000, sequence, 1000);
            (header.acknowledgment_number, header.ack) = (77, flags & ACK != 0);
            (header.fin, header.psh) = (flags & FIN != 0, flags & PSH != 0);
            (header.ece, header.cwr) = (flags & ECE != 0, flags & CWR != 0);
            builder.tcp_header(header).write(&mut bytes, &payload).unwrap();
        } else {
            builder.udp(self.port, 2000).write(&mut bytes, &payload).unwrap();
        }
        bytes
    }

    fn segments(&self) -> Vec<Vec<u8>> {
        let count = self.payload.div_ceil(self.size).max(1);
        (0..count)
            .map(|n| {
                let (from, to) = (n * self.size, self.payload.min((n + 1) * self.size));
                let first = if n > 0 { CWR } else { 0 };
                let last = if n + 1 < count { FIN | PSH } else { 0 };
                self.packet(from, to, self.identification.wrapping_add(n as u16), self.flags & !first & !last)
            })
            .collect()
    }

    fn super_packet(&self) -> (Packet, Offload) {
        let mut bytes = self.packet(0, self.payload, self.identification, self.flags);
        let offload = leave_to_device(&mut bytes, self.headers(), self.tcp);
        let segment_size = (self.payload > self.size).then_some(self.size as u16);
        (Packet::parse(bytes).unwrap(), Offload { segment_size, ..offload })
    }
}

/// Replaces the checksum by that of the pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1).
fn leave_to_device(bytes: &mut [u8], headers: usize, tcp: bool) -> Offload {
    let (addresses, start) = if bytes[0] >> 4 == 6 { (8..40, 40) } else { (12..20, 20) };
    assert_eq!(headers, start + if tcp { TCP_HEADER } else { UDP_HEADER });
    let mut sum: u32 =
        bytes[addresses].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    sum += if tcp { 6 } else { 17 } + (bytes.len() - start) as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let offset = if tcp { 16 } else { 6 };
    bytes[start + offset..start + offset + 2].copy_from_slice(&(sum as u16).to_be_bytes());
    let checksum = PartialChecksum { start: start as u16, offset: offset as u16 };
    Offload { segment_size: None, checksum: Some(checksum) }
}

fn arrive(packet: Packet, offload: Offload) -> Vec<Segment> {
    match offload.apply(packet, &Account::default()).unwrap() {
        DevicePacket::Whole(packet) => vec![packet.into()],
        DevicePacket::Super(packet) => SuperSegment::all(&Arc::new(packet)).map(Segment::Part).collect(),
    }
}

fn bursts() -> impl Strategy<Value = Burst> {
    let flags =
        prop_oneof![Just(ACK), Just(ACK | PSH), Just(ACK | FIN), Just(ACK | CWR), Just(ACK | ECE | PSH)];
    (
        (any::<bool>(), any::<bool>(), 1..4_u16, any::<u16>(), any::<u32>(), flags),
        (prop_oneof![Just(0_u8), Just(8), Just(3)], 0..4_u8, any::<bool>(), 0..40_000_usize, 100..1400_usize),
    )
        .prop_map(|((ipv6, tcp, port, identification, sequence, flags), rest)| {
            let (dscp, ecn, dont_fragment, payload, size) = rest;
            Burst {
                ipv6,
                tcp,
                port,
                identification,
                sequence,
                flags,
                dscp,
                ecn,
                dont_fragment,
                payload,
                size,
            }
        })
}

#[derive(Debug, Clone, Copy)]
enum Discipline {
    DropTail,
    Levels,
    FqCodel,
}

fn queue<T: Queued + Routed + 'static>(discipline: Discipline, limit: u64) -> Box<dyn Queue<T>> {
    match discipline {
        Discipline::DropTail => Box::new(DropTail::new(limit)),
        Discipline::Levels => Box::new(StrictPriority::new(Levels::ladder().with(8, 15), limit)),
        Discipline::FqCodel => Box::new(FqCodel::new(FqCodelConfig { limit, key: 7, ..Default::default() })),
    }
}

/// A port with a link of 100 Mbit/s, and what left when.
struct Port<P> {
    router: Router<Box<dyn Queue<P>>, Fixed, P>,
    left: Vec<(Instant, P)>,
}

impl<P: RouterPacket + Queued + Routed + 'static> Port<P> {
    fn new(discipline: Discipline, limit: u64, sampling: Sampling, now: Instant) -> Self {
        let signals = SignalConfig { sampling, ipv6: Ipv6::All, ..Default::default() };
        let link = Rate::nearest(100e6);
        let config = RouterConfig { signals, link, seed: 3, ..Default::default() };
        let law = Fixed(Rate::nearest(2e6).unwrap());
        Self { router: Router::new(config, queue(discipline, limit), law, now), left: Vec::new() }
    }

    fn run_until(&mut self, end: Instant) {
        while let Some(free) = self.router.poll_timeout().filter(|free| *free <= end) {
            let Some(packet) = self.router.dequeue(free) else { break };
            self.left.push((self.router.link_free(), packet));
        }
    }
}

/// A datagram shorter than the segments before it ends a run, although its own super-packet goes on.
#[test]
fn a_run_ends_with_its_first_short_segment() {
    let burst = |payload, size| Burst {
        ipv6: true,
        tcp: false,
        port: 3,
        identification: 0,
        sequence: 0,
        flags: 0,
        dscp: 0,
        ecn: 0,
        dont_fragment: false,
        payload,
        size,
    };
    let bursts = [burst(700, 400), burst(197, 100)];
    let parts = bursts.iter().flat_map(|burst| {
        let (packet, offload) = burst.super_packet();
        arrive(packet, offload)
    });
    // The first segment of the first burst left on its own, so a segment of 300 bytes begins the run.
    let mut run = SegmentRun::default();
    let joined = parts.skip(1).map(|segment| {
        let Segment::Part(part) = segment else { panic!("whole") };
        let continues = run.continues_with(&part);
        if continues {
            run.push(part);
        }
        continues
    });
    assert_eq!(joined.collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(device(&run), [&bursts[0].segments()[1..], &bursts[1].segments()[..1]].concat());
}

/// The packets that a device makes of a run.
fn device(run: &SegmentRun) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    run.write_header(&mut bytes);
    assert_eq!(bytes.len(), run.headers());
    run.payload().for_each(|piece| bytes.extend_from_slice(piece));
    let (headers, payload) = (run.headers(), bytes.len() - run.headers());
    let ipv6 = bytes[0] >> 4 == 6;
    let tcp = bytes[if ipv6 { 6 } else { 9 }] == 6;
    let mut checked = bytes.clone();
    let mut expected = leave_to_device(&mut checked, headers, tcp);
    assert_eq!(checked, bytes, "the partial checksum is that of the pseudo-header");
    let offload = run.offload();
    expected.segment_size = offload.segment_size;
    assert_eq!(offload, expected);
    let transport = &bytes[if ipv6 { 40 } else { 20 }..];
    let burst = Burst {
        ipv6,
        tcp,
        port: u16::from_be_bytes([transport[0], transport[1]]),
        identification: u16::from_be_bytes([bytes[4], bytes[5]]),
        sequence: u32::from_be_bytes(transport[4..8].try_into().unwrap()),
        flags: if tcp { transport[13] } else { 0 },
        dscp: if ipv6 { (bytes[0] << 4 | bytes[1] >> 4) >> 2 } else { bytes[1] >> 2 },
        ecn: if ipv6 { bytes[1] >> 4 & 3 } else { bytes[1] & 3 },
        dont_fragment: !ipv6 && bytes[6] & 0x40 != 0,
        payload,
        size: offload.segment_size.map_or_else(|| payload.max(1), usize::from),
    };
    // The content of the payload is not that of a burst, so it is put in its place.
    let mut segments = burst.segments();
    for (n, segment) in segments.iter_mut().enumerate() {
        let from = headers + n * burst.size;
        let content = &bytes[from..bytes.len().min(from + burst.size)];
        segment[headers..].copy_from_slice(content);
        let offload = leave_to_device(segment, headers, tcp);
        let Ok(DevicePacket::Super(one)) =
            offload.apply(Packet::parse(segment.clone()).unwrap(), &Account::default())
        else {
            panic!("not a segment")
        };
        *segment = one.segment(0).into_bytes();
    }
    segments
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// The same bytes in the same order at the same times, whatever is dropped, marked, signalled or overtaken.
    #[test]
    fn super_packets_leave_as_their_segments(
        bursts in vec((0..20_000_u64, bursts()), 1..8),
        discipline in prop_oneof![Just(Discipline::DropTail), Just(Discipline::Levels), Just(Discipline::FqCodel)],
        limit in 20_000..200_000_u64,
        always in any::<bool>(),
    ) {
        let start = Instant::now();
        let sampling =
            if always { Sampling::Always } else { Sampling::Interval(Duration::from_millis(1)) };
        let mut single: Port<Packet> = Port::new(discipline, limit, sampling, start);
        let mut shared: Port<Segment> = Port::new(discipline, limit, sampling, start);
        let mut now = start;
        for (gap, burst) in &bursts {
            now += Duration::from_micros(*gap);
            single.run_until(now);
            shared.run_until(now);
            for segment in burst.segments() {
                single.router.enqueue(now, segment).unwrap();
            }
            let (packet, offload) = burst.super_packet();
            for segment in arrive(packet, offload) {
                shared.router.enqueue_packet(now, segment);
            }
        }
        let end = now + Duration::from_secs(60);
        single.run_until(end);
        shared.run_until(end);
        prop_assert_eq!(single.router.stats(), shared.router.stats());
        let single: Vec<_> = single.left.into_iter().map(|(at, packet)| (at, packet.into_bytes())).collect();

        // What a device makes of the runs.
        let mut devices: Vec<Vec<u8>> = Vec::new();
        let mut run = SegmentRun::default();
        for (_, segment) in &shared.left {
            if let Segment::Part(part) = segment && run.continues_with(part) {
                run.push(part.clone());
                continue;
            }
            if !run.is_empty() {
                devices.extend(device(&run));
                run.clear(drop);
            }
            match segment {
                Segment::Part(part) => run.push(part.clone()),
                Segment::Whole(packet) => devices.push(packet.as_bytes().to_vec()),
            }
        }
        if !run.is_empty() {
            devices.extend(device(&run));
        }
        let shared: Vec<_> =
            shared.left.into_iter().map(|(at, segment)| (at, segment.into_packet().into_bytes())).collect();
        prop_assert_eq!(&single, &shared);
        prop_assert!(single.iter().map(|(_, bytes)| bytes).eq(devices.iter()), "of runs");
    }

    /// Whatever the headers say, segments are packets and together have the bytes that were counted.
    #[test]
    fn no_header_makes_a_segment_that_is_no_packet(
        burst in bursts(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        whole in any::<bool>(),
        size in prop::option::of(any::<u16>()),
        checksum in prop::option::of((0..100_u16, prop_oneof![Just(6_u16), Just(16), any::<u16>()])),
    ) {
        let (packet, offload) = burst.super_packet();
        let mut bytes = packet.into_bytes();
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        for (at, byte) in changes {
            let front = bytes.len().min(80);
            if front > 0 {
                bytes[at.index(front)] = byte;
            }
        }
        // Most changes make the checksum of IPv4 wrong, which would hide all others.
        if bytes.len() >= 20 && bytes[0] == 0x45 {
            bytes[10..12].fill(0);
            let mut sum: u32 = bytes[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            bytes[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        let checksum = checksum.map(|(start, offset)| PartialChecksum { start, offset }).or(offload.checksum);
        let offload = Offload { segment_size: size.or(offload.segment_size), checksum };
        let Ok(packet) = Packet::parse(bytes) else { return Ok(()) };
        let len = packet.total_len();
        let Ok(DevicePacket::Super(packet)) = offload.apply(packet, &Account::default()) else { return Ok(()) };
        let packet = Arc::new(packet);
        prop_assert!(packet.count() <= len);
        let mut run = SegmentRun::default();
        let (mut total, mut in_runs) = (0, 0);
        for part in SuperSegment::all(&packet) {
            let segment = part.to_packet();
            prop_assert_eq!(segment.total_len(), part.total_len());
            prop_assert!(segment.total_len() <= packet.segment_len(0));
            total += segment.total_len();
            let again = Packet::parse(segment.into_bytes()).unwrap();
            prop_assert_eq!(again.flow(), packet.packet().flow());
            if !run.continues_with(&part) {
                in_runs += run.bytes();
                run.clear(drop);
            }
            run.push(part);
        }
        prop_assert_eq!(total, packet.bytes());
        prop_assert_eq!(in_runs + run.bytes(), total);
    }
}
