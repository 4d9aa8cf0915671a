//! Claims about a path between two hosts, played by two network namespaces. Needs root; skips itself without.
//!
//! A process cannot change its namespace without a raw system call, so each end is this test program, started again
//! under `ip netns exec`, with its role in the variable [`ROLE`].
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

#[path = "common/netns.rs"]
mod netns;

use std::{
    env,
    future::poll_fn,
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use netns::{
    Namespaces, READY, play,
    skip::{LINUX_SOCKETS, skipped},
    text,
};
use rc3_core::units::Level;
use rc3_net::{
    marks::Marks,
    socket::{AsyncSocket, LeadingLens, Options, Outgoing, PacketSocket, RecvBatch, Socket, Sockets},
};

const ROLE: &str = "RC3_NETNS_ROLE";
const PATIENCE: Duration = Duration::from_secs(10);

const SENDER: &str = "10.83.0.1";
const RECEIVER_IP: &str = "10.83.0.2";
const RECEIVER: &str = "10.83.0.2:4433";
const SEGMENT: usize = 1_452;
const SEGMENTS: usize = 44;
const BATCHES: usize = 10;

/// Payload of the fragments of a datagram of 1471 bytes that one router splits at 1000, and the next at 400.
const FRAGMENTS: [usize; 3] = [400, 600, 479];
const DATAGRAMS: u16 = 40;
const SENDER_PORT: u16 = 4444;

#[test]
fn a_marked_batch_crosses_a_link_as_marked_datagrams() {
    let Some(link) = Namespaces::new("marks", SENDER, RECEIVER_IP) else { return };
    // The link itself splits the batches, as a card would.
    play(link.role(&link.right, ROLE, "receiver"), link.role(&link.left, ROLE, "sender"));
}

#[test]
fn a_slow_link_pushes_back_and_wakes_the_sender() {
    if !LINUX_SOCKETS {
        return skipped("the sockets of Linux");
    }
    let Some(link) = Namespaces::new("push", SENDER, RECEIVER_IP) else { return };
    let left = &link.left;
    let shaper = format!("-n {left} qdisc add dev veth0 root tbf rate 20mbit burst 16kb limit 4mb");
    let shaper = Command::new("tc").args(shaper.split(' ')).output();
    if !shaper.is_ok_and(|output| output.status.success()) {
        skipped("`tc` and its token bucket filter");
        return;
    }
    let sender = link.role(left, ROLE, "pushed back").output().expect("the sending end");
    assert!(sender.status.success(), "sender: {}", text(&sender));
}

#[test]
fn of_three_fragments_the_leading_one_is_reported_with_a_packet_socket_and_the_longest_without() {
    if !LINUX_SOCKETS {
        return skipped("the sockets of Linux");
    }
    let Some(link) = Namespaces::new("fragments", SENDER, RECEIVER_IP) else { return };
    for when in ["at bind", "on demand", "never"] {
        play(link.role(&link.right, ROLE, when), link.role(&link.left, ROLE, "three fragments"));
    }
}

#[test]
fn without_the_right_to_a_packet_socket_the_longest_fragment_is_reported() {
    if !LINUX_SOCKETS {
        return skipped("the sockets of Linux");
    }
    let mut setpriv = Command::new("setpriv");
    setpriv.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"]);
    if !setpriv.arg("true").output().is_ok_and(|output| output.status.success()) {
        skipped("root and `setpriv`");
        return;
    }
    let Some(link) = Namespaces::new("refused", SENDER, RECEIVER_IP) else { return };
    for when in ["refused at bind", "refused on demand"] {
        let role = link.role(&link.right, ROLE, when);
        let mut refused = Command::new("setpriv");
        refused.args(["--bounding-set=-net_raw", "--inh-caps=-net_raw"]);
        refused.arg(role.get_program()).args(role.get_args()).env(ROLE, when);
        play(refused, link.role(&link.left, ROLE, "three fragments"));
    }
}

/// Not a test: the program of the processes inside the namespaces.
#[test]
#[ignore = "started by the others inside a namespace"]
fn role() {
    match env::var(ROLE).as_deref() {
        Ok("sender") => send(),
        Ok("receiver") => receive(),
        Ok("pushed back") => be_pushed_back(),
        Ok("three fragments") => send_fragments(),
        Ok("at bind") => receive_fragments(PacketSocket::AtBind, true),
        Ok("on demand") => receive_fragments(PacketSocket::OnDemand, true),
        Ok("refused at bind") => receive_fragments(PacketSocket::AtBind, false),
        Ok("refused on demand") => receive_fragments(PacketSocket::OnDemand, false),
        Ok("never") => receive_fragments(PacketSocket::Never, true),
        _ => skipped("another test to start it"),
    }
}

fn send() {
    let socket = Socket::bind_plain(format!("{SENDER}:0").parse().unwrap(), &Options::default()).unwrap();
    let (marks, level) = (Marks::default(), Level::FIRST);
    // Not QUIC's fixed bit, so it is steered to the receiver's low-priority socket.
    let contents = vec![0x3f; SEGMENT * SEGMENTS];
    for _ in 0..BATCHES {
        let out = Outgoing {
            destination: RECEIVER.parse().unwrap(),
            source: None,
            ecn: 0,
            dscp: marks.dscp(level),
            priority: marks.priority(level),
            contents: &contents,
            segment_size: Some(SEGMENT),
            dont_fragment: true,
        };
        socket.try_send(&out).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    let stats = socket.stats();
    assert_eq!((stats.sent_datagrams, stats.send_drops), ((SEGMENTS * BATCHES) as u64, 0));
    let segments_max = if LINUX_SOCKETS { 64 } else { 1 };
    assert_eq!(stats.send_syscalls, (BATCHES * SEGMENTS.div_ceil(segments_max)) as u64, "one call per batch");

    // Longer than the link allows, with Don't Fragment.
    socket.try_send(&Outgoing { segment_size: None, ..out_of(&contents[..2_000]) }).unwrap();
    assert_eq!(socket.stats().send_drops, 1);
    socket.try_send(&Outgoing { segment_size: Some(2_000), ..out_of(&contents[..6_000]) }).unwrap();
    assert_eq!(socket.stats().send_drops, 4);
    assert_eq!(
        socket.capabilities().gso_segments_max,
        segments_max,
        "the length was to blame, not the offload"
    );
}

/// Fills a small send buffer faster than the link drains it.
fn be_pushed_back() {
    let options = Options { send_buffer: 128 << 10, ..Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let pair = Sockets::bind(format!("{SENDER}:0").parse().unwrap(), &options).unwrap();
        let low = AsyncSocket::new(pair.low.expect("steering")).unwrap();
        let contents = vec![0x3f; SEGMENT];
        let fill = || {
            let mut sent = 0;
            while low.try_send(&out_of(&contents)).is_ok() {
                sent += 1;
                assert!(sent < 10_000, "nothing pushes back");
            }
            sent
        };
        // The first packets wait until the neighbour is resolved.
        let sent = fill();
        let full = low.queued_bytes();
        let whole = low.capabilities().send_buffer;
        assert!(full >= whole - 4_096, "{full} of {whole} after {sent}");
        assert_eq!(low.stats().send_would_block, 1);
        assert_eq!(pair.primary.queued_bytes(), 0, "each socket has its own account");
        pair.primary.try_send(&out_of(&contents)).expect("low priority must not block the primary");

        let writable = poll_fn(|cx| low.poll_writable(cx));
        tokio::time::timeout(PATIENCE, writable).await.expect("woken").unwrap();
        let left = low.queued_bytes();
        assert!(left < full, "{left} of {full}");
        assert!(fill() > 0);
        assert_eq!(low.stats().send_drops, 0);
    });
}

fn out_of(contents: &[u8]) -> Outgoing<'_> {
    Outgoing {
        destination: RECEIVER.parse().unwrap(),
        source: None,
        ecn: 0,
        dscp: 0,
        priority: None,
        contents,
        segment_size: None,
        dont_fragment: true,
    }
}

