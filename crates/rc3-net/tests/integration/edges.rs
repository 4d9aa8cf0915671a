//! Public calls at the edges of their domains, by one source on quinn and on rc3. Each has quinn's outcome, or the one in
//! docs/PORTING.md, which this test reads.

use std::{fmt::Debug, net::SocketAddr, thread, time::Duration};

use crate::common::{SERVER_NAME, configs, connect, endpoints, receive, run, run_on_one_thread, send};
use rc3_net::{Endpoint, VarInt};

/// A call that has no outcome by then waits for something.
const PATIENCE: Duration = Duration::from_secs(2);

/// Outcomes, by case.
#[derive(Default)]
struct Table(Vec<(String, String)>);

impl Table {
    fn put(&mut self, case: impl Into<String>, outcome: impl Debug) {
        // quinn's has a private field.
        let outcome = format!("{outcome:?}").replace("ClosedStream { _private: () }", "ClosedStream");
        self.0.push((case.into(), outcome));
    }

    async fn wait<T: Debug>(&mut self, case: impl Into<String>, call: impl Future<Output = T>) {
        match tokio::time::timeout(PATIENCE, call).await {
            Ok(outcome) => self.put(case, outcome),
            Err(_) => self.0.push((case.into(), "waits".to_string())),
        }
    }
}

