//! The two QUIC libraries of this program. Their names are the same, so one text serves both.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use rc3_net::crypto::crypto_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Result, Target};

/// Initial window of `quinn-iw32`, in bytes: 32 packets as TCP counts them.
const IW32: u64 = 32 * 1448;

/// Windows of `quinn-large`, in bytes: those that rc3 may grow to by default or more.
const LARGE_WINDOW: u32 = 32 << 20;

/// Socket buffers of `quinn-large`, in bytes, as rc3 asks for them.
const LARGE_RECV_BUFFER: usize = 4 << 20;
const LARGE_SEND_BUFFER: usize = 1 << 20;

/// The settings of a new server, and its certificate in hexadecimal.
fn server() -> Result<(Arc<rustls::ServerConfig>, String)> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let certificate = HEXLOWER.encode(certified.cert.der());
    let mut config = rustls::ServerConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.into()], key)?;
    config.alpn_protocols = vec![b"flows".to_vec()];
    Ok((Arc::new(config), certificate))
}

fn client(target: &Target) -> Result<Arc<rustls::ClientConfig>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(HEXLOWER.decode(target.certificate.as_bytes())?))?;
    let mut config = rustls::ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"flows".to_vec()];
    if !target.setup.resume {
        // A new connection is a full handshake for both.
        config.resumption = rustls::client::Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// Of clients.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

macro_rules! library {
    ($name:ident, $library:ident) => {
        /// Servers and clients of this library.
        pub(crate) mod $name {
            use std::{
                io::BufRead,
                net::SocketAddr,
                time::{Duration, Instant},
            };

            use $library::{Connection, Endpoint, RecvStream, SendStream, VarInt};

            use super::{
                super::{
                    ANSWER_MAX, BLOCK, CONTENT, ECHO, ECHO_MAX, Exchange, KEEP, KEPT, ReceiverReport, Result,
                    Setup, Task, Timed, cpu_time,
                },
                configure::$name as configure,
            };
            use crate::net::clock;

            /// A stream that stays open.
            type Open = (SendStream, RecvStream);

            pub(crate) async fn serve(setup: Setup, address: SocketAddr) -> Result<()> {
                let (crypto, certificate) = super::server()?;
                let endpoint = configure::server(setup, crypto, address)?;
                println!("{certificate}");
                while let Some(incoming) = endpoint.accept().await {
                    tokio::spawn(async move {
                        if let Ok(connection) = incoming.await {
                            serve_connection(connection, setup.workers.is_some()).await;
                        }
                    });
                }
                Ok(())
            }

            async fn serve_connection(connection: Connection, in_parallel: bool) {
                let before = cpu_time();
                let mut open = Vec::new();
                while let Ok((send, recv)) = connection.accept_bi().await {
                    if in_parallel {
                        // The client notices a failure.
                        tokio::spawn(async move { answer(send, recv, before).await.is_ok() });
                        continue;
                    }
                    // Both ends come in turn, so a stream that fails ends the connection too.
                    match answer(send, recv, before).await {
                        Ok(stream) => open.extend(stream),
                        Err(_) => return,
                    }
                }
            }

            /// Returns the stream if it stays open.
            async fn answer(
                mut send: SendStream,
                mut recv: RecvStream,
                before: Duration,
            ) -> Result<Option<Open>> {
                let mut kind = [0];
                recv.read_exact(&mut kind).await?;
                match kind[0] {
                    KEEP => {
                        recv.read_exact(&mut [0; KEPT - 1]).await?;
                        send.write_all(&[KEEP; KEPT]).await?;
                        return Ok(Some((send, recv)));
                    }
                    ECHO => {
                        let (mut echo, mut total) = (vec![kind.to_vec().into()], 1);
                        while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
                            total += chunk.bytes.len();
                            if total > ECHO_MAX {
                                return Err("too long to be sent back".into());
                            }
                            echo.push(chunk.bytes);
                        }
                        send.write_all_chunks(&mut echo).await?;
                    }
                    _ => {
                        // The end of the stream may come later than its last byte.
                        let mut last = clock::now();
                        while recv.read_chunk(usize::MAX, true).await?.is_some() {
                            last = clock::now();
                        }
                        let answer = ReceiverReport { last, cpu: (cpu_time() - before).as_secs_f64() };
                        send.write_all(&serde_json::to_vec(&answer)?).await?;
                    }
                }
                send.finish()?;
                Ok(None)
            }

            pub(crate) async fn run(endpoint: &Endpoint, address: SocketAddr, task: Task) -> Result<()> {
                match task {
                    Task::Time(bytes, connections) => {
                        for _ in 0..connections {
                            println!("{}", serde_json::to_string(&flow(endpoint, address, bytes).await?)?);
                            endpoint.wait_idle().await;
                        }
                        Ok(())
                    }
                    Task::Ask(exchange) => ask(endpoint, address, &exchange).await,
                    Task::Hold => hold(endpoint, address).await,
                }
            }

            pub(crate) async fn flow(endpoint: &Endpoint, address: SocketAddr, bytes: u64) -> Result<Timed> {
                let (begun, before, clock) = (clock::now(), cpu_time(), Instant::now());
                let connection = endpoint.connect(address, "localhost")?.await?;
                let opened = clock::now();
                let (mut send, mut recv) = connection.open_bi().await?;
                let mut left = bytes;
                while left > 0 {
                    let len = left.min(BLOCK as u64);
                    send.write_all(&CONTENT[..len as usize]).await?;
                    left -= len;
                }
                send.finish()?;
                let answer: ReceiverReport = serde_json::from_slice(&recv.read_to_end(ANSWER_MAX).await?)?;
                let cpu = (cpu_time() - before).as_secs_f64();
                let modes = configure::modes(&connection, clock);
                connection.close(VarInt::from_u32(0), b"done");
                Ok(Timed { modes, ..answer.timed(begun, opened, cpu) })
            }

            /// Sends one stream and returns the answer, of at most so many bytes.
            pub(crate) async fn exchange(
                connection: &Connection,
                request: &[u8],
                most: usize,
            ) -> Result<Vec<u8>> {
                let (mut send, mut recv) = connection.open_bi().await?;
                send.write_all(request).await?;
                send.finish()?;
                Ok(recv.read_to_end(most).await?)
            }

            async fn ask(endpoint: &Endpoint, address: SocketAddr, exchange: &Exchange) -> Result<()> {
                let request = vec![ECHO; exchange.bytes];
                let mut connection = None;
                for _ in 0..exchange.count {
                    let begun = Instant::now();
                    let current = match connection.take() {
                        Some(connection) => connection,
                        None => endpoint.connect(address, "localhost")?.await?,
                    };
                    if self::exchange(&current, &request, exchange.bytes).await?.len() != exchange.bytes {
                        return Err("the response is too short".into());
                    }
                    print!("{} ", begun.elapsed().as_micros());
                    if exchange.new_connections {
                        current.close(VarInt::from_u32(0), b"done");
                    } else {
                        connection = Some(current);
                    }
                }
                println!();
                endpoint.close(VarInt::from_u32(0), b"done");
                endpoint.wait_idle().await;
                Ok(())
            }

            /// Reads `connect COUNT`, `exchange` and `open COUNT` (streams on each connection) from standard input, and
            /// prints a line when that is done.
            async fn hold(endpoint: &Endpoint, address: SocketAddr) -> Result<()> {
                let (mut connections, mut open) = (Vec::new(), Vec::new());
                for line in std::io::stdin().lock().lines() {
                    let line = line?;
                    let (command, count) = line.split_once(' ').unwrap_or((&line, "1"));
                    for _ in 0..count.parse::<usize>()? {
                        if command == "connect" {
                            connections.push(endpoint.connect(address, "localhost")?.await?);
                            continue;
                        }
                        for connection in &connections {
                            if command == "exchange" {
                                exchange(connection, &[ECHO; KEPT], KEPT).await?;
                                continue;
                            }
                            let (mut send, mut recv) = connection.open_bi().await?;
                            send.write_all(&[KEEP; KEPT]).await?;
                            recv.read_exact(&mut [0; KEPT]).await?;
                            open.push((send, recv));
                        }
                    }
                    println!("done");
                }
                Ok(())
            }
        }
    };
}

