//! Peers that lie, flood, stall or have no authorisation.

use std::{
    fs,
    io::Read,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
    time::Duration,
};

use rc3::{
    identity::{file, mutual},
    transfer::{
        identity::{self, Identity, SERVER_NAME},
        message,
        ticket::Ticket,
    },
    tunnel::{
        ALPN, CONNECTIONS_MAX, FLOWS_MAX,
        address::Target,
        control::{FromClient, FromServer, VERSION},
        open::{Open, OpenAnswer},
    },
};
use rc3_net::{
    ClientConfig, Connection, ConnectionError, Endpoint, RecvStream, SendStream, TransportConfig, VarInt,
    rustls,
};
use tokio::time::timeout;

use super::harness::*;

/// A client that keeps to no rules.
struct Rogue {
    connection: Connection,
    control: (SendStream, RecvStream),
    _endpoint: Endpoint,
}

async fn connect(server: &Server, crypto: rustls::ClientConfig) -> Result<Rogue, ConnectionError> {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut config = ClientConfig::new(Arc::new(crypto));
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(VarInt::from_u32(100));
    config.transport_config(Arc::new(transport));
    let connection = endpoint.connect_with(config, server.address, SERVER_NAME).unwrap().await?;
    let control = connection.open_bi().await?;
    Ok(Rogue { connection, control, _endpoint: endpoint })
}

fn ticket(server: &Server) -> Ticket {
    server.ticket.parse().unwrap()
}

impl Rogue {
    async fn anonymous(server: &Server) -> Result<Self, ConnectionError> {
        connect(server, identity::client(Some(ticket(server).fingerprint()), ALPN).unwrap()).await
    }

    async fn with_new_identity(server: &Server) -> Self {
        let own = Identity::generate().unwrap();
        let crypto = mutual::client(&own, ticket(server).fingerprint(), ALPN).unwrap();
        connect(server, crypto).await.unwrap()
    }

    /// One with an authorised identity.
    async fn authorised(server: &Server) -> Self {
        let own = file::open(&server.state.path().join("of-a-peer")).unwrap();
        let line = format!("{} a peer\n", own.fingerprint());
        fs::write(server.state.path().join("authorized_peers"), line).unwrap();
        let crypto = mutual::client(&own, ticket(server).fingerprint(), ALPN).unwrap();
        let mut rogue = connect(server, crypto).await.unwrap();
        rogue.hello(None).await;
        let reply = message::read::<FromServer>(&mut rogue.control.1).await.unwrap();
        assert_eq!(reply, FromServer::Welcome);
        rogue
    }

    async fn hello(&mut self, secret: Option<[u8; 16]>) {
        self.hello_of(VERSION, secret).await;
    }

    async fn hello_of(&mut self, version: u16, secret: Option<[u8; 16]>) {
        let hello = message::encode(&FromClient::Hello { version, secret });
        let _ = self.control.0.write_all(&hello).await;
    }

    /// Writes on a new stream and returns the first byte of the answer, if any comes.
    async fn ask(&self, bytes: &[u8]) -> Option<u8> {
        let (mut send, mut recv) = self.connection.open_bi().await.ok()?;
        let _ = send.write_all(bytes).await;
        let _ = send.finish();
        let mut answer = [0];
        recv.read_exact(&mut answer).await.ok()?;
        Some(answer[0])
    }

    /// Echoes a byte through the tunnel.
    async fn echoes(&self, echo: SocketAddr) -> bool {
        let (mut send, mut recv) = self.connection.open_bi().await.unwrap();
        send.write_all(&[&open(echo)[..], b"x"].concat()).await.unwrap();
        let mut answer = [0; 2];
        recv.read_exact(&mut answer).await.unwrap();
        answer == [OpenAnswer::Connected.code(), b'x']
    }

    async fn closed(&self) -> ConnectionError {
        timeout(PATIENCE, self.connection.closed()).await.expect("it is closed")
    }
}

