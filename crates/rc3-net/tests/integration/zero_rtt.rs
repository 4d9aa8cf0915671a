//! Claims about data before the handshake is complete.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::common::{SERVER_NAME, code, pattern, run_on_one_thread as run};
use rc3_net::{
    ClientConfig, Connection, ConnectionError, Endpoint, NoneTokenStore, ReadError, ResetError, ServerConfig,
    StoppedError, TransportConfig, WriteError, rustls,
};

const ANY: &str = "127.0.0.1:0";

/// TLS settings that allow early data on both sides.
fn tls() -> (rustls::ClientConfig, rustls::ServerConfig) {
    rc3_sim::identity::tls(&["test"])
}

fn client(config: rustls::ClientConfig) -> Endpoint {
    let mut endpoint = Endpoint::client(ANY.parse().unwrap()).unwrap();
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(config)));
    endpoint
}

fn server(config: rustls::ServerConfig) -> Endpoint {
    Endpoint::server(ServerConfig::with_crypto(Arc::new(config)), ANY.parse().unwrap()).unwrap()
}

/// Answers every bidirectional stream with its own bytes.
async fn echo(connection: Connection) {
    while let Ok((mut tx, mut rx)) = connection.accept_bi().await {
        let Ok(request) = rx.read_to_end(16 << 20).await else { continue };
        let _ = tx.write_all(&request).await;
    }
}

fn serve(server: &Endpoint) {
    let server = server.clone();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            tokio::spawn(async move {
                let (connection, accepted) = incoming.accept().unwrap().into_0rtt().expect("servers can");
                let (_, accepted) = tokio::join!(echo(connection), accepted);
                assert!(accepted);
            });
        }
    });
}

fn plain_config(config: rustls::ServerConfig) -> quinn::ServerConfig {
    let config = quinn::crypto::rustls::QuicServerConfig::try_from(config).unwrap();
    quinn::ServerConfig::with_crypto(Arc::new(config))
}

/// Answers as [`serve`] does, without rc3.
fn plain_server(config: quinn::ServerConfig) -> quinn::Endpoint {
    let plain = quinn::Endpoint::server(config, ANY.parse().unwrap()).unwrap();
    let server = plain.clone();
    tokio::spawn(async move {
        while let Some(incoming) = plain.accept().await {
            let Ok((connection, _)) = incoming.accept().unwrap().into_0rtt() else { panic!("servers can") };
            tokio::spawn(async move {
                while let Ok((mut tx, mut rx)) = connection.accept_bi().await {
                    let Ok(request) = rx.read_to_end(1 << 20).await else { return };
                    let _ = tx.write_all(&request).await;
                    let _ = tx.finish();
                }
            });
        }
    });
    server
}

/// Sends `data` and receives it back; returns whether it went early.
async fn ask(connection: &Connection, data: &[u8]) -> bool {
    let (mut tx, mut rx) = connection.open_bi().await.unwrap();
    tx.write_all(data).await.unwrap();
    tx.finish().unwrap();
    let answer = rx.read_to_end(data.len()).await.unwrap();
    assert!(answer == data, "{} bytes, or others than expected", answer.len());
    rx.is_0rtt()
}

/// A first connection that gives the client a session to resume.
async fn meet(client: &Endpoint, address: SocketAddr) {
    let connecting = client.connect(address, SERVER_NAME).unwrap();
    let connection = connecting.into_0rtt().expect_err("nothing to resume").await.unwrap();
    assert!(!ask(&connection, b"hello").await);
    connection.close(code(0), b"");
    client.wait_idle().await;
}

