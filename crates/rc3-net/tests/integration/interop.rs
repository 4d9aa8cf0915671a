//! Peers without rc3: plain quinn.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::common::{SERVER_NAME, code, pattern, receive, run, send};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rc3_net::{ClientConfig, ConnectionError, Endpoint, ReadError, ServerConfig, WriteError};
use tokio::net::UdpSocket;

const ANY: &str = "127.0.0.1:0";

/// A plain quinn client connected to an rc3 server.
async fn plain_client() -> (quinn::Endpoint, quinn::Connection, Endpoint, rc3_net::Connection) {
    let (client, server) = rc3_sim::identity::tls(&["test"]);
    let server = Endpoint::server(ServerConfig::with_crypto(Arc::new(server)), ANY.parse().unwrap()).unwrap();
    let mut plain = quinn::Endpoint::client(ANY.parse().unwrap()).unwrap();
    let client = QuicClientConfig::try_from(client).unwrap();
    plain.set_default_client_config(quinn::ClientConfig::new(Arc::new(client)));
    let connecting = plain.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
    let accepting = async { server.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    (plain, connected.unwrap(), server, accepted)
}

/// A plain quinn server, and an rc3 client that may connect to it.
fn plain_server_and_client() -> (quinn::Endpoint, Endpoint) {
    let (client, server) = rc3_sim::identity::tls(&["test"]);
    let server = QuicServerConfig::try_from(server).unwrap();
    let server = quinn::ServerConfig::with_crypto(Arc::new(server));
    let plain = quinn::Endpoint::server(server, ANY.parse().unwrap()).unwrap();
    let mut ours = Endpoint::client(ANY.parse().unwrap()).unwrap();
    ours.set_default_client_config(ClientConfig::new(Arc::new(client)));
    (plain, ours)
}

/// An rc3 client connected to a plain quinn server.
async fn plain_server() -> (quinn::Endpoint, quinn::Connection, Endpoint, rc3_net::Connection) {
    let (plain, ours) = plain_server_and_client();
    let connecting = ours.connect(plain.local_addr().unwrap(), SERVER_NAME).unwrap();
    let accepting = async { plain.accept().await.unwrap().await.unwrap() };
    let (connected, accepted) = tokio::join!(connecting, accepting);
    (plain, accepted, ours, connected.unwrap())
}

async fn exchange(plain: &quinn::Connection, ours: &rc3_net::Connection) {
    assert!(!ours.is_rc3());
    let (up, down) = (pattern(5 << 20, 1), pattern(5 << 20, 2));

    // One stream in each direction.
    let theirs = async {
        let mut tx = plain.open_uni().await.unwrap();
        tx.write_all(&up).await.unwrap();
        tx.finish().unwrap();
        let mut rx = plain.accept_uni().await.unwrap();
        assert!(rx.read_to_end(down.len()).await.unwrap() == down);
    };
    let mine = async {
        receive(ours.accept_uni().await.unwrap(), &up).await;
        send(ours.open_uni().await.unwrap(), down.clone()).await;
    };
    tokio::join!(theirs, mine);

    // Both directions at once.
    let theirs = async {
        let (mut tx, mut rx) = plain.open_bi().await.unwrap();
        let writing = async {
            tx.write_all(&up).await.unwrap();
            tx.finish().unwrap();
        };
        let reading = async { assert!(rx.read_to_end(down.len()).await.unwrap() == down) };
        tokio::join!(writing, reading);
    };
    let mine = async {
        let (tx, rx) = ours.accept_bi().await.unwrap();
        tokio::join!(send(tx, down.clone()), receive(rx, &up));
    };
    tokio::join!(theirs, mine);

    // Reset by quinn, reset by rc3, stopped by quinn.
    let mut theirs = plain.open_uni().await.unwrap();
    theirs.write_all(b"never mind").await.unwrap();
    let mut rx = ours.accept_uni().await.unwrap();
    theirs.reset(quinn::VarInt::from_u32(21)).unwrap();
    assert_eq!(rx.received_reset().await, Ok(Some(code(21))));
    assert_eq!(rx.read_chunk(1, true).await, Err(ReadError::Reset(code(21))));

    let mut tx = ours.open_uni().await.unwrap();
    tx.write_all(b"never mind").await.unwrap();
    let mut theirs = plain.accept_uni().await.unwrap();
    tx.reset(code(22)).unwrap();
    let reset = theirs.received_reset().await.unwrap();
    assert_eq!(reset.map(quinn::VarInt::into_inner), Some(22));

    let mut tx = ours.open_uni().await.unwrap();
    tx.write_all(b"never mind").await.unwrap();
    plain.accept_uni().await.unwrap().stop(quinn::VarInt::from_u32(23)).unwrap();
    assert_eq!(tx.stopped().await, Ok(Some(code(23))));
    assert_eq!(tx.write(b"x").await, Err(WriteError::Stopped(code(23))));

    let stats = ours.stats();
    assert!(!stats.rc3);
    assert_eq!(stats.received.rlp_bytes.iter().sum::<u64>(), 0);
    assert_eq!(stats.sent.levels.iter().map(|level| level.packets).sum::<u64>(), 0);
}

#[test]
fn a_plain_client_is_served() {
    run(async {
        let (_plain, theirs, _server, ours) = plain_client().await;
        exchange(&theirs, &ours).await;
        theirs.close(quinn::VarInt::from_u32(31), b"bye");
        let ConnectionError::ApplicationClosed(close) = ours.closed().await else { panic!("lost otherwise") };
        assert_eq!((close.error_code, &close.reason[..]), (code(31), &b"bye"[..]));
    });
}

#[test]
fn a_plain_server_serves_us() {
    run(async {
        let (_plain, theirs, _client, ours) = plain_server().await;
        exchange(&theirs, &ours).await;
        ours.close(code(32), b"bye");
        let quinn::ConnectionError::ApplicationClosed(close) = theirs.closed().await else {
            panic!("lost otherwise")
        };
        assert_eq!((close.error_code.into_inner(), &close.reason[..]), (32, &b"bye"[..]));
    });
}

#[test]
fn a_graceful_close_delivers_to_a_plain_peer_too() {
    run(async {
        let (_plain, theirs, _server, ours) = plain_client().await;
        let data = pattern(3 << 20, 3);
        let sending = async {
            let mut tx = ours.open_uni().await.unwrap();
            tx.write_all(&data).await.unwrap();
            ours.close_gracefully(code(33), b"").await.unwrap();
        };
        let receiving = async {
            let mut rx = theirs.accept_uni().await.unwrap();
            assert!(rx.read_to_end(data.len()).await.unwrap() == data);
        };
        tokio::join!(sending, receiving);
    });
}

/// A path to `server` that delivers nothing to the client once it is cut.
async fn one_way_path(server: SocketAddr, cut: Arc<AtomicBool>) -> SocketAddr {
    let (front, back) = (UdpSocket::bind(ANY).await.unwrap(), UdpSocket::bind(ANY).await.unwrap());
    let address = front.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut up, mut down) = (vec![0; 65_536], vec![0; 65_536]);
        let mut client = server;
        loop {
            tokio::select! {
                received = front.recv_from(&mut up) => {
                    let (len, from) = received.unwrap();
                    client = from;
                    back.send_to(&up[..len], server).await.unwrap();
                }
                received = back.recv_from(&mut down) => {
                    let (len, _) = received.unwrap();
                    if !cut.load(Relaxed) {
                        front.send_to(&down[..len], client).await.unwrap();
                    }
                }
            }
        }
    });
    address
}

