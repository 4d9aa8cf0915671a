use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

use etherparse::{Icmpv4Type, Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, icmpv4};
use kickass::{Rate, code::Code, offload::PartialChecksum};

use super::*;

const LEFT: [u8; 4] = [10, 0, 1, 2];
const RIGHT: [u8; 4] = [10, 0, 2, 2];
const HOP_LIMIT: u8 = 64;

const CONFIG: &str = r#"
[forward]
addresses = ["10.0.0.1", "fd00::1"]

[[port]]
name = "left"
routes = ["10.0.1.0/24", "fd00:1::/64"]
rate = "100mbit"
delay = "10ms"

[[port]]
name = "right"
routes = ["10.0.2.0/24", "fd00:2::/64"]
rate = "12mbit"
delay = "20ms"
buffer = "15000"
"#;

fn config(more: &str) -> Config {
    Config::parse(&format!("{CONFIG}{more}"), "test.toml").unwrap()
}

/// A UDP datagram from left to right of this many bytes, IP header included.
fn datagram(bytes: usize, dont_fragment: bool, dscp: u8) -> Vec<u8> {
    let mut header = etherparse::Ipv4Header::new(0, HOP_LIMIT, 17.into(), LEFT, RIGHT).unwrap();
    (header.dont_fragment, header.identification) = (dont_fragment, 7);
    header.dscp = dscp.try_into().unwrap();
    let builder = PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, Default::default()));
    let mut packet = Vec::new();
    builder.udp(1000, 2000).write(&mut packet, &vec![7; bytes - 28]).unwrap();
    packet
}

fn datagram_v6(bytes: usize, hop_limit: u8) -> Vec<u8> {
    let address = |net| Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, 2).octets();
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6(address(1), address(2), hop_limit);
    builder.udp(1000, 2000).write(&mut packet, &vec![7; bytes - 48]).unwrap();
    packet
}

/// A forwarder and its virtual time.
struct Testbed {
    forwarder: Forwarder,
    start: Instant,
    now: Instant,
}

impl Testbed {
    fn new(config: &Config) -> Self {
        let start = Instant::now();
        Self { forwarder: Forwarder::new(config, 1, start), start, now: start }
    }

    fn send(&mut self, packet: Vec<u8>) {
        self.forwarder.advance(self.now);
        self.forwarder.receive(self.now, 0, packet, Some(Offload::default()));
    }