#[test]
fn a_returning_client_sends_with_its_first_packets() {
    run(async {
        let (client_tls, server_tls) = tls();
        let (client, server) = (client(client_tls), server(server_tls));
        let address = server.local_addr().unwrap();
        serve(&server);
        meet(&client, address).await;

        let connecting = client.connect(address, SERVER_NAME).unwrap();
        let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
        assert!(connection.is_rc3(), "as the last time");
        let data = pattern(3 << 20, 1);
        assert!(ask(&connection, &data).await, "opened before the handshake was complete");
        assert!(accepted.await);
        // RLP sent some of it before the server had answered; later streams work as usual.
        let early = connection.stats().sent.early_bytes;
        assert!(early > 0 && early <= 1 << 20, "{early} bytes");
        assert!(!ask(&connection, &data).await);
        let stats = connection.stats();
        assert!(stats.rc3 && stats.received.rlp_bytes.iter().sum::<u64>() > 0, "{stats:?}");
    });
}

#[test]
fn what_the_server_refuses_fails_and_the_connection_goes_on() {
    run(async {
        let (client_tls, server_tls) = tls();
        let client = client(client_tls);
        let first = server(server_tls.clone());
        serve(&first);
        meet(&client, first.local_addr().unwrap()).await;

        // The same identity, without the sessions.
        let mut forgetful = server_tls;
        forgetful.session_storage = rustls::server::ServerSessionMemoryCache::new(1);
        let second = server(forgetful);
        serve(&second);
        let connecting = client.connect(second.local_addr().unwrap(), SERVER_NAME).unwrap();
        let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
        let (mut tx, mut rx) = connection.open_bi().await.unwrap();
        assert!(rx.is_0rtt());
        // More than a window, so that the rejection finds it closed.
        tx.write_all(&pattern(1 << 20, 2)).await.unwrap();
        let waiting = tx.stopped();
        let reading = tokio::spawn(async move {
            let read = rx.read(&mut [0; 10]).await;
            (read, rx.received_reset().await)
        });
        assert!(!accepted.await);

        assert_eq!(
            reading.await.unwrap(),
            (Err(ReadError::ZeroRttRejected), Err(ResetError::ZeroRttRejected))
        );
        assert_eq!(waiting.await, Err(StoppedError::ZeroRttRejected));
        assert_eq!(tx.write(b"x").await, Err(WriteError::ZeroRttRejected));
        assert_eq!(tx.reset(code(1)), Ok(()));
        assert!(tx.finish().is_err() && tx.set_priority(1).is_err());
        assert_eq!(
            std::io::Error::from(WriteError::ZeroRttRejected).kind(),
            std::io::ErrorKind::ConnectionReset
        );

        // Another stream gets the number; dropping the old handle does not affect it.
        let (mut again, mut answer) = connection.open_bi().await.unwrap();
        assert_eq!(again.id(), tx.id());
        again.write_all(b"once").await.unwrap();
        drop(tx);
        again.write_all(b" more").await.unwrap();
        again.finish().unwrap();
        assert_eq!(answer.read_to_end(100).await.unwrap(), b"once more");
        assert!(connection.is_rc3());
        assert!(!ask(&connection, &pattern(1 << 20, 3)).await);
        connection.close_gracefully(code(0), b"").await.unwrap();
    });
}

#[test]
fn a_server_that_gave_up_rc3_refuses_early_records_and_serves_plain_quic() {
    run(async {
        let (client_tls, server_tls) = tls();
        let client = client(client_tls);
        let first = server(server_tls.clone());
        serve(&first);
        meet(&client, first.local_addr().unwrap()).await;

        // It knows the sessions but not the protocol.
        let plain = plain_server(plain_config(server_tls));
        let address = plain.local_addr().unwrap();

        let connecting = client.connect(address, SERVER_NAME).unwrap();
        let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
        assert!(connection.is_rc3(), "so far as the client knows");
        let (mut tx, _rx) = connection.open_bi().await.unwrap();
        tx.write_all(b"records").await.unwrap();
        assert!(!accepted.await);
        assert!(!connection.is_rc3());
        assert_eq!(tx.write(b"x").await, Err(WriteError::ZeroRttRejected));
        assert!(!ask(&connection, b"plain").await);
        connection.close(code(0), b"");
        client.wait_idle().await;

        // The rc3 tickets are used up eventually, then the plain ones are resumed, with early data.
        let mut early = false;
        for _ in 0..10 {
            let connecting = client.connect(address, SERVER_NAME).unwrap();
            let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
            let rc3 = connection.is_rc3();
            let (mut tx, mut rx) = connection.open_bi().await.unwrap();
            tx.write_all(b"early").await.unwrap();
            tx.finish().unwrap();
            early = accepted.await;
            assert_eq!(early, !rc3, "plain sessions are accepted, rc3 ones refused");
            if early {
                assert_eq!(rx.read_to_end(100).await.unwrap(), b"early");
            }
            connection.close(code(0), b"");
            client.wait_idle().await;
            if early {
                break;
            }
        }
        assert!(early);
    });
}

