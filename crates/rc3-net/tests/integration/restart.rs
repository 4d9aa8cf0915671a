//! Claims about graceful restarts. Old and new server are in one process here; they share no more than two processes
//! would, sockets and a Unix socket. The example `restart` is tested with processes of its own.
#![cfg(all(target_os = "linux", not(rc3_portable)))]
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::unix::net::UnixStream as StdUnixStream,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::common::{ResetKey, SERVER_NAME, code, configs, connect, echo, pattern, receive, run, send};
use crate::skip::skipped;
use rc3_net::{
    ClientConfig, ConnectError, Connection, ConnectionError, Endpoint, EndpointConfig, EndpointOptions,
    HashedConnectionIdGenerator, RandomConnectionIdGenerator, Runtime, ServerConfig, Successor, TokioRuntime,
};
use tokio::{net::UnixStream, runtime, task::JoinSet};

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn options(workers: usize) -> EndpointOptions {
    EndpointOptions { workers, ..EndpointOptions::default() }
}

/// With the keys by which any server may reset the connections of another.
fn options_with_keys() -> EndpointOptions {
    let mut protocol = EndpointConfig::new(Arc::new(ResetKey));
    protocol.cid_generator(|| Box::new(HashedConnectionIdGenerator::from_key(7)));
    EndpointOptions { protocol, ..EndpointOptions::default() }
}

/// A server that is restarted, and settings of its clients.
struct Service {
    client_config: ClientConfig,
    server_config: ServerConfig,
    options: EndpointOptions,
}

impl Service {
    fn new(options: EndpointOptions) -> Self {
        let (client_config, server_config) = configs(|_| ());
        Self { client_config, server_config, options }
    }

    fn start(&self) -> Endpoint {
        Endpoint::bind(self.options.clone(), Some(self.server_config.clone()), any()).unwrap()
    }

    fn client(&self) -> Endpoint {
        let mut client = Endpoint::client(any()).unwrap();
        client.set_default_client_config(self.client_config.clone());
        client
    }

    /// A new server takes the port of `old` over.
    async fn restart(&self, old: &Endpoint) -> (Successor, Endpoint) {
        let (to_new, to_old) = UnixStream::pair().unwrap();
        let taking = Endpoint::take_over(self.options.clone(), Some(self.server_config.clone()), to_old);
        let (successor, new) = tokio::join!(old.hand_over(to_new), taking);
        (successor.unwrap(), new.unwrap())
    }

    /// As [`Self::restart`], with a new server that ends with its runtime.
    async fn restart_in(&self, new_runtime: &runtime::Runtime, old: &Endpoint) -> (Successor, Endpoint) {
        let (to_new, to_old) = StdUnixStream::pair().unwrap();
        to_new.set_nonblocking(true).unwrap();
        to_old.set_nonblocking(true).unwrap();
        let (options, server_config) = (self.options.clone(), self.server_config.clone());
        let taking = new_runtime.spawn(async move {
            Endpoint::take_over(options, Some(server_config), UnixStream::from_std(to_old).unwrap()).await
        });
        let (successor, new) = tokio::join!(old.hand_over(UnixStream::from_std(to_new).unwrap()), taking);
        (successor.unwrap(), new.unwrap().unwrap())
    }
}

