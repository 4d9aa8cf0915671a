//! What becomes of IP packets in `kickass`. Apart from the other targets because it needs nothing else; replayed by that
//! crate's tests.
//!
//! Checksums are hard to guess, so inputs say which packets get a right one, and lengths that fit.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use etherparse::checksum::Sum16BitWords;
use kickass::{
    code::Code,
    law::{Fixed, RateLaw},
    offload::{Account, DevicePacket, Offload, PartialChecksum, SegmentRun, SuperSegment},
    packet::Packet,
    queue::{DropTail, FqCodel, FqCodelConfig, Levels, Queue, StrictPriority},
    rcp,
    router::{self, Router},
    sampling::Sampling,
    signal::{self, Ipv6},
};

/// A packet cut at places from the input, and its parts again, is in parts that mean what their bytes say and cover it
/// exactly, each at its offset.
pub(crate) fn ip_packet(input: &[u8]) {
    // How many cuts of three bytes, a byte without meaning, whether to repair the packet.
    let Some((&[count, _, repair], rest)) = input.split_first_chunk() else { return };
    let count = usize::from(count % 16).min(rest.len() / 3);
    let (cuts, bytes) = rest.split_at(3 * count);
    let bytes = packet(repair & 1 == 1, bytes);
    let Ok(whole) = Packet::parse(bytes.clone()) else { return };
    assert!(bytes.starts_with(whole.as_bytes()));

    let mut parts = vec![whole.clone()];
    for cut in cuts.chunks_exact(3) {
        let which = usize::from(cut[0]) % parts.len();
        let lead = usize::from(u16::from_be_bytes([cut[1], cut[2]]));
        let before = parts[which].clone();
        match parts[which].split(lead, 0x0102_0304) {
            Ok(other) => parts.insert(which + 1, other),
            Err(_) => assert_eq!(parts[which], before),
        }
    }
    let content: Vec<u8> = parts.iter().flat_map(|part| part.payload().to_vec()).collect();
    assert_eq!(content, whole.payload());
    let first = whole.fragment().map_or(0, |fragment| fragment.offset);
    let mut offset = first;
    for part in &parts {
        if parts.len() > 1 {
            let place = part.fragment().expect("a fragment");
            assert_eq!((place.offset, part.leading_len().is_some()), (offset, offset == 0));
            offset += part.payload().len();
            let is_last = offset == first + content.len();
            assert_eq!(place.more, !is_last || whole.fragment().is_some_and(|fragment| fragment.more));
        }
        let _ = part.leading_len().and_then(Code::from_len);
        assert_eq!(Packet::parse(part.as_bytes().to_vec()).as_ref(), Ok(part));
        assert_eq!((part.source(), part.destination()), (whole.source(), whole.destination()));
        let _ = (part.flow().hash(7), part.dscp(), part.ecn(), signal::Subject::of(part));
    }
}

/// A super-packet is refused, or has segments that are packets and that are counted; and a run of them is a
/// super-packet of the same segments.
pub(crate) fn offload(input: &[u8]) {
    let Some((&[what, high, low, start, offset], rest)) = input.split_first_chunk() else { return };
    let Ok(whole) = Packet::parse(packet(what & 1 == 1, rest)) else { return };
    let checksum = PartialChecksum { start: start.into(), offset: offset.into() };
    let offload = Offload {
        segment_size: (what & 2 == 2).then(|| u16::from_be_bytes([high, low])),
        checksum: (what & 4 == 4).then_some(checksum),
    };
    let account = Account::default();
    match offload.apply(whole, &account) {
        Ok(DevicePacket::Super(packet)) => {
            let packet = Arc::new(packet);
            let mut run = SegmentRun::default();
            let (mut total, mut segments) = (0, Vec::new());
            for part in SuperSegment::all(&packet) {
                if !run.continues_with(&part) {
                    segments.append(&mut segments_of(&mut run, &account));
                }
                run.push(part.clone());
                let segment = part.to_packet();
                assert_eq!(Packet::parse(segment.as_bytes().to_vec()).as_ref(), Ok(&segment));
                assert_eq!(part.total_len(), segment.total_len());
                total += segment.total_len();
            }
            segments.append(&mut segments_of(&mut run, &account));
            assert_eq!((segments.len(), total), (packet.count(), packet.bytes()));
            assert!(segments.into_iter().eq(SuperSegment::all(&packet).map(|part| part.to_packet())));
        }
        Ok(DevicePacket::Whole(packet)) => {
            assert_eq!(Packet::parse(packet.as_bytes().to_vec()), Ok(packet));
        }
        Err(_) => {}
    }
    assert_eq!(account.bytes(), 0);
}

