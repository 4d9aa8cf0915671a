//! Clients behind a NAT that rebinds all the time, and a server with several workers: no packet reaches another worker
//! than its connection's.
#![cfg(all(target_os = "linux", not(rc3_portable)))]
use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::common::{SERVER_NAME, code, configs, pattern};
use rc3_net::{Connection, Endpoint, EndpointOptions, EndpointStats, HandedOver};
use tokio::{
    net::UdpSocket,
    sync::{RwLock, Semaphore, watch},
    task::{AbortHandle, JoinSet},
    time::sleep,
};

/// Bytes of a request and of its answer.
const BYTES: usize = 24_000;

/// The same where RLP should send much: beyond the primary's window.
const LONG: usize = 1_000_000;

/// How long a mapping of the NAT lasts: longer than a round trip on a busy machine, since an address must be validated
/// before the next one comes.
const MAPPING: Duration = Duration::from_secs(1);

/// Mappings that still take answers.
const KEPT: usize = 10;

/// A NAT between one client endpoint and a server.
struct Nat {
    address: SocketAddr,
    /// Held by clients in their handshake, which needs one address (RFC 9000 §9).
    stable: Arc<RwLock<()>>,
    tasks: Vec<AbortHandle>,
}

impl Nat {
    async fn start(server: SocketAddr) -> Self {
        let inside = Arc::new(socket());
        let address = inside.local_addr().unwrap();
        let (client, _) = watch::channel(None::<SocketAddr>);
        let client = Arc::new(client);
        let (mapping, mapped) = watch::channel(outside(server).await);
        let up = tokio::spawn({
            let (inside, client) = (inside.clone(), client.clone());
            async move {
                let mut datagram = vec![0; 1 << 16];
                loop {
                    let (len, from) = inside.recv_from(&mut datagram).await.unwrap();
                    client.send_replace(Some(from));
                    let outside = mapped.borrow().clone();
                    let _ = outside.send(&datagram[..len]).await;
                }
            }
        });
        let stable = Arc::new(RwLock::new(()));
        let during = stable.clone();
        let rebinding = tokio::spawn(async move {
            // Answers to the mapping before still arrive.
            let mut down: Vec<AbortOnDrop> = Vec::new();
            loop {
                let outside = mapping.borrow().clone();
                down.push(AbortOnDrop(
                    tokio::spawn(pass_down(outside, inside.clone(), client.clone())).abort_handle(),
                ));
                if down.len() > KEPT {
                    down.remove(0);
                }
                sleep(MAPPING).await;
                let _no_handshake = during.write().await;
                mapping.send_replace(self::outside(server).await);
            }
        });
        Self { address, stable, tasks: vec![up.abort_handle(), rebinding.abort_handle()] }
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// With room for bursts of all connections.
fn socket() -> UdpSocket {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let options = socket2::SockRef::from(&socket);
    options.set_recv_buffer_size(4 << 20).unwrap();
    options.set_send_buffer_size(4 << 20).unwrap();
    UdpSocket::from_std(socket).unwrap()
}

/// A new mapping: another source port towards the server.
async fn outside(server: SocketAddr) -> Arc<UdpSocket> {
    let socket = socket();
    socket.connect(server).await.unwrap();
    Arc::new(socket)
}

async fn pass_down(
    outside: Arc<UdpSocket>,
    inside: Arc<UdpSocket>,
    client: Arc<watch::Sender<Option<SocketAddr>>>,
) {
    let mut datagram = vec![0; 1 << 16];
    loop {
        let Ok(len) = outside.recv(&mut datagram).await else { return };
        let to = *client.borrow();
        if let Some(to) = to {
            let _ = inside.send_to(&datagram[..len], to).await;
        }
    }
}

/// Answers every request with itself.
async fn serve(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                let Ok(request) = recv.read_to_end(LONG).await else { return };
                if send.write_all(&request).await.is_err() || send.finish().is_err() {
                    return;
                }
            }
        });
    }
}