/// A runtime whose end is as that of a process for all tasks on it.
fn mortal() -> runtime::Runtime {
    runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

async fn request(connection: &Connection, data: &[u8]) {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(data).await.unwrap();
    send.finish().unwrap();
    assert!(recv.read_to_end(1 << 20).await.unwrap() == data);
}

/// Received bytes of RLP.
fn rlp_bytes(connection: &Connection) -> u64 {
    connection.stats().received.rlp_bytes.iter().sum()
}

/// One stream each way, at the same time.
async fn exchange((near, far): &(Connection, Connection), len: usize, seed: u64) {
    let (up, down) = (pattern(len, seed), pattern(len, seed + 1));
    tokio::join!(
        async { send(near.open_uni().await.unwrap(), up.clone()).await },
        async { receive(far.accept_uni().await.unwrap(), &up).await },
        async { send(far.open_uni().await.unwrap(), down.clone()).await },
        async { receive(near.accept_uni().await.unwrap(), &down).await },
    );
}

#[test]
fn connections_run_through_a_restart() {
    for workers in [1, 2] {
        run(async move {
            let service = Service::new(options(workers));
            let (old, client) = (service.start(), service.client());
            let mut pairs = Vec::new();
            for _ in 0..4 {
                pairs.push(connect(&client, &old).await);
            }
            let idle = connect(&client, &old).await;
            let begun = Arc::new(AtomicUsize::new(0));
            let mut transfers = JoinSet::new();
            for (nth, pair) in pairs.iter().cloned().enumerate() {
                let begun = begun.clone();
                transfers.spawn(async move {
                    for round in 0..8 {
                        exchange(&pair, 2_000_000, (nth * 100 + round) as u64).await;
                        begun.fetch_add(1, Relaxed);
                    }
                });
            }
            // In the middle of it.
            while begun.load(Relaxed) < 4 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (_successor, new) = service.restart(&old).await;
            assert!(begun.load(Relaxed) < 32, "transfers are in progress");
            transfers.join_all().await;
            // RLP sends most when the window of the primary is small, so at the begin.
            let before = rlp_bytes(&idle.1);
            exchange(&idle, 2_000_000, 7).await;
            assert!(rlp_bytes(&idle.1) > before && rlp_bytes(&idle.0) > 0, "RLP works in both directions");
            let (sent, got) = (new.stats().to_predecessor, old.stats().from_successor);
            assert!(sent.primary > 0 && sent.rlp > 0 && got.primary > 0 && got.rlp > 0, "{sent:?} {got:?}");
            assert_eq!((old.open_connections(), new.open_connections()), (5, 0));

            // New peers reach the new server, which serves them itself.
            let fresh = connect(&client, &new).await;
            exchange(&fresh, 1_000_000, 9).await;
            assert_eq!((old.open_connections(), new.open_connections()), (5, 1));
            assert!(old.accept().await.is_none());

            for (near, _) in pairs.iter().chain([&idle]) {
                near.close(code(0), b"");
            }
            old.wait_idle().await;
            exchange(&fresh, 1_000_000, 11).await;
        });
    }
}

#[test]
fn clients_that_connect_at_any_moment_of_a_restart_are_served() {
    const CLIENTS: usize = 200;
    for workers in [1, 2] {
        run(async move {
            let service = Service::new(options(workers));
            let old = service.start();
            let address = old.local_addr().unwrap();
            let serving_old = tokio::spawn(echo(old.clone()));
            let connected = Arc::new(AtomicUsize::new(0));
            let mut clients = JoinSet::new();
            // Four hosts, each with connections that begin one directly after the other.
            for host in 0..4 {
                let (client, connected) = (service.client(), connected.clone());
                clients.spawn(async move {
                    let mut open = Vec::new();
                    for nth in 0..CLIENTS / 4 {
                        let connection = client.connect(address, SERVER_NAME).unwrap().await.unwrap();
                        request(&connection, &pattern(5_000, (host * 1000 + nth) as u64)).await;
                        connected.fetch_add(1, Relaxed);
                        open.push(connection);
                    }
                    for connection in &open {
                        request(connection, &pattern(5_000, 3)).await;
                        connection.close(code(0), b"");
                    }
                    client.wait_idle().await;
                    client.stats().outgoing_handshakes
                });
            }
            while connected.load(Relaxed) < CLIENTS / 4 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (_successor, new) = service.restart(&old).await;
            let serving_new = tokio::spawn(echo(new.clone()));
            let attempts: u64 = clients.join_all().await.into_iter().sum();
            assert_eq!(attempts, CLIENTS as u64);
            let (by_old, by_new) = (old.stats().accepted_handshakes, new.stats().accepted_handshakes);
            assert_eq!(by_old + by_new, CLIENTS as u64, "each handshake has one server");
            assert!(by_old >= 50 && by_new >= 1, "{by_old} {by_new}");
            assert_eq!(new.stats().to_predecessor.dropped, 0);
            serving_old.await.unwrap();
            old.wait_idle().await;
            serving_new.abort();
        });
    }
}

#[test]
fn peers_in_the_accept_queue_are_given_to_the_old_server() {
    run(async {
        let service = Service::new(options(1));
        let (old, client) = (service.start(), service.client());
        let connecting = client.connect(old.local_addr().unwrap(), SERVER_NAME).unwrap();
        while old.stats().incoming.waiting == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (_successor, new) = service.restart(&old).await;
        // The client repeats its first packet meanwhile.
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        let accepting = async { old.accept().await.unwrap().await.unwrap() };
        let (near, far) = tokio::join!(connecting, accepting);
        exchange(&(near.unwrap(), far), 100_000, 1).await;
        assert!(old.accept().await.is_none());
        assert!(old.stats().from_successor.primary > 0);
        assert_eq!(new.stats().incoming.waiting, 0);
        let error =
            old.connect_with(service.client_config.clone(), client.local_addr().unwrap(), SERVER_NAME);
        assert_eq!(error.unwrap_err(), ConnectError::EndpointStopping);
        assert_eq!(old.rebind_to(any()).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    });
}

#[test]
fn a_second_restart_while_the_first_server_still_has_connections() {
    for workers in [1, 2] {
        run(async move {
            let service = Service::new(options(workers));
            let (first, client) = (service.start(), service.client());
            let of_first = connect(&client, &first).await;
            let (_successor, second) = service.restart(&first).await;
            let of_second = connect(&client, &second).await;
            let (_successor, third) = service.restart(&second).await;
            let of_third = connect(&client, &third).await;
            let rlp_before = rlp_bytes(&of_first.1);
            tokio::join!(
                exchange(&of_first, 2_000_000, 1),
                exchange(&of_second, 2_000_000, 2),
                exchange(&of_third, 2_000_000, 3),
            );
            assert!(rlp_bytes(&of_first.1) > rlp_before, "RLP passes through two processes");
            assert_eq!(
                [&first, &second, &third].map(Endpoint::open_connections),
                [1, 1, 1],
                "each has its own"
            );
            // The one in the middle must wait for the first.
            of_second.0.close(code(0), b"");
            while second.open_connections() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let waiting = tokio::spawn({
                let second = second.clone();
                async move { second.wait_idle().await }
            });
            exchange(&of_first, 500_000, 5).await;
            assert!(!waiting.is_finished());
            of_first.0.close(code(0), b"");
            first.wait_idle().await;
            waiting.await.unwrap();
            drop((first, second));
            exchange(&of_third, 500_000, 6).await;
        });
    }
}

#[test]
fn a_client_whose_address_changes_stays_with_the_old_server() {
    run(async {
        let service = Service::new(options(2));
        let (old, client) = (service.start(), service.client());
        let pair = connect(&client, &old).await;
        let (_successor, new) = service.restart(&old).await;
        for round in 0..3 {
            client.rebind(UdpSocket::bind(any()).unwrap()).unwrap();
            exchange(&pair, 1_000_000, round).await;
            assert_eq!(pair.1.remote_address(), client.local_addr().unwrap());
        }
        assert_eq!((old.open_connections(), new.open_connections()), (1, 0));
    });
}

#[test]
fn a_server_whose_successor_ends_takes_its_port_back() {
    for workers in [1, 2] {
        run(async move {
            let service = Service::new(options(workers));
            let (old, client) = (service.start(), service.client());
            let pair = connect(&client, &old).await;
            for round in 0..2 {
                let new_runtime = mortal();
                let (successor, new) = service.restart_in(&new_runtime, &old).await;
                exchange(&pair, 500_000, round).await;
                assert!(old.accept().await.is_none());
                new_runtime.shutdown_background();
                drop(new);
                successor.lost().await;
                exchange(&pair, 500_000, round + 10).await;
                let fresh = connect(&client, &old).await;
                exchange(&fresh, 100_000, round + 20).await;
                fresh.0.close(code(0), b"");
            }
            // And it may hand it over once more.
            let (_successor, new) = service.restart(&old).await;
            exchange(&pair, 500_000, 30).await;
            exchange(&connect(&client, &new).await, 500_000, 31).await;
        });
    }
}

#[test]
fn a_server_whose_predecessor_ends_goes_on_and_resets_its_connections() {
    run(async {
        let service = Service::new(options_with_keys());
        let client = service.client();
        let old_runtime = mortal();
        let (old, near) = {
            let (options, server_config) = (service.options.clone(), service.server_config.clone());
            let old = old_runtime
                .spawn(async move { Endpoint::bind(options, Some(server_config), any()).unwrap() })
                .await
                .unwrap();
            let (near, far) = connect(&client, &old).await;
            // The server's handle would close the connection when it is dropped.
            std::mem::forget(far);
            (old, near)
        };
        let (to_new, to_old) = StdUnixStream::pair().unwrap();
        to_new.set_nonblocking(true).unwrap();
        to_old.set_nonblocking(true).unwrap();
        let handing = old_runtime.spawn(async move {
            let successor = old.hand_over(UnixStream::from_std(to_new).unwrap()).await.unwrap();
            (old, successor)
        });
        let from = UnixStream::from_std(to_old).unwrap();
        let new =
            Endpoint::take_over(service.options.clone(), Some(service.server_config.clone()), from).await;
        let new = new.unwrap();
        let pair = connect(&client, &new).await;
        let (old, _) = handing.await.unwrap();
        old_runtime.shutdown_background();
        drop(old);
        exchange(&pair, 500_000, 1).await;
        // The client sends something, and gets a stateless reset.
        if let Ok((mut send, _recv)) = near.open_bi().await {
            while send.write_all(b"are you there?").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        assert_eq!(near.closed().await, ConnectionError::Reset);
        exchange(&pair, 500_000, 2).await;
    });
}

#[test]
fn ids_of_an_applications_generator_survive_a_restart() {
    for (len, workers) in [(8, 1), (8, 2), (13, 2), (20, 1)] {
        run(async move {
            let mut options = options(workers);
            options.protocol.cid_generator(move || Box::new(RandomConnectionIdGenerator::new(len)));
            let service = Service::new(options);
            let (old, client) = (service.start(), service.client());
            let pair = connect(&client, &old).await;
            let (_successor, new) = service.restart(&old).await;
            exchange(&pair, 1_000_000, 1).await;
            exchange(&connect(&client, &new).await, 1_000_000, 2).await;
        });
    }
}

#[test]
fn a_flood_at_the_new_server_is_bounded_and_not_answered_in_kind() {
    run(async {
        let service = Service::new(options_with_keys());
        let (old, client) = (service.start(), service.client());
        let pair = connect(&client, &old).await;
        let (_successor, new) = service.restart(&old).await;
        let flood = UdpSocket::bind(any()).unwrap();
        let to = new.local_addr().unwrap();
        let mut sent = 0;
        for nth in 0..100_000_u64 {
            // QUIC with either header, and RLP; random after the first byte.
            let mut junk = pattern(1_200, nth);
            junk[0] = [0x41, 0xc3, 0x07][nth as usize % 3];
            sent += junk.len() as u64 * u64::from(flood.send_to(&junk, to).is_ok());
        }
        exchange(&pair, 200_000, 1).await;
        exchange(&connect(&client, &new).await, 200_000, 2).await;
        let mut answered = 0;
        flood.set_nonblocking(true).unwrap();
        let mut buf = [0; 2_000];
        while let Ok(len) = flood.recv(&mut buf) {
            answered += len as u64;
        }
        assert!(answered * 10 < sent, "{answered} of {sent}");
        assert!(new.stats().held_bytes < 1 << 20 && old.stats().held_bytes < 1 << 20);
        assert!(new.stats().to_predecessor.primary > 0);
    });
}

#[test]
fn a_hand_over_that_is_given_up_changes_nothing() {
    run(async {
        let service = Service::new(options(2));
        // Without a connection nothing else would show that the other process has failed.
        let (old, client) = (service.start(), service.client());
        for nth in 0..30 {
            let (to_new, to_old) = UnixStream::pair().unwrap();
            let taking = Endpoint::take_over(options(2), Some(service.server_config.clone()), to_old);
            let both = async { tokio::join!(old.hand_over(to_new), taking) };
            let some_time = Duration::from_micros(nth * 40);
            if tokio::time::timeout(some_time, both).await.is_ok() {
                // This one was fast.
                break;
            }
            let (near, far) = connect(&client, &old).await;
            exchange(&(near.clone(), far), 10_000, nth).await;
            near.close(code(0), b"");
            old.wait_idle().await;
        }
    });
}

#[test]
fn an_endpoint_whose_runtime_has_ended_keeps_nobody_waiting() {
    run(async {
        let service = Service::new(options(2));
        let ended = mortal();
        let old = {
            let _guard = ended.enter();
            service.start()
        };
        ended.shutdown_background();
        let (to_new, to_old) = UnixStream::pair().unwrap();
        let taking = Endpoint::take_over(options(2), Some(service.server_config.clone()), to_old);
        let (handed, taken) = tokio::join!(old.hand_over(to_new), taking);
        assert!(handed.is_err() && taken.is_err());
        old.wait_idle().await;
    });
}

#[tokio::test]
async fn what_cannot_be_handed_over_is_refused_with_a_reason() {
    let service = Service::new(options(2));
    let old = service.start();
    let client = service.client();
    let pair = connect(&client, &old).await;
    let refused = async |options: EndpointOptions, kind: io::ErrorKind, reason: &str| {
        let (to_new, to_old) = UnixStream::pair().unwrap();
        let taking = Endpoint::take_over(options, Some(service.server_config.clone()), to_old);
        let (handed, taken) = tokio::join!(old.hand_over(to_new), taking);
        assert_eq!(handed.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let error = taken.unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(reason), "{error}");
    };
    refused(options(1), io::ErrorKind::InvalidInput, "has 2 workers").await;
    let mut longer = options(2);
    longer.protocol.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(12)));
    refused(longer, io::ErrorKind::InvalidInput, "have 8 bytes").await;
    // Nothing has happened to the old server.
    exchange(&pair, 100_000, 1).await;
    exchange(&connect(&client, &old).await, 100_000, 2).await;

    let (_successor, _new) = service.restart(&old).await;
    let again = old.hand_over(UnixStream::pair().unwrap().0).await.unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::ResourceBusy);

    let socket = TokioRuntime.wrap_udp_socket(UdpSocket::bind(any()).unwrap()).unwrap();
    let own =
        Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime));
    let (to_new, _to_old) = UnixStream::pair().unwrap();
    let error = own.unwrap().hand_over(to_new).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn another_process_that_is_silent_is_given_up() {
    run(async {
        let service = Service::new(options(1));
        let old = service.start();
        let (to, _silent) = UnixStream::pair().unwrap();
        let (from, _silent_too) = UnixStream::pair().unwrap();
        let taking = Endpoint::take_over(options(1), Some(service.server_config.clone()), from);
        let (handed, taken) = tokio::join!(old.hand_over(to), taking);
        assert_eq!(handed.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::TimedOut);
        exchange(&connect(&service.client(), &old).await, 100_000, 1).await;
    });
}

