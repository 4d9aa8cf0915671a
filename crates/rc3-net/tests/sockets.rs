//! Claims about real sockets on the loopback interface.
#![forbid(unsafe_code)]

#[path = "common/skip.rs"]
mod skip;

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    thread,
    time::{Duration, Instant},
};

use rc3_core::units::Level;
use rc3_net::{
    marks::{MarkChoice, Marks},
    socket::{AsyncSocket, Datagram, MAX_GSO_BYTES, Options, Outgoing, RecvBatch, Socket, Sockets},
};
use skip::{LINUX_SOCKETS, skipped};

const PATIENCE: Duration = Duration::from_secs(5);

fn address(text: &str) -> SocketAddr {
    text.parse().expect("a socket address")
}

/// A socket on `text`, or `None` after printing why not.
fn bind(text: &str, options: &Options) -> Option<Socket> {
    match Socket::bind_plain(address(text), options) {
        Ok(socket) => Some(socket),
        Err(error) if text.starts_with('[') => {
            skipped(&format!("the address {text}: {error}"));
            None
        }
        Err(error) => panic!("{text}: {error}"),
    }
}

fn to(destination: SocketAddr, contents: &[u8]) -> Outgoing<'_> {
    Outgoing {
        destination,
        source: None,
        ecn: 0,
        dscp: 0,
        priority: None,
        contents,
        segment_size: None,
        dont_fragment: true,
    }
}

/// Receives until `count` datagrams have arrived or patience ends.
fn receive(socket: &Socket, count: usize) -> Vec<Datagram> {
    let mut batch = RecvBatch::new();
    let mut datagrams = Vec::new();
    let end = Instant::now() + PATIENCE;
    while datagrams.len() < count && Instant::now() < end {
        match socket.try_recv(&mut batch) {
            Ok(_) => datagrams.extend(batch.datagrams()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(1))
            }
            Err(error) => panic!("{error}"),
        }
    }
    datagrams
}

/// What arrives of a code point.
fn arriving(dscp: u8) -> u8 {
    if LINUX_SOCKETS { dscp } else { 0 }
}

/// `len` bytes in which no two segments are alike.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn every_levels_marks_arrive_as_sent_alone_and_in_batches() {
    // Sender, receiver, address to send to: both families, and IPv4 on dual-stack sockets at either end.
    let cases = [
        ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "[::1]:0", "::1"),
        ("[::]:0", "127.0.0.1:0", "127.0.0.1"),
        ("127.0.0.1:0", "[::]:0", "127.0.0.1"),
        ("[::]:0", "[::]:0", "::1"),
    ];
    let contents = pattern(4_500);
    for (from, at, ip) in cases {
        let (Some(sender), Some(receiver)) = (bind(from, &Options::default()), bind(at, &Options::default()))
        else {
            continue;
        };
        let ip: IpAddr = ip.parse().unwrap();
        let destination = SocketAddr::new(ip, receiver.local_addr().unwrap().port());
        for marks in [Marks::default(), MarkChoice::PerLevel.into()] {
            for level in (0..=Level::MAX.get()).filter_map(Level::new) {
                for ecn in 0..4 {
                    for segment_size in [None, Some(1_000)] {
                        let (dscp, priority) = (marks.dscp(level), marks.priority(level));
                        let out =
                            Outgoing { ecn, dscp, priority, segment_size, ..to(destination, &contents) };
                        sender.try_send(&out).unwrap();
                        let expected: Vec<_> = contents.chunks(segment_size.unwrap_or(4_500)).collect();
                        let got = receive(&receiver, expected.len());
                        let payloads: Vec<_> = got.iter().map(|datagram| &datagram.data[..]).collect();
                        assert_eq!(payloads, expected);
                        for Datagram { meta, .. } in got {
                            assert_eq!(
                                (meta.ecn, meta.dscp),
                                (ecn, arriving(dscp)),
                                "level {level} from {from} at {at}"
                            );
                            assert_eq!(meta.local, Some(ip));
                            assert_eq!(meta.remote, SocketAddr::new(ip, sender.local_addr().unwrap().port()));
                        }
                    }
                }
            }
        }
        assert_eq!(sender.stats().send_drops, 0);
    }
}

