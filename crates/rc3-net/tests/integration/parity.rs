//! What programs written for quinn expect, beyond the surface.
use std::{io, net::UdpSocket, sync::Arc, time::Duration};

use crate::common::{SERVER_NAME, code, configs, connect, endpoints, pattern, receive, run, send};
use rc3_net::{
    ClientConfig, ConfigError, ConnectionError, Endpoint, Listener, SendDatagramError, ServerConfig, Stream,
    TransportConfig,
    rustls::{RootCertStore, pki_types::PrivateKeyDer},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn defaults(_: &mut TransportConfig) {}

#[test]
fn datagrams_that_wait_for_room_all_arrive_beside_a_stream() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.datagram_send_buffer_size(8_000);
        });
        let (near, far) = connect(&client, &server).await;
        let data = pattern(8 << 20, 1);
        let datagrams = async {
            for number in 0..200_u8 {
                near.send_datagram_wait(vec![number; 1_000].into()).await.unwrap();
            }
        };
        let arriving = async {
            for number in 0..200_u8 {
                assert_eq!(far.read_datagram().await.unwrap(), vec![number; 1_000]);
            }
        };
        let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
        let receiving = async { receive(far.accept_uni().await.unwrap(), &data).await };
        tokio::join!(datagrams, arriving, sending, receiving);
    });
}

#[test]
fn without_waiting_the_oldest_datagrams_give_way() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.datagram_send_buffer_size(5_000);
        });
        let (near, far) = connect(&client, &server).await;
        let space = near.datagram_send_buffer_space();
        assert!(space < 5_000);
        assert_eq!(near.send_datagram(vec![0; 60_000].into()), Err(SendDatagramError::TooLarge));
        for number in 0..=255_u8 {
            near.send_datagram(vec![number; 1_000].into()).unwrap();
        }
        // Some were dropped, but not the last.
        while far.read_datagram().await.unwrap() != vec![255; 1_000] {}
    });
}

#[test]
fn datagrams_can_be_refused() {
    run(async {
        let (client_config, mut server_config) = configs(defaults);
        let mut off = TransportConfig::default();
        off.datagram_receive_buffer_size(None);
        server_config.transport_config(Arc::new(off));
        let server = Endpoint::server(server_config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let mut client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
        client.set_default_client_config(client_config);
        let (near, far) = connect(&client, &server).await;
        assert_eq!(near.max_datagram_size(), None);
        assert_eq!(near.send_datagram("x".into()), Err(SendDatagramError::UnsupportedByPeer));
        assert_eq!(far.send_datagram("x".into()), Err(SendDatagramError::Disabled));
        let waiting = far.read_datagram();
        near.close(code(1), b"");
        assert!(matches!(waiting.await, Err(ConnectionError::ApplicationClosed(_))));
    });
}

#[test]
fn limits_on_streams_can_change_at_any_time() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport.max_concurrent_uni_streams(1_u8.into());
        });
        let (near, far) = connect(&client, &server).await;
        let mut streams = vec![near.open_uni().await.unwrap()];
        let mut second = std::pin::pin!(near.open_uni());
        assert!(
            std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx))).await.is_pending()
        );
        far.set_max_concurrent_uni_streams(20_u8.into());
        streams.push(second.await.unwrap());
        for _ in 2..20 {
            streams.push(near.open_uni().await.unwrap());
        }
        // RLP, which checks the same limit, has bytes for all of them.
        let data = pattern(500_000, 3);
        let sending = async {
            let mut tasks = tokio::task::JoinSet::new();
            streams.into_iter().for_each(|stream| drop(tasks.spawn(send(stream, data.clone()))));
            tasks.join_all().await;
        };
        let receiving = async {
            for _ in 0..20 {
                receive(far.accept_uni().await.unwrap(), &data).await;
            }
        };
        tokio::join!(sending, receiving);
        assert!(far.stats().received.rlp_bytes.iter().sum::<u64>() > 0);
    });
}

#[test]
fn a_smaller_send_window_takes_less_at_a_time() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        near.set_send_window(10_000);
        let mut stream = near.open_uni().await.unwrap();
        let data = pattern(100_000, 4);
        let first = stream.write(&data).await.unwrap();
        assert!(first <= 10_000, "{first}");
        let rest = async {
            stream.write_all(&data[first..]).await.unwrap();
            stream.finish().unwrap();
        };
        tokio::join!(rest, async { receive(far.accept_uni().await.unwrap(), &data).await });
    });
}