#[test]
fn early_data_arrives_at_the_new_server_although_the_old_one_is_asked_first() {
    run(async {
        // Both loops may send early data of a client that the path is known to.
        let service = Service::new(options(2));
        let (old, client) = (service.start(), service.client());
        let pair = connect(&client, &old).await;
        exchange(&pair, 200_000, 1).await;
        let (_successor, new) = service.restart(&old).await;
        let mut by_rlp = 0;
        for round in 0..10 {
            let data = pattern(60_000, round);
            let connecting = client.connect(new.local_addr().unwrap(), SERVER_NAME).unwrap();
            let accepting = async {
                let connection = new.accept().await.unwrap().await.unwrap();
                receive(connection.accept_uni().await.unwrap(), &data).await;
                connection
            };
            let sending = async {
                let (connection, accepted) = connecting.into_0rtt().expect("there is a ticket");
                send(connection.open_uni().await.unwrap(), data.clone()).await;
                assert!(accepted.await, "both servers have the keys of tickets");
                // The ticket of the next connection.
                tokio::time::sleep(Duration::from_millis(5)).await;
                connection
            };
            let (accepted, connection) = tokio::join!(accepting, sending);
            by_rlp += rlp_bytes(&accepted);
            connection.close(code(0), b"");
        }
        assert!(by_rlp > 0);
        assert_eq!((old.open_connections(), new.stats().accepted_handshakes), (1, 10));
        exchange(&pair, 200_000, 2).await;
    });
}