macro_rules! observed {
    ($name:ident, $library:ident) => {
        mod $name {
            use std::{
                net::{SocketAddr, UdpSocket},
                sync::Arc,
                time::Duration,
            };

            use $library as quic;

            use super::Table;
            use crate::common::SERVER_NAME;
            use bytes::Bytes;
            use quic::{
                AckFrequencyConfig, ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig,
                IdleTimeout, Incoming, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
                crypto::rustls::{QuicClientConfig, QuicServerConfig},
            };

            const ANY: &str = "127.0.0.1:0";

            /// The parts run at the same time: most of them wait for calls that never answer. The last one has dozens of
            /// connections, which should not delay the calls of others beyond [`super::PATIENCE`].
            pub(super) async fn all() -> Table {
                let mut table = Table::default();
                numbers(&mut table);
                let mut parts: [Table; 9] = std::array::from_fn(|_| Table::default());
                let [a, b, c, d, e, f, g, h, i] = &mut parts;
                tokio::join!(
                    senders(a),
                    stopped_and_reset(b),
                    receivers(c),
                    ends_of_receivers(d),
                    connections(e),
                    closed_connections(f),
                    connects(g),
                    endpoints(h),
                    incomings(i),
                );
                table.0.extend(parts.into_iter().flat_map(|part| part.0));
                settings(&mut table).await;
                table
            }

            // --- what the cases need

            fn configs(change: impl Fn(&mut TransportConfig)) -> (ClientConfig, ServerConfig) {
                let (mut client, server) = rc3_sim::identity::tls(&["test"]);
                client.enable_early_data = false;
                let mut transport = TransportConfig::default();
                change(&mut transport);
                let transport = Arc::new(transport);
                let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).unwrap()));
                let mut server =
                    ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server).unwrap()));
                client.transport_config(transport.clone());
                server.transport_config(transport);
                (client, server)
            }

            /// A client and a server; these have no connection.
            fn apart(change: impl Fn(&mut TransportConfig)) -> (Endpoint, Endpoint) {
                let (client_config, server_config) = configs(change);
                let server = Endpoint::server(server_config, ANY.parse().unwrap()).unwrap();
                let mut client = Endpoint::client(ANY.parse().unwrap()).unwrap();
                client.set_default_client_config(client_config);
                (client, server)
            }

            struct Ends {
                client: Endpoint,
                server: Endpoint,
                near: Connection,
                far: Connection,
            }

            async fn ends(change: impl Fn(&mut TransportConfig)) -> Ends {
                let (client, server) = apart(change);
                let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
                let accepting = async { server.accept().await.unwrap().await };
                let (near, far) = tokio::try_join!(connecting, accepting).unwrap();
                Ends { client, server, near, far }
            }

            /// A stream with these bytes.
            async fn stream(ends: &Ends, bytes: &[u8]) -> (SendStream, RecvStream) {
                let mut tx = ends.near.open_uni().await.unwrap();
                tx.write_all(bytes).await.unwrap();
                let rx = ends.far.accept_uni().await.unwrap();
                (tx, rx)
            }

            /// One without bytes to read.
            async fn read(ends: &Ends) -> (SendStream, RecvStream) {
                let (tx, mut rx) = stream(ends, b"x").await;
                assert_eq!(rx.read(&mut [0; 1]).await, Ok(Some(1)));
                (tx, rx)
            }

            /// One with its end, all of which has been read.
            async fn ended(ends: &Ends) -> (SendStream, RecvStream) {
                let (mut tx, mut rx) = stream(ends, b"x").await;
                tx.finish().unwrap();
                assert_eq!(rx.read_to_end(10).await.unwrap(), b"x");
                assert_eq!(tx.stopped().await, Ok(None));
                (tx, rx)
            }

            // --- the cases

            fn numbers(t: &mut Table) {
                for number in [0, (1 << 62) - 1, 1 << 62, u64::MAX] {
                    t.put(format!("VarInt::from_u64({number})"), VarInt::from_u64(number).is_ok());
                }
                for (name, time) in [("zero", Duration::ZERO), ("largest", Duration::MAX)] {
                    t.put(format!("IdleTimeout, {name}"), IdleTimeout::try_from(time).is_ok());
                }
                for bytes in [0, 1199, 1200, 65_527, 65_528, u16::MAX] {
                    let mut config = EndpointConfig::default();
                    t.put(
                        format!("max_udp_payload_size({bytes})"),
                        config.max_udp_payload_size(bytes).map(|_| ()).is_ok(),
                    );
                }
            }

            async fn written(t: &mut Table, when: &str, tx: &mut SendStream) {
                t.wait(format!("{when}: write, nothing"), tx.write(b"")).await;
                t.wait(format!("{when}: write_all, nothing"), tx.write_all(b"")).await;
                t.wait(format!("{when}: write_chunk, empty"), tx.write_chunk(Bytes::new())).await;
                t.wait(format!("{when}: write_chunks, none"), tx.write_chunks(&mut [])).await;
                t.wait(format!("{when}: write_chunks, an empty one"), tx.write_chunks(&mut [Bytes::new()]))
                    .await;
                let mut mixed = [Bytes::new(), "a".into(), Bytes::new()];
                t.wait(format!("{when}: write_chunks, empty ones around one"), tx.write_chunks(&mut mixed))
                    .await;
                t.wait(format!("{when}: write_all_chunks, none"), tx.write_all_chunks(&mut [])).await;
                let mut empty = [Bytes::new()];
                t.wait(format!("{when}: write_all_chunks, an empty one"), tx.write_all_chunks(&mut empty))
                    .await;
                t.wait(format!("{when}: write"), tx.write(b"x")).await;
                t.wait(format!("{when}: write_all"), tx.write_all(b"x")).await;
            }

            fn ended_twice(t: &mut Table, when: &str, tx: &mut SendStream) {
                for (name, priority) in [("smallest", i32::MIN), ("largest", i32::MAX)] {
                    t.put(format!("{when}: set_priority({name})"), tx.set_priority(priority));
                    t.put(format!("{when}: priority, {name}"), tx.priority());
                }
                t.put(format!("{when}: finish"), tx.finish());
                t.put(format!("{when}: finish, twice"), tx.finish());
                t.put(format!("{when}: reset"), tx.reset(VarInt::MAX));
                t.put(format!("{when}: reset, twice"), tx.reset(VarInt::MAX));
                t.put(format!("{when}: finish after reset"), tx.finish());
            }

            async fn senders(t: &mut Table) {
                let ends = ends(|_| ()).await;
                let (mut tx, _rx) = stream(&ends, b"x").await;
                written(t, "open", &mut tx).await;
                ended_twice(t, "open", &mut tx);
                let (mut tx, _rx) = stream(&ends, b"x").await;
                tx.finish().unwrap();
                written(t, "finished", &mut tx).await;
                ended_twice(t, "finished", &mut tx);
                let (mut tx, _rx) = ended(&ends).await;
                written(t, "delivered", &mut tx).await;
                ended_twice(t, "delivered", &mut tx);
                t.wait("delivered: stopped, twice", tx.stopped()).await;
                let (tx, mut rx) = stream(&ends, b"x").await;
                drop(tx);
                t.wait("dropped: read_to_end", rx.read_to_end(1)).await;
                let (mut tx, _rx) = stream(&ends, b"x").await;
                ends.near.close(1_u8.into(), b"");
                written(t, "closed", &mut tx).await;
                ended_twice(t, "closed", &mut tx);
                t.wait("closed: stopped", tx.stopped()).await;
            }

            async fn stopped_and_reset(t: &mut Table) {
                let ends = ends(|_| ()).await;
                let (mut tx, mut rx) = stream(&ends, b"x").await;
                t.put("stop, largest code", rx.stop(VarInt::MAX));
                t.wait("stopped", tx.stopped()).await;
                t.wait("stopped, twice", tx.stopped()).await;
                written(t, "stopped", &mut tx).await;
                ended_twice(t, "stopped", &mut tx);
                t.wait("stopped: stopped after reset", tx.stopped()).await;
                let (mut tx, mut rx) = stream(&ends, b"x").await;
                tx.reset(VarInt::MAX).unwrap();
                written(t, "reset", &mut tx).await;
                ended_twice(t, "reset", &mut tx);
                t.wait("received_reset, largest code", rx.received_reset()).await;
                t.wait("received_reset, twice", rx.received_reset()).await;
                t.wait("reset received: read", rx.read(&mut [0; 1])).await;
                t.wait("reset received: read, twice", rx.read(&mut [0; 1])).await;
                t.put("reset received: stop", rx.stop(1_u8.into()));
                let (mut tx, mut rx) = stream(&ends, b"x").await;
                tx.reset(5_u8.into()).unwrap();
                // The reset may overtake the byte, or not.
                while rx.read(&mut [0; 1]).await.is_ok() {}
                t.wait("reset read: received_reset", rx.received_reset()).await;
                t.wait("reset read: read", rx.read(&mut [0; 1])).await;
                t.wait("reset read: read, nothing", rx.read(&mut [])).await;
                t.wait("reset read: read_to_end", rx.read_to_end(1)).await;
                t.put("reset read: stop", rx.stop(1_u8.into()));
            }

            async fn receivers(t: &mut Table) {
                let ends = ends(|_| ()).await;
                let (mut tx, mut rx) = read(&ends).await;
                t.wait("no bytes: read, nothing", rx.read(&mut [])).await;
                t.wait("no bytes: read_exact, nothing", rx.read_exact(&mut [])).await;
                t.wait("no bytes: read_chunk(0)", rx.read_chunk(0, true)).await;
                t.wait("no bytes: read_chunks, none", rx.read_chunks(&mut [])).await;
                t.wait("no bytes: read", rx.read(&mut [0; 1])).await;
                tx.write_all(b"abcdef").await.unwrap();
                t.wait("bytes: read, one", rx.read(&mut [0; 1])).await;
                t.wait("bytes: read, nothing", rx.read(&mut [])).await;
                t.wait("bytes: read_exact, nothing", rx.read_exact(&mut [])).await;
                t.wait("bytes: read_chunks, none", rx.read_chunks(&mut [])).await;
                t.wait("bytes: read_chunk(0)", rx.read_chunk(0, true)).await;
                t.wait("bytes: read_chunk(1)", rx.read_chunk(1, true)).await;
                t.wait("bytes: read_chunk(1), unordered", rx.read_chunk(1, false)).await;
                t.wait("bytes: read_chunk(1), ordered after unordered", rx.read_chunk(1, true)).await;
                let (_tx, mut rx) = stream(&ends, b"abc").await;
                t.wait("bytes: read_chunk(largest)", rx.read_chunk(usize::MAX, true)).await;
                let (_tx, mut rx) = stream(&ends, b"abc").await;
                t.wait("bytes: read_chunk(largest), unordered", rx.read_chunk(usize::MAX, false)).await;
                for (name, limit) in [("0", 0), ("1", 1), ("its length", 3), ("largest", usize::MAX)] {
                    let (mut tx, mut rx) = stream(&ends, b"abc").await;
                    tx.finish().unwrap();
                    t.wait(format!("read_to_end({name})"), rx.read_to_end(limit)).await;
                    t.wait(format!("read_to_end({name}), twice"), rx.read_to_end(limit)).await;
                }
                let mut tx = ends.near.open_uni().await.unwrap();
                tx.finish().unwrap();
                let mut rx = ends.far.accept_uni().await.unwrap();
                t.wait("an empty stream: read_to_end(0)", rx.read_to_end(0)).await;
                let (mut tx, mut rx) = stream(&ends, b"abc").await;
                tx.finish().unwrap();
                t.wait("read_exact, beyond the end", rx.read_exact(&mut [0; 5])).await;
                t.wait("read_exact, beyond the end, twice", rx.read_exact(&mut [0; 5])).await;
                t.put("is_0rtt", rx.is_0rtt());
                let (_tx, mut rx) = stream(&ends, b"abc").await;
                ends.near.close(1_u8.into(), b"");
                ends.far.closed().await;
                read_all_ways(t, "closed", &mut rx).await;
            }

            async fn read_all_ways(t: &mut Table, when: &str, rx: &mut RecvStream) {
                t.wait(format!("{when}: read"), rx.read(&mut [0; 9])).await;
                t.wait(format!("{when}: read, twice"), rx.read(&mut [0; 9])).await;
                t.wait(format!("{when}: read, nothing"), rx.read(&mut [])).await;
                t.wait(format!("{when}: read_exact, nothing"), rx.read_exact(&mut [])).await;
                t.wait(format!("{when}: read_exact"), rx.read_exact(&mut [0; 1])).await;
                t.wait(format!("{when}: read_chunk(0)"), rx.read_chunk(0, true)).await;
                t.wait(format!("{when}: read_chunk(1)"), rx.read_chunk(1, true)).await;
                t.wait(format!("{when}: read_chunks, none"), rx.read_chunks(&mut [])).await;
                t.wait(format!("{when}: read_chunks, one"), rx.read_chunks(&mut [Bytes::new()])).await;
                t.wait(format!("{when}: read_to_end(0)"), rx.read_to_end(0)).await;
                t.wait(format!("{when}: received_reset"), rx.received_reset()).await;
                t.wait(format!("{when}: received_reset, twice"), rx.received_reset()).await;
                t.put(format!("{when}: stop"), rx.stop(1_u8.into()));
                t.put(format!("{when}: stop, twice"), rx.stop(1_u8.into()));
            }

            async fn ends_of_receivers(t: &mut Table) {
                let ends = ends(|_| ()).await;
                let (_tx, mut rx) = ended(&ends).await;
                read_all_ways(t, "read to its end", &mut rx).await;
                let (_tx, mut rx) = stream(&ends, b"x").await;
                rx.stop(1_u8.into()).unwrap();
                read_all_ways(t, "stop called", &mut rx).await;
                let (mut tx, mut rx) = stream(&ends, b"x").await;
                tx.finish().unwrap();
                assert_eq!(rx.read(&mut [0; 1]).await, Ok(Some(1)));
                t.wait("all bytes read: received_reset", rx.received_reset()).await;
                t.wait("all bytes read: read, nothing", rx.read(&mut [])).await;
                t.put("all bytes read: stop", rx.stop(1_u8.into()));
            }

            async fn connections(t: &mut Table) {
                let ends = ends(|_| ()).await;
                let Ends { near, far, .. } = &ends;
                t.put("send_datagram, empty", near.send_datagram(Bytes::new()));
                t.wait("read_datagram, empty", far.read_datagram()).await;
                t.wait("send_datagram_wait, empty", near.send_datagram_wait(Bytes::new())).await;
                t.put("send_datagram, too long", near.send_datagram(vec![0; 70_000].into()));
                t.wait("send_datagram_wait, too long", near.send_datagram_wait(vec![0; 70_000].into())).await;
                for len in [0, 1, 255 * 32, 255 * 32 + 1, 255 * 48, 255 * 48 + 1, 70_000] {
                    let mut output = vec![0; len];
                    let exported = near.export_keying_material(&mut output, b"EXPORTER-x", b"");
                    t.put(format!("export_keying_material, {len} bytes"), exported.is_ok());
                }
                t.put("export_keying_material, no label", {
                    near.export_keying_material(&mut [0; 8], b"", b"").is_ok()
                });
                t.put("export_keying_material, label of 300 bytes", {
                    near.export_keying_material(&mut [0; 8], &[b'x'; 300], b"").is_ok()
                });
                near.set_send_window(0);
                let mut tx = near.open_uni().await.unwrap();
                t.wait("set_send_window(0): write", tx.write(b"x")).await;
                near.set_send_window(u64::MAX);
                t.wait("set_send_window(largest): write", tx.write(b"x")).await;
                far.set_receive_window(0_u8.into());
                far.set_receive_window(VarInt::MAX);
                t.wait("set_receive_window(0), then the largest: write_all", tx.write_all(&[0; 9])).await;
                far.set_max_concurrent_uni_streams(0_u8.into());
                far.set_max_concurrent_bi_streams(0_u8.into());
                t.wait("set_max_concurrent_uni_streams(0): open_uni", async {
                    near.open_uni().await.map(|_| ())
                })
                .await;
                far.set_max_concurrent_bi_streams(1000_u32.into());
                t.wait("set_max_concurrent_bi_streams(1000): open_bi", async {
                    near.open_bi().await.map(|_| ())
                })
                .await;
                t.put("local_ip", near.local_ip());
                t.put("identities", (near.peer_identity().is_some(), far.peer_identity().is_some()));
                t.put("close_reason", near.close_reason());
            }

            async fn after_close(t: &mut Table, when: &str, connection: &Connection) {
                t.put(format!("{when}: close_reason"), connection.close_reason());
                t.wait(format!("{when}: closed"), connection.closed()).await;
                t.wait(format!("{when}: open_uni"), async { connection.open_uni().await.map(|_| ()) }).await;
                t.wait(format!("{when}: open_bi"), async { connection.open_bi().await.map(|_| ()) }).await;
                t.wait(format!("{when}: accept_uni"), async { connection.accept_uni().await.map(|_| ()) })
                    .await;
                t.wait(format!("{when}: accept_bi"), async { connection.accept_bi().await.map(|_| ()) })
                    .await;
                t.wait(format!("{when}: read_datagram"), connection.read_datagram()).await;
                t.put(format!("{when}: send_datagram"), connection.send_datagram("x".into()));
                t.wait(format!("{when}: send_datagram_wait"), connection.send_datagram_wait("x".into()))
                    .await;
                t.put(format!("{when}: max_datagram_size"), connection.max_datagram_size().is_some());
                let space = connection.datagram_send_buffer_space() > 0;
                t.put(format!("{when}: datagram_send_buffer_space"), space);
                t.put(format!("{when}: remote_address"), connection.remote_address().ip());
                t.put(format!("{when}: local_ip"), connection.local_ip());
                t.put(format!("{when}: rtt"), connection.rtt() > Duration::ZERO);
                t.put(format!("{when}: stats"), connection.stats().udp_tx.datagrams > 0);
                let window = connection.congestion_state().window() > 0;
                t.put(format!("{when}: congestion_state"), window);
                t.put(format!("{when}: handshake_data"), connection.handshake_data().is_some());
                t.put(format!("{when}: peer_identity"), connection.peer_identity().is_some());
                let exported = connection.export_keying_material(&mut [0; 8], b"EXPORTER-x", b"");
                t.put(format!("{when}: export_keying_material"), exported.is_ok());
                connection.set_max_concurrent_uni_streams(1_u8.into());
                connection.set_max_concurrent_bi_streams(1_u8.into());
                connection.set_send_window(1);
                connection.set_receive_window(1_u8.into());
                connection.force_key_update();
            }

            fn code_of(closed: &ConnectionError) -> Option<u64> {
                match closed {
                    ConnectionError::ApplicationClosed(close) => Some(close.error_code.into_inner()),
                    _ => None,
                }
            }

            fn reason_of(closed: &ConnectionError) -> Option<Bytes> {
                match closed {
                    ConnectionError::ApplicationClosed(close) => Some(close.reason.clone()),
                    _ => None,
                }
            }

            async fn closed_connections(t: &mut Table) {
                let ends = ends(|_| ()).await;
                ends.near.close(VarInt::MAX, b"");
                after_close(t, "closed here", &ends.near).await;
                ends.far.closed().await;
                after_close(t, "closed by the peer", &ends.far).await;
                // After the connection has drained, too.
                ends.client.wait_idle().await;
                ends.server.wait_idle().await;
                after_close(t, "drained here", &ends.near).await;
                after_close(t, "drained at the peer", &ends.far).await;
                for (name, connection) in [("here", &ends.near), ("by the peer", &ends.far)] {
                    connection.close(9_u8.into(), b"again");
                    t.put(format!("closed {name}, then here: close_reason"), connection.close_reason());
                }

                let ends = self::ends(|_| ()).await;
                ends.near.close(1_u8.into(), b"first");
                ends.near.close(2_u8.into(), b"second");
                let closed = ends.far.closed().await;
                t.put("close, twice: code at the peer", code_of(&closed));
                let ends = self::ends(|_| ()).await;
                ends.near.close(0_u8.into(), &[b'x'; 70_000]);
                let reason = reason_of(&ends.far.closed().await).unwrap_or_default();
                let is_cut = reason.len() > 1000 && reason.len() < 70_000;
                t.put("close, reason of 70,000 bytes: cut to a packet", is_cut);
                let ends = self::ends(|_| ()).await;
                let (tx, rx) = ends.near.open_bi().await.unwrap();
                drop((tx, rx, ends.near));
                t.put("dropped: code at the peer", code_of(&ends.far.closed().await));
            }

            async fn connects(t: &mut Table) {
                let (client_config, server_config) = configs(|_| ());
                let server = Endpoint::server(server_config, ANY.parse().unwrap()).unwrap();
                let mut client = Endpoint::client(ANY.parse().unwrap()).unwrap();
                client.set_default_client_config(client_config.clone());
                let port = server.local_addr().unwrap().port();
                let accepting = server.clone();
                tokio::spawn(async move {
                    while let Some(incoming) = accepting.accept().await {
                        tokio::spawn(async move {
                            if let Ok(connection) = incoming.await {
                                connection.closed().await;
                            }
                        });
                    }
                });
                let addresses = [
                    "127.0.0.1:0",
                    "0.0.0.0:1",
                    "[::1]:1",
                    "[::]:1",
                    "255.255.255.255:1",
                    "[::ffff:127.0.0.1]:0",
                    "[::ffff:0.0.0.0]:1",
                ];
                for address in addresses {
                    let connecting = client.connect(address.parse().unwrap(), SERVER_NAME).map(|_| ());
                    t.put(format!("connect, {address}, on an IPv4 socket"), connecting);
                }
                let names: [(&str, &str); 8] = [
                    ("empty", ""),
                    ("with a space", "a b"),
                    ("an IPv4 address", "127.0.0.1"),
                    ("an IPv6 address", "::1"),
                    ("in brackets", "[::1]"),
                    ("with a final dot", "rc3.test."),
                    ("with an underscore", "_a.b"),
                    ("of 300 bytes", &"a".repeat(300)),
                ];
                for (kind, name) in names {
                    let connecting = client.connect(server.local_addr().unwrap(), name).map(|_| ()).is_ok();
                    t.put(format!("connect, name {kind}"), connecting);
                }
                let mut dual = Endpoint::client("[::]:0".parse().unwrap()).unwrap();
                t.put("connect without settings", {
                    dual.connect(server.local_addr().unwrap(), SERVER_NAME).map(|_| ())
                });
                dual.set_default_client_config(client_config);
                for (name, endpoint) in [("an IPv4", &client), ("a dual-stack", &dual)] {
                    for (form, ip) in [("an IPv4", "127.0.0.1"), ("a mapped", "[::ffff:127.0.0.1]")] {
                        let address: SocketAddr = format!("{ip}:{port}").parse().unwrap();
                        let case = format!("connect to {form} address from {name} socket");
                        let Ok(connecting) = endpoint.connect(address, SERVER_NAME) else {
                            t.put(case, "refused");
                            continue;
                        };
                        let before = connecting.remote_address().ip();
                        let connected = connecting.await.map(|connection| connection.remote_address().ip());
                        t.put(case, (before, connected));
                    }
                }
            }

            async fn endpoints(t: &mut Table) {
                let taken = UdpSocket::bind(ANY).unwrap();
                let kind = |made: std::io::Result<Endpoint>| made.map(|_| ()).map_err(|error| error.kind());
                t.put("Endpoint::client, port taken", kind(Endpoint::client(taken.local_addr().unwrap())));
                t.put(
                    "Endpoint::client, foreign address",
                    kind(Endpoint::client("192.0.2.1:0".parse().unwrap())),
                );
                let lonely = Endpoint::client(ANY.parse().unwrap()).unwrap();
                t.wait("accept, without settings", async { lonely.accept().await.map(|_| ()) }).await;
                t.wait("wait_idle, idle", lonely.wait_idle()).await;
                t.put("open_connections, none", lonely.open_connections());

                let Ends { client, near, far, .. } = &ends(|_| ()).await;
                for _ in 0..2 {
                    client.rebind(UdpSocket::bind(ANY).unwrap()).unwrap();
                }
                let mut tx = near.open_uni().await.unwrap();
                tx.write_all(b"x").await.unwrap();
                t.wait("rebind, twice: accept_uni", async { far.accept_uni().await.map(|_| ()) }).await;
                let Ends { client, server, near, far } = ends(|_| ()).await;
                client.close(5_u8.into(), b"a");
                client.close(6_u8.into(), b"b");
                t.put("Endpoint::close, twice: closed", near.closed().await);
                t.put("Endpoint::close, twice: code at the peer", code_of(&far.closed().await));
                t.wait("Endpoint::close: accept", async { client.accept().await.map(|_| ()) }).await;
                t.wait("Endpoint::close: accept, twice", async { client.accept().await.map(|_| ()) }).await;
                let address = server.local_addr().unwrap();
                t.put("Endpoint::close: connect", client.connect(address, SERVER_NAME).map(|_| ()));
                t.put("Endpoint::close: local_addr", client.local_addr().is_ok());
                t.wait("Endpoint::close: wait_idle", client.wait_idle()).await;
                t.wait("Endpoint::close: wait_idle, twice", client.wait_idle()).await;
                t.put("Endpoint::close: open_connections", client.open_connections());
                t.put("Endpoint::close: rebind", client.rebind(UdpSocket::bind(ANY).unwrap()).is_ok());
                let (other, _server_config) = configs(|_| ());
                #[allow(clippy::let_unit_value, reason = "quinn's cannot fail, ours can")]
                let _ = server.set_server_config(None);
                #[allow(clippy::let_unit_value, reason = "quinn's cannot fail, ours can")]
                let _ = server.set_server_config(None);
                let late = Endpoint::client(ANY.parse().unwrap()).unwrap();
                let connecting = late.connect_with(other, address, SERVER_NAME).unwrap();
                t.wait("set_server_config(None), twice: connect", async { connecting.await.map(|_| ()) })
                    .await;
            }

            /// What a client sees of a handshake that the server answers so.
            async fn answered(answer: impl FnOnce(Incoming)) -> Result<(), ConnectionError> {
                let (client, server) = apart(|side| {
                    side.max_idle_timeout(Some(Duration::from_millis(700).try_into().unwrap()));
                });
                let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
                answer(server.accept().await.unwrap());
                connecting.await.map(|_| ())
            }

            async fn incomings(t: &mut Table) {
                t.wait("refuse", answered(Incoming::refuse)).await;
                t.wait("ignore", answered(Incoming::ignore)).await;
                t.wait("Incoming dropped", answered(drop)).await;
                let (client, server) = apart(|_| ());
                let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
                let connecting = tokio::spawn(connecting);
                let incoming = server.accept().await.unwrap();
                t.put("may_retry, before", (incoming.may_retry(), incoming.remote_address_validated()));
                incoming.retry().unwrap();
                let incoming = server.accept().await.unwrap();
                t.put("may_retry, after", (incoming.may_retry(), incoming.remote_address_validated()));
                let incoming = incoming.retry().unwrap_err().into_incoming();
                let mut accepting = incoming.accept().unwrap();
                for time in ["once", "twice"] {
                    t.wait(format!("handshake_data, {time}"), async {
                        accepting.handshake_data().await.is_ok()
                    })
                    .await;
                }
                t.wait("accept after a second retry", async { accepting.await.map(|_| ()) }).await;
                drop(connecting);
                let connecting = client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap();
                t.put("into_0rtt, nothing to resume", connecting.into_0rtt().is_ok());
            }

            /// A connection with these settings at both ends carries a few bytes each way.
            async fn works(change: fn(&mut TransportConfig)) -> &'static str {
                let working = tokio::spawn(async move {
                    let ends = ends(change).await;
                    for (from, to) in [(&ends.near, &ends.far), (&ends.far, &ends.near)] {
                        let mut tx = from.open_uni().await.unwrap();
                        tx.write_all(&[7; 3000]).await.unwrap();
                        tx.finish().unwrap();
                        assert_eq!(
                            to.accept_uni().await.unwrap().read_to_end(4000).await.unwrap().len(),
                            3000
                        );
                        from.open_bi().await.unwrap();
                    }
                });
                match tokio::time::timeout(super::PATIENCE * 2, working).await {
                    Ok(Ok(())) => "works",
                    Ok(Err(_)) => "panics or is lost",
                    Err(_) => "waits",
                }
            }

            async fn settings(t: &mut Table) {
                type Change = fn(&mut TransportConfig);
                let changes: [(&str, Change); 36] = [
                    ("max_concurrent_uni_streams(0)", |t| _ = t.max_concurrent_uni_streams(0_u8.into())),
                    ("max_concurrent_uni_streams(1)", |t| _ = t.max_concurrent_uni_streams(1_u8.into())),
                    ("max_concurrent_bidi_streams(0)", |t| _ = t.max_concurrent_bidi_streams(0_u8.into())),
                    ("max_idle_timeout(None)", |t| _ = t.max_idle_timeout(None)),
                    ("max_idle_timeout(0)", |t| {
                        _ = t.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(0))))
                    }),
                    ("max_idle_timeout(largest)", |t| {
                        _ = t.max_idle_timeout(Some(IdleTimeout::from(VarInt::MAX)))
                    }),
                    ("keep_alive_interval(0)", |t| _ = t.keep_alive_interval(Some(Duration::ZERO))),
                    ("stream_receive_window(0)", |t| _ = t.stream_receive_window(0_u8.into())),
                    ("stream_receive_window(largest)", |t| _ = t.stream_receive_window(VarInt::MAX)),
                    ("receive_window(0)", |t| _ = t.receive_window(0_u8.into())),
                    ("receive_window(largest)", |t| _ = t.receive_window(VarInt::MAX)),
                    ("send_window(0)", |t| _ = t.send_window(0)),
                    ("send_window(largest)", |t| _ = t.send_window(u64::MAX)),
                    ("initial_rtt(0)", |t| _ = t.initial_rtt(Duration::ZERO)),
                    ("initial_rtt(1 day)", |t| _ = t.initial_rtt(Duration::from_secs(86_400))),
                    ("initial_mtu(0)", |t| _ = t.initial_mtu(0)),
                    ("initial_mtu(1200)", |t| _ = t.initial_mtu(1200)),
                    ("initial_mtu(largest)", |t| _ = t.initial_mtu(u16::MAX)),
                    ("min_mtu(0)", |t| _ = t.min_mtu(0)),
                    ("min_mtu(1200)", |t| _ = t.min_mtu(1200)),
                    ("mtu_discovery_config(None)", |t| _ = t.mtu_discovery_config(None)),
                    ("pad_to_mtu(true)", |t| _ = t.pad_to_mtu(true)),
                    ("packet_threshold(0)", |t| _ = t.packet_threshold(0)),
                    ("packet_threshold(largest)", |t| _ = t.packet_threshold(u32::MAX)),
                    ("time_threshold(0)", |t| _ = t.time_threshold(0.0)),
                    ("persistent_congestion_threshold(0)", |t| _ = t.persistent_congestion_threshold(0)),
                    ("persistent_congestion_threshold(largest)", |t| {
                        _ = t.persistent_congestion_threshold(u32::MAX)
                    }),
                    ("crypto_buffer_size(0)", |t| _ = t.crypto_buffer_size(0)),
                    ("crypto_buffer_size(largest)", |t| _ = t.crypto_buffer_size(usize::MAX)),
                    ("allow_spin(false)", |t| _ = t.allow_spin(false)),
                    ("datagram_receive_buffer_size(None)", |t| _ = t.datagram_receive_buffer_size(None)),
                    ("datagram_receive_buffer_size(0)", |t| _ = t.datagram_receive_buffer_size(Some(0))),
                    ("datagram_receive_buffer_size(largest)", |t| {
                        _ = t.datagram_receive_buffer_size(Some(usize::MAX))
                    }),
                    ("datagram_send_buffer_size(0)", |t| _ = t.datagram_send_buffer_size(0)),
                    ("datagram_send_buffer_size(largest)", |t| _ = t.datagram_send_buffer_size(usize::MAX)),
                    ("ack_frequency_config(default)", |t| {
                        _ = t.ack_frequency_config(Some(AckFrequencyConfig::default()))
                    }),
                ];
                let running: Vec<_> =
                    changes.map(|(name, change)| (name, tokio::spawn(works(change)))).into();
                for (name, outcome) in running {
                    t.put(name, outcome.await.unwrap());
                }
            }
        }
    };
}

