//! The two QUIC contenders. Their names are the same, so one text serves both.

use std::{net::SocketAddr, sync::Arc};

use data_encoding::HEXLOWER;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Result, Setup};

/// Initial window of `quinn-iw32`, in bytes: 32 packets as TCP counts them.
const IW32: u64 = 32 * 1448;

/// Windows of `quinn-large`, in bytes: those that rc3 may grow to by default or more.
const LARGE_WINDOW: u32 = 32 << 20;

/// Socket buffers of `quinn-large`, in bytes, as rc3 asks for them.
const LARGE_RECV_BUFFER: usize = 4 << 20;
const LARGE_SEND_BUFFER: usize = 1 << 20;

struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    fn new() -> Result<Self> {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        Ok(Self { certificate: certified.cert.into(), key })
    }

    fn server(self) -> Result<Arc<rustls::ServerConfig>> {
        let mut config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate], self.key)?;
        config.alpn_protocols = vec![b"compare".to_vec()];
        Ok(Arc::new(config))
    }
}

fn client(setup: Setup, certificate: &str) -> Result<Arc<rustls::ClientConfig>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(HEXLOWER.decode(certificate.as_bytes())?))?;
    let mut config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"compare".to_vec()];
    if !setup.resume {
        // A new connection is a full handshake for both.
        config.resumption = rustls::client::Resumption::disabled();
    }
    Ok(Arc::new(config))
}

