//! Routers as a black box: which packets carry which code, and how other packets are treated.

use std::time::{Duration, Instant};

use crate::common::{V4, V6, packets, reassembled, v4, v4_dont_fragment};
use kickass::{
    Rate,
    code::Code,
    indicator::Bucket,
    law::{Fixed, RateLaw},
    packet::{Ecn, Packet},
    queue::{DropTail, FqCodel, FqCodelConfig, Levels, Queue, StrictPriority},
    rcp,
    router::{Router, RouterConfig},
    sampling::Sampling,
    signal::{self, Ipv6, Withheld},
};
use proptest::prelude::*;

fn rate(megabits: f64) -> Rate {
    Rate::nearest(megabits * 1e6).unwrap()
}

fn fixed(megabits: f64) -> Router<DropTail<Packet>, Fixed> {
    Router::new(RouterConfig::default(), DropTail::new(1 << 20), Fixed(rate(megabits)), Instant::now())
}

/// What the router returns for one packet.
fn pass<Q: Queue<Packet>, L: RateLaw>(router: &mut Router<Q, L>, packet: &Packet) -> Vec<Packet> {
    let now = Instant::now();
    router.enqueue(now, packet.as_bytes().to_vec()).unwrap();
    std::iter::from_fn(|| router.dequeue(now)).collect()
}

fn code(packet: &Packet) -> Option<Code> {
    packet.leading_len().and_then(Code::from_len)
}

#[test]
fn a_rate_leaves_as_the_length_of_the_leading_fragment() {
    let mut router = fixed(10.0);
    let out = pass(&mut router, &v4(1500));
    // 10 Mbit/s encodes to 592 bytes.
    assert_eq!(out.iter().map(Packet::total_len).collect::<Vec<_>>(), [20 + 592, 20 + 1480 - 592]);
    assert_eq!(code(&out[0]), Code::nearest(rate(10.0)));
    let stats = router.stats();
    assert_eq!((stats.signalled, stats.overhead, stats.departed.packets), (1, 20, 2));
    assert_eq!(stats.dropped().packets, 0);
}

#[test]
fn packets_that_cannot_carry_a_rate_leave_as_they_came() {
    let mut leading = v4(1500);
    let rest = leading.split(496, 0).unwrap();
    let malformed_options = V4 { options: vec![0x88, 0, 0, 0], ..V4::default() }.packet();
    for (packet, reason) in [
        (v4(20 + 592), Withheld::Short),
        (leading, Withheld::Short),
        (rest, Withheld::Place),
        (v4_dont_fragment(1500), Withheld::DontFragment),
        (v4_dont_fragment(606), Withheld::DontFragment),
        (V6::default().packet(), Withheld::DontFragment),
        (malformed_options, Withheld::Headers),
    ] {
        let mut router = fixed(10.0);
        assert_eq!(pass(&mut router, &packet), [packet]);
        assert_eq!(router.stats().withheld(reason), 1, "{reason:?}");
        assert_eq!((router.stats().signalled, router.stats().lowered), (0, 0));
    }
}

#[test]
fn a_rate_below_all_codes_is_not_signalled() {
    let mut router = fixed(0.119);
    assert_eq!(pass(&mut router, &v4(1500)), [v4(1500)]);
    assert_eq!(router.stats().withheld(Withheld::Rate), 1);
    assert_eq!(code(&pass(&mut fixed(0.12), &v4(1500))[0]), Some(Code::MIN));
    let mut none = Router::new(RouterConfig::default(), DropTail::new(1 << 20), (), Instant::now());
    assert_eq!(pass(&mut none, &v4(1500)), [v4(1500)]);
}

#[test]
fn above_half_of_the_queue_nothing_is_signalled() {
    let now = Instant::now();
    let mut router = Router::new(RouterConfig::default(), DropTail::new(15_000), Fixed(rate(10.0)), now);
    for _ in 0..10 {
        router.enqueue(now, v4(1500).into_bytes()).unwrap();
    }
    let out: Vec<bool> =
        std::iter::from_fn(|| router.dequeue(now)).map(|packet| code(&packet).is_some()).collect();
    // With 10 to 6 packets more than half waits; with 5 it is exactly half.
    let signalled = [true, false].repeat(5);
    assert_eq!(out, [&[false; 5][..], &signalled].concat());
    assert_eq!(router.stats().withheld(Withheld::Queue), 5);
}

