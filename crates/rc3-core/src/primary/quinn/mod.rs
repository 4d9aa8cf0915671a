//! The primary loop over an unmodified quinn-proto: the only module that names that crate.

mod controller;

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use quinn_proto as quic;
use thiserror::Error;

pub use quic::{
    ApplicationClose, ConnectError, ConnectionClose, ConnectionError, ConnectionHandle, ConnectionId, Dir,
    Side, StreamId, TransportError, TransportErrorCode, VarInt,
};

use self::controller::{Factory, Shared};
use super::{End, PathStats, Primary, PrimaryEvent, PrimaryTransmit, Waiting, Window};
use crate::config::{ClientConfig, Congestion, ServerConfig, TransportConfig, alpn_offer};

/// Why bytes were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WriteError {
    /// Flow control: [`PrimaryEvent::Writable`] follows.
    #[error("blocked by flow control")]
    Blocked,
    /// The peer no longer reads the stream.
    #[error("stopped by peer: code {0}")]
    Stopped(VarInt),
    /// Never opened, or ended already.
    #[error("closed stream")]
    Closed,
}

/// Why there is nothing to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Nothing there yet: [`PrimaryEvent::Readable`] follows.
    #[error("no data yet")]
    Blocked,
    /// The peer gave the stream up.
    #[error("reset by peer: code {0}")]
    Reset(VarInt),
    /// Never opened, or read to its end already.
    #[error("closed stream")]
    Closed,
}

/// One QUIC connection.
pub struct Quic {
    conn: quic::Connection,
    shared: Arc<Shared>,
    fed_late: Arc<AtomicBool>,
    waiting: Waiting,
    /// The path the bytes in flight are counted on.
    remote: SocketAddr,
}

impl Quic {
    /// From now on bytes are handed over late: the controller believes [`Primary::set_app_limited`].
    pub(crate) fn feed_late(&mut self) {
        self.fed_late.store(true, Relaxed);
    }

    /// The negotiated ALPN protocol and the server name, once known.
    pub(crate) fn handshake_data(&self) -> Option<HandshakeData> {
        let data = self.conn.crypto_session().handshake_data()?;
        let data = data.downcast::<quic::crypto::rustls::HandshakeData>().ok()?;
        Some(HandshakeData { protocol: data.protocol, server_name: data.server_name })
    }

    /// Keying material from the TLS exporter (RFC 8446 §7.5); `None` before the handshake allows it.
    pub(crate) fn export_keying_material(&self, out: &mut [u8], label: &[u8], context: &[u8]) -> Option<()> {
        self.conn.crypto_session().export_keying_material(out, label, context).ok()
    }

    /// The peer's certificate chain, once known, as rustls gives it.
    pub(crate) fn peer_identity(&self) -> Option<Box<dyn std::any::Any>> {
        self.conn.crypto_session().peer_identity()
    }

    pub(crate) fn close(&mut self, now: Instant, code: VarInt, reason: Bytes) {
        self.conn.close(now, code, reason);
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.conn.is_drained()
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.conn.is_handshaking()
    }

    pub(crate) fn side(&self) -> Side {
        self.conn.side()
    }

    /// Both ends of the current path, ours where known. Cheaper than [`Primary::path`].
    pub(crate) fn addresses(&self) -> (SocketAddr, Option<IpAddr>) {
        (self.conn.remote_address(), self.conn.local_ip())
    }

    /// The smoothed round-trip time.
    pub(crate) fn rtt(&self) -> Duration {
        self.conn.rtt()
    }
}

