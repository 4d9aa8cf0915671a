//! One program, compiled against quinn and against rc3: the surface they share. It also runs on each one's loopback
//! endpoints; docs/PORTING.md lists the remaining differences.
macro_rules! program {
    ($name:ident, $library:ident) => {
        mod $name {
            use std::{io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

            use $library as quic;

            use bytes::Bytes;
            use quic::{
                ApplicationClose, ClientConfig, ClosedStream, Connecting, Connection, ConnectionError,
                Endpoint, IdleTimeout, Incoming, MtuDiscoveryConfig, ReadError, ReadExactError,
                ReadToEndError, RecvStream, ResetError, SendDatagramError, SendStream, ServerConfig, Side,
                StoppedError, StreamId, TransportConfig, VarInt, WriteError, ZeroRttAccepted,
                crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig},
                rustls,
            };
            use tokio::io::{AsyncReadExt, AsyncWriteExt};

            const ANY: &str = "127.0.0.1:0";

            /// Futures have names, so that programs can keep them.
            #[allow(dead_code, reason = "compiling is the claim")]
            struct Kept<'a> {
                accept: quic::Accept<'a>,
                open_uni: quic::OpenUni<'a>,
                open_bi: quic::OpenBi<'a>,
                accept_uni: quic::AcceptUni<'a>,
                accept_bi: quic::AcceptBi<'a>,
                read_datagram: quic::ReadDatagram<'a>,
                send_datagram: quic::SendDatagram<'a>,
                incoming: quic::IncomingFuture,
                retry: quic::RetryError,
                accepted: ZeroRttAccepted,
            }

            /// Everything else that quinn exports and rc3 has.
            #[allow(unused_imports, reason = "compiling is the claim")]
            mod names {
                use super::quic;
                pub(super) use quic::{
                    AcceptBi, AckFrequencyConfig, AsyncTimer, AsyncUdpSocket, BloomTokenLog, Chunk,
                    ConfigError, ConnectError, ConnectionClose, ConnectionId, ConnectionIdGenerator,
                    ConnectionStats, Dir, EcnCodepoint, EndpointConfig, EndpointStats, FrameStats, FrameType,
                    NoneTokenLog, NoneTokenStore, PathStats, Runtime, StdSystemTime, TimeSource, TokenLog,
                    TokenMemoryCache, TokenReuseError, TokenStore, TokioRuntime, TransportErrorCode,
                    UdpPoller, UdpStats, ValidationTokenConfig, VarIntBoundsExceeded, Written,
                    congestion::{Bbr, BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig},
                    crypto::{
                        AeadKey, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HmacKey,
                        rustls::NoInitialCipherSuite,
                    },
                    default_runtime, udp,
                };
            }
            use names::{ConnectError, EndpointConfig, TokioRuntime, default_runtime};

            /// Programs match all errors of connecting.
            fn describe(error: &ConnectError) -> &'static str {
                match error {
                    ConnectError::EndpointStopping => "stopping",
                    ConnectError::CidsExhausted => "full",
                    ConnectError::InvalidServerName(_) => "name",
                    ConnectError::InvalidRemoteAddress(_) => "address",
                    ConnectError::NoDefaultClientConfig => "no settings",
                    ConnectError::UnsupportedVersion => "version",
                }
            }

            /// The endpoint's settings as load balancers and restarted servers need them.
            fn endpoint_config() -> EndpointConfig {
                let mut config = EndpointConfig::new(Arc::new(Sum));
                config
                    .reset_key(Arc::new(Sum))
                    .cid_generator(|| Box::new(Ids(0)))
                    .supported_versions(vec![1])
                    .grease_quic_bit(false)
                    .min_reset_interval(Duration::from_millis(50));
                assert!(config.max_udp_payload_size(1_100).is_err(), "too short for QUIC");
                config.max_udp_payload_size(1_472).unwrap();
                assert_eq!(config.get_max_udp_payload_size(), 1_472);
                config
            }

            /// A key for tests.
            struct Sum;

            impl names::HmacKey for Sum {
                fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
                    signature_out.fill(data.iter().fold(0, |sum, &byte| sum ^ byte));
                }

                fn signature_len(&self) -> usize {
                    32
                }

                fn verify(&self, _: &[u8], _: &[u8]) -> Result<(), names::CryptoError> {
                    Err(names::CryptoError)
                }
            }

            /// Ids that name a server.
            struct Ids(u64);

            impl names::ConnectionIdGenerator for Ids {
                fn generate_cid(&mut self) -> names::ConnectionId {
                    self.0 += 1;
                    names::ConnectionId::new(&[b"server-1", &self.0.to_be_bytes()[..]].concat())
                }

                fn cid_len(&self) -> usize {
                    16
                }

                fn cid_lifetime(&self) -> Option<Duration> {
                    Some(Duration::from_secs(3_600))
                }
            }

            /// On a socket of the program, through the runtime's abstraction or not.
            fn on_own_socket(server: Option<ServerConfig>, wrapped: bool) -> Endpoint {
                let socket = std::net::UdpSocket::bind(ANY).unwrap();
                let runtime: Arc<dyn names::Runtime> = default_runtime().unwrap();
                if wrapped {
                    let socket: Arc<dyn names::AsyncUdpSocket> = runtime.wrap_udp_socket(socket).unwrap();
                    Endpoint::new_with_abstract_socket(endpoint_config(), server, socket, runtime).unwrap()
                } else {
                    Endpoint::new(endpoint_config(), server, socket, Arc::new(TokioRuntime)).unwrap()
                }
            }

            fn is_task<T: Send + Sync + 'static>() {}

            fn is_error<T: std::error::Error + Into<io::Error> + Clone + Send + Sync + 'static>() {}

            fn bounds() {
                is_task::<Endpoint>();
                is_task::<Connection>();
                is_task::<Connecting>();
                is_task::<Incoming>();
                is_task::<SendStream>();
                is_task::<RecvStream>();
                is_error::<ConnectionError>();
                is_error::<WriteError>();
                is_error::<ReadError>();
                is_error::<StoppedError>();
                is_error::<ResetError>();
                is_error::<ClosedStream>();
            }

            fn transport() -> TransportConfig {
                let mut transport = TransportConfig::default();
                transport
                    .max_concurrent_uni_streams(20_u8.into())
                    .max_concurrent_bidi_streams(VarInt::from_u32(20))
                    .max_idle_timeout(Some(Duration::from_secs(20).try_into().unwrap()))
                    .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(20_000))))
                    .keep_alive_interval(Some(Duration::from_secs(5)))
                    .stream_receive_window((1_u32 << 20).into())
                    .receive_window((4_u32 << 20).into())
                    .send_window(4 << 20)
                    .initial_rtt(Duration::from_millis(100))
                    .initial_mtu(1200)
                    .min_mtu(1200)
                    .mtu_discovery_config(Some(MtuDiscoveryConfig::default()))
                    .pad_to_mtu(false)
                    .packet_threshold(3)
                    .time_threshold(9.0 / 8.0)
                    .persistent_congestion_threshold(3)
                    .crypto_buffer_size(16 * 1024)
                    .ack_frequency_config(None)
                    .allow_spin(true)
                    .datagram_receive_buffer_size(Some(1 << 20))
                    .datagram_send_buffer_size(1 << 20)
                    .congestion_controller_factory(Arc::new(quic::congestion::CubicConfig::default()));
                transport
            }

            fn client_config(crypto: rustls::ClientConfig) -> ClientConfig {
                let crypto = QuicClientConfig::try_from(crypto).unwrap();
                let mut config = ClientConfig::new(Arc::new(crypto));
                config
                    .transport_config(Arc::new(transport()))
                    .token_store(Arc::new(quic::TokenMemoryCache::default()));
                config
            }

            fn server_config(crypto: rustls::ServerConfig) -> ServerConfig {
                let crypto = QuicServerConfig::try_from(crypto).unwrap();
                let mut config = ServerConfig::with_crypto(Arc::new(crypto));
                Arc::get_mut(&mut config.transport).unwrap().max_concurrent_uni_streams(20_u8.into());
                config
                    .transport_config(Arc::new(transport()))
                    .migration(true)
                    .retry_token_lifetime(Duration::from_secs(10))
                    .validation_token_config(quic::ValidationTokenConfig::default())
                    .time_source(Arc::new(names::StdSystemTime))
                    .max_incoming(100)
                    .incoming_buffer_size(1 << 16)
                    .incoming_buffer_size_total(1 << 20)
                    .preferred_address_v4(None)
                    .preferred_address_v6(None);
                config.validation_token.log(Arc::new(names::BloomTokenLog::default())).sent(1);
                config.validation_token.log(Arc::new(names::NoneTokenLog)).lifetime(Duration::from_secs(60));
                config
            }

            async fn serve(endpoint: Endpoint, other: Arc<ServerConfig>) {
                // The first client must validate its address, and is accepted when it returns.
                let incoming = endpoint.accept().await.unwrap();
                assert!(!incoming.remote_address_validated() && incoming.may_retry());
                assert!(!incoming.orig_dst_cid().is_empty());
                assert!(incoming.remote_address().ip().is_loopback() && incoming.local_ip().is_some());
                incoming.retry().unwrap();
                let incoming = endpoint.accept().await.unwrap();
                assert!(incoming.remote_address_validated());
                let mut connecting: Connecting = incoming.accept_with(other).unwrap();
                let data = connecting.handshake_data().await.unwrap().downcast::<HandshakeData>().unwrap();
                assert_eq!(data.protocol.as_deref(), Some(&b"test"[..]));
                assert_eq!(data.server_name.as_deref(), Some(crate::common::SERVER_NAME));
                let (connection, accepted) = connecting.into_0rtt().map_err(|_| "servers can").unwrap();
                talk(&connection).await;
                let _: bool = accepted.await;
                let closed = connection.closed().await;
                let ConnectionError::ApplicationClosed(ApplicationClose { error_code, reason }) = closed
                else {
                    panic!("{closed}")
                };
                assert_eq!((error_code, &reason[..]), (VarInt::from_u32(7), &b"done"[..]));

                // The second is refused.
                endpoint.accept().await.unwrap().refuse();
                // No handshake is accepted any more.
                #[allow(clippy::let_unit_value, reason = "quinn's cannot fail, ours can")]
                let _ = endpoint.set_server_config(None);
                endpoint.close(0_u32.into(), b"");
                assert!(endpoint.accept().await.is_none());
            }

            /// The server's part.
            async fn talk(connection: &Connection) {
                assert_eq!(connection.side(), Side::Server);
                let (mut send, mut recv): (SendStream, RecvStream) = connection.accept_bi().await.unwrap();
                let mut head = [0; 5];
                recv.read_exact(&mut head).await.unwrap();
                assert_eq!(&head, b"hello");
                let rest = recv.read_to_end(1 << 20).await.unwrap();
                send.write_chunk(Bytes::from(rest)).await.unwrap();
                send.write_all_chunks(&mut [Bytes::from_static(b"one"), Bytes::from_static(b"two")])
                    .await
                    .unwrap();
                send.finish().unwrap();
                assert!(send.finish().is_err(), "finished already");
                assert_eq!(send.write(b"x").await, Err(WriteError::ClosedStream));
                assert_eq!(send.stopped().await, Ok(None));

                // A reset stream, and a stopped one.
                let mut recv = connection.accept_uni().await.unwrap();
                assert_eq!(recv.received_reset().await, Ok(Some(VarInt::from_u32(3))));
                let mut recv = connection.accept_uni().await.unwrap();
                recv.stop(VarInt::from_u32(4)).unwrap();
                assert!(recv.stop(VarInt::from_u32(4)).is_err(), "stopped already");
                assert_eq!(recv.read(&mut [0; 1]).await, Ok(None));

                // A datagram there and back.
                let datagram = connection.read_datagram().await.unwrap();
                // The path MTU back may not have grown as far.
                let longest = connection.max_datagram_size().unwrap().min(datagram.len());
                connection.send_datagram(datagram.slice(..longest)).unwrap();
            }

            async fn ask(connection: Connection) {
                assert_eq!(connection.side(), Side::Client);
                assert!(connection.close_reason().is_none());
                assert_eq!(connection.stable_id(), connection.clone().stable_id());
                let stats: names::ConnectionStats = connection.stats();
                assert!(connection.rtt() > Duration::ZERO && stats.path.cwnd > 0);
                assert!(stats.path.current_mtu >= 1_200 && stats.udp_tx.datagrams > 0);
                assert!(stats.frame_tx.crypto > 0 && stats.frame_rx.crypto > 0 && stats.udp_rx.bytes > 1_200);
                assert_eq!(names::ConnectionStats::default().path.lost_bytes, 0);
                assert!(connection.congestion_state().metrics().congestion_window > 2_000);
                assert!(connection.peer_identity().is_some() && connection.handshake_data().is_some());
                connection.export_keying_material(&mut [0; 32], b"EXPORTER-test", b"context").unwrap();
                connection.set_max_concurrent_uni_streams(10_u8.into());
                connection.set_max_concurrent_bi_streams(10_u8.into());
                connection.set_receive_window((2_u32 << 20).into());
                connection.set_send_window(2 << 20);

                let (mut send, mut recv) = connection.open_bi().await.unwrap();
                let id: StreamId = send.id();
                assert!(id == recv.id() && !recv.is_0rtt());
                send.set_priority(1).unwrap();
                assert_eq!(send.priority().unwrap(), 1);
                send.write_all(b"hello").await.unwrap();
                // By tokio's traits and by hand-written futures.
                AsyncWriteExt::write_all(&mut send, b"tokio").await.unwrap();
                let one = std::future::poll_fn(|cx| Pin::new(&mut send).poll_write(cx, b"!")).await.unwrap();
                assert_eq!(one, 1);
                let written = send.write_chunks(&mut [Bytes::from_static(b"?")]).await.unwrap();
                assert_eq!((written.bytes, written.chunks), (1, 1));
                AsyncWriteExt::shutdown(&mut send).await.unwrap();
                let chunk = recv.read_chunk(4, true).await.unwrap().unwrap();
                let mut answer = chunk.bytes.to_vec();
                assert_eq!(chunk.offset, 0);
                let mut buf = [0; 3];
                recv.read_exact(&mut buf).await.unwrap();
                answer.extend(buf);
                AsyncReadExt::read_to_end(&mut recv, &mut answer).await.unwrap();
                assert_eq!(answer, b"tokio!?onetwo");
                assert_eq!(recv.read(&mut buf).await, Ok(None));
                // Allowed once the handshake is confirmed (RFC 9001 §6.1), which the answer shows.
                connection.force_key_update();

                let mut send = connection.open_uni().await.unwrap();
                send.write_all(b"never mind").await.unwrap();
                send.reset(VarInt::from_u32(3)).unwrap();
                let mut send = connection.open_uni().await.unwrap();
                send.write_all(b"who cares").await.unwrap();
                assert_eq!(send.stopped().await, Ok(Some(VarInt::from_u32(4))));
                assert_eq!(send.write(b"x").await, Err(WriteError::Stopped(VarInt::from_u32(4))));

                let longest = connection.max_datagram_size().unwrap();
                assert!(longest > 1000 && connection.datagram_send_buffer_space() > longest);
                let too_long = vec![0; longest + 10_000].into();
                assert_eq!(connection.send_datagram(too_long), Err(SendDatagramError::TooLarge));
                connection.send_datagram_wait(vec![5; longest].into()).await.unwrap();
                let back = connection.read_datagram().await.unwrap();
                assert!(back.len() > 1000 && back.iter().all(|&byte| byte == 5), "{} bytes", back.len());

                // Everything fails alike once it is closed.
                let mut recv = {
                    let (send, recv) = connection.open_bi().await.unwrap();
                    drop(send);
                    recv
                };
                connection.close(VarInt::from_u32(7), b"done");
                let closed = ConnectionError::LocallyClosed;
                assert_eq!(connection.close_reason(), Some(closed.clone()));
                assert_eq!(connection.open_uni().await.err(), Some(closed.clone()));
                assert_eq!(connection.accept_bi().await.err(), Some(closed.clone()));
                assert_eq!(connection.read_datagram().await.err(), Some(closed.clone()));
                let lost = SendDatagramError::ConnectionLost(closed.clone());
                assert_eq!(connection.send_datagram(Bytes::new()), Err(lost));
                let lost = ReadError::ConnectionLost(closed.clone());
                assert_eq!(recv.read(&mut buf).await, Err(lost.clone()));
                assert_eq!(recv.read_exact(&mut buf).await, Err(ReadExactError::ReadError(lost.clone())));
                assert_eq!(recv.read_to_end(1).await, Err(ReadToEndError::Read(lost.clone())));
                assert_eq!(io::Error::from(lost).kind(), io::ErrorKind::NotConnected);
                assert_eq!(io::Error::from(closed).kind(), io::ErrorKind::Other);
            }

            /// A connection and a few bytes.
            async fn meet(client: &Endpoint, server: &Endpoint) {
                let address = server.local_addr().unwrap();
                let connecting = client.connect(address, crate::common::SERVER_NAME).unwrap();
                let accepting = async { server.accept().await.unwrap().await };
                let (near, far) = tokio::join!(connecting, accepting);
                let (near, far) = (near.unwrap(), far.unwrap());
                let mut send = near.open_uni().await.unwrap();
                send.write_all(b"hello").await.unwrap();
                send.finish().unwrap();
                assert_eq!(far.accept_uni().await.unwrap().read_to_end(9).await.unwrap(), b"hello");
                near.close(VarInt::from_u32(0), b"");
                far.closed().await;
            }

            pub(crate) async fn run(tls: (rustls::ClientConfig, rustls::ServerConfig)) {
                bounds();
                let server = server_config(tls.1);
                let server_endpoint = Endpoint::server(server.clone(), ANY.parse().unwrap()).unwrap();
                let address: SocketAddr = server_endpoint.local_addr().unwrap();
                let serving = tokio::spawn(serve(server_endpoint.clone(), Arc::new(server.clone())));

                let mut client = Endpoint::client(ANY.parse().unwrap()).unwrap();
                let unset = client.connect(address, crate::common::SERVER_NAME).unwrap_err();
                assert_eq!(describe(&unset), "no settings");
                client.set_default_client_config(client_config(tls.0.clone()));
                let connecting = client.connect(address, crate::common::SERVER_NAME).unwrap();
                assert_eq!(connecting.remote_address(), address);
                let connecting = connecting.into_0rtt().map(|_| "nothing to resume").unwrap_err();
                ask(connecting.await.unwrap()).await;

                let config = client_config(tls.0.clone());
                let refused = client.connect_with(config, address, crate::common::SERVER_NAME).unwrap();
                let ConnectionError::ConnectionClosed(closed) = refused.await.unwrap_err() else {
                    panic!("lost otherwise")
                };
                assert_eq!(closed.error_code, quic::TransportErrorCode::CONNECTION_REFUSED);

                client.wait_idle().await;
                assert_eq!(client.open_connections(), 0);
                assert_eq!(client.stats().outgoing_handshakes, 2);
                serving.await.unwrap();
                let stats = server_endpoint.stats();
                assert_eq!((stats.accepted_handshakes, stats.refused_handshakes), (1, 1));

                // Sessions from the endpoints above have other limits.
                let mut tls = tls.0;
                tls.resumption = rustls::client::Resumption::disabled();
                tls.enable_early_data = false;
                for wrapped in [false, true] {
                    let server = on_own_socket(Some(server.clone()), wrapped);
                    let mut client = on_own_socket(None, wrapped);
                    let mut config = client_config(tls.clone());
                    config
                        .version(1)
                        .initial_dst_cid_provider(Arc::new(|| names::ConnectionId::new(b"unguessable")));
                    client.set_default_client_config(config);
                    meet(&client, &server).await;
                }
            }
        }
    };
}

program!(with_quinn, quinn);
program!(with_rc3, rc3_net);

#[test]
fn a_program_for_quinn_runs_on_quinn() {
    crate::common::run(with_quinn::run(rc3_sim::identity::tls(&["test"])));
}

#[test]
fn a_program_for_quinn_runs_on_rc3() {
    crate::common::run(with_rc3::run(rc3_sim::identity::tls(&["test"])));
}