    /// Every arrival from now on: time since the start, port, packet.
    fn run(&mut self) -> Vec<(Duration, usize, Vec<u8>)> {
        let mut arrived = Vec::new();
        while let Some(next) = self.forwarder.poll_timeout() {
            self.now = self.now.max(next);
            self.forwarder.advance(self.now);
            for port in 0..2 {
                while let Some(packet) = self.forwarder.poll_transmit(
                    self.now,
                    port,
                    RunLimits::default(),
                    &mut SegmentRun::default(),
                ) {
                    arrived.push((self.now - self.start, port, packet));
                }
            }
        }
        arrived
    }
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[test]
fn packets_keep_rate_and_delay_and_lose_a_hop() {
    let mut bed = Testbed::new(&config(""));
    for _ in 0..3 {
        bed.send(datagram(1500, true, 0));
    }
    let arrived = bed.run();
    // 1 ms each on the link, and 20 ms of delay.
    let times: Vec<_> = arrived.iter().map(|(time, _, _)| *time).collect();
    assert_eq!(times, [micros(21_000), micros(22_000), micros(23_000)]);
    for (_, port, bytes) in arrived {
        let (header, _) = etherparse::Ipv4Header::from_slice(&bytes).unwrap();
        assert_eq!((port, header.time_to_live), (1, HOP_LIMIT - 1));
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        assert_eq!(bytes[20..], datagram(1500, true, 0)[20..]);
    }
}

#[test]
fn a_late_caller_does_not_change_when_packets_arrive() {
    let mut bed = Testbed::new(&config(""));
    for _ in 0..3 {
        bed.send(datagram(1500, true, 0));
    }
    // No call until all have left the link.
    bed.now += micros(20_500);
    bed.forwarder.advance(bed.now);
    let times: Vec<_> = bed.run().into_iter().map(|(time, _, _)| time).collect();
    assert_eq!(times, [micros(21_000), micros(22_000), micros(23_000)]);
}

#[test]
fn a_signal_is_where_packets_without_df_are_cut() {
    let mut bed = Testbed::new(&config("kickass = { fixed = \"5mbit\" }"));
    bed.send(datagram(1400, false, 0));
    bed.send(datagram(1400, true, 0));
    let packets: Vec<Packet> =
        bed.run().into_iter().map(|(_, _, bytes)| Packet::parse(bytes).unwrap()).collect();
    let code = Code::nearest(Rate::nearest(5e6).unwrap()).unwrap();
    assert_eq!(packets.len(), 3);
    assert_eq!(packets[0].leading_len(), Some(code.payload_len()));
    assert_eq!(packets[2].fragment(), None);
    let totals = bed.forwarder.totals();
    let port = &totals.ports[1];
    assert_eq!((port.signalled, port.withheld["dont_fragment"], port.overhead), (1, 1, 20));
    assert_eq!(port.withheld.values().sum::<u64>(), 1);
}

#[test]
fn a_long_queue_alone_ends_signals_only_by_the_threshold() {
    for (silence, ends) in [("ignored", false), ("threshold", true)] {
        let mut bed = Testbed::new(&config(&format!("kickass = {{ silence = \"{silence}\" }}")));
        for _ in 0..10 {
            bed.send(datagram(1400, false, 0));
        }
        let rate = bed.forwarder.totals().ports[1].signalled_bits_per_second;
        assert_eq!(rate.is_none(), ends, "{silence}");
        bed.run();
        assert_eq!(bed.forwarder.totals().ports[1].withheld["queue"] > 0, ends, "{silence}");
    }
    let bed = Testbed::new(&config("kickass = { fixed = \"100kbit\" }"));
    assert_eq!(bed.forwarder.totals().ports[1].signalled_bits_per_second, None, "it has no code");
}

#[test]
fn the_buffer_is_that_of_the_better_levels() {
    let mut bed = Testbed::new(&config("queue = { kind = \"strict-priority\", levels = { 8 = 15 } }"));
    for dscp in [8, 3, 0] {
        for _ in 0..10 {
            bed.send(datagram(1500, true, dscp));
        }
    }
    let dscps: Vec<u8> =
        bed.run().into_iter().map(|(_, _, bytes)| Packet::parse(bytes).unwrap().dscp()).collect();
    // The first is in transmission when the others arrive.
    assert_eq!(dscps, [&[8][..], &[0; 10]].concat());
    assert_eq!(bed.forwarder.totals().ports[1].dropped["queue_full"], 19);
}

#[test]
fn too_long_packets_are_cut_or_answered() {
    let mut config = config("");
    config.port[1].mtu = 1300;
    let mut bed = Testbed::new(&config);
    bed.send(datagram(1400, false, 0));
    bed.send(datagram(1400, true, 0));
    bed.send(datagram_v6(1400, HOP_LIMIT));
    let arrived = bed.run();
    let lens: Vec<_> =
        arrived.iter().filter(|(_, port, _)| *port == 1).map(|(_, _, bytes)| bytes.len()).collect();
    assert_eq!(lens, [1300, 120]);
    let answers: Vec<_> = arrived.iter().filter(|(_, port, _)| *port == 0).collect();
    let [(_, _, v4), (_, _, v6)] = answers[..] else { panic!("{answers:?}") };
    let v4 = SlicedPacket::from_ip(v4).unwrap();
    let Some(NetSlice::Ipv4(ip)) = &v4.net else { panic!("{v4:?}") };
    assert_eq!(ip.header().source_addr(), Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(ip.header().destination_addr(), Ipv4Addr::from(LEFT));
    let Some(TransportSlice::Icmpv4(message)) = &v4.transport else { panic!("{v4:?}") };
    let needed = icmpv4::DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1300 };
    assert_eq!(message.icmp_type(), Icmpv4Type::DestinationUnreachable(needed));
    assert_eq!(message.payload(), &datagram(1400, true, 0)[..548]);
    let v6 = SlicedPacket::from_ip(v6).unwrap();
    let Some(TransportSlice::Icmpv6(message)) = &v6.transport else { panic!("{v6:?}") };
    assert_eq!(message.icmp_type(), Icmpv6Type::PacketTooBig { mtu: 1300 });
    assert_eq!(message.payload().len(), 1280 - 48);
    assert_eq!(bed.forwarder.totals().ports[0].dropped["too_big"], 2);
}

#[test]
fn used_up_hop_limits_are_answered_and_errors_are_not() {
    let mut bed = Testbed::new(&config(""));
    for hop_limit in [1, 0] {
        bed.send(datagram_v6(100, hop_limit));
    }
    let arrived = bed.run();
    assert_eq!(arrived.len(), 2);
    for (_, port, bytes) in &arrived {
        let packet = SlicedPacket::from_ip(bytes).unwrap();
        let Some(TransportSlice::Icmpv6(message)) = &packet.transport else { panic!("{packet:?}") };
        assert_eq!((*port, message.type_u8()), (0, 3));
    }
    // The message itself, sent on with an expired hop limit, gets no reply.
    let mut message = arrived[0].2.clone();
    message[7] = 1;
    bed.send(message);
    assert_eq!(bed.run(), []);
    assert_eq!(bed.forwarder.totals().ports[0].icmp, 2);
}

#[test]
fn answers_are_few() {
    let mut bed = Testbed::new(&config(""));
    for _ in 0..1000 {
        bed.send(datagram_v6(100, 1));
    }
    assert_eq!(bed.run().len(), 20);
    bed.now += Duration::from_secs(10);
    bed.send(datagram_v6(100, 1));
    assert_eq!(bed.run().len(), 1);
    assert_eq!(bed.forwarder.totals().ports[0].dropped["hop_limit"], 1001);
}

#[test]
fn one_host_uses_up_only_its_own_answers() {
    let mut config = config_with_other("12mbit");
    config.port[1].mtu = 1300;
    let mut bed = Testbed::new(&config);
    for _ in 0..1000 {
        bed.send(datagram_v6(100, 1));
    }
    bed.forwarder.receive(bed.now, OTHER, datagram(1400, true, 0), Some(Offload::default()));
    let totals = bed.forwarder.totals();
    assert_eq!((totals.ports[0].icmp, totals.ports[OTHER].icmp), (20, 1));
}

#[test]
fn what_is_for_a_link_or_for_many_does_not_cross_even_by_a_default_route() {
    let mut config = config("");
    config.port[1].routes = ["0.0.0.0/0", "::/0"].map(|net| net.parse().unwrap()).to_vec();
    let mut bed = Testbed::new(&config);
    let pairs_v6 = [
        ("fe80::1", "ff02::fb"),
        ("fe80::1", "fd00:2::2"),
        ("fd00:1::2", "fe80::2"),
        ("fd00:1::2", "::1"),
        ("::", "fd00:2::2"),
    ];
    for (from, to) in pairs_v6 {
        let [from, to] = [from, to].map(|address| address.parse::<Ipv6Addr>().unwrap().octets());
        let mut packet = datagram_v6(100, HOP_LIMIT);
        packet[8..40].copy_from_slice(&[from, to].concat());
        bed.send(packet);
    }
    let pairs_v4 = [
        ([169, 254, 0, 1], RIGHT),
        (LEFT, [169, 254, 0, 1]),
        (LEFT, [224, 0, 0, 251]),
        (LEFT, [255; 4]),
        (LEFT, [127, 0, 0, 1]),
    ];
    for (from, to) in pairs_v4 {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4(from, to, HOP_LIMIT).udp(1000, 2000);
        builder.write(&mut packet, &[7; 100]).unwrap();
        bed.send(packet);
    }
    let dropped = bed.forwarder.totals().ports[0].dropped["no_route"];
    assert_eq!(dropped, (pairs_v6.len() + pairs_v4.len()) as u64);
    assert_eq!(bed.run(), []);
    bed.send(datagram_v6(100, HOP_LIMIT));
    assert_eq!(bed.run().len(), 1);
}

#[test]
fn no_packet_leaves_before_it_came_after_the_line_was_full() {
    let mut config = config("");
    (config.port[1].rate, config.port[1].buffer) = (Rate::nearest(1e9).unwrap(), None);
    let mut bed = Testbed::new(&config);
    // More than may have arrived without being written.
    for _ in 0..1100 {
        bed.send(datagram(1000, true, 0));
    }
    bed.now += micros(40_000);
    bed.send(datagram(500, true, 0));
    bed.now += micros(15_000);
    bed.send(datagram(501, true, 0));
    let came = bed.now - bed.start;
    let arrived = bed.run();
    let (time, _, _) = arrived.iter().find(|(_, _, packet)| packet.len() == 501).unwrap();
    assert!(*time >= came + config.port[1].delay, "{time:?}");
    assert_eq!(arrived.len(), 1102);
}

#[test]
fn the_rate_of_an_idle_link_comes_to_rest_at_all_of_it() {
    let mut bed = Testbed::new(&config("kickass = {}"));
    let rate = |bed: &Testbed| bed.forwarder.totals().ports[1].signalled_bits_per_second;
    assert_eq!(rate(&bed), Some(0.05 * 12e6));
    bed.now += Duration::from_secs(10);
    bed.forwarder.advance(bed.now);
    assert_eq!(rate(&bed), Some(12e6));
}

#[test]
fn what_goes_nowhere_is_counted() {
    let mut bed = Testbed::new(&config(""));
    let mut stray = datagram(100, true, 0);
    stray[16] = 11;
    bed.send(stray);
    bed.send(vec![0x45; 100]);
    bed.send(Vec::new());
    assert_eq!(bed.forwarder.totals().ports[0].dropped["malformed"], 3, "the checksum is wrong");
    let mut header = etherparse::Ipv4Header::new(0, 9, 17.into(), LEFT, [192, 0, 2, 1]).unwrap();
    header.header_checksum = header.calc_header_checksum();
    bed.send(header.to_bytes().to_vec());
    assert_eq!(bed.forwarder.totals().ports[0].dropped["no_route"], 1);
    assert_eq!(bed.run().len(), 1, "and signalled");
}

#[test]
fn a_reload_changes_rates_and_queues_and_loses_nothing() {
    let mut bed = Testbed::new(&config(""));
    for _ in 0..5 {
        bed.send(datagram(1500, false, 0));
    }
    let mut new = config("queue = { kind = \"fq-codel\" }\nkickass = { fixed = \"5mbit\" }");
    new.port[1].rate = Rate::nearest(120e6).unwrap();
    new.port[1].delay = micros(1_000);
    new.port[1].buffer = Some(30_000);
    bed.forwarder.reload(&new, bed.now);
    let arrived = bed.run();
    assert_eq!(arrived.len(), 1 + 2 * 4, "the first was in transmission already");
    // Packets in flight keep their arrival times, and later ones do not overtake them.
    assert!(arrived.iter().all(|(time, _, _)| *time == micros(21_000)), "{arrived:?}");
    bed.send(datagram(1500, true, 0));
    let sent = bed.now - bed.start;
    assert_eq!(bed.run()[0].0, sent + micros(1_100));
    let totals = bed.forwarder.totals();
    assert_eq!((totals.ports[1].drops(), totals.ports[1].waiting.packets), (0, 0));
    assert_eq!(totals.ports[1].delays.count(), 6);
}

#[test]
fn nothing_that_comes_from_a_device_panics() {
    let mut bed = Testbed::new(&config("kickass = { ipv6 = \"all\" }"));
    let whole = [datagram(200, false, 3), datagram_v6(200, 2)];
    for packet in &whole {
        for at in 0..60 {
            for value in [0, 1, 0x7f, 0xff] {
                let mut packet = packet.clone();
                packet[at] = value;
                bed.send(packet);
            }
        }
        for len in 0..packet.len() {
            bed.send(packet[..len].to_vec());
        }
    }
    bed.run();
    let totals = bed.forwarder.totals();
    let [left, right] = &totals.ports[..] else { panic!("two ports") };
    assert_eq!(left.received.packets, 2 * (240 + 200));
    // Every packet was dropped or arrived, whether data or ICMP message.
    assert!(left.dropped["malformed"] > 400);
    assert_eq!((left.waiting.packets, right.waiting.packets), (0, 0));
}

/// A super-packet of UDP from left to right: this many bytes of payload, in datagrams of 1000.
fn super_packet(payload: usize, hop_limit: u8) -> (Vec<u8>, Offload) {
    let mut header = etherparse::Ipv4Header::new(0, hop_limit, 17.into(), LEFT, RIGHT).unwrap();
    header.identification = 7;
    let builder = PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, Default::default()));
    let mut packet = Vec::new();
    let content: Vec<u8> = (0..payload).map(|n| (n / 1000) as u8).collect();
    builder.udp(1000, 2000).write(&mut packet, &content).unwrap();
    // The sum of the pseudo-header: addresses, protocol, length.
    let words = packet[12..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>() + 17 + packet.len() as u32 - 20;
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[26..28].copy_from_slice(&(sum as u16).to_be_bytes());
    let checksum = Some(PartialChecksum { start: 20, offset: 6 });
    (packet, Offload { segment_size: Some(1000), checksum })
}

