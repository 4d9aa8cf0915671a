//! `-L`, `-R` and `-D`.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

use super::harness::*;

#[test]
fn several_forwards_carry_bytes_both_ways() {
    let server = Server::start(&["--allow-remote-listen"]);
    let (one, two) = (echo(), echo());
    let (local, other, remote) = (forward(one), forward(two), forward(one));
    let client = Client::start(&server, &["-L", &local, "-L", &other, "-D", "127.0.0.1:0", "-R", &remote]);
    let addresses: Vec<SocketAddr> = (0..4).map(|_| client.process.address()).collect();
    let bytes = content(1, 3_000_000);
    for &address in [&addresses[0], &addresses[1], &addresses[3]] {
        assert!(ask(address, &bytes) == bytes, "{address}");
        assert!(ask(address, b"").is_empty());
    }
    let mut socks = socks(addresses[2], one).expect("connected");
    socks.write_all(&bytes[..50_000]).unwrap();
    socks.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    socks.read_to_end(&mut answer).unwrap();
    assert!(answer == bytes[..50_000]);
    let mut http = http_connect(addresses[2], one).expect("connected");
    http.write_all(&bytes[..5]).unwrap();
    let mut answer = [0; 5];
    http.read_exact(&mut answer).unwrap();
    assert!(answer == bytes[..5]);
}

/// A UDP server that returns what it gets to whom it came from.
fn echo_udp() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    });
    address
}

/// Whether a datagram comes back from a port. The system loses some when it is busy: like a resolver, it asks again.
fn is_echoed(socket: &UdpSocket, datagram: &[u8]) -> bool {
    let mut buffer = [0; 65_535];
    (0..20).any(|_| {
        socket.send(datagram).unwrap();
        // Answers to earlier ones may be late.
        std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|length| buffer[..length] == *datagram))
            .any(|is_same| is_same)
    })
}

#[test]
fn datagrams_find_their_way_back_whatever_their_length() {
    let server = Server::start(&[]);
    let client = Client::start(&server, &["-L", &format!("{}/udp", forward(echo_udp()))]);
    let port = client.process.address();
    // An empty one, those that fit into a datagram of QUIC, and those that do not.
    let datagrams = |seed| [0, 1, 500, 1100, 1400, 9000, 65_000].map(|length| content(seed, length));
    let ask = move |seed| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(port).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        datagrams(seed).iter().all(|datagram| is_echoed(&socket, datagram))
    };
    let asking: Vec<_> = (1..5).map(|seed| thread::spawn(move || ask(seed))).collect();
    for asked in asking {
        assert!(asked.join().unwrap());
    }
}

#[test]
fn targets_of_datagrams_need_permission() {
    let echo = echo_udp();
    let server = Server::start(&["--allow", "127.0.0.1:9"]);
    let client = Client::start(&server, &["-L", &format!("{}/udp", forward(echo))]);
    let address = client.process.address();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"secret", address).unwrap();
    client.process.line_with("/udp: the other side does not allow that target");
    let client = Client::start(&server, &["-R", &format!("{}/udp", forward(echo))]);
    let (code, said) = client.process.finish();
    assert_eq!(code, Some(2), "{said}");
}

/// Connects through a SOCKS proxy, or returns its code.
fn socks(proxy: SocketAddr, target: SocketAddr) -> Result<TcpStream, u8> {
    let mut stream = connect(proxy);
    let port = target.port().to_be_bytes();
    stream.write_all(&[&b"\x05\x01\x00\x05\x01\x00\x03\x09localhost"[..], &port].concat()).unwrap();
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..3], [5, 0, 5]);
    if reply[3] == 0 { Ok(stream) } else { Err(reply[3]) }
}