#[test]
fn fragments_of_one_packet_leave_one_after_the_other() {
    let now = Instant::now();
    let levels = StrictPriority::new(Levels::default(), 1 << 20);
    let config = RouterConfig { link: Some(rate(100.0)), ..RouterConfig::default() };
    let mut router = Router::new(config, levels, Fixed(rate(10.0)), now);
    router.enqueue(now, v4(1500).into_bytes()).unwrap();
    let leading = router.dequeue(now).unwrap();
    // Another packet arrives meanwhile.
    router.enqueue(now, V4 { identification: 8, ..V4::default() }.bytes()).unwrap();
    let time = router.poll_timeout().unwrap();
    assert_eq!(time - now, Duration::from_nanos(612 * 80));
    assert_eq!(router.dequeue(time - Duration::from_nanos(1)), None);
    let rest = router.dequeue(time).unwrap();
    assert_eq!(rest.fragment().unwrap().identification, leading.fragment().unwrap().identification);
}

#[test]
fn low_levels_are_neither_signalled_nor_counted() {
    let now = Instant::now();
    let capacity = rate(100.0);
    let law = rcp::RcpLaw::new(
        rcp::RcpConfig::for_codes(),
        capacity.bytes_per_second(),
        now,
        Duration::from_millis(10),
    );
    let levels = StrictPriority::new(Levels::default(), 100_000);
    let mut router = Router::new(RouterConfig::default(), levels, law, now);
    let low = V4 { traffic_class: 1 << 2, ..V4::default() };
    for _ in 0..66 {
        router.enqueue(now, low.bytes()).unwrap();
    }
    router.enqueue(now, v4(1500).into_bytes()).unwrap();
    assert!(code(&router.dequeue(now).unwrap()).is_some(), "the queue is full, but not of its level");
    router.dequeue(now).unwrap();
    let later = now + Duration::from_millis(200);
    router.enqueue(later, v4(1500).into_bytes()).unwrap();
    assert!(router.law().rate() > 0.05 * capacity.bytes_per_second(), "the queue of its level was empty");
    router.dequeue(later).unwrap();
    router.dequeue(later).unwrap();
    assert_eq!(router.dequeue(later), Some(low.packet()));
    assert_eq!(router.stats().withheld(Withheld::Level), 1);
}

#[test]
fn the_law_hears_of_round_trips_from_indicators() {
    let start = Instant::now();
    let law = rcp::RcpLaw::new(rcp::RcpConfig::for_codes(), 12.5e6, start, Duration::from_millis(10));
    let mut router = Router::new(RouterConfig::default(), DropTail::new(1 << 20), law, start);
    let bucket = Bucket::of(Duration::from_millis(1000));
    for milli in 0..3000 {
        let now = start + Duration::from_millis(milli);
        // By length alone only a packet that cannot have been fragmented indicates a round trip.
        router.enqueue(now, v4(600).into_bytes()).unwrap();
        if milli % 100 == 0 {
            router.enqueue(now, v4_dont_fragment(bucket.total_len()).into_bytes()).unwrap();
        }
        while router.dequeue(now).is_some() {}
    }
    assert_eq!(router.stats().indicators, 30);
    assert!(router.law().rtt() > Duration::from_millis(230), "{:?}", router.law().rtt());
}

#[test]
fn what_fragmentation_adds_is_load() {
    let start = Instant::now();
    let capacity = 12.5e6;
    let law = || rcp::RcpLaw::new(rcp::RcpConfig::for_codes(), capacity, start, Duration::from_millis(10));
    let run = |packet: Packet| {
        let mut router = Router::new(RouterConfig::default(), DropTail::new(1 << 20), law(), start);
        // 95 % of the link.
        for nth in 0..20_000_u32 {
            let now = start + Duration::from_secs_f64(1500.0 / (0.95 * capacity)) * nth;
            router.enqueue(now, packet.as_bytes().to_vec()).unwrap();
            while router.dequeue(now).is_some() {}
        }
        (router.law().rate(), router.stats().overhead as f64 / router.stats().arrived.bytes as f64)
    };
    let (plain, none) = run(v4_dont_fragment(1500));
    let (signalled, overhead) = run(v4(1500));
    assert_eq!(none, 0.0);
    assert!((overhead - 20.0 / 1500.0).abs() < 1e-3, "{overhead}");
    // Both have spare capacity and rise, the one with more load less far.
    assert!(signalled < plain, "{signalled} {plain}");
}