#[test]
fn joined_batches_are_split_where_they_were_joined() {
    let sender = bind("127.0.0.1:0", &Options::default()).unwrap();
    let receiver = bind("127.0.0.1:0", &Options::default()).unwrap();
    if sender.capabilities().gso_segments_max == 1 || !receiver.capabilities().gro {
        skipped("GSO and GRO");
        return;
    }
    for (len, size) in [(44 * 1_452, 1_452), (54 * 1_200 + 1, 1_200), (64, 1), (2_000, 1_999)] {
        let contents = pattern(len);
        let destination = receiver.local_addr().unwrap();
        sender.try_send(&Outgoing { segment_size: Some(size), ..to(destination, &contents) }).unwrap();
        let before = receiver.stats();
        let got = receive(&receiver, len.div_ceil(size));
        let payloads: Vec<_> = got.iter().map(|datagram| &datagram.data[..]).collect();
        assert_eq!(payloads, contents.chunks(size).collect::<Vec<_>>());
        let after = receiver.stats();
        assert_eq!(after.recv_syscalls - before.recv_syscalls, 1, "they came as one message");
        assert_eq!(after.received_datagrams - before.received_datagrams, got.len() as u64);
    }
    assert_eq!(sender.stats().send_syscalls, 4);
}

#[test]
fn without_offload_a_batch_arrives_as_the_same_datagrams() {
    let sender = bind("127.0.0.1:0", &Options { gso: false, ..Options::default() }).unwrap();
    let receiver = bind("127.0.0.1:0", &Options { gro: false, ..Options::default() }).unwrap();
    assert_eq!(sender.capabilities().gso_segments_max, 1);
    let contents = pattern(10_000);
    let out = Outgoing {
        ecn: 1,
        dscp: 1,
        priority: Some(1),
        segment_size: Some(1_452),
        ..to(receiver.local_addr().unwrap(), &contents)
    };
    sender.try_send(&out).unwrap();
    let got = receive(&receiver, 7);
    let payloads: Vec<_> = got.iter().map(|datagram| &datagram.data[..]).collect();
    assert_eq!(payloads, contents.chunks(1_452).collect::<Vec<_>>());
    let marks = (1, arriving(1));
    assert!(got.iter().all(|datagram| (datagram.meta.ecn, datagram.meta.dscp) == marks));
    assert_eq!(sender.stats().sent_datagrams, 7);
}