fn any_port(peer: SocketAddr) -> SocketAddr {
    let ip: std::net::IpAddr = match peer {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

macro_rules! contender {
    ($name:ident, $library:ident) => {
        pub(crate) mod $name {
            use std::{
                net::SocketAddr,
                time::{Duration, Instant},
            };

            use $library::{Connection, RecvStream, SendStream, VarInt};

            use super::{
                super::{Answer, BLOCK, ECHO_MAX, Exchange, Result, Service, Setup, cpu_time, timed::Last},
                Identity,
                configure::$name as configure,
            };
            use crate::sockets::clock;

            #[tokio::main]
            pub(crate) async fn serve(setup: Setup, service: Service, address: SocketAddr) -> Result<()> {
                let identity = Identity::new()?;
                let certificate = data_encoding::HEXLOWER.encode(&identity.certificate);
                let endpoint = configure::server(setup, identity, address)?;
                println!("{certificate}");
                while let Some(incoming) = endpoint.accept().await {
                    tokio::spawn(async move {
                        if let Ok(connection) = incoming.await {
                            serve_connection(connection, service).await;
                        }
                    });
                }
                Ok(())
            }

            async fn serve_connection(connection: Connection, service: Service) {
                let before = cpu_time();
                while let Ok((send, recv)) = connection.accept_bi().await {
                    // Both ends come in turn, so a stream that fails ends the connection too.
                    let answered = match service {
                        Service::Mirror => answer(send, recv, before).await,
                        Service::Clock => report_arrival(send, recv, before).await,
                    };
                    if answered.is_err() {
                        return;
                    }
                }
            }

            async fn answer(mut send: SendStream, mut recv: RecvStream, before: Duration) -> Result<()> {
                let mut echo = Vec::new();
                let mut total = 0;
                while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
                    total += chunk.bytes.len();
                    if total <= ECHO_MAX {
                        echo.push(chunk.bytes);
                    } else {
                        echo.clear();
                    }
                }
                if total <= ECHO_MAX {
                    send.write_all_chunks(&mut echo).await?;
                } else {
                    let seconds = (cpu_time() - before).as_secs_f64();
                    send.write_all(seconds.to_string().as_bytes()).await?;
                }
                send.finish()?;
                Ok(())
            }

            async fn report_arrival(
                mut send: SendStream,
                mut recv: RecvStream,
                before: Duration,
            ) -> Result<()> {
                // The end of the stream may come later than its last byte.
                let mut last = Last::now();
                while recv.read_chunk(usize::MAX, true).await?.is_some() {
                    last = Last::now();
                }
                let answer = last.answer((cpu_time() - before).as_secs_f64());
                send.write_all(answer.text().as_bytes()).await?;
                send.finish()?;
                Ok(())
            }

            /// Sends so many bytes and returns the answer.
            async fn upload(connection: &Connection, bytes: u64, block: &[u8]) -> Result<String> {
                let (mut send, mut recv) = connection.open_bi().await?;
                let mut left = bytes;
                while left > 0 {
                    let len = left.min(block.len() as u64);
                    send.write_all(&block[..len as usize]).await?;
                    left -= len;
                }
                send.finish()?;
                Ok(String::from_utf8(recv.read_to_end(64).await?)?)
            }

            #[tokio::main]
            pub(crate) async fn time(
                setup: Setup,
                address: SocketAddr,
                certificate: &str,
                bytes: u64,
                connections: u32,
            ) -> Result<()> {
                let endpoint = configure::client(setup, certificate, address)?;
                let block = vec![7; BLOCK];
                for _ in 0..connections {
                    let (begun, before) = (clock::now(), cpu_time());
                    let connection = endpoint.connect(address, "localhost")?.await?;
                    let opened = clock::now();
                    let answer = Answer::parse(&upload(&connection, bytes, &block).await?)?;
                    let cpu = (cpu_time() - before).as_secs_f64();
                    answer.timed(begun, opened, cpu).print()?;
                    connection.close(VarInt::from_u32(0), b"done");
                    endpoint.wait_idle().await;
                }
                Ok(())
            }

            #[tokio::main]
            pub(crate) async fn send(
                setup: Setup,
                address: SocketAddr,
                certificate: &str,
                bytes: u64,
            ) -> Result<()> {
                let endpoint = configure::client(setup, certificate, address)?;
                let (begun, before) = (Instant::now(), cpu_time());
                let connection = endpoint.connect(address, "localhost")?.await?;
                let peer: f64 = upload(&connection, bytes, &vec![7; BLOCK]).await?.parse()?;
                let cpu = (cpu_time() - before).as_secs_f64() + peer;
                println!("{} {cpu}", begun.elapsed().as_secs_f64());
                connection.close(VarInt::from_u32(0), b"done");
                endpoint.wait_idle().await;
                Ok(())
            }

            #[tokio::main]
            pub(crate) async fn ask(
                setup: Setup,
                address: SocketAddr,
                certificate: &str,
                exchange: &Exchange,
            ) -> Result<()> {
                let endpoint = configure::client(setup, certificate, address)?;
                let request = vec![7; exchange.bytes];
                let mut connection = None;
                for _ in 0..exchange.count {
                    let begun = Instant::now();
                    let current = match connection.take() {
                        Some(connection) => connection,
                        None => endpoint.connect(address, "localhost")?.await?,
                    };
                    let (mut send, mut recv) = current.open_bi().await?;
                    send.write_all(&request).await?;
                    send.finish()?;
                    let response = recv.read_to_end(exchange.bytes).await?;
                    if response.len() != exchange.bytes {
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
        }
    };
}

contender!(rc3, rc3_net);
contender!(quinn, quinn);

/// What differs: how settings are made.
mod configure {
    pub(super) mod rc3 {
        use std::{net::SocketAddr, sync::Arc};

        use rc3_net::{ClientConfig, Endpoint, RlpMode, ServerConfig, TransportConfig};

        use super::super::{
            super::{Contender, Result, Setup},
            Identity, any_port, client as client_crypto,
        };

        fn transport(setup: Setup) -> Arc<TransportConfig> {
            let mut config = TransportConfig::default();
            config.rlp(match setup.contender {
                Contender::Rc3Off => RlpMode::Off,
                Contender::Rc3Trust => RlpMode::Trust,
                _ => RlpMode::default(),
            });
            config.nic_rate(setup.nic_rate);
            if let Some(discovery) = setup.mtu_discovery() {
                config.mtu_discovery_config(Some(discovery));
            }
            Arc::new(config)
        }

        pub(crate) fn server(setup: Setup, identity: Identity, address: SocketAddr) -> Result<Endpoint> {
            let mut config = ServerConfig::with_crypto(identity.server()?);
            config.transport_config(transport(setup));
            Ok(Endpoint::server(config, address)?)
        }

        pub(crate) fn client(setup: Setup, certificate: &str, peer: SocketAddr) -> Result<Endpoint> {
            let mut config = ClientConfig::new(client_crypto(setup, certificate)?);
            config.transport_config(transport(setup));
            let mut endpoint = Endpoint::client(any_port(peer))?;
            endpoint.set_default_client_config(config);
            Ok(endpoint)
        }
    }

    pub(super) mod quinn {
        use std::{net::SocketAddr, sync::Arc};

        use quinn::{
            ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig,
            congestion::{BbrConfig, CubicConfig},
            crypto::rustls::{QuicClientConfig, QuicServerConfig},
        };
        use socket2::{Domain, Protocol, Socket, Type};

        use super::super::{
            super::{Contender, Result, Setup},
            IW32, Identity, LARGE_RECV_BUFFER, LARGE_SEND_BUFFER, LARGE_WINDOW, any_port,
            client as client_crypto,
        };

        fn transport(setup: Setup) -> Arc<TransportConfig> {
            let mut config = TransportConfig::default();
            if setup.contender == Contender::QuinnLarge {
                config
                    .stream_receive_window(LARGE_WINDOW.into())
                    .receive_window(LARGE_WINDOW.into())
                    .send_window(LARGE_WINDOW.into());
            }
            if setup.contender == Contender::QuinnIw32 {
                let mut cubic = CubicConfig::default();
                cubic.initial_window(IW32);
                config.congestion_controller_factory(Arc::new(cubic));
            }
            if setup.contender == Contender::QuinnBbr {
                config.congestion_controller_factory(Arc::new(BbrConfig::default()));
            }
            if let Some(discovery) = setup.mtu_discovery() {
                config.mtu_discovery_config(Some(discovery));
            }
            Arc::new(config)
        }

        fn endpoint(setup: Setup, server: Option<ServerConfig>, address: SocketAddr) -> Result<Endpoint> {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
            if setup.contender == Contender::QuinnLarge {
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

        pub(crate) fn server(setup: Setup, identity: Identity, address: SocketAddr) -> Result<Endpoint> {
            let crypto = QuicServerConfig::try_from(identity.server()?)?;
            let mut config = ServerConfig::with_crypto(Arc::new(crypto));
            config.transport_config(transport(setup));
            endpoint(setup, Some(config), address)
        }

        pub(crate) fn client(setup: Setup, certificate: &str, peer: SocketAddr) -> Result<Endpoint> {
            let crypto = QuicClientConfig::try_from(client_crypto(setup, certificate)?)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            config.transport_config(transport(setup));
            let mut endpoint = endpoint(setup, None, any_port(peer))?;
            endpoint.set_default_client_config(config);
            Ok(endpoint)
        }
    }
}