/// Datagrams in three fragments each, in disorder, twice or among lone ones.
fn send_fragments() {
    const RAW: i32 = 255;
    let raw = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(RAW.into())).unwrap();
    let to = RECEIVER.parse::<SocketAddr>().unwrap().into();
    let send = |packet: Vec<u8>| raw.send_to(&packet, &to).unwrap();
    let answers = UdpSocket::bind((SENDER, SENDER_PORT)).unwrap();
    answers.set_read_timeout(Some(PATIENCE)).unwrap();
    for number in 0..DATAGRAMS {
        let fragment = |index| fragment_of(number, index);
        match number % 4 {
            0 => [0, 1, 2].map(|index| send(fragment(index))),
            1 => [1, 0, 2].map(|index| send(fragment(index))),
            2 => [0, 0, 1].map(|index| send(fragment(index))),
            _ => {
                // Lone ones: their datagrams never come.
                for lone in 0..20 {
                    send(fragment_of(1000 + 20 * number + lone, 0));
                }
                [1, 2, 0].map(|index| send(fragment(index)))
            }
        };
        if number % 4 == 2 {
            send(fragment(2));
        }
        if number == 0 {
            answers.recv(&mut [0]).expect("an answer to the first in time");
        }
    }
}

fn fragment_of(number: u16, index: usize) -> Vec<u8> {
    const UDP: u8 = 17;
    let mut udp = vec![0x40; FRAGMENTS.iter().sum()];
    // Without a checksum, which IPv4 allows.
    for (field, value) in [SENDER_PORT, 4433, udp.len() as u16, 0, number].into_iter().enumerate() {
        udp[2 * field..][..2].copy_from_slice(&value.to_be_bytes());
    }
    let offset: usize = FRAGMENTS[..index].iter().sum();
    let more = index + 1 < FRAGMENTS.len();
    let payload = &udp[offset..][..FRAGMENTS[index]];
    // The kernel fills in length and checksum.
    let mut packet = vec![0; 20];
    packet[0] = 0x45;
    packet[4..6].copy_from_slice(&(number + 1).to_be_bytes());
    packet[6..8].copy_from_slice(&(u16::from(more) << 13 | (offset / 8) as u16).to_be_bytes());
    (packet[8], packet[9]) = (64, UDP);
    packet[12..16].copy_from_slice(&SENDER.parse::<Ipv4Addr>().unwrap().octets());
    packet[16..20].copy_from_slice(&RECEIVER_IP.parse::<Ipv4Addr>().unwrap().octets());
    packet.extend(payload);
    packet
}