impl Primary for Quic {
    fn poll_event(&mut self) -> Option<PrimaryEvent> {
        loop {
            return Some(match self.conn.poll()? {
                quic::Event::HandshakeDataReady => PrimaryEvent::Negotiated,
                quic::Event::Connected => PrimaryEvent::Connected,
                quic::Event::ConnectionLost { reason } => PrimaryEvent::Lost(reason),
                quic::Event::Stream(event) => match event {
                    quic::StreamEvent::Opened { dir } => PrimaryEvent::Opened(dir),
                    quic::StreamEvent::Readable { id } => PrimaryEvent::Readable(id),
                    quic::StreamEvent::Writable { id } => PrimaryEvent::Writable(id),
                    quic::StreamEvent::Finished { id } => PrimaryEvent::Finished(id),
                    quic::StreamEvent::Stopped { id, error_code } => PrimaryEvent::Stopped(id, error_code),
                    quic::StreamEvent::Available { dir } => PrimaryEvent::Available(dir),
                },
                quic::Event::DatagramReceived | quic::Event::DatagramsUnblocked => continue,
            });
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.conn.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.conn.handle_timeout(now);
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<PrimaryTransmit> {
        debug_assert!(buf.is_empty());
        // Also back to the old path, when the new one could not be validated. Counted too few, quinn-proto still holds
        // the window; too many, nothing would ever be fed again.
        if self.remote != self.conn.remote_address() {
            self.remote = self.conn.remote_address();
            self.shared.in_flight.store(0, Relaxed);
        }
        self.shared.consulted.store(0, Relaxed);
        let mtu = self.conn.current_mtu();
        let Some(transmit) = self.conn.poll_transmit(now, datagrams_max, buf) else {
            // See `controller`.
            self.waiting = match self.shared.consulted.load(Relaxed) {
                0 => Waiting::Nothing,
                1 => Waiting::ForWindow,
                _ => Waiting::ForPacer,
            };
            return None;
        };
        // A probe of the path MTU: in flight, but the controller is not told.
        if transmit.segment_size.is_none() && transmit.size > usize::from(mtu) {
            self.shared.in_flight.fetch_add(transmit.size as u64, Relaxed);
        }
        Some(from_transmit(transmit))
    }

    fn window(&self) -> Window {
        Window {
            cwnd: self.shared.cwnd.load(Relaxed),
            in_flight: self.shared.in_flight.load(Relaxed),
            mtu: self.conn.current_mtu(),
            waiting: self.waiting,
        }
    }

    fn set_app_limited(&mut self, app_limited: bool) {
        self.shared.app_limited.store(app_limited, Relaxed);
    }

    fn open(&mut self, dir: Dir) -> Option<StreamId> {
        self.conn.streams().open(dir)
    }

    fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.conn.streams().accept(dir)
    }

    fn write(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, WriteError> {
        self.waiting = Waiting::ForPacer;
        match self.conn.send_stream(id).write_chunks(chunks) {
            Ok(written) => Ok(written.bytes),
            Err(quic::WriteError::Blocked) => Err(WriteError::Blocked),
            Err(quic::WriteError::Stopped(code)) => Err(WriteError::Stopped(code)),
            Err(quic::WriteError::ClosedStream) => Err(WriteError::Closed),
        }
    }

    fn end(&mut self, id: StreamId, how: End) {
        self.waiting = Waiting::ForPacer;
        let mut stream = self.conn.send_stream(id);
        // Both fail only for a stream that has ended already, which is what was asked for.
        match how {
            End::Finish => drop(stream.finish()),
            End::Reset(code) => drop(stream.reset(code)),
        }
    }

    fn read(&mut self, id: StreamId, max: usize, ordered: bool) -> Result<Option<(u64, Bytes)>, ReadError> {
        let mut stream = self.conn.recv_stream(id);
        let mut chunks = stream.read(ordered).map_err(|_| ReadError::Closed)?;
        match chunks.next(max) {
            Ok(chunk) => Ok(chunk.map(|chunk| (chunk.offset, chunk.bytes))),
            Err(quic::ReadError::Blocked) => Err(ReadError::Blocked),
            Err(quic::ReadError::Reset(code)) => Err(ReadError::Reset(code)),
        }
    }

    fn stop(&mut self, id: StreamId, code: VarInt) {
        // Fails only for a stream that is closed already.
        let _ = self.conn.recv_stream(id).stop(code);
    }

    fn path(&self) -> PathStats {
        let stats = self.conn.stats().path;
        PathStats {
            remote: self.conn.remote_address(),
            local_ip: self.conn.local_ip(),
            rtt: stats.rtt,
            cwnd: self.shared.cwnd.load(Relaxed),
            mtu: stats.current_mtu,
            sent_packets: stats.sent_packets,
            lost_packets: stats.lost_packets,
            congestion_events: stats.congestion_events,
        }
    }
}

impl fmt::Debug for Quic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quic").field("side", &self.conn.side()).finish_non_exhaustive()
    }
}

/// What the handshake settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandshakeData {
    /// The negotiated ALPN protocol.
    pub protocol: Option<Vec<u8>>,
    /// The server name the client asked for; on servers only.
    pub server_name: Option<String>,
}

/// A handshake somebody wants to begin. Answer it with one of the endpoint's `accept`, `refuse`, `retry` or
/// `ignore`.
pub struct Incoming(Box<quic::Incoming>);