observed!(with_quinn, quinn);
observed!(with_rc3, rc3_net);

/// The rows of the table of differences: case, quinn's outcome, rc3's.
fn documented() -> Vec<[String; 3]> {
    let text = include_str!("../../../../docs/PORTING.md");
    let (_, section) = text.split_once("### At the edges").expect("the section");
    let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    rows.take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.split('|').skip(1).map(|cell| cell.trim().trim_matches('`').to_string());
            std::array::from_fn(|_| cells.next().unwrap_or_default())
        })
        .collect()
}

/// Differences of one run of all calls: case, quinn's outcome, rc3's.
fn observed() -> Vec<[String; 3]> {
    let [mut quinns, mut ours] = [Table::default(), Table::default()];
    thread::scope(|scope| {
        scope.spawn(|| run_on_one_thread(async { quinns = with_quinn::all().await }));
        scope.spawn(|| run_on_one_thread(async { ours = with_rc3::all().await }));
    });
    let cases = |table: &Table| table.0.iter().map(|(case, _)| case.clone()).collect::<Vec<_>>();
    assert_eq!(cases(&quinns), cases(&ours));
    println!("{} calls", ours.0.len());
    let pairs = quinns.0.into_iter().zip(ours.0);
    let differing = pairs.filter(|((_, quinn), (_, our))| quinn != our);
    differing.map(|((case, quinn), (_, our))| [case, quinn, our]).collect()
}