#[test]
fn an_endpoint_moves_with_its_connections() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        let (near, far) = connect(&client, &server).await;
        send_and_receive(&near, &far).await;
        // With something in flight, migration can break an assertion of quinn-proto 0.11.19 in debug builds
        // (quinn issue 2658).
        tokio::time::sleep(Duration::from_millis(100)).await;
        let before = far.remote_address();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        client.rebind(socket).unwrap();
        assert_eq!(client.local_addr().unwrap(), address);
        send_and_receive(&near, &far).await;
        assert_eq!(far.remote_address(), address);
        assert_ne!(before, address);
        assert!(client.rebind_to(server.local_addr().unwrap()).is_err(), "taken");
        assert_eq!(client.local_addr().unwrap(), address);
        send_and_receive(&near, &far).await;
    });
}

async fn send_and_receive(near: &rc3_net::Connection, far: &rc3_net::Connection) {
    let data = pattern(100_000, 6);
    let sending = async { send(near.open_uni().await.unwrap(), data.clone()).await };
    tokio::join!(sending, async { receive(far.accept_uni().await.unwrap(), &data).await });
}

#[test]
fn invalid_tls_settings_fail_before_any_client_connects() {
    run(async {
        let (_, mut tls) = rc3_sim::identity::tls(&["test"]);
        tls.max_early_data_size = 5;
        let useless = ServerConfig::with_crypto(Arc::new(tls));
        let any = "127.0.0.1:0".parse().unwrap();
        let error = Endpoint::server(useless.clone(), any).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);

        let (client, server) = endpoints("127.0.0.1", defaults);
        assert_eq!(server.set_server_config(Some(useless.clone())), Err(ConfigError::NotForQuic));
        let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
        let accepting = async { server.accept().await.unwrap().accept_with(Arc::new(useless)).err() };
        let (connected, accepted) = tokio::join!(connecting, accepting);
        assert!(matches!(accepted, Some(ConnectionError::TransportError(_))));
        assert!(matches!(connected, Err(ConnectionError::ConnectionClosed(_))), "{connected:?}");
        // The old configuration is still in effect.
        connect(&client, &server).await;
    });
}

#[test]
fn a_stream_connects_to_a_host_by_name() {
    run(async {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let mut roots = RootCertStore::empty();
        roots.add(certified.cert.der().clone()).unwrap();
        let client_config = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        let server_config = ServerConfig::with_single_cert(vec![certified.cert.into()], key).unwrap();
        // If the name also resolves to ::1, nothing answers there.
        let listener = Listener::bind(server_config, "127.0.0.1:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut endpoint = Endpoint::client("[::]:0".parse().unwrap()).unwrap();
        endpoint.set_default_client_config(client_config);

        let host = format!("localhost:{port}");
        let connecting = Stream::connect_host(&endpoint, &host);
        let (stream, accepted) = tokio::join!(connecting, listener.accept());
        let (mut stream, (mut accepted, peer)) = (stream.unwrap(), accepted.unwrap());
        assert_eq!(stream.local_addr().unwrap().port(), peer.port());
        assert!(stream.nodelay().unwrap());
        stream.set_nodelay(false).unwrap();

        // Half close, and a write of many pieces.
        let pieces = [&b"one "[..], b"", b"two "].map(io::IoSlice::new);
        assert_eq!(stream.write_vectored(&pieces).await.unwrap(), 8);
        stream.shutdown().await.unwrap();
        let mut got = String::new();
        accepted.read_to_string(&mut got).await.unwrap();
        accepted.write_all(b"three").await.unwrap();
        accepted.shutdown().await.unwrap();
        stream.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "one two three");

        let nobody = Stream::connect_host(&endpoint, "localhost").await;
        assert_eq!(nobody.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    });
}

/// The end of the client's handshake leaves before the application can close the connection.
#[test]
fn a_client_that_closes_at_once_was_connected() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", defaults);
        for _ in 0..50 {
            let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
            let closing = async { drop(connecting.await.unwrap()) };
            let accepting = async { server.accept().await.unwrap().await };
            let ((), accepted) = tokio::join!(closing, accepting);
            let closed = accepted.expect("the handshake was complete at both ends").closed().await;
            assert!(matches!(closed, ConnectionError::ApplicationClosed(_)), "{closed}");
        }
    });
}