/// The datagrams of which it consists.
fn datagrams(payload: usize, hop_limit: u8) -> Vec<Vec<u8>> {
    (0..payload.div_ceil(1000))
        .map(|n| {
            let mut header = etherparse::Ipv4Header::new(0, hop_limit, 17.into(), LEFT, RIGHT).unwrap();
            header.identification = 7 + n as u16;
            let builder = PacketBuilder::ip(etherparse::IpHeaders::Ipv4(header, Default::default()));
            let mut packet = Vec::new();
            let content = vec![n as u8; 1000.min(payload - 1000 * n)];
            builder.udp(1000, 2000).write(&mut packet, &content).unwrap();
            packet
        })
        .collect()
}

#[test]
fn a_super_packet_is_forwarded_dropped_and_answered_as_its_datagrams_are() {
    let small_mtu = |config: &mut Config| config.port[1].mtu = 900;
    let no_route = |config: &mut Config| config.port[1].routes.clear();
    let nothing = |_: &mut Config| {};
    type Change = fn(&mut Config);
    let cases: [(&str, u8, Change); 6] = [
        ("", HOP_LIMIT, nothing),
        ("buffer = \"5k\"", HOP_LIMIT, nothing),
        ("kickass = { fixed = \"5mbit\", sampling = { interval = \"2ms\" } }", HOP_LIMIT, nothing),
        ("", 1, nothing),
        ("", HOP_LIMIT, small_mtu),
        ("", HOP_LIMIT, no_route),
    ];
    for (keys, hop_limit, change) in cases {
        let mut config = Config::parse(&CONFIG.replace("buffer = \"15000\"", keys), "test.toml").unwrap();
        config.forward.coalesce = Duration::ZERO;
        change(&mut config);
        let start = Instant::now();
        let bed = || Testbed { forwarder: Forwarder::new(&config, 1, start), start, now: start };
        let (mut one, mut other) = (bed(), bed());
        for payload in [12_300, 700, 5000] {
            one.forwarder.advance(one.now);
            for packet in datagrams(payload, hop_limit) {
                one.forwarder.receive(one.now, 0, packet, Some(Offload::default()));
            }
            let (packet, offload) = super_packet(payload, hop_limit);
            other.forwarder.advance(other.now);
            other.forwarder.receive(other.now, 0, packet, Some(offload));
        }
        let (arrived, expected) = (other.run(), one.run());
        assert!(!expected.is_empty() || keys.is_empty());
        assert_eq!(arrived, expected, "{keys} {hop_limit}");
        let [mut totals, expected] = [other, one].map(|bed| bed.forwarder.totals());
        assert_eq!((totals.ports[0].reads, expected.ports[0].reads), (3, 19));
        totals.ports[0].reads = 19;
        assert_eq!(totals, expected, "{keys} {hop_limit}");
    }
}