fn open(target: SocketAddr) -> Vec<u8> {
    to(&target.ip().to_string(), target.port())
}

fn to(host: &str, port: u16) -> Vec<u8> {
    message::encode(&Open::Target(Target::new(host, port).unwrap()))
}

/// A target that counts its connections.
fn counted() -> (SocketAddr, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let address = target(move |mut stream| {
        counter.fetch_add(1, Ordering::Relaxed);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    (address, count)
}

fn dead() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn without_authorisation_a_peer_learns_nothing() {
    let server = Server::start(&["--allow-remote-listen"]);
    let (live, count) = counted();
    // Without a certificate there is no connection.
    if let Ok(rogue) = Rogue::anonymous(&server).await {
        assert!(matches!(rogue.closed().await, ConnectionError::ConnectionClosed(_)));
    }
    let mut reasons = Vec::new();
    for secret in [None, Some([7; 16])] {
        for wanted in [live, dead()] {
            let mut rogue = Rogue::with_new_identity(&server).await;
            rogue.hello(secret).await;
            // Before the answer, in case streams are served early.
            let connection = rogue.connection.clone();
            let early = tokio::spawn(async move {
                let (mut send, mut recv) = connection.open_bi().await.ok()?;
                send.write_all(&open(wanted)).await.ok()?;
                let mut answer = [0];
                recv.read_exact(&mut answer).await.ok()?;
                Some(answer[0])
            });
            assert!(message::read::<FromServer>(&mut rogue.control.1).await.is_err());
            let ConnectionError::ApplicationClosed(close) = rogue.closed().await else {
                panic!("not closed")
            };
            reasons.push((close.error_code, close.reason));
            assert_eq!(early.await.unwrap(), None, "an answer about {wanted}");
        }
    }
    // The same for every peer, whatever exists.
    assert!(reasons.windows(2).all(|two| two[0] == two[1]), "{reasons:?}");
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert!(!server.state.path().join("authorized_peers").exists());
    // Other first messages fare no better.
    for first in
        [message::encode(&FromClient::Listen { id: 0, ip: live.ip(), port: 0 }), vec![0xff; 64], vec![]]
    {
        let mut rogue = Rogue::with_new_identity(&server).await;
        let _ = rogue.control.0.write_all(&first).await;
        let _ = rogue.control.0.finish();
        assert!(message::read::<FromServer>(&mut rogue.control.1).await.is_err());
    }
    // With the secret another version is refused, and not paired.
    let mut rogue = Rogue::with_new_identity(&server).await;
    rogue.hello_of(VERSION + 1, Some(ticket(&server).secret().0)).await;
    let reason = rogue.closed().await.to_string();
    assert!(reason.contains(&format!("this side {}", VERSION + 1)), "{reason}");
    assert!(!server.state.path().join("authorized_peers").exists());
    // The secret admits, even after all that.
    let mut rogue = Rogue::with_new_identity(&server).await;
    rogue.hello(Some(ticket(&server).secret().0)).await;
    assert_eq!(message::read::<FromServer>(&mut rogue.control.1).await.unwrap(), FromServer::Welcome);
}

#[tokio::test]
async fn lies_in_open_messages_get_an_answer_and_nothing_else() {
    let (live, count) = counted();
    let server = Server::start(&["--allow", &format!("127.0.0.1:{}", live.port())]);
    let peer = Rogue::authorised(&server).await;
    let framed = |length: u8, message: &[u8]| [&[0, 0, 0, length][..], message].concat();
    let host = |length: u8, host: &[u8]| framed(3 + host.len() as u8, &[&[0, length], host, &[80]].concat());
    for (lie, answer) in [
        (framed(4, &[9, 1, b'h', 80]), OpenAnswer::Malformed),
        (framed(4, &[0, 1, b'h', 0]), OpenAnswer::Malformed),
        (framed(5, &[0, 1, b'h', 80, 80]), OpenAnswer::Malformed),
        (framed(9, &[0, 1, b'h', 80]), OpenAnswer::Malformed),
        // Only the listening side opens such streams.
        (message::encode(&Open::Listener(0)), OpenAnswer::Malformed),
        (host(0, b""), OpenAnswer::Malformed),
        (host(100, b"short"), OpenAnswer::Malformed),
        (host(3, b"a b"), OpenAnswer::Malformed),
        (host(4, &[0xff; 4]), OpenAnswer::Malformed),
        (vec![1], OpenAnswer::Malformed),
        (vec![], OpenAnswer::Malformed),
        (vec![0xff; 100_000], OpenAnswer::Malformed),
        (to(&"n".repeat(255), 80), OpenAnswer::NotAllowed),
        (open(dead()), OpenAnswer::NotAllowed),
        (open(server.address), OpenAnswer::NotAllowed),
        (host(9, b"localhost"), OpenAnswer::NotAllowed),
    ] {
        let shown = lie.iter().take(20).collect::<Vec<_>>();
        assert_eq!(peer.ask(&lie).await, Some(answer.code()), "{shown:?}");
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
    assert_eq!(peer.ask(&open(live)).await, Some(OpenAnswer::Connected.code()));
    // The target's thread may be late.
    let counted = async {
        while count.load(Ordering::Relaxed) != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, counted).await.expect("one connection");
}

#[tokio::test]
async fn flows_have_numbers_of_their_own_and_are_limited() {
    let target = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = Server::start(&[]);
    let peer = Rogue::authorised(&server).await;
    // To no flow, and too short for a number.
    for datagram in [&b"\x00\x01nobody"[..], b"x", b""] {
        peer.connection.send_datagram(datagram.to_vec().into()).unwrap();
    }
    let target = Target::new("127.0.0.1", target.local_addr().unwrap().port()).unwrap();
    let (mut held, mut answers) = (Vec::new(), Vec::new());
    for number in (0..FLOWS_MAX as u16 + 9).chain([0, 1]) {
        let (mut send, mut recv) = peer.connection.open_bi().await.unwrap();
        send.write_all(&message::encode(&Open::Flow(number, target.clone()))).await.unwrap();
        let mut answer = [0];
        recv.read_exact(&mut answer).await.unwrap();
        answers.push(OpenAnswer::of(answer[0]));
        held.push((send, recv));
    }
    let (first, rest) = answers.split_at(FLOWS_MAX as usize);
    assert!(first.iter().all(|&answer| answer == OpenAnswer::Connected), "{first:?}");
    assert!(rest.iter().all(|&answer| answer == OpenAnswer::Unreachable), "{rest:?}");
    // A flow that has ended leaves its place.
    held.clear();
    let freed = async {
        let open = message::encode(&Open::Flow(0, target.clone()));
        while peer.ask(&open).await != Some(OpenAnswer::Connected.code()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, freed).await.expect("a place");
}

#[tokio::test]
async fn ten_thousand_silent_streams_hold_up_no_other_peer() {
    let server = Server::start(&[]);
    let echo = echo();
    let flood = Rogue::authorised(&server).await;
    let mut held = Vec::new();
    while held.len() < 10_000 {
        // One byte makes the stream visible.
        let one = async {
            let (mut send, recv) = flood.connection.open_bi().await.ok()?;
            send.write_all(&[1]).await.ok()?;
            Some((send, recv))
        };
        match timeout(Duration::from_millis(500), one).await {
            Ok(Some(stream)) => held.push(stream),
            Ok(None) | Err(_) => break,
        }
    }
    println!("{} streams open, VmRSS {} kB", held.len(), memory(&server));
    // With the control stream.
    assert!(held.len() <= (CONNECTIONS_MAX + FLOWS_MAX) as usize, "{} streams", held.len());
    assert!(held.len() >= CONNECTIONS_MAX as usize / 2, "{} streams", held.len());
    let other = Rogue::authorised(&server).await;
    assert!(other.echoes(echo).await);
    // Silent streams are reset in time, and their places are free again.
    let (_, recv) = &mut held[0];
    let end = timeout(PATIENCE, recv.read_exact(&mut [0])).await.expect("it ends");
    assert!(end.is_err());
    assert!(timeout(PATIENCE, flood.echoes(echo)).await.expect("a free place"));
}

#[tokio::test]
async fn a_peer_that_never_reads_costs_bounded_memory() {
    let server = Server::start(&[]);
    let endless = target(|mut stream| {
        use std::io::Write;
        while stream.write_all(&[3; 64 << 10]).is_ok() {}
    });
    let (peer, echo) = (Rogue::authorised(&server).await, echo());
    let before = memory(&server);
    let mut held = Vec::new();
    for _ in 0..20 {
        let (mut send, recv) = peer.connection.open_bi().await.unwrap();
        send.write_all(&open(endless)).await.unwrap();
        held.push((send, recv));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = memory(&server);
    println!("VmRSS {before} kB before, {after} kB with 20 streams that are not read");
    // Twice the send window, for the bytes and their records.
    assert!(after - before < 150_000, "{} kB", after - before);
    // Another peer is not held up.
    assert!(timeout(PATIENCE, Rogue::authorised(&server).await.echoes(echo)).await.expect("an echo"));
}

#[tokio::test]
async fn resets_reach_the_target_and_cost_nothing_else() {
    let server = Server::start(&[]);
    let (ends, ended) = channel();
    let watched = target(move |mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
        let _ = ends.send(());
    });
    let (peer, echo) = (Rogue::authorised(&server).await, echo());
    for at in 0..300_u32 {
        let (mut send, mut recv) = peer.connection.open_bi().await.unwrap();
        send.write_all(&open(watched)).await.unwrap();
        recv.read_exact(&mut [0]).await.unwrap();
        send.write_all(&[9; 1000]).await.unwrap();
        if at % 2 == 0 {
            recv.stop(at.into()).unwrap();
        }
        send.reset(at.into()).unwrap();
    }
    let all = tokio::task::spawn_blocking(move || (0..300).all(|_| ended.recv_timeout(PATIENCE).is_ok()));
    assert!(all.await.unwrap(), "a target's connection stays open");
    assert!(peer.echoes(echo).await);
}

#[tokio::test]
async fn listeners_of_a_peer_are_limited_and_end_with_it() {
    let server = Server::start(&["--allow-remote-listen"]);
    let mut peer = Rogue::authorised(&server).await;
    let mut ports = Vec::new();
    for id in 0..40 {
        let listen = FromClient::Listen { id: id % 20, ip: [127, 0, 0, 1].into(), port: 0 };
        peer.control.0.write_all(&message::encode(&listen)).await.unwrap();
        match message::read::<FromServer>(&mut peer.control.1).await.unwrap() {
            FromServer::Listening { port, .. } => ports.push(port),
            FromServer::NotListening { .. } => {}
            FromServer::Welcome => panic!("a second welcome"),
        }
    }
    assert_eq!(ports.len(), rc3::tunnel::LISTENERS_MAX);
    assert!(ports.iter().all(|&port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()));
    // Nonsense on the control stream ends the connection, and its listeners.
    peer.control.0.write_all(&[0, 0, 0, 1, 0xff]).await.unwrap();
    peer.closed().await;
    let until = std::time::Instant::now() + PATIENCE;
    while ports.iter().any(|&port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()) {
        assert!(std::time::Instant::now() < until, "a listener outlives its peer");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[cfg(target_os = "linux")]
fn memory(server: &Server) -> u64 {
    server.process.resident()
}

#[cfg(not(target_os = "linux"))]
fn memory(_server: &Server) -> u64 {
    0
}