library!(rc3, rc3_net);
library!(quinn, quinn);

/// What differs: how settings are made, and what is counted.
pub(super) mod configure {
    pub(crate) mod rc3 {
        use std::{net::SocketAddr, sync::Arc, time::Instant};

        use rc3_net::{
            ClientConfig, Congestion, Connection, Endpoint, EndpointOptions, RlpMode, ServerConfig,
            SwitchCounts, TransportConfig, marks::MarkChoice,
        };
        use rc3_sim::pcc::PccConfig;

        use super::super::{
            super::{Modes, Result, Setup, Target, Transport},
            ANY, client as client_crypto,
        };

        fn transport(setup: Setup) -> Arc<TransportConfig> {
            let mut config = TransportConfig::default();
            config.rlp(match setup.transport {
                Transport::Rc3Off | Transport::Rc3Newreno | Transport::Rc3Pcc | Transport::Rc3Kickass => {
                    RlpMode::Off
                }
                Transport::Rc3Trust | Transport::Rc3TrustPerLevel => RlpMode::Trust,
                _ => RlpMode::default(),
            });
            match setup.transport {
                Transport::Rc3Newreno | Transport::Rc3NewrenoRlp => {
                    config.congestion(Congestion::NewReno);
                }
                Transport::Rc3Background => {
                    config.congestion(Congestion::Background);
                }
                Transport::Rc3Kickass | Transport::Rc3KickassRlp => {
                    config.congestion(Congestion::KickAss);
                }
                Transport::Rc3Pcc => {
                    config.congestion_controller_factory(Arc::new(PccConfig::new(setup.seed)));
                }
                _ => {}
            }
            config.nic_rate(setup.nic_rate());
            if let Some(discovery) = setup.mtu_discovery() {
                config.mtu_discovery_config(Some(discovery));
            }
            if let Some(streams) = setup.streams {
                config.max_idle_timeout(None).max_concurrent_bidi_streams(streams.into());
            }
            Arc::new(config)
        }