#[test]
fn segments_wait_for_each_other_no_longer_than_configured() {
    let mut config = config("");
    config.forward.coalesce = micros(100);
    config.port[1].buffer = None;
    // A datagram takes 8.224 us.
    config.port[1].rate = Rate::nearest(1e9).unwrap();
    let mut bed = Testbed::new(&config);
    let limits = RunLimits { segments: 1000, datagrams: 1000 };
    let (packet, offload) = super_packet(15_000, HOP_LIMIT);
    bed.forwarder.receive(bed.now, 0, packet, Some(offload));
    let mut lens = Vec::new();
    while let Some(next) = bed.forwarder.poll_timeout() {
        bed.now = bed.now.max(next);
        bed.forwarder.advance(bed.now);
        let mut run = SegmentRun::default();
        while bed.forwarder.poll_transmit(bed.now, 1, limits, &mut run).is_some() || !run.is_empty() {
            assert!(bed.now - bed.start >= micros(20_000));
            lens.push(run.segments());
            run.clear(drop);
        }
    }
    assert_eq!(lens.iter().sum::<usize>(), 15);
    // Those that arrive within 100 us of the first: 13 at 1 Gbit/s.
    assert!(lens.len() <= 3 && lens.contains(&13), "{lens:?}");
    assert!(bed.now - bed.start <= micros(20_000 + 100 + 15 * 9));
}