impl Incoming {
    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.0.remote_address()
    }

    /// Our address, where known.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.0.local_ip()
    }

    /// Whether the peer has shown that it receives at its address.
    pub fn remote_address_validated(&self) -> bool {
        self.0.remote_address_validated()
    }

    /// Whether `retry` is still possible.
    pub fn may_retry(&self) -> bool {
        self.0.may_retry()
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What became of a datagram.
pub(crate) enum Routed {
    /// It went to this connection.
    Connection(ConnectionHandle, ToConnection),
    /// Somebody wants to connect.
    Incoming(Incoming),
    /// It wants this answer, which is in the buffer.
    Response(PrimaryTransmit),
}

/// Why a handshake could not go on, and what to answer.
pub(crate) struct AcceptFailed {
    pub(crate) cause: ConnectionError,
    pub(crate) response: Option<PrimaryTransmit>,
}

/// Something for one connection only.
pub(crate) struct ToConnection(quic::ConnectionEvent);

/// The QUIC side of an endpoint: connection ids, stateless answers, new connections.
pub(crate) struct QuicEndpoint {
    endpoint: quic::Endpoint,
    server: Option<(quic::ServerConfig, Arc<TransportConfig>)>,
}

impl QuicEndpoint {
    /// `seed` makes ids and tokens repeatable: for simulations only.
    pub(crate) fn new(server: Option<&ServerConfig>, seed: Option<[u8; 32]>) -> Result<Self, ConfigError> {
        let mut config = quic::EndpointConfig::default();
        // The fixed bit tells QUIC from RLP datagrams: it must not be greased (RFC 9287).
        config.grease_quic_bit(false).rng_seed(seed);
        if seed.is_some() {
            let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[0; 32]);
            config.reset_key(Arc::new(reset_key));
        }
        let server = server.map(server_config).transpose()?;
        let for_endpoint = server.as_ref().map(|(config, _)| Arc::new(config.clone()));
        Ok(Self { endpoint: quic::Endpoint::new(Arc::new(config), for_endpoint, true, None), server })
    }

    pub(crate) fn set_server(&mut self, server: Option<&ServerConfig>) -> Result<(), ConfigError> {
        self.server = server.map(server_config).transpose()?;
        let for_endpoint = self.server.as_ref().map(|(config, _)| Arc::new(config.clone()));
        self.endpoint.set_server_config(for_endpoint);
        Ok(())
    }

    pub(crate) fn handle(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        ecn: u8,
        data: BytesMut,
        response: &mut Vec<u8>,
    ) -> Option<Routed> {
        let ecn = quic::EcnCodepoint::from_bits(ecn);
        Some(match self.endpoint.handle(now, remote, local_ip, ecn, data, response)? {
            quic::DatagramEvent::ConnectionEvent(handle, event) => {
                Routed::Connection(handle, ToConnection(event))
            }
            quic::DatagramEvent::NewConnection(incoming) => Routed::Incoming(Incoming(Box::new(incoming))),
            quic::DatagramEvent::Response(transmit) => Routed::Response(from_transmit(transmit)),
        })
    }

    pub(crate) fn connect(
        &mut self,
        now: Instant,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<(ConnectionHandle, Quic), ConnectFailed> {
        let mut crypto = rustls::ClientConfig::clone(&config.crypto);
        crypto.alpn_protocols = alpn_offer(&crypto.alpn_protocols, config.transport.rlp);
        let crypto = quic::crypto::rustls::QuicClientConfig::try_from(crypto)
            .map_err(|_| ConnectFailed::Config(ConfigError::NoInitialCipherSuite))?;
        let mut client = quic::ClientConfig::new(Arc::new(crypto));
        let seam = Seam::new(&config.transport);
        client.transport_config(seam.transport.clone());
        let (handle, conn) = self.endpoint.connect(now, client, remote, server_name)?;
        Ok((handle, seam.quic(conn)))
    }

    /// The settings new connections are accepted with.
    pub(crate) fn server_transport(&self) -> Option<&Arc<TransportConfig>> {
        self.server.as_ref().map(|(_, transport)| transport)
    }

    pub(crate) fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
        response: &mut Vec<u8>,
    ) -> Result<(ConnectionHandle, Quic), Box<AcceptFailed>> {
        let (seam, config) = match &self.server {
            Some((config, transport)) => {
                let seam = Seam::new(transport);
                let mut config = config.clone();
                config.transport_config(seam.transport.clone());
                (seam, Some(Arc::new(config)))
            }
            None => (Seam::new(&TransportConfig::default()), None),
        };
        match self.endpoint.accept(*incoming.0, now, response, config) {
            Ok((handle, conn)) => Ok((handle, seam.quic(conn))),
            Err(error) => Err(Box::new(AcceptFailed {
                cause: error.cause,
                response: error.response.map(from_transmit),
            })),
        }
    }

    pub(crate) fn refuse(&mut self, incoming: Incoming, response: &mut Vec<u8>) -> PrimaryTransmit {
        from_transmit(self.endpoint.refuse(*incoming.0, response))
    }

    pub(crate) fn retry(
        &mut self,
        incoming: Incoming,
        response: &mut Vec<u8>,
    ) -> Result<PrimaryTransmit, Incoming> {
        self.endpoint
            .retry(*incoming.0, response)
            .map(from_transmit)
            .map_err(|e| Incoming(Box::new(e.into_incoming())))
    }

    pub(crate) fn ignore(&mut self, incoming: Incoming) {
        self.endpoint.ignore(*incoming.0);
    }

    pub(crate) fn deliver(conn: &mut Quic, event: ToConnection) {
        conn.conn.handle_event(event.0);
    }

    /// Settles what a connection and its endpoint have to tell each other. Call it after every change.
    pub(crate) fn service(&mut self, handle: ConnectionHandle, conn: &mut Quic) {
        while let Some(event) = conn.conn.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                conn.conn.handle_event(answer);
            }
        }
    }
}