#[test]
fn early_data_survives_a_retry() {
    run(async {
        let (client_tls, server_tls) = tls();
        let server = server(server_tls);
        let address = server.local_addr().unwrap();
        tokio::spawn(async move {
            while let Some(incoming) = server.accept().await {
                if incoming.remote_address_validated() {
                    tokio::spawn(async move { echo(incoming.await.unwrap()).await });
                } else {
                    incoming.retry().unwrap();
                }
            }
        });
        let mut config = ClientConfig::new(Arc::new(client_tls));
        // Without tokens, each connection must start again.
        config.token_store(Arc::new(NoneTokenStore));
        let mut client = Endpoint::client(ANY.parse().unwrap()).unwrap();
        client.set_default_client_config(config);
        meet(&client, address).await;
        let connecting = client.connect(address, SERVER_NAME).unwrap();
        let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
        assert!(ask(&connection, &pattern(1 << 20, 5)).await);
        assert!(accepted.await);
    });
}

#[test]
fn without_leave_there_is_nothing_early() {
    run(async {
        let (mut client_tls, server_tls) = tls();
        client_tls.enable_early_data = false;
        let (client, server) = (client(client_tls), server(server_tls));
        serve(&server);
        let address = server.local_addr().unwrap();
        meet(&client, address).await;
        let connecting = client.connect(address, SERVER_NAME).unwrap();
        assert!(connecting.into_0rtt().is_err());
    });
}

#[test]
fn sessions_belong_to_the_configuration_and_its_clones() {
    run(async {
        let (client_tls, server_tls) = tls();
        let (client, server) = (client(client_tls.clone()), server(server_tls));
        serve(&server);
        let address = server.local_addr().unwrap();
        meet(&client, address).await;
        let other = ClientConfig::new(Arc::new(client_tls));
        let connecting = client.connect_with(other, address, SERVER_NAME).unwrap();
        assert!(connecting.into_0rtt().is_err());
        let connecting = client.connect(address, SERVER_NAME).unwrap();
        assert!(connecting.into_0rtt().is_ok());
    });
}

#[test]
fn early_data_to_nobody_fails_with_the_handshake() {
    run(async {
        let (client_tls, server_tls) = tls();
        let server = server(server_tls);
        serve(&server);
        let mut config = ClientConfig::new(Arc::new(client_tls));
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(Duration::from_millis(300).try_into().unwrap()));
        config.transport_config(Arc::new(transport));
        let mut client = Endpoint::client(ANY.parse().unwrap()).unwrap();
        client.set_default_client_config(config);
        meet(&client, server.local_addr().unwrap()).await;

        let silent = std::net::UdpSocket::bind(ANY).unwrap();
        let connecting = client.connect(silent.local_addr().unwrap(), SERVER_NAME).unwrap();
        let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
        let mut tx = connection.open_uni().await.unwrap();
        tx.write_all(b"anybody?").await.unwrap();
        assert!(!accepted.await);
        assert_eq!(tx.write(b"x").await, Err(WriteError::ConnectionLost(ConnectionError::TimedOut)));
    });
}