#[test]
fn segments_that_survive_their_super_packet_do_not_keep_memory_without_bound() {
    const LIMIT: u64 = 2_000_000;
    let mut config = config("");
    config.port[1].buffer = Some(LIMIT);
    let mut bed = Testbed::new(&config);
    let mut most = 0;
    for _ in 0..2000 {
        // Once the queue is full, three datagrams leave the link before each super-packet, so only three find room.
        let (mut packet, offload) = super_packet(60_000, HOP_LIMIT);
        packet.shrink_to_fit();
        bed.forwarder.receive(bed.now, 0, packet, Some(offload));
        bed.now += micros(2000);
        bed.forwarder.advance(bed.now);
        while bed
            .forwarder
            .poll_transmit(bed.now, 1, RunLimits::default(), &mut SegmentRun::default())
            .is_some()
        {}
        most = most.max(bed.forwarder.shared.bytes() as u64);
    }
    let on_their_way = 12_000_000 / 8 / 50 + 2000;
    assert!(most > SHARED_MAX, "{most}: nothing to bound");
    assert!(most <= SHARED_MAX + 2 * (LIMIT + on_their_way) + PACKET_MAX as u64, "{most}");
}

/// A super-packet from left to right of 64 datagrams of 29 bytes: all that a process needs is UDP_SEGMENT.
fn short_datagrams() -> (Vec<u8>, Option<Offload>) {
    let (packet, offload) = super_packet(64, HOP_LIMIT);
    (packet, Some(Offload { segment_size: Some(1), ..offload }))
}