#[test]
fn ipv6_is_fragmented_where_its_source_has_allowed_it_or_the_operator() {
    let config = |ipv6| {
        let signals = signal::SignalConfig { ipv6, ..signal::SignalConfig::default() };
        RouterConfig { signals, seed: 1 << 32, ..RouterConfig::default() }
    };
    let (bare, atomic) = (V6::default().packet(), V6::default().atomic(99).packet());
    let indicator = V6 { payload_len: 606 - 40, ..V6::default() }.packet();
    for (ipv6, signalled) in
        [(Ipv6::Never, [false, false]), (Ipv6::WithFragmentHeader, [false, true]), (Ipv6::All, [true, true])]
    {
        let mut router = Router::new(config(ipv6), DropTail::new(1 << 20), Fixed(rate(10.0)), Instant::now());
        for (packet, signalled) in [&bare, &atomic].into_iter().zip(signalled) {
            let out = pass(&mut router, packet);
            assert_eq!(code(&out[0]).is_some(), signalled, "{ipv6:?}");
        }
        assert_eq!(pass(&mut router, &indicator), std::slice::from_ref(&indicator));
        assert_eq!(router.stats().indicators, 1);
    }
    let mut router =
        Router::new(config(Ipv6::All), DropTail::new(1 << 20), Fixed(rate(10.0)), Instant::now());
    let mut identification = |packet| pass(&mut router, packet)[0].fragment().unwrap().identification;
    assert_eq!([&bare, &atomic, &bare].map(&mut identification), [1, 99, 2]);
}

fn all_of_ipv6() -> RouterConfig {
    let signals = signal::SignalConfig { ipv6: Ipv6::All, ..signal::SignalConfig::default() };
    RouterConfig { signals, ..RouterConfig::default() }
}

#[test]
fn a_new_fragment_header_makes_no_packet_longer() {
    for (payload_len, signalled) in [(1457, false), (1460, false), (1463, false), (1464, true)] {
        let law = Fixed(Code::from_len(1456).unwrap().rate());
        let mut router = Router::new(all_of_ipv6(), DropTail::new(1 << 20), law, Instant::now());
        let packet = V6 { payload_len, ..V6::default() };
        let out = pass(&mut router, &packet.packet());
        assert_eq!(code(&out[0]).is_some(), signalled, "{payload_len}");
        assert!(out.iter().all(|part| part.total_len() <= packet.packet().total_len()));
        // One that is there already is part of the packet.
        assert!(code(&pass(&mut router, &packet.atomic(9).packet())[0]).is_some());
    }
}

#[test]
fn headers_of_ipv6_are_not_torn_apart() {
    let config = all_of_ipv6();
    let packet = V6 { destination_last: Some(vec![0; 6 + 8 * 4]), ..V6::default() }.packet();
    // 40 bytes of options and 8 of UDP: 48 is 145 kbit/s.
    for (kilobits, signalled) in [(0.136, false), (0.146, true)] {
        let mut router =
            Router::new(config.clone(), DropTail::new(1 << 20), Fixed(rate(kilobits)), Instant::now());
        let out = pass(&mut router, &packet);
        assert_eq!(code(&out[0]).is_some(), signalled);
        assert_eq!(router.stats().withheld(Withheld::Headers), u64::from(!signalled));
    }
}

#[test]
fn sampling_spares_whole_packets_but_not_signals_that_are_too_high() {
    let now = Instant::now();
    let signals = signal::SignalConfig {
        sampling: Sampling::Interval(Duration::from_millis(1)),
        ..signal::SignalConfig::default()
    };
    let config = RouterConfig { signals, ..RouterConfig::default() };
    let mut router = Router::new(config, DropTail::new(1 << 20), Fixed(rate(10.0)), now);
    let mut leading = v4(1500);
    leading.split(800, 0).unwrap();
    for _ in 0..5 {
        router.enqueue(now, v4(1500).into_bytes()).unwrap();
        router.enqueue(now, leading.as_bytes().to_vec()).unwrap();
    }
    while router.dequeue(now).is_some() {}
    let stats = router.stats();
    assert_eq!((stats.signalled, stats.lowered, stats.withheld(Withheld::Sampling)), (1, 5, 4));
}