#[test]
fn a_server_may_speak_before_the_handshake_is_complete() {
    run(async {
        let (client_tls, server_tls) = tls();
        let (client, server) = (client(client_tls), server(server_tls));
        let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
        let data = pattern(2 << 20, 4);
        let speaking = async {
            let incoming = server.accept().await.unwrap();
            let (connection, accepted) = incoming.accept().unwrap().into_0rtt().expect("servers can");
            let mut tx = connection.open_uni().await.unwrap();
            tx.write_all(&data).await.unwrap();
            tx.finish().unwrap();
            assert_eq!(tx.stopped().await, Ok(None));
            assert!(accepted.await);
            connection
        };
        let listening = async {
            let connection = connecting.await.unwrap();
            let mut rx = connection.accept_uni().await.unwrap();
            assert!(rx.read_to_end(data.len()).await.unwrap() == data);
            connection
        };
        let (server_side, _client_side) = tokio::join!(speaking, listening);
        assert!(server_side.is_rc3());
    });
}

type Change = fn(&mut TransportConfig);

/// RFC 9000 §7.4.1.
#[test]
fn a_server_with_smaller_limits_rejects_early_data_and_serves_the_client() {
    run(async {
        // Not `receive_window`: servers always advertise the same limit on all data.
        let smaller: [Change; 4] = [
            |transport| _ = transport.max_concurrent_bidi_streams(10_u8.into()),
            |transport| _ = transport.max_concurrent_uni_streams(10_u8.into()),
            |transport| _ = transport.stream_receive_window(100_000_u32.into()),
            |transport| _ = transport.datagram_receive_buffer_size(None),
        ];
        for change in smaller {
            let (client_tls, server_tls) = tls();
            let config = |change: Change| {
                let mut transport = TransportConfig::default();
                change(&mut transport);
                let mut config = ServerConfig::with_crypto(Arc::new(server_tls.clone()));
                config.transport_config(Arc::new(transport));
                config
            };
            let client = client(client_tls);
            let server = Endpoint::server(config(|_| ()), ANY.parse().unwrap()).unwrap();
            let address = server.local_addr().unwrap();
            serve(&server);
            meet(&client, address).await;

            server.set_server_config(Some(config(change))).unwrap();
            // The old tickets are used up eventually.
            let mut rejected = 0;
            loop {
                let connecting = client.connect(address, SERVER_NAME).unwrap();
                let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
                let (mut tx, _rx) = connection.open_bi().await.unwrap();
                tx.write_all(b"early").await.unwrap();
                let accepted = accepted.await;
                if accepted {
                    break;
                }
                rejected += 1;
                assert_eq!(tx.write(b"x").await, Err(WriteError::ZeroRttRejected));
                // More than the smaller windows.
                assert!(!ask(&connection, &pattern(1 << 20, 6)).await);
                connection.close(code(0), b"");
                client.wait_idle().await;
            }
            assert!((1..10).contains(&rejected), "{rejected}");

            // Larger ones are no reason to reject it.
            server.set_server_config(Some(config(|_| ()))).unwrap();
            let connecting = client.connect(address, SERVER_NAME).unwrap();
            let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
            assert!(accepted.await && !ask(&connection, b"hello").await);
        }
    });
}

/// quinn 0.11.12 accepts early data with smaller limits than the client remembers, which ends the connection.
#[test]
fn a_server_that_breaks_its_promise_costs_one_connection() {
    run(async {
        let (client_tls, server_tls) = tls();
        let client = client(client_tls);
        let mut config = plain_config(server_tls);
        let server = plain_server(config.clone());
        let address = server.local_addr().unwrap();
        meet(&client, address).await;

        let mut transport = quinn::TransportConfig::default();
        transport.max_concurrent_bidi_streams(10_u8.into());
        config.transport_config(Arc::new(transport));
        server.set_server_config(Some(config));
        let connecting = client.connect(address, SERVER_NAME).unwrap();
        let (connection, accepted) = connecting.into_0rtt().expect("something to resume");
        assert!(!accepted.await);
        let lost = connection.closed().await;
        assert!(matches!(&lost, ConnectionError::TransportError(error) if error.frame.is_none()), "{lost}");

        let connecting = client.connect(address, SERVER_NAME).unwrap();
        let connection = connecting.into_0rtt().expect_err("the other tickets are no better").await.unwrap();
        assert!(!ask(&connection, b"hello").await);
    });
}