        fn options(setup: Setup) -> EndpointOptions {
            let marks = match setup.transport {
                Transport::Rc3PerLevel | Transport::Rc3TrustPerLevel => MarkChoice::PerLevel,
                _ => MarkChoice::default(),
            };
            EndpointOptions { marks: marks.into(), ..EndpointOptions::default() }
        }

        pub(crate) fn server(
            setup: Setup,
            crypto: Arc<rustls::ServerConfig>,
            address: SocketAddr,
        ) -> Result<Endpoint> {
            let mut config = ServerConfig::with_crypto(crypto);
            config.transport_config(transport(setup));
            let mut options = options(setup);
            if let Some(workers) = setup.workers {
                options.workers = workers;
            }
            Ok(Endpoint::bind(options, Some(config), address)?)
        }

        pub(crate) fn client(target: &Target) -> Result<Endpoint> {
            let mut config = ClientConfig::new(client_crypto(target)?);
            config.transport_config(transport(target.setup));
            let mut endpoint = Endpoint::bind(options(target.setup), None, ANY)?;
            endpoint.set_default_client_config(config);
            Ok(endpoint)
        }

        pub(crate) fn modes(connection: &Connection, begun: Instant) -> Option<Modes> {
            let kickass = connection.stats().kickass?;
            let now = Instant::now();
            let SwitchCounts { to_kickass, by_silence, by_congestion, .. } = kickass.switches;
            Some(Modes {
                seconds: now.saturating_duration_since(begun).as_secs_f64(),
                steered: kickass.steered_until(now).as_secs_f64(),
                signals: kickass.signals,
                to_kickass,
                by_silence,
                by_congestion,
            })
        }
    }

    pub(crate) mod quinn {
        use std::{net::SocketAddr, sync::Arc, time::Instant};

        use ::quinn::{
            ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig,
            congestion::{BbrConfig, CubicConfig},
            crypto::rustls::{QuicClientConfig, QuicServerConfig},
        };
        use socket2::{Domain, Protocol, Socket, Type};

        use super::super::{
            super::{Modes, Result, Setup, Target, Transport},
            ANY, IW32, LARGE_RECV_BUFFER, LARGE_SEND_BUFFER, LARGE_WINDOW, client as client_crypto,
        };

        fn transport(setup: Setup) -> Arc<TransportConfig> {
            let mut config = TransportConfig::default();
            if setup.transport == Transport::QuinnLarge {
                config
                    .stream_receive_window(LARGE_WINDOW.into())
                    .receive_window(LARGE_WINDOW.into())
                    .send_window(LARGE_WINDOW.into());
            }
            if setup.transport == Transport::QuinnIw32 {
                let mut cubic = CubicConfig::default();
                cubic.initial_window(IW32);
                config.congestion_controller_factory(Arc::new(cubic));
            }
            if setup.transport == Transport::QuinnBbr {
                config.congestion_controller_factory(Arc::new(BbrConfig::default()));
            }
            if let Some(discovery) = setup.mtu_discovery() {
                config.mtu_discovery_config(Some(discovery));
            }
            if let Some(streams) = setup.streams {
                config.max_idle_timeout(None).max_concurrent_bidi_streams(streams.into());
            }
            Arc::new(config)
        }

        fn endpoint(setup: Setup, server: Option<ServerConfig>, address: SocketAddr) -> Result<Endpoint> {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
            if setup.transport == Transport::QuinnLarge {
                socket.set_recv_buffer_size(LARGE_RECV_BUFFER)?;
                socket.set_send_buffer_size(LARGE_SEND_BUFFER)?;
            }
            socket.bind(&address.into())?;
            let mut config = EndpointConfig::default();
            if let Some(bytes) = setup.payload() {
                config.max_udp_payload_size(bytes)?;
            }
            Ok(Endpoint::new(config, server, socket.into(), Arc::new(TokioRuntime))?)
        }

        pub(crate) fn server(
            setup: Setup,
            crypto: Arc<rustls::ServerConfig>,
            address: SocketAddr,
        ) -> Result<Endpoint> {
            let crypto = QuicServerConfig::try_from(crypto)?;
            let mut config = ServerConfig::with_crypto(Arc::new(crypto));
            config.transport_config(transport(setup));
            endpoint(setup, Some(config), address)
        }

        pub(crate) fn client(target: &Target) -> Result<Endpoint> {
            let crypto = QuicClientConfig::try_from(client_crypto(target)?)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            config.transport_config(transport(target.setup));
            let mut endpoint = endpoint(target.setup, None, ANY)?;
            endpoint.set_default_client_config(config);
            Ok(endpoint)
        }

        /// quinn has no Kick-Ass.
        pub(crate) fn modes(_: &Connection, _: Instant) -> Option<Modes> {
            None
        }
    }
}