/// 2000 rounds of 25 low-priority datagrams and one of the primary's. `primary` is read after every eighth round, other
/// sockets never. Returns how many of the primary's never arrived.
fn primaries_lost_in_a_flood(primary: &Socket) -> usize {
    const ROUNDS: usize = 2_000;
    let sender = bind("127.0.0.1:0", &Options::default()).unwrap();
    let destination = primary.local_addr().unwrap();
    let low = vec![0x3f; 25 * 1_200];
    let mut batch = RecvBatch::new();
    let mut arrived = 0;
    let mut drain = |until: &dyn Fn(usize) -> bool| {
        let end = Instant::now() + Duration::from_millis(300);
        loop {
            match primary.try_recv(&mut batch) {
                Ok(_) => arrived += batch.datagrams().filter(|datagram| datagram.data[0] & 0x40 != 0).count(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if until(arrived) || Instant::now() > end {
                        return arrived;
                    }
                    thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let send = |out: &Outgoing<'_>| {
        while let Err(error) = sender.try_send(out) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            thread::yield_now();
        }
    };
    for round in 0..ROUNDS {
        send(&Outgoing { segment_size: Some(1_200), dscp: 1, ..to(destination, &low) });
        send(&to(destination, &[0x40; 1_200]));
        if round % 8 == 7 {
            drain(&|_| true);
        }
    }
    let arrived = drain(&|arrived| arrived == ROUNDS);
    assert_eq!(sender.stats().sent_datagrams, 26 * ROUNDS as u64);
    ROUNDS - arrived
}

/// Room for some fifty datagrams, so that a flood soon fills it.
fn small_buffers() -> Options {
    Options { recv_buffer: 64 << 10, gro: false, ..Options::default() }
}

#[test]
fn a_flood_of_low_priority_costs_the_primary_nothing() {
    let pair = Sockets::bind(address("127.0.0.1:0"), &small_buffers()).unwrap();
    let Some(low) = &pair.low else {
        skipped("a kernel that steers");
        return;
    };
    assert_eq!(primaries_lost_in_a_flood(&pair.primary), 0);
    assert!(low.stats().recv_overflows > 40_000, "the flood must have been one: {:?}", low.stats());
    assert_eq!(pair.primary.stats().recv_overflows, 0);
}

#[test]
fn the_same_flood_does_cost_an_unprotected_socket_something() {
    if !LINUX_SOCKETS {
        return skipped("the sockets of Linux");
    }
    let socket = bind("127.0.0.1:0", &small_buffers()).unwrap();
    let lost = primaries_lost_in_a_flood(&socket);
    assert!(lost > 0, "then the test of the pair proves nothing");
    assert!(socket.stats().recv_overflows > lost as u64);
}

#[test]
fn the_first_byte_decides_the_socket() {
    for at in ["127.0.0.1:0", "[::1]:0", "[::]:0", "0.0.0.0:0"] {
        if bind(at, &Options::default()).is_none() {
            continue;
        }
        let pair = Sockets::bind(address(at), &Options::default()).unwrap();
        let Some(low) = &pair.low else {
            skipped("a kernel that steers");
            return;
        };
        let port = pair.local_addr().unwrap().port();
        assert_eq!(low.local_addr().unwrap().port(), port);
        let ips: &[&str] = match at {
            "[::1]:0" => &["::1"],
            "[::]:0" => &["::1", "127.0.0.1"],
            _ => &["127.0.0.1"],
        };
        for ip in ips {
            let ip: IpAddr = ip.parse().unwrap();
            // Several senders: a hash over addresses would scatter them.
            for _ in 0..8 {
                let sender =
                    bind(if ip.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }, &Options::default()).unwrap();
                for first in 0..=255 {
                    sender.try_send(&to(SocketAddr::new(ip, port), &[first, 0xff])).unwrap();
                }
            }
            let got = receive(&pair.primary, 8 * 128);
            assert_eq!(got.len(), 8 * 128, "primary at {at} for {ip}");
            assert!(got.iter().all(|datagram| datagram.data[0] & 0x40 != 0));
            let got = receive(low, 8 * 128);
            assert_eq!(got.len(), 8 * 128, "low at {at} for {ip}");
            assert!(got.iter().all(|datagram| datagram.data[0] & 0x40 == 0));
        }
    }
}

#[test]
fn what_either_socket_sends_comes_from_the_one_port() {
    let pair = Sockets::bind(address("127.0.0.1:0"), &Options::default()).unwrap();
    let receiver = bind("127.0.0.1:0", &Options::default()).unwrap();
    pair.primary.try_send(&to(receiver.local_addr().unwrap(), b"a")).unwrap();
    pair.low().try_send(&to(receiver.local_addr().unwrap(), b"b")).unwrap();
    let got = receive(&receiver, 2);
    assert_eq!(got.len(), 2);
    assert!(got.iter().all(|datagram| datagram.meta.remote == pair.local_addr().unwrap()));
}

#[test]
fn a_fixed_port_is_given_once() {
    let first = Sockets::bind(address("127.0.0.1:0"), &Options::default()).unwrap();
    let taken = first.local_addr().unwrap();
    let second = Sockets::bind(taken, &Options::default());
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let plain = Socket::bind_plain(taken, &Options::default());
    assert_eq!(plain.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(first);
    let again = Sockets::bind(taken, &Options::default()).unwrap();
    assert_eq!(again.local_addr().unwrap(), taken);
}

#[test]
fn the_source_address_is_the_one_asked_for() {
    for (from, at, destination, source) in [
        ("0.0.0.0:0", "127.0.0.1:0", "127.0.0.1", "127.0.0.2"),
        ("[::]:0", "127.0.0.1:0", "127.0.0.1", "127.0.0.3"),
        ("[::]:0", "[::1]:0", "::1", "::1"),
    ] {
        let (Some(sender), Some(receiver)) = (bind(from, &Options::default()), bind(at, &Options::default()))
        else {
            continue;
        };
        let source: IpAddr = source.parse().unwrap();
        let destination =
            SocketAddr::new(destination.parse().unwrap(), receiver.local_addr().unwrap().port());
        sender.try_send(&Outgoing { source: Some(source), ..to(destination, b"x") }).unwrap();
        let got = receive(&receiver, 1);
        assert_eq!(got[0].meta.remote.ip(), source, "from {from}");

        // And back: the reply can be sent from the question's destination.
        receiver.try_send(&to(got[0].meta.remote, b"y")).unwrap();
        assert_eq!(receive(&sender, 1)[0].meta.local, Some(source));
    }
}

#[test]
fn what_the_network_refuses_is_a_drop_and_the_socket_lives_on() {
    let sender = bind("127.0.0.1:0", &Options::default()).unwrap();
    let receiver = bind("127.0.0.1:0", &Options::default()).unwrap();
    let here = receiver.local_addr().unwrap();
    let able = sender.capabilities();
    // Port 0, a foreign source, a batch of those; a port without a listener goes unnoticed.
    let port_zero = address("127.0.0.1:0");
    sender.try_send(&to(port_zero, b"x")).unwrap();
    let foreign = Some("192.0.2.1".parse().unwrap());
    sender.try_send(&Outgoing { source: foreign, ..to(here, b"x") }).unwrap();
    sender.try_send(&Outgoing { segment_size: Some(100), ..to(port_zero, &[0; 1_000]) }).unwrap();
    assert_eq!(sender.stats().send_drops, 12);
    let unheard = bind("127.0.0.1:0", &Options::default()).unwrap().local_addr().unwrap();
    for _ in 0..3 {
        sender.try_send(&to(unheard, b"x")).unwrap();
    }

    assert_eq!(sender.capabilities(), able, "the offload was not to blame");
    sender.try_send(&to(here, b"alive")).unwrap();
    assert_eq!(receive(&receiver, 1)[0].data[..], b"alive"[..]);
}

#[test]
fn misuse_is_an_error_before_anything_is_sent() {
    let sender = bind("127.0.0.1:0", &Options::default()).unwrap();
    let there = address("127.0.0.1:9");
    let kind = |out: Outgoing<'_>| sender.try_send(&out).unwrap_err().kind();
    assert_eq!(kind(to(there, &vec![0; MAX_GSO_BYTES + 1])), io::ErrorKind::InvalidInput);
    assert_eq!(kind(Outgoing { segment_size: Some(1), ..to(there, &[0; 65]) }), io::ErrorKind::InvalidInput);
    assert_eq!(kind(to(address("[::1]:9"), b"x")), io::ErrorKind::InvalidInput);
    assert_eq!(sender.stats().sent_datagrams, 0);
}

#[test]
fn an_idle_socket_has_nothing_queued_and_buffers_are_read_back() {
    let socket = bind("127.0.0.1:0", &small_buffers()).unwrap();
    assert_eq!(socket.queued_bytes(), 0);
    let capabilities = socket.capabilities();
    assert_eq!(capabilities.recv_buffer, 2 * (64 << 10));
    assert!(capabilities.send_buffer > 0 && !capabilities.gro);
    assert_eq!(capabilities.dscp, LINUX_SOCKETS);

    // On loopback a datagram counts for the sender until the receiver has read it.
    let receiver = bind("127.0.0.1:0", &Options::default()).unwrap();
    socket.try_send(&to(receiver.local_addr().unwrap(), &[0; 1_200])).unwrap();
    receive(&receiver, 1);
    let end = Instant::now() + PATIENCE;
    while socket.queued_bytes() > 0 && Instant::now() < end {
        thread::yield_now();
    }
    assert_eq!(socket.queued_bytes(), 0);
}

#[tokio::test]
async fn a_task_is_woken_by_what_arrives() {
    let pair = Sockets::bind(address("127.0.0.1:0"), &Options::default()).unwrap();
    let destination = pair.local_addr().unwrap();
    let primary = AsyncSocket::new(pair.primary).unwrap();
    assert_eq!(primary.local_addr().unwrap(), destination);
    let sender = AsyncSocket::new(bind("127.0.0.1:0", &Options::default()).unwrap()).unwrap();

    // The very first send needs no readiness; the runtime has not seen the socket yet.
    sender.try_send(&to(destination, b"@1")).unwrap();
    let work = async {
        let mut batch = RecvBatch::new();
        for expected in [b"@1", b"@2"] {
            poll_fn(|cx| primary.poll_recv(cx, &mut batch)).await.unwrap();
            assert_eq!(batch.datagrams().next().unwrap().data[..], expected[..]);
            poll_fn(|cx| sender.poll_writable(cx)).await.unwrap();
            sender.try_send(&to(destination, b"@2")).unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, work).await.expect("woken in time");
    assert_eq!(primary.stats().received_datagrams, 2);
}

#[test]
fn a_datagram_has_the_time_of_its_arrival_not_of_reading() {
    let receiver = Socket::bind_plain(address("127.0.0.1:0"), &Options::default()).expect("a socket");
    let sender = Socket::bind_plain(address("127.0.0.1:0"), &Options::default()).expect("a socket");
    if !receiver.capabilities().timestamps {
        skipped("a system that stamps datagrams");
        return;
    }
    let destination = receiver.local_addr().expect("bound");
    let unread = Duration::from_millis(50);
    let tolerance = unread / 2;
    // The kernel begins to stamp some time after the first socket wants it. Until then it has only the time of reading.
    let stamped = (0..40).any(|_| {
        let sent = Instant::now();
        sender.try_send(&to(destination, b"stamped")).expect("sent");
        thread::sleep(unread);
        let read = Instant::now();
        let datagrams = receive(&receiver, 1);
        let arrived = datagrams[0].meta.arrived.expect("a stamp");
        sent <= arrived + tolerance && arrived + tolerance <= read
    });
    assert!(stamped, "the times are those of reading");
}