#[test]
fn a_link_keeps_its_rate_and_catches_up() {
    let start = Instant::now();
    let config = RouterConfig { link: Some(rate(12.0)), ..RouterConfig::default() };
    let mut router = Router::new(config, DropTail::new(1 << 20), (), start);
    assert_eq!(router.poll_timeout(), None);
    let millis = Duration::from_millis;
    // After an idle second the first packet leaves at once, the others one per millisecond.
    let begin = start + millis(1000);
    for _ in 0..100 {
        router.enqueue(begin, v4(1500).into_bytes()).unwrap();
    }
    assert!(router.dequeue(begin).is_some());
    assert_eq!((router.dequeue(begin), router.poll_timeout()), (None, Some(begin + millis(1))));
    let mut at = |milli| std::iter::from_fn(|| router.dequeue(begin + millis(milli))).count();
    assert_eq!(at(1), 1);
    assert_eq!(at(5), 4, "a late caller catches up");
    assert_eq!(at(6), 1, "then it is on time again");
    // More than ten milliseconds are lost.
    assert_eq!(at(60), 11);
    assert_eq!(at(61), 1);
}

#[test]
fn what_waits_leaves_by_the_new_configuration() {
    let now = Instant::now();
    let config = |megabits| RouterConfig { link: Some(rate(megabits)), ..RouterConfig::default() };
    let mut router = Router::new(config(12.0), DropTail::new(1 << 20), Fixed(rate(10.0)), now);
    for _ in 0..2 {
        router.enqueue(now, v4_dont_fragment(1500).into_bytes()).unwrap();
    }
    assert!(router.dequeue(now).is_some());
    router.reconfigure(config(120.0));
    let begun = now + Duration::from_millis(1);
    assert_eq!(router.poll_timeout(), Some(begun), "it left at the old rate");
    assert!(router.dequeue(begun).is_some());
    assert_eq!(router.link_free(), begun + Duration::from_micros(100));
    router.law_mut().0 = rate(20.0);
    router.enqueue(begun, v4(1500).into_bytes()).unwrap();
    let leading = router.dequeue(router.link_free()).unwrap();
    assert_eq!(code(&leading), Code::nearest(rate(20.0)));
}

#[test]
fn what_is_dropped_is_what_neither_left_nor_waits() {
    let now = Instant::now();
    let mut router = Router::new(RouterConfig::default(), DropTail::new(10_000), Fixed(rate(10.0)), now);
    for _ in 0..10 {
        router.enqueue(now, v4(1500).into_bytes()).unwrap();
    }
    assert!(router.enqueue(now, vec![0x45; 10]).is_err());
    assert_eq!((router.stats().dropped().packets, router.stats().dropped().bytes), (4, 6000));
    for _ in 0..4 {
        router.dequeue(now).unwrap();
    }
    let stats = router.stats();
    assert_eq!(stats.dropped().packets, 4);
    assert_eq!((stats.arrived.packets, stats.malformed), (10, 1));
    while router.dequeue(now).is_some() {}
    assert_eq!((router.stats().dropped().bytes, router.stats().waiting.packets), (6000, 0));
}

#[test]
fn fq_codel_keeps_fragments_together_and_marks_real_packets() {
    let start = Instant::now();
    let mut router = Router::new(
        RouterConfig::default(),
        FqCodel::new(FqCodelConfig::default()),
        Fixed(rate(10.0)),
        start,
    );
    let ect = V4 { traffic_class: 2, ..V4::default() };
    let mut marked = 0;
    for milli in 0..2000 {
        let now = start + Duration::from_millis(milli);
        router.enqueue(now, ect.bytes()).unwrap();
        let out = router.dequeue(now).unwrap();
        if out.ecn() == Ecn::Ce {
            let again = Packet::parse(out.as_bytes().to_vec());
            assert_eq!(again, Ok(out), "its checksum is right");
            marked += 1;
        }
    }
    let stats = router.stats();
    assert!(marked > 10 && stats.marked > 5, "{stats:?}");
    assert_eq!(stats.dropped().packets, 0);
}