/// A third port, whose host sends what [`datagram`] makes.
const OTHER: usize = 2;

fn config_with_other(rate: &str) -> Config {
    let text = CONFIG.replace("12mbit", rate).replace("buffer = \"15000\"", "");
    Config::parse(&format!("{text}[[port]]\nname = \"other\"\nrate = \"100mbit\""), "test.toml").unwrap()
}

#[test]
fn short_packets_that_cannot_be_written_in_time_stay_few_and_other_ports_are_served() {
    const WRITTEN_PER_MS: usize = 200;
    let mut bed = Testbed::new(&config_with_other("1gbit"));
    // On its way for at most 20 ms and 10 ms of catching up, at two million a second; and in the queue.
    let most = 60_000 + 1024 + 8192;
    let (mut asked, mut answered) = (0, 0);
    for ms in 0..400 {
        bed.now += micros(1000);
        bed.forwarder.advance(bed.now);
        for _ in 0..20 {
            let (packet, offload) = short_datagrams();
            assert_eq!(bed.forwarder.receive(bed.now, 0, packet, offload), 64);
        }
        if ms % 10 == 0 {
            bed.forwarder.receive(bed.now, OTHER, datagram(100, true, 0), Some(Offload::default()));
            asked += 1;
        }
        for _ in 0..WRITTEN_PER_MS {
            let Some(packet) =
                bed.forwarder.poll_transmit(bed.now, 1, RunLimits::default(), &mut SegmentRun::default())
            else {
                break;
            };
            answered += usize::from(packet.len() == 100);
        }
        let port = &bed.forwarder.totals().ports[1];
        assert!(port.waiting.packets + port.line.packets <= most, "{port:?}");
    }
    // The rest is on its way, and the flood has ended.
    answered += bed.run().iter().filter(|(_, _, packet)| packet.len() == 100).count();
    assert_eq!(answered, asked);
    let totals = bed.forwarder.totals();
    let port = &totals.ports[1];
    assert!(port.dropped["share"] > 0 && port.dropped["queue_full"] == 0, "{port:?}");
    assert_eq!((port.waiting.packets, port.line.packets, totals.shared_bytes), (0, 0, 0));
}

