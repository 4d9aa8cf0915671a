//! Claims about endpoints with several workers, on the loopback interface.
#![cfg(all(target_os = "linux", not(rc3_portable)))]
use std::{
    collections::BTreeSet,
    io,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::common::{
    PATIENCE, ResetKey, SERVER_NAME, code, configs, connect, echo, pattern, receive, run, send,
};
use rc3_net::{
    ConnectionError, Endpoint, EndpointConfig, EndpointOptions, HandedOver, HashedConnectionIdGenerator,
    RandomConnectionIdGenerator, RlpMode, Runtime, TokioRuntime, TransportConfig, WorkerHash,
    socket::{Options, RecvBatch, Sockets},
};
use tokio::task::JoinSet;

const ANY: &str = "127.0.0.1:0";

fn any() -> SocketAddr {
    ANY.parse().unwrap()
}

fn options(workers: usize) -> EndpointOptions {
    EndpointOptions { workers, ..EndpointOptions::default() }
}

/// A server with `workers` workers, and a client with one.
fn endpoints(workers: usize) -> (Endpoint, Endpoint) {
    endpoints_with(workers, |_| ())
}

fn endpoints_with(workers: usize, change: impl Fn(&mut TransportConfig)) -> (Endpoint, Endpoint) {
    let (client_config, server_config) = configs(change);
    let server = Endpoint::bind(options(workers), Some(server_config), any()).unwrap();
    let mut client = Endpoint::client(any()).unwrap();
    client.set_default_client_config(client_config);
    (client, server)
}

/// A hash for `workers` workers whose ids have `id_len` bytes.
fn hash(workers: usize, id_len: usize) -> WorkerHash {
    let mut config = EndpointConfig::default();
    config.cid_generator(move || Box::new(RandomConnectionIdGenerator::new(id_len)));
    config.for_workers(workers).unwrap()[0].worker_hash().unwrap()
}

/// The next datagram at any of the sockets, and the number of the socket.
fn next(sockets: &[Sockets], batch: &mut RecvBatch) -> (usize, Vec<u8>) {
    let end = Instant::now() + PATIENCE;
    let all = || sockets.iter().flat_map(|pair| [Some(&pair.primary), pair.low.as_ref()]).flatten();
    while Instant::now() < end {
        for (number, socket) in all().enumerate() {
            match socket.try_recv(batch) {
                Ok(_) => {
                    // One without payload is a message without datagrams.
                    let datagram = batch.datagrams().next().map(|datagram| datagram.data.to_vec());
                    return (number, datagram.unwrap_or_default());
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
            }
        }
        thread::yield_now();
    }
    panic!("a datagram is lost");
}

#[test]
fn the_kernel_chooses_the_socket_that_the_hash_names() {
    for (workers, id_len) in [(2, 8), (3, 8), (5, 13), (8, 20), (64, 9)] {
        let hash = hash(workers, id_len);
        let sockets = Sockets::bind_group(any(), &Options::default(), &hash).unwrap();
        assert_eq!(sockets.len(), workers);
        let to = sockets[0].local_addr().unwrap();
        let from = UdpSocket::bind(any()).unwrap();
        let mut batch = RecvBatch::new();
        let mut reached = BTreeSet::new();
        let random = pattern(64 * 2_000, workers as u64);
        for (nth, bytes) in random.chunks(64).enumerate() {
            // All kinds of first bytes, ids of all lengths, and datagrams that end anywhere.
            let mut datagram = bytes.to_vec();
            datagram[5] %= 24;
            datagram.truncate(match nth % 8 {
                0 => nth / 8 % 64,
                _ => 64,
            });
            from.send_to(&datagram, to).unwrap();
            let (socket, got) = next(&sockets, &mut batch);
            assert_eq!(got, datagram);
            let fixed_bit = datagram.first().is_none_or(|first| first & 0x40 != 0);
            let has_id = match datagram.first() {
                None => false,
                Some(first) if first & 0xc0 == 0 => datagram.len() >= 9,
                Some(first) if first & 0x80 == 0 => datagram.len() > id_len,
                Some(_) => {
                    datagram.len() > 5 && datagram[5] >= 8 && datagram.len() >= 6 + usize::from(datagram[5])
                }
            };
            let worker = hash.worker_of(&datagram);
            assert_eq!(worker.is_some(), has_id, "{datagram:x?}");
            assert_eq!(socket % 2, usize::from(!fixed_bit), "{datagram:x?}");
            assert_eq!(socket / 2, worker.unwrap_or(socket / 2), "{datagram:x?}");
            reached.insert(socket);
        }
        assert_eq!(reached.len(), 2 * workers, "every socket was reached");
    }
}

#[test]
fn what_has_no_id_burdens_no_worker_more_than_the_others() {
    const WORKERS: usize = 4;
    const EACH: usize = 400;
    let sockets = Sockets::bind_group(any(), &Options::default(), &hash(WORKERS, 8)).unwrap();
    let to = sockets[0].local_addr().unwrap();
    let from = UdpSocket::bind(any()).unwrap();
    let mut batch = RecvBatch::new();
    // Nothing; cut short; a long header whose id is too short, or longer than the datagram; RLP cut short.
    let long = |id_len: u8| [&[0xc3, 0, 0, 0, 1, id_len][..], &[7; 16]].concat();
    for datagram in [vec![], vec![0x43; 5], vec![0xc3], long(0), long(7), long(255), vec![0x07; 8]] {
        let mut counts = [0; WORKERS];
        for _ in 0..EACH {
            from.send_to(&datagram, to).unwrap();
            counts[next(&sockets, &mut batch).0 / 2] += 1;
        }
        // Eight standard deviations.
        let fair = EACH / WORKERS;
        assert!(counts.iter().all(|&count: &usize| count.abs_diff(fair) < 70), "{datagram:x?}: {counts:?}");
    }
}

#[test]
fn all_workers_serve_and_look_like_one() {
    const CONNECTIONS: usize = 60;
    run(async {
        let (client, server) = endpoints(3);
        let mut pairs = Vec::new();
        for nth in 0..CONNECTIONS {
            let (near, far) = connect(&client, &server).await;
            let data = pattern(20_000, nth as u64);
            let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
            let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
            tokio::join!(sending, receiving);
            pairs.push((near, far));
        }
        assert_eq!(server.open_connections(), CONNECTIONS);
        let stats = server.stats();
        assert_eq!(stats.accepted_handshakes, CONNECTIONS as u64);
        assert!(stats.primary.received_datagrams > 0 && stats.low.unwrap().received_datagrams > 0);
        assert_eq!((stats.handed_over.primary, stats.handed_over.dropped), (0, 0));

        server.close(code(7), b"over");
        assert!(server.accept().await.is_none());
        for (near, _) in &pairs {
            assert!(near.closed().await.to_string().contains("over"));
        }
        server.wait_idle().await;
        assert_eq!(server.open_connections(), 0);
    });
}

#[test]
fn a_client_with_workers_connects_from_all_of_them_and_moves_with_all_of_them() {
    run(async {
        let (client_config, server_config) = configs(|_| ());
        let server = Endpoint::server(server_config, any()).unwrap();
        let mut client = Endpoint::bind(options(3), None, any()).unwrap();
        client.set_default_client_config(client_config);
        let mut pairs = Vec::new();
        for _ in 0..6 {
            pairs.push(connect(&client, &server).await);
        }
        assert_eq!((client.open_connections(), client.stats().outgoing_handshakes), (6, 6));
        for round in 0..2 {
            for (near, far) in &pairs {
                let data = pattern(300_000, round);
                let sending = async { send(far.open_uni().await.unwrap(), data.clone()).await };
                let receiving = async { receive(near.accept_uni().await.unwrap(), &data).await };
                tokio::join!(sending, receiving);
            }
            let before = client.local_addr().unwrap();
            client.rebind(UdpSocket::bind(any()).unwrap()).unwrap();
            assert_ne!(client.local_addr().unwrap(), before);
        }
        assert_eq!(client.stats().handed_over.primary, 0);
        client.close(code(0), b"");
        client.wait_idle().await;
    });
}

#[test]
fn limits_on_waiting_handshakes_count_all_workers() {
    run(async {
        let (client_config, mut server_config) = configs(|_| ());
        server_config.max_incoming(10).retry_incoming_from(usize::MAX);
        let server = Endpoint::bind(options(3), Some(server_config), any()).unwrap();
        let mut client = Endpoint::client(any()).unwrap();
        client.set_default_client_config(client_config);
        let address = server.local_addr().unwrap();
        let connecting: Vec<_> =
            (0..40).map(|_| client.connect(address, SERVER_NAME).unwrap()).map(tokio::spawn).collect();
        while server.stats().refused_handshakes < 30 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(server.stats().incoming.waiting, 10);
        let mut accepted = Vec::new();
        for _ in 0..10 {
            accepted.push(server.accept().await.unwrap().await.unwrap());
        }
        assert_eq!(server.stats().incoming.waiting, 0);
        let mut connected = 0;
        for connecting in connecting {
            connected += usize::from(connecting.await.unwrap().is_ok());
        }
        assert_eq!(connected, 10);
    });
}

#[test]
fn early_data_of_both_loops_reaches_its_worker() {
    const ROUNDS: usize = 40;
    run(async {
        // Of a known path half of what it holds leaves early: no packet on loopback.
        let (client, server) = endpoints_with(3, |transport| _ = transport.rlp(RlpMode::Trust));
        let mut brought = 0;
        for round in 0..ROUNDS {
            let data = pattern(60_000, round as u64);
            let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
            let accepting = async {
                let connection = server.accept().await.unwrap().await.unwrap();
                receive(connection.accept_uni().await.unwrap(), &data).await;
                connection
            };
            let sending = async {
                let connection = match connecting.into_0rtt() {
                    Ok((connection, accepted)) => {
                        assert!(round > 0);
                        drop(accepted);
                        connection
                    }
                    Err(connecting) => connecting.await.unwrap(),
                };
                send(connection.open_uni().await.unwrap(), data.clone()).await;
                // The ticket of the next connection.
                tokio::time::sleep(Duration::from_millis(5)).await;
                connection
            };
            let (accepted, connection) = tokio::join!(accepting, sending);
            brought += accepted.stats().received.rlp_bytes.iter().sum::<u64>();
            connection.close(code(0), b"");
        }
        let HandedOver { primary, rlp, dropped, .. } = server.stats().handed_over;
        assert_eq!((primary, dropped), (0, 0));
        assert!(rlp > 0, "{brought} bytes by RLP, and none had an id that leads to another worker");
    });
}

#[test]
fn a_stateless_reset_ends_its_connection_at_whichever_worker_it_arrives() {
    run(async {
        let (client_config, server_config) = configs(|_| ());
        let protocol = || {
            let mut protocol = EndpointConfig::new(Arc::new(ResetKey));
            protocol
                .cid_generator(|| Box::new(HashedConnectionIdGenerator::from_key(5)))
                .min_reset_interval(Duration::ZERO);
            protocol
        };
        let bind = |server_config, address| {
            let options = EndpointOptions { protocol: protocol(), ..EndpointOptions::default() };
            Endpoint::bind(options, server_config, address)
        };
        let server = bind(Some(server_config), any()).unwrap();
        let address = server.local_addr().unwrap();
        let mut client = Endpoint::bind(options(4), None, any()).unwrap();
        client.set_default_client_config(client_config);
        let mut pairs = Vec::new();
        for _ in 0..8 {
            pairs.push(connect(&client, &server).await);
        }
        // The server moves without a word, and another one with its keys is in its place.
        server.rebind_to(any()).unwrap();
        let restarted = loop {
            match bind(None, address) {
                Ok(restarted) => break restarted,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        for (near, _) in &pairs {
            // A late acknowledgment may have been answered by a reset before.
            if let Ok(mut stream) = near.open_uni().await {
                let _ = stream.write_all(&[1; 5_000]).await;
            }
            assert_eq!(near.closed().await, ConnectionError::Reset);
        }
        drop(restarted);
    });
}

#[test]
fn a_server_without_handles_serves_its_connections_to_their_end() {
    run(async {
        let (client, server) = endpoints(3);
        let mut pairs = Vec::new();
        for _ in 0..6 {
            pairs.push(connect(&client, &server).await);
        }
        let address = server.local_addr().unwrap();
        drop(server);
        // Refused, not left without an answer, by whichever worker it reaches.
        for _ in 0..6 {
            assert!(client.connect(address, SERVER_NAME).unwrap().await.is_err());
        }
        for (nth, (near, far)) in pairs.iter().enumerate() {
            let data = pattern(100_000, nth as u64);
            let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
            let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
            tokio::join!(sending, receiving);
        }
        for (near, _) in &pairs {
            near.close(code(0), b"");
        }
        drop(pairs);
        client.wait_idle().await;
        // All sockets are closed: the port is free.
        let end = Instant::now() + PATIENCE;
        while UdpSocket::bind(address).is_err() {
            assert!(Instant::now() < end, "a worker has not ended");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn many_clients_at_once_find_their_worker() {
    const CLIENTS: usize = 8;
    const CONNECTIONS: usize = 25;
    run(async {
        let (client_config, server_config) = configs(|_| ());
        let server = Endpoint::bind(options(4), Some(server_config), any()).unwrap();
        let address = server.local_addr().unwrap();
        let serving = tokio::spawn(echo(server.clone()));
        let mut clients = JoinSet::new();
        for nth in 0..CLIENTS {
            let config = client_config.clone();
            clients.spawn(async move {
                let mut client = Endpoint::client(any()).unwrap();
                client.set_default_client_config(config);
                let mut all = JoinSet::new();
                for inner in 0..CONNECTIONS {
                    let client = client.clone();
                    all.spawn(async move {
                        let connection = client.connect(address, SERVER_NAME).unwrap().await.unwrap();
                        let data = pattern(30_000, (nth * CONNECTIONS + inner) as u64);
                        let (mut send, mut recv) = connection.open_bi().await.unwrap();
                        send.write_all(&data).await.unwrap();
                        send.finish().unwrap();
                        assert!(recv.read_to_end(1 << 20).await.unwrap() == data);
                        connection.close(code(0), b"");
                    });
                }
                all.join_all().await;
            });
        }
        clients.join_all().await;
        let stats = server.stats();
        assert_eq!(stats.accepted_handshakes, (CLIENTS * CONNECTIONS) as u64);
        assert_eq!((stats.handed_over.primary, stats.handed_over.dropped), (0, 0));
        server.close(code(0), b"");
        serving.await.unwrap();
    });
}

#[tokio::test]
async fn what_cannot_be_divided_is_refused_with_a_reason() {
    let refused = |result: io::Result<Endpoint>| result.unwrap_err();
    for workers in [0, WorkerHash::WORKERS_MAX + 1] {
        let error = refused(Endpoint::bind(options(workers), None, any()));
        assert!(
            error.kind() == io::ErrorKind::InvalidInput && error.to_string().contains("1 to 64"),
            "{error}"
        );
    }
    // A group of the application may have members that the steering would cut off.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&any().into()).unwrap();
    let error = refused(Endpoint::adopt(options(2), None, socket.into()));
    assert!(
        error.kind() == io::ErrorKind::Unsupported && error.to_string().contains("one worker"),
        "{error}"
    );
    // The application's own socket.
    let client = Endpoint::bind(options(2), None, any()).unwrap();
    let socket = TokioRuntime.wrap_udp_socket(UdpSocket::bind(any()).unwrap()).unwrap();
    let error = client.rebind_abstract(socket).unwrap_err();
    assert!(
        error.kind() == io::ErrorKind::Unsupported && error.to_string().contains("one worker"),
        "{error}"
    );
}