/// Connects through an HTTP proxy, or returns its status.
fn http_connect(proxy: SocketAddr, target: SocketAddr) -> Result<TcpStream, String> {
    let mut stream = connect(proxy);
    write!(stream, "CONNECT localhost:{0} HTTP/1.1\r\nHost: localhost:{0}\r\n\r\n", target.port()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    let mut end = [0; 4];
    while &end != b"\r\n\r\n" {
        end.rotate_left(1);
        stream.read_exact(&mut end[3..]).unwrap();
    }
    let status = String::from_utf8_lossy(&status).into_owned();
    if status == "HTTP/1.1 200" { Ok(stream) } else { Err(status) }
}

/// A port at which nobody listens.
fn dead() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn either_side_may_end_its_direction_first() {
    let server = Server::start(&[]);
    // Ends first, and reports what it reads afterwards.
    let (report, reported) = channel();
    let early = target(move |mut stream| {
        stream.write_all(b"hello").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        report.send(rest).unwrap();
    });
    // Answers only after its client has ended.
    let late = target(|mut stream| {
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        stream.write_all(blake3::hash(&question).as_bytes()).unwrap();
    });
    let client = Client::start(&server, &["-L", &forward(early), "-L", &forward(late)]);
    let (early, late) = (client.process.address(), client.process.address());
    let bytes = content(2, 1_000_000);

    let mut stream = connect(early);
    let mut greeting = Vec::new();
    stream.read_to_end(&mut greeting).unwrap();
    assert_eq!(greeting, b"hello");
    // The other direction is still open.
    stream.write_all(&bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(reported.recv_timeout(PATIENCE).unwrap() == bytes);

    assert_eq!(ask(late, &bytes), blake3::hash(&bytes).as_bytes());
}

#[test]
fn a_broken_connection_is_not_taken_for_its_end() {
    let server = Server::start(&[]);
    // Resets: it closes with unread bytes.
    let resets = target(|mut stream| {
        stream.write_all(b"part of it").unwrap();
        let _ = stream.peek(&mut [0]);
    });
    let client = Client::start(&server, &["-L", &forward(resets), "-L", &forward(dead())]);
    let (resets, refused) = (client.process.address(), client.process.address());
    let mut stream = connect(resets);
    stream.write_all(b"unread").unwrap();
    assert!(stream.read_to_end(&mut Vec::new()).is_err(), "a reset must arrive as one");

    let mut stream = connect(refused);
    assert!(stream.read_to_end(&mut Vec::new()).is_err());
    client.process.line_with("the target refused the connection");
}

#[test]
fn targets_need_permission() {
    let echo = echo();
    let server = Server::start(&["--allow", &format!("localhost:{}", echo.port())]);
    let client = Client::start(&server, &["-D", "127.0.0.1:0"]);
    let proxy = client.process.address();
    assert!(socks(proxy, echo).is_ok());
    // Whether or not something listens there.
    for other in [dead(), super::harness::echo()] {
        assert_eq!(socks(proxy, other).err(), Some(2), "{other}");
        assert_eq!(http_connect(proxy, other).err().as_deref(), Some("HTTP/1.1 403"), "{other}");
    }
    // The same address by another name is not what was allowed.
    let client = Client::start(&server, &["-L", &forward(echo)]);
    assert!(connect(client.process.address()).read_to_end(&mut Vec::new()).is_err());
    client.process.line_with("does not allow that target");
}

#[test]
fn remote_listeners_need_permission() {
    for (flags, listen) in [(&[][..], "127.0.0.1:0"), (&["--allow-remote-listen"], "0.0.0.0:0")] {
        let server = Server::start(flags);
        let client = Client::start(&server, &["-R", &format!("{listen}:127.0.0.1:9")]);
        let (code, said) = client.process.finish();
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains("does not listen on") && said.contains("hint: "), "{said}");
    }
}

#[test]
fn socks_clients_that_send_garbage_or_stall_hold_up_nobody() {
    let server = Server::start(&[]);
    let echo = echo();
    let client = Client::start(&server, &["-D", "127.0.0.1:0"]);
    let proxy = client.process.address();
    let mut stalled: Vec<TcpStream> = (0..200).map(|_| connect(proxy)).collect();
    for (at, stream) in stalled.iter_mut().enumerate() {
        let _ = stream.write_all(&b"\x05\x01\x00\x05\x01\x00\x03\xffhost"[..at % 12]);
    }
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x05\x00", b"\x05\x01\x00\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"]
    {
        let mut stream = connect(proxy);
        stream.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let is_answered = garbage.starts_with(b"GET") && answer.starts_with(b"HTTP/1.1 501 ");
        assert!(is_answered || answer.len() <= 12, "{answer:?}");
    }
    let mut stream = socks(proxy, echo).unwrap();
    stream.write_all(b"still here").unwrap();
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"still here");
    assert_eq!(socks(proxy, dead()).err(), Some(5));
    assert_eq!(http_connect(proxy, dead()).err().as_deref(), Some("HTTP/1.1 502"));
}

#[test]
fn a_lost_peer_ends_the_client_with_a_message() {
    let mut server = Server::start(&[]);
    let client = Client::start(&server, &["-L", &forward(echo())]);
    let address = client.process.address();
    assert_eq!(ask(address, b"x"), b"x");
    interrupt(&server.process.child);
    let (code, said) = client.process.finish();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("lost the connection: the other side was interrupted"), "{said}");
    assert_eq!(server.process.child.wait().unwrap().code(), Some(130));

    // And a client that is interrupted ends with that code, and takes its connections with it.
    let (sender, ended) = channel();
    let watched = watched(sender);
    let server = Server::start(&[]);
    let client = Client::start(&server, &["-L", &forward(watched)]);
    let mut stream = connect(client.process.address());
    stream.write_all(b"x").unwrap();
    ended.recv_timeout(PATIENCE).unwrap();
    interrupt(&client.process.child);
    assert_eq!(client.process.finish().0, Some(130));
    ended.recv_timeout(PATIENCE).unwrap();
}

/// Signals its first byte, and its end.
fn watched(signal: Sender<()>) -> SocketAddr {
    target(move |mut stream| {
        let _ = stream.read(&mut [0]);
        let _ = signal.send(());
        let _ = stream.read_to_end(&mut Vec::new());
        let _ = signal.send(());
    })
}

fn interrupt(child: &std::process::Child) {
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
}

#[test]
fn a_program_that_does_not_read_holds_up_only_itself() {
    let server = Server::start(&[]);
    let client = Client::start(&server, &["-L", &forward(echo())]);
    let address = client.process.address();
    // Writes until every buffer is full.
    let stalled: Vec<TcpStream> = (0..3).map(|_| connect(address)).collect();
    let writers: Vec<_> = stalled
        .iter()
        .map(|stream| {
            let mut stream = stream.try_clone().unwrap();
            stream.set_write_timeout(Some(std::time::Duration::from_secs(1))).unwrap();
            thread::spawn(move || {
                let (block, mut written) = (vec![7; 1 << 20], 0);
                while let Ok(bytes) = stream.write(&block) {
                    written += bytes;
                    assert!(written < 1 << 30, "there is no back pressure");
                }
            })
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let bytes = content(3, 1_000_000);
    assert!(ask(address, &bytes) == bytes);
}