/// CPU time that this process has used.
fn cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

/// CPU time of this process for each datagram of an upload over `pair`, and Gbit/s. `server` counts the datagrams.
async fn upload((near, far): &(Connection, Connection), server: &Endpoint) -> (Duration, f64) {
    const MIB: usize = 256;
    let received = || server.stats().primary.received_datagrams + server.stats().from_successor.primary;
    let (begun, cpu_before, received_before) = (Instant::now(), cpu_time(), received());
    let sending = async {
        let mut stream = near.open_uni().await.unwrap();
        for _ in 0..MIB {
            stream.write_chunk(vec![7; 1 << 20].into()).await.unwrap();
        }
        stream.finish().unwrap();
        stream.stopped().await.unwrap();
    };
    let receiving = async {
        let mut stream = far.accept_uni().await.unwrap();
        let mut left = MIB << 20;
        while let Some(chunk) = stream.read_chunk(1 << 20, true).await.unwrap() {
            left -= chunk.bytes.len();
        }
        assert_eq!(left, 0);
    };
    tokio::join!(sending, receiving);
    let gbit = (MIB << 20) as f64 * 8e-9;
    ((cpu_time() - cpu_before) / (received() - received_before) as u32, gbit / begun.elapsed().as_secs_f64())
}

/// docs/results/connections.md has its figures.
#[test]
#[ignore = "a measurement"]
fn what_a_detour_costs() {
    for long in [true, false] {
        run(async move {
            let (client_config, server_config) = configs(|transport| {
                if !long {
                    transport.path_mtu_max(1_200).mtu_discovery_config(None);
                }
            });
            let service = Service { client_config, server_config, options: options(1) };
            let (old, client) = (service.start(), service.client());
            let pair = connect(&client, &old).await;
            let of_three = async |pair: &_, server: &_| {
                upload(pair, server).await;
                [upload(pair, server).await, upload(pair, server).await, upload(pair, server).await]
            };
            let direct = of_three(&pair, &old).await;
            let (_successor, new) = service.restart(&old).await;
            let detour = of_three(&pair, &old).await;
            let of_new = of_three(&connect(&client, &new).await, &new).await;
            println!("long packets: {long}. CPU time per datagram, Gbit/s: direct {direct:.2?}");
            println!("by detour {detour:.2?}, of the new server {of_new:.2?}");
            println!("{:?}", new.stats().to_predecessor);
            assert!(old.stats().from_successor.primary > 0);
        });
    }
}