#[test]
fn calls_at_the_edge_have_quinns_outcome_or_the_documented_one() {
    let documented = documented();
    // On a host that stands still for seconds, a call that answers looks like one that waits: a second chance.
    let differing = Some(observed()).filter(|differing| *differing == documented).unwrap_or_else(observed);
    for row in &differing {
        if !documented.contains(row) {
            println!("not documented: | `{}` | `{}` | `{}` |", row[0], row[1], row[2]);
        }
    }
    for row in &documented {
        if !differing.contains(row) {
            println!("no difference: | `{}` | `{}` | `{}` |", row[0], row[1], row[2]);
        }
    }
    assert!(differing == documented, "{} cases differ, {} are documented", differing.len(), documented.len());
}

/// quinn 0.11.12 makes an entry for each stream that it allows, and computes with times without checks: it panics or never
/// answers.
#[test]
fn the_largest_settings_work() {
    run(async {
        let (client, server) = endpoints("127.0.0.1", |transport| {
            transport
                .max_concurrent_uni_streams(VarInt::MAX)
                .max_concurrent_bidi_streams(VarInt::MAX)
                .rlp_window(u64::MAX)
                .rlp_stream_window(u64::MAX)
                .initial_rtt(Duration::MAX)
                .keep_alive_interval(Some(Duration::MAX))
                .time_threshold(f32::MAX);
        });
        let (near, far) = connect(&client, &server).await;
        far.set_max_concurrent_uni_streams(VarInt::MAX);
        far.set_max_concurrent_bi_streams(VarInt::MAX);
        send(near.open_uni().await.unwrap(), b"hello".to_vec()).await;
        receive(far.accept_uni().await.unwrap(), b"hello").await;
    });
}

/// quinn-proto adds the time to that of the token.
#[test]
fn the_longest_life_of_a_retry_token_works() {
    run(async {
        let (client_config, mut server_config) = configs(|_| ());
        server_config.retry_token_lifetime(Duration::MAX);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Endpoint::server(server_config, any).unwrap();
        let mut client = Endpoint::client(any).unwrap();
        client.set_default_client_config(client_config);
        let connecting = tokio::spawn(client.connect(server.local_addr().unwrap(), SERVER_NAME).unwrap());
        server.accept().await.unwrap().retry().unwrap();
        server.accept().await.unwrap().await.unwrap();
        connecting.await.unwrap().unwrap();
    });
}