fn any_code() -> impl Strategy<Value = Code> {
    (0..Code::COUNT).prop_map(|nth| Code::all().nth(nth).unwrap())
}

proptest! {
    #[test]
    fn the_lowest_code_along_a_path_arrives(
        packet in packets(),
        codes in prop::collection::vec(any_code(), 1..6),
        all_of_ipv6 in any::<bool>(),
    ) {
        let ipv6 = if all_of_ipv6 { Ipv6::All } else { Ipv6::WithFragmentHeader };
        let config = RouterConfig { signals: signal::SignalConfig { ipv6, ..signal::SignalConfig::default() }, ..RouterConfig::default() };
        let now = Instant::now();
        let mut path = vec![packet.clone()];
        for code in &codes {
            let mut router = Router::new(config.clone(), DropTail::new(1 << 20), Fixed(code.rate()), now);
            path = path.iter().flat_map(|packet| pass(&mut router, packet)).collect();
        }
        let lowest = *codes.iter().min().unwrap();
        let heads: Vec<_> = path.iter().filter_map(Packet::leading_len).collect();
        let may = !packet.is_ipv6()
            || packet.has_fragment_header()
            || all_of_ipv6 && Bucket::from_total_len(packet.total_len()).is_none();
        // In IPv6 a code must hold all headers; the longest in this test take 104 bytes. Shorter codes have their own
        // test, `headers_of_ipv6_are_not_torn_apart`.
        prop_assume!(!packet.is_ipv6() || lowest.payload_len() >= 104);
        // And it must not become longer by a Fragment header.
        let shortened = if packet.is_ipv6() && !packet.has_fragment_header() { 8 } else { 1 };
        if may && packet.payload().len() >= lowest.payload_len() + shortened {
            prop_assert_eq!(heads, [lowest.payload_len()]);
        } else {
            prop_assert_eq!(heads, []);
        }
        prop_assert_eq!(reassembled(&path), packet.payload());
    }

    #[test]
    fn nothing_that_comes_brings_a_router_down(
        inputs in prop::collection::vec(
            (
                prop_oneof![prop::collection::vec(any::<u8>(), 0..100), packets().prop_map(Packet::into_bytes)],
                prop::collection::vec((0..64_usize, any::<u8>()), 0..3),
                0..5_000_u64,
            ),
            0..40,
        ),
        megabits in 0.01..20_000.0,
        paced in any::<bool>(),
        discipline in 0..3,
        sampling in prop_oneof![
            Just(Sampling::Always),
            Just(Sampling::Interval(Duration::from_millis(1))),
            Just(Sampling::Flows(3)),
        ],
    ) {
        let mut now = Instant::now();
        let queue: Box<dyn Queue<Packet>> = match discipline {
            0 => Box::new(DropTail::new(20_000)),
            1 => Box::new(StrictPriority::new(Levels::ladder(), 20_000)),
            _ => Box::new(FqCodel::new(FqCodelConfig { limit: 20_000, ..FqCodelConfig::default() })),
        };
        let link = rate(megabits);
        let law = rcp::RcpLaw::new(rcp::RcpConfig::for_codes(), link.bytes_per_second(), now, Duration::from_millis(3));
        let config = RouterConfig {
            signals: signal::SignalConfig { ipv6: Ipv6::All, sampling, ..signal::SignalConfig::default() },
            link: paced.then_some(link),
            ..RouterConfig::default()
        };
        let mut router = Router::new(config, queue, law, now);
        for (mut bytes, damage, wait) in inputs {
            for (at, byte) in damage {
                if let Some(at) = bytes.get_mut(at) {
                    *at = byte;
                }
            }
            now += Duration::from_micros(wait);
            let _ = router.enqueue(now, bytes);
            if let Some(out) = router.dequeue(now) {
                prop_assert_eq!(&Packet::parse(out.as_bytes().to_vec()).unwrap(), &out);
            }
            let stats = router.stats();
            prop_assert_eq!(stats.waiting.packets == 0, router.is_empty());
            prop_assert!(stats.dropped().packets <= stats.arrived.packets);
        }
        while let Some(at) = router.poll_timeout() {
            now = now.max(at);
            let _ = router.dequeue(now);
        }
        prop_assert_eq!(router.stats().waiting.bytes, 0);
    }
}