/// Without acknowledgments the window stays full (quinn issue 2785).
#[test]
fn a_plain_peer_learns_of_a_close_that_a_full_window_precedes() {
    run(async {
        for whole_endpoint in [false, true] {
            let (plain, ours) = plain_server_and_client();
            let cut = Arc::new(AtomicBool::new(false));
            let path = one_way_path(plain.local_addr().unwrap(), cut.clone()).await;
            let connecting = ours.connect(path, SERVER_NAME).unwrap();
            let accepting = async { plain.accept().await.unwrap().await.unwrap() };
            let (connected, theirs) = tokio::join!(connecting, accepting);
            let connection = connected.unwrap();
            let mut tx = connection.open_uni().await.unwrap();
            tx.write_all(&pattern(1 << 20, 8)).await.unwrap();
            cut.store(true, Relaxed);
            tx.write_all(&pattern(1 << 20, 9)).await.unwrap();
            // The first probe timeout shows that all of the window was sent.
            let probes = || connection.stats().frame_tx.ping;
            let before = probes();
            while probes() == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            match whole_endpoint {
                false => connection.close(code(34), b"enough"),
                true => ours.close(code(34), b"enough"),
            }
            let quinn::ConnectionError::ApplicationClosed(close) = theirs.closed().await else {
                panic!("lost otherwise")
            };
            assert_eq!((close.error_code.into_inner(), &close.reason[..]), (34, &b"enough"[..]));
        }
    });
}