/// What a device makes of a run, which is then empty.
fn segments_of(run: &mut SegmentRun, account: &Account) -> Vec<Packet> {
    let mut bytes = Vec::new();
    run.write_header(&mut bytes);
    run.payload().for_each(|piece| bytes.extend_from_slice(piece));
    let packet = Packet::parse(bytes).expect("a run is a packet");
    let offload = run.offload();
    run.clear(drop);
    match offload.apply(packet, account) {
        Ok(DevicePacket::Super(packet)) => {
            SuperSegment::all(&Arc::new(packet)).map(|part| part.to_packet()).collect()
        }
        other => panic!("a run is a super-packet: {other:?}"),
    }
}

/// A router of any kind, fed with anything: what leaves is a packet, everything is accounted for, and it always says
/// when to go on.
pub(crate) fn router(input: &[u8]) {
    let Some((&[kind, level, sampling, ipv6], steps)) = input.split_first_chunk() else { return };
    const LIMIT: u64 = 20_000;
    let mut now = Instant::now();
    let queue: Box<dyn Queue<Packet>> = match kind & 3 {
        0 | 3 => Box::new(DropTail::new(LIMIT)),
        1 => Box::new(StrictPriority::new(Levels::ladder(), LIMIT)),
        _ => Box::new(FqCodel::new(FqCodelConfig { limit: LIMIT, flows: 4, ..FqCodelConfig::default() })),
    };
    let Some(code) = Code::all().nth(usize::from(level) % Code::COUNT) else { return };
    let law: Box<dyn RateLaw> = if kind & 4 == 0 {
        Box::new(Fixed(code.rate()))
    } else {
        let capacity = code.rate().bytes_per_second();
        Box::new(rcp::RcpLaw::new(rcp::RcpConfig::for_codes(), capacity, now, Duration::from_millis(10)))
    };
    let signals = signal::SignalConfig {
        sampling: match sampling & 3 {
            0 | 3 => Sampling::Always,
            1 => Sampling::Interval(Duration::from_micros(sampling.into())),
            _ => Sampling::Flows(usize::from(sampling >> 2)),
        },
        ipv6: [Ipv6::Never, Ipv6::WithFragmentHeader, Ipv6::All][usize::from(ipv6 % 3)],
        ..signal::SignalConfig::default()
    };
    let link = (kind & 8 == 8).then_some(code.rate());
    let mut router = Router::new(
        router::RouterConfig { signals, link, ..router::RouterConfig::default() },
        queue,
        law,
        now,
    );

    let mut rest = steps;
    while let Some((&[what, wait, len], tail)) = rest.split_first_chunk() {
        now += Duration::from_micros(u64::from(wait) * 50);
        let (bytes, tail) = tail.split_at(tail.len().min(len.into()));
        rest = tail;
        let mut bytes = bytes.to_vec();
        // Long ones, which alone carry signals, are made so.
        bytes.resize(bytes.len() + usize::from(what >> 2) * 24, what);
        let _ = router.enqueue(now, packet(what & 1 == 1, &bytes));
        if what & 2 == 2 {
            dequeue(&mut router, now);
        }
        let stats = router.stats();
        assert!(stats.waiting.bytes <= LIMIT + 65_575);
        assert!(stats.dropped().packets <= stats.arrived.packets);
    }
    while let Some(at) = router.poll_timeout() {
        now = now.max(at);
        dequeue(&mut router, now);
    }
    let stats = router.stats();
    assert_eq!((stats.waiting.packets, stats.waiting.bytes), (0, 0));
}

fn dequeue(router: &mut Router<Box<dyn Queue<Packet>>, Box<dyn RateLaw>>, now: Instant) {
    let free = router.poll_timeout().is_some_and(|at| at <= now);
    match router.dequeue(now) {
        Some(out) => assert_eq!(Packet::parse(out.as_bytes().to_vec()), Ok(out)),
        // CoDel may have dropped all there was.
        None => assert!(!free || router.is_empty()),
    }
}

/// The bytes, or a packet as similar to them as can be.
fn packet(repair: bool, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let len = bytes.len();
    if !repair || !(40..=65_535).contains(&len) {
        return bytes;
    }
    if bytes[0] >> 4 == 6 {
        bytes[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        return bytes;
    }
    let words = 5 + bytes[0] % 11;
    let header = usize::from(words) * 4;
    if header > len {
        return bytes;
    }
    bytes[0] = 0x40 | words;
    bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    bytes[10..12].fill(0);
    let checksum = Sum16BitWords::new().add_slice(&bytes[..header]).ones_complement();
    bytes[10..12].copy_from_slice(&checksum.to_ne_bytes());
    bytes
}