impl fmt::Debug for QuicEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

/// Why a connection could not even be tried.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectFailed {
    /// The address, name or endpoint does not allow it.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The TLS settings do not allow it.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Settings that cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// QUIC's Initial packets need it (RFC 9001 §5.2).
    #[error("the TLS configuration lacks TLS13_AES_128_GCM_SHA256; add it to the crypto provider")]
    NoInitialCipherSuite,
}

/// What a connection and its controller share, and the settings that carry it into quinn-proto.
struct Seam {
    shared: Arc<Shared>,
    fed_late: Arc<AtomicBool>,
    transport: Arc<quic::TransportConfig>,
}

impl Seam {
    fn new(config: &TransportConfig) -> Self {
        let shared = Arc::<Shared>::default();
        let fed_late = Arc::<AtomicBool>::default();
        let factory = Factory {
            inner: controller_factory(config),
            shared: shared.clone(),
            paced: config.paced,
            fed_late: fed_late.clone(),
        };
        Self { shared, fed_late, transport: Arc::new(quic_transport(config, factory)) }
    }

    fn quic(self, conn: quic::Connection) -> Quic {
        let remote = conn.remote_address();
        Quic { conn, shared: self.shared, fed_late: self.fed_late, waiting: Waiting::ForPacer, remote }
    }
}

fn controller_factory(
    config: &TransportConfig,
) -> Arc<dyn quic::congestion::ControllerFactory + Send + Sync> {
    macro_rules! with_window {
        ($config:expr) => {{
            let mut inner = $config;
            if let Some(bytes) = config.initial_window {
                inner.initial_window(bytes);
            }
            Arc::new(inner)
        }};
    }
    match config.congestion {
        Congestion::NewReno => with_window!(quic::congestion::NewRenoConfig::default()),
        Congestion::Cubic => with_window!(quic::congestion::CubicConfig::default()),
        Congestion::Bbr => with_window!(quic::congestion::BbrConfig::default()),
    }
}

fn quic_transport(config: &TransportConfig, factory: Factory) -> quic::TransportConfig {
    let mut quic = quic::TransportConfig::default();
    // One unidirectional stream more: the peer's control stream.
    quic.max_concurrent_uni_streams(config.max_concurrent_uni_streams.saturating_add(1).into())
        .max_concurrent_bidi_streams(config.max_concurrent_bidi_streams.into())
        .stream_receive_window(config.stream_receive_window.into())
        .receive_window(config.receive_window.into())
        .send_window(config.send_window)
        .initial_rtt(config.initial_rtt)
        .initial_mtu(config.initial_mtu)
        .keep_alive_interval(config.keep_alive_interval)
        .congestion_controller_factory(Arc::new(factory));
    // Out of range (292 million years) means never.
    quic.max_idle_timeout(config.max_idle_timeout.and_then(|timeout| timeout.try_into().ok()));
    if !config.mtu_discovery {
        quic.mtu_discovery_config(None);
    }
    quic
}

fn server_config(config: &ServerConfig) -> Result<(quic::ServerConfig, Arc<TransportConfig>), ConfigError> {
    let mut crypto = rustls::ServerConfig::clone(&config.crypto);
    crypto.alpn_protocols = alpn_offer(&crypto.alpn_protocols, config.transport.rlp);
    let crypto = quic::crypto::rustls::QuicServerConfig::try_from(crypto)
        .map_err(|_| ConfigError::NoInitialCipherSuite)?;
    let mut quic = quic::ServerConfig::with_crypto(Arc::new(crypto));
    quic.migration(config.migration)
        // The endpoint refuses what is beyond its own limit; quinn-proto would say nothing, and the peer wait.
        .max_incoming(config.max_incoming.saturating_add(1))
        .incoming_buffer_size(config.incoming_buffer_size)
        .incoming_buffer_size_total(config.incoming_buffer_size_total)
        .retry_token_lifetime(config.retry_token_lifetime);
    Ok((quic, config.transport.clone()))
}

fn from_transmit(transmit: quic::Transmit) -> PrimaryTransmit {
    PrimaryTransmit {
        destination: transmit.destination,
        source: transmit.src_ip,
        ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
        size: transmit.size,
        segment_size: transmit.segment_size,
    }
}