async fn exchange(connection: &Connection, bytes: usize, seed: u64) {
    let data = pattern(bytes, seed);
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(&data).await.unwrap();
    send.finish().unwrap();
    assert!(recv.read_to_end(LONG).await.unwrap() == data);
}

/// A server with workers, its NAT, and a client behind it.
async fn world(workers: usize) -> (Endpoint, Nat, Endpoint) {
    let (client_config, server_config) = configs(|_| ());
    let any = "127.0.0.1:0".parse().unwrap();
    let options = EndpointOptions { workers, ..EndpointOptions::default() };
    let server = Endpoint::bind(options, Some(server_config), any).unwrap();
    let nat = Nat::start(server.local_addr().unwrap()).await;
    let mut client = Endpoint::client(any).unwrap();
    client.set_default_client_config(client_config);
    tokio::spawn(serve(server.clone()));
    (server, nat, client)
}

/// Connections, some at a time, each over several mappings.
async fn many(connections: usize, at_once: usize) -> EndpointStats {
    const EXCHANGES: usize = 3;
    let (server, nat, client) = world(4).await;
    let places = Arc::new(Semaphore::new(at_once));
    let mut all = JoinSet::new();
    for nth in 0..connections {
        let (client, place) = (client.clone(), places.clone().acquire_owned().await.unwrap());
        let (address, stable) = (nat.address, nat.stable.clone());
        all.spawn(async move {
            let connection = {
                let _stable = stable.read().await;
                let connection = client.connect(address, SERVER_NAME).unwrap().await.unwrap();
                // The answer shows that the handshake is complete at the server, too.
                exchange(&connection, BYTES, nth as u64).await;
                connection
            };
            for round in 1..EXCHANGES {
                sleep(MAPPING).await;
                exchange(&connection, BYTES, (nth * EXCHANGES + round) as u64).await;
            }
            connection.close(code(0), b"");
            drop(place);
        });
    }
    all.join_all().await;
    let stats = server.stats();
    assert_eq!(stats.accepted_handshakes, connections as u64);
    let HandedOver { primary, rlp, dropped, .. } = stats.handed_over;
    assert_eq!((primary, dropped), (0, 0));
    // A client whose handshake was complete before the server's ids arrived; then they lead anywhere.
    let received = stats.low.unwrap().received_datagrams;
    assert!(rlp < received / 4, "{rlp} of {received} RLP datagrams at another worker");
    stats
}

fn run(limit: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("it hangs") });
}

#[test]
fn a_connection_stays_on_its_worker_through_rebinding() {
    run(Duration::from_secs(120), async {
        let stats = many(300, 150).await;
        println!("{stats:?}");
    });
}

#[test]
#[ignore = "minutes"]
fn ten_thousand_connections_stay_on_their_workers_through_rebinding() {
    run(Duration::from_secs(1200), async {
        let stats = many(10_000, 300).await;
        println!("{stats:?}");
    });
}

#[test]
fn rlp_stays_on_its_worker_once_ids_were_given() {
    const CONNECTIONS: usize = 16;
    run(Duration::from_secs(120), async {
        let (server, nat, client) = world(4).await;
        let mut connections = Vec::new();
        for nth in 0..CONNECTIONS {
            let _stable = nat.stable.read().await;
            let connection = client.connect(nat.address, SERVER_NAME).unwrap().await.unwrap();
            exchange(&connection, BYTES, nth as u64).await;
            connections.push(connection);
        }
        sleep(MAPPING).await;
        let before = server.stats();
        for round in 0..5 {
            let mut exchanges = JoinSet::new();
            for connection in &connections {
                let connection = connection.clone();
                exchanges.spawn(async move { exchange(&connection, LONG, round).await });
            }
            exchanges.join_all().await;
            sleep(MAPPING).await;
        }
        let after = server.stats();
        let (low, more) = (before.low.unwrap(), after.low.unwrap());
        let received = more.received_datagrams - low.received_datagrams;
        assert!(received > 100, "{received} RLP datagrams show little");
        assert_eq!(after.handed_over, before.handed_over);
    });
}