#[test]
fn a_flood_of_short_packets_leaves_room_in_the_queue_of_a_link_that_it_fills() {
    let mut bed = Testbed::new(&config_with_other("100mbit"));
    for _ in 0..200 {
        let (packet, offload) = short_datagrams();
        bed.forwarder.receive(bed.now, 0, packet, offload);
    }
    for _ in 0..100 {
        bed.forwarder.receive(bed.now, OTHER, datagram(100, true, 0), Some(Offload::default()));
    }
    // Packets of the usual length are no matter of shares.
    bed.send(datagram(1500, true, 0));
    let arrived = bed.run();
    for (len, count) in [(29, 4096), (100, 100), (1500, 1)] {
        assert_eq!(arrived.iter().filter(|(_, _, packet)| packet.len() == len).count(), count, "{len}");
    }
    assert_eq!(bed.forwarder.totals().ports[1].dropped["share"], 200 * 64 - 4096);
}

#[test]
fn packets_that_wait_keep_no_buffer_much_longer_than_they_are() {
    let mut bed = Testbed::new(&config(""));
    for bytes in [29, 300, 700, 1400] {
        let mut buffer = bed.forwarder.long_buffer();
        let packet = datagram(bytes, true, 0);
        buffer.truncate(packet.len());
        buffer.copy_from_slice(&packet);
        bed.send(buffer);
    }
    bed.send(datagram(60_000, false, 0));
    let arrived = bed.run();
    assert!(arrived.len() > 10, "{} with fragments", arrived.len());
    for (_, _, packet) in arrived {
        assert!(packet.capacity() <= 2 * packet.len(), "{} for {}", packet.capacity(), packet.len());
    }
}

#[test]
fn unknown_kinds_of_offload_are_malformed() {
    let mut bed = Testbed::new(&config(""));
    let (packet, offload) = super_packet(3000, HOP_LIMIT);
    bed.forwarder.receive(bed.now, 0, packet.clone(), None);
    bed.forwarder.receive(bed.now, 0, packet.clone(), Some(Offload { checksum: None, ..offload }));
    let none = Offload { segment_size: Some(0), ..offload };
    bed.forwarder.receive(bed.now, 0, packet, Some(none));
    assert_eq!(bed.forwarder.totals().ports[0].dropped["malformed"], 3);
    assert!(bed.run().is_empty());
}