fn receive_fragments(packet_socket: PacketSocket, may: bool) {
    const LONGEST: Option<u16> = Some(600);
    let options = Options { packet_socket, ..Options::default() };
    let socket = Socket::bind_plain(RECEIVER.parse().unwrap(), &options).unwrap();
    let leading_lens = || socket.capabilities().leading_lens;
    let exact_at_once = may && packet_socket == PacketSocket::AtBind;
    assert_eq!(leading_lens() == LeadingLens::Exact, exact_at_once);
    println!("{READY}");
    let mut batch = RecvBatch::new();
    let mut lens = Vec::new();
    let end = Instant::now() + PATIENCE;
    while lens.len() < DATAGRAMS.into() && Instant::now() < end {
        match socket.try_recv(&mut batch) {
            Ok(_) => {
                if lens.is_empty() {
                    let destination = (SENDER.parse::<Ipv4Addr>().unwrap(), SENDER_PORT).into();
                    socket.try_send(&Outgoing { destination, ..out_of(b"!") }).unwrap();
                }
                lens.extend(batch.datagrams().map(|datagram| datagram.meta.leading_len));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1))
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(lens.len(), usize::from(DATAGRAMS));
    let exact = lens.iter().filter(|len| **len == Some(FRAGMENTS[0] as u16)).count();
    let longest = lens.iter().filter(|len| **len == LONGEST).count();
    assert_eq!(exact + longest, lens.len(), "{lens:?}");
    match packet_socket {
        _ if !may => assert_eq!(exact, 0),
        PacketSocket::Never => assert_eq!(exact, 0),
        // It knows nothing about the datagram that arrived before it was open.
        PacketSocket::OnDemand => assert!(lens[0] == LONGEST && longest == 1, "{lens:?}"),
        PacketSocket::AtBind => assert_eq!(longest, 0, "{lens:?}"),
    }
    assert_eq!(leading_lens() == LeadingLens::Exact, may && packet_socket != PacketSocket::Never);
    let stats = socket.stats();
    assert_eq!((stats.fragmented_datagrams, stats.exact_leading_lens), (lens.len() as u64, exact as u64));
}

fn receive() {
    let pair = Sockets::bind(RECEIVER.parse().unwrap(), &Options::default()).unwrap();
    let dscp = if LINUX_SOCKETS { Marks::default().dscp(Level::FIRST) } else { 0 };
    println!("{READY}");
    let mut batch = RecvBatch::new();
    let mut count = 0;
    let end = Instant::now() + PATIENCE;
    while count < SEGMENTS * BATCHES && Instant::now() < end {
        match pair.low().try_recv(&mut batch) {
            Ok(_) => {
                for datagram in batch.datagrams() {
                    count += 1;
                    let meta = datagram.meta;
                    assert_eq!(datagram.data.len(), SEGMENT);
                    assert_eq!((meta.dscp, meta.ecn), (dscp, 0));
                    assert_eq!(meta.remote.ip().to_string(), SENDER);
                    assert_eq!(meta.local, Some(RECEIVER.parse::<SocketAddr>().unwrap().ip()));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1))
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(count, SEGMENTS * BATCHES);
}
