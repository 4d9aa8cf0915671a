//! Hostile or broken peers and networks, on real sockets.
use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::common::{SERVER_NAME, code, configs, endpoints, pattern, receive, run, send};
use rc3_net::{ConnectionError, Endpoint, TransportErrorCode, WriteError};

/// A relay between a client and a server: forwards, and changes its port on request.
struct Relay {
    front: SocketAddr,
    orders: Arc<Orders>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Orders {
    stop: AtomicBool,
    silent: AtomicBool,
    /// Sends a copy of each datagram of the client from another address, directly after it.
    copy: AtomicBool,
    /// Datagrams of the client between two changes of the port; 0 for none.
    rebind_after: AtomicUsize,
    ports: AtomicUsize,
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

impl Relay {
    fn start(server: SocketAddr) -> Self {
        let front = socket();
        let address = front.local_addr().unwrap();
        let orders = Arc::<Orders>::default();
        let theirs = orders.clone();
        let thread = thread::spawn(move || forward(&front, server, &theirs));
        Self { front: address, orders, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.orders.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn forward(front: &UdpSocket, server: SocketAddr, orders: &Orders) {
    let mut backs = vec![socket()];
    let stranger = socket();
    let mut client = None;
    let mut since = 0;
    let mut buf = vec![0; 65_536];
    while !orders.stop.load(Relaxed) {
        let mut moved = false;
        for _ in 0..64 {
            let Ok((len, from)) = front.recv_from(&mut buf) else { break };
            moved = true;
            client = Some(from);
            if orders.silent.load(Relaxed) {
                continue;
            }
            let rebind_after = orders.rebind_after.load(Relaxed);
            since += 1;
            if rebind_after > 0 && since >= rebind_after {
                since = 0;
                backs.push(socket());
                orders.ports.fetch_add(1, Relaxed);
            }
            // Datagrams refused by a full buffer are lost.
            let _ = backs.last().unwrap().send_to(&buf[..len], server);
            if orders.copy.load(Relaxed) {
                let _ = stranger.send_to(&buf[..len], server);
            }
        }
        // A late answer to an old port still finds its way.
        for back in &backs {
            for _ in 0..64 {
                let Ok((len, _)) = back.recv_from(&mut buf) else { break };
                moved = true;
                if let Some(client) = client.filter(|_| !orders.silent.load(Relaxed)) {
                    let _ = front.send_to(&buf[..len], client);
                }
            }
        }
        while stranger.recv_from(&mut buf).is_ok() {}
        if !moved {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

#[test]
fn a_transfer_outlives_its_address_again_and_again() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| ());
        let relay = Relay::start(server.local_addr().unwrap());
        let connecting = client.connect(relay.front, SERVER_NAME).unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (near, far) = tokio::join!(connecting, accepting);
        let near = near.unwrap();
        let first = far.remote_address();
        relay.orders.rebind_after.store(300, Relaxed);
        let data = pattern(8 << 20, 3);
        for (from, to) in [(&near, &far), (&far, &near)] {
            let sending = async { send(from.open_uni().await.unwrap(), data.clone()).await };
            let receiving = async { receive(to.accept_uni().await.unwrap(), &data).await };
            tokio::join!(sending, receiving);
        }
        assert!(relay.orders.ports.load(Relaxed) >= 3, "the address hardly changed");
        assert_ne!(far.remote_address(), first);
        assert_eq!(near.remote_address(), relay.front);
    });
}

#[test]
fn copies_from_a_stranger_cost_neither_the_path_nor_a_byte() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |_| ());
        let relay = Relay::start(server.local_addr().unwrap());
        let connecting = client.connect(relay.front, SERVER_NAME).unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (near, far) = tokio::join!(connecting, accepting);
        let near = near.unwrap();
        let path = far.remote_address();
        relay.orders.copy.store(true, Relaxed);
        let data = pattern(4 << 20, 4);
        let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
        let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
        tokio::join!(sending, receiving);
        // The last copy that overtook its original may have moved the path for a moment (RFC 9000 §9.3.2).
        relay.orders.copy.store(false, Relaxed);
        let (mut tx, mut rx) = near.open_bi().await.unwrap();
        tx.write_all(b"still here?").await.unwrap();
        let (mut back, _) = far.accept_bi().await.unwrap();
        back.write_all(b"yes").await.unwrap();
        let mut answer = [0; 3];
        rx.read_exact(&mut answer).await.unwrap();
        assert_eq!((&answer, far.remote_address()), (b"yes", path));
        let received = far.stats().received;
        assert!(received.rlp_discarded > 0, "{received:?}");
    });
}

#[test]
fn a_peer_that_vanishes_ends_every_wait_with_a_timeout() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.max_idle_timeout(Some(Duration::from_secs(1).try_into().unwrap()));
        });
        let relay = Relay::start(server.local_addr().unwrap());
        let connecting = client.connect(relay.front, SERVER_NAME).unwrap();
        let accepting = async { server.accept().await.unwrap().await.unwrap() };
        let (near, far) = tokio::join!(connecting, accepting);
        let near = near.unwrap();
        let mut tx = near.open_uni().await.unwrap();
        tx.write_all(&pattern(100_000, 5)).await.unwrap();
        let mut rx = far.accept_uni().await.unwrap();
        relay.orders.silent.store(true, Relaxed);
        let writing = async {
            loop {
                if let Err(error) = tx.write_all(&pattern(1 << 20, 6)).await {
                    return error;
                }
            }
        };
        let reading = async {
            let mut buf = [0; 65_536];
            loop {
                if let Err(error) = rx.read(&mut buf).await {
                    return error;
                }
            }
        };
        let waiting = far.accept_bi();
        let (written, read, accepted) = tokio::join!(writing, reading, waiting);
        assert_eq!(written, WriteError::ConnectionLost(ConnectionError::TimedOut));
        assert_eq!(read, rc3_net::ReadError::ConnectionLost(ConnectionError::TimedOut));
        assert_eq!(accepted.map(drop), Err(ConnectionError::TimedOut));
        client.wait_idle().await;
        server.wait_idle().await;
        assert_eq!((client.open_connections(), server.open_connections()), (0, 0));
    });
}

#[test]
fn a_server_that_does_not_accept_sheds_what_comes_and_serves_the_rest_later() {
    run(async {
        let (client_config, mut server_config) = configs(|_| ());
        server_config.retry_incoming_from(2).max_incoming(4);
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(server_config, any).unwrap();
        let mut client = Endpoint::client(any).unwrap();
        client.set_default_client_config(client_config);
        let address = server.local_addr().unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..10 {
            tasks.spawn(client.connect(address, SERVER_NAME).unwrap());
        }
        for _ in 0..6 {
            let Err(ConnectionError::ConnectionClosed(close)) = tasks.join_next().await.unwrap().unwrap()
            else {
                panic!("neither accepted nor refused");
            };
            assert_eq!(close.error_code, TransportErrorCode::CONNECTION_REFUSED);
        }
        let incoming = server.stats().incoming;
        assert_eq!((incoming.waiting, incoming.refused), (4, 6));
        assert!((2..=8).contains(&incoming.retried), "{incoming:?}");
        for _ in 0..4 {
            let incoming = server.accept().await.unwrap();
            let (accepted, connected) = tokio::join!(incoming, tasks.join_next());
            accepted.unwrap().close(code(0), b"");
            connected.unwrap().unwrap().unwrap();
        }
        assert_eq!(server.stats().incoming.waiting, 0);
    });
}