/// Runs `what` in a thread of another user.
fn as_stranger<T: Send + 'static>(what: impl FnOnce() -> io::Result<T> + Send + 'static) -> T {
    let stranger = rustix::process::Uid::from_raw(1234);
    let thread = std::thread::spawn(move || {
        // Of this thread only; it ends with it.
        rustix::thread::set_thread_res_uid(None, stranger, None)?;
        what()
    });
    thread.join().unwrap().unwrap()
}

#[test]
fn a_process_of_another_user_neither_gets_the_port_nor_gives_one() {
    if !rustix::process::geteuid().is_root() {
        return skipped("root, to become another user");
    }
    run(async {
        let service = Service::new(options(1));
        let (old, client) = (service.start(), service.client());
        let directory = tempfile::tempdir().unwrap();
        let all = || std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(directory.path(), all()).unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| directory.path().join(name));

        let listener = tokio::net::UnixListener::bind(&ours).unwrap();
        std::fs::set_permissions(&ours, all()).unwrap();
        let mut stranger = as_stranger(move || StdUnixStream::connect(ours));
        let (to, _) = listener.accept().await.unwrap();
        let refused = old.hand_over(to).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("runs as user 1234"), "{refused}");
        assert_eq!(io::Read::read(&mut stranger, &mut [0; 64]).unwrap(), 0, "not even a greeting");

        let path = theirs.clone();
        let _listening = as_stranger(move || std::os::unix::net::UnixListener::bind(path));
        let from = UnixStream::connect(theirs).await.unwrap();
        let refused = Endpoint::take_over(options(1), Some(service.server_config.clone()), from).await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);

        // The server is as before.
        let (near, far) = connect(&client, &old).await;
        near.close(code(0), b"");
        far.closed().await;
    });
}
