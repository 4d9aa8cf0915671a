//! The primary loop over an unmodified quinn-proto: the only module that names that crate.

mod controller;
mod crypto;
mod sessions;
mod settings;
#[cfg(feature = "simulation")]
pub(crate) mod simulated;
mod stall;

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
    AckFrequencyConfig, ApplicationClose, ConnectError, ConnectionClose, ConnectionError, ConnectionHandle,
    ConnectionId, Dir, IdleTimeout, MtuDiscoveryConfig, NoneTokenStore, Side, StreamId, TokenLog,
    TokenMemoryCache, TokenReuseError, TokenStore, TransportError, TransportErrorCode, ValidationTokenConfig,
    VarInt, VarIntBoundsExceeded, congestion, crypto::HandshakeTokenKey,
};

pub use self::crypto::{
    ClientCrypto, NoInitialCipherSuite, QuicClientConfig, QuicServerConfig, ServerCrypto,
};
use self::{
    controller::{Factory, Shared},
    sessions::ConnectionSessions,
    stall::Stall,
};
pub(crate) use self::{
    crypto::{ClientTls, ServerTls},
    sessions::Sessions,
    settings::Settings,
};
use super::{End, PathStats, Primary, PrimaryEvent, PrimaryTransmit, Waiting, Window};
use crate::{
    config::{ClientConfig, Congestion, ServerConfig, TransportConfig, alpn_offer},
    error::SendDatagramError,
    qlog::Trace,
};

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

/// Why no more bytes of a stream were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadEnd {
    /// As many as were asked for were read.
    More,
    /// No more are here: [`PrimaryEvent::Readable`] follows.
    Blocked,
    /// All were read.
    Finished,
    /// The peer has given up the rest, with its code.
    Reset(VarInt),
    /// Never opened, or read to its end already.
    Closed,
}

/// One QUIC connection.
pub struct Quic {
    conn: quic::Connection,
    shared: Arc<Shared>,
    fed_late: Arc<AtomicBool>,
    waiting: Waiting,
    stall: Stall,
    /// Of clients that may use 0-RTT.
    sessions: Option<Arc<ConnectionSessions>>,
    trace: Trace,
    /// The smoothed round-trip time before the last datagram; `None` before the first sample, when it is a guess.
    rtt_before: Option<Duration>,
    /// The path the bytes in flight are counted on.
    remote: SocketAddr,
}

/// What became of packets since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PathSample {
    /// The newest packet acknowledged: when it was sent, and its round trip without the peer's delay.
    pub(crate) acked: Option<(Instant, Duration)>,
    /// When the newest packet that is lost was sent.
    pub(crate) lost: Option<Instant>,
}

impl Quic {
    /// What became of packets since the last call; to be called after each datagram and timeout.
    pub(crate) fn take_path_sample(&mut self, now: Instant) -> PathSample {
        let fates = self.shared.take_fates();
        let (before, after) = (self.rtt_before, self.conn.rtt());
        let acked = fates.acked.map(|sent| {
            let raw = now.saturating_duration_since(sent);
            (sent, before.map_or(raw, |before| without_ack_delay(raw, before, after)))
        });
        if before.is_some() || acked.is_some() {
            self.rtt_before = Some(after);
        }
        PathSample { acked, lost: fates.lost }
    }

    /// Has the primary send a packet that the peer acknowledges, though it has nothing to say (PING, RFC 9000
    /// §19.2).
    pub(crate) fn probe(&mut self) {
        self.waiting = Waiting::ForPacer;
        self.conn.ping();
    }

    /// When quinn-proto will not move any more by itself, if nothing comes.
    fn stall_deadline(&self) -> Option<Instant> {
        let shut = self.window().packets() == 0 || self.waiting == Waiting::ForWindow;
        let waits = shut && !self.conn.is_handshaking() && !self.conn.is_closed();
        waits.then(|| self.stall.deadline(self.conn.rtt()))
    }

    /// The qlog file that was opened for this connection.
    pub(crate) fn take_trace(&mut self) -> Trace {
        std::mem::take(&mut self.trace)
    }

    /// Whether bytes are handed over late from now on: the controller then believes
    /// [`Primary::set_app_limited`].
    pub(crate) fn set_fed_late(&mut self, fed_late: bool) {
        self.fed_late.store(fed_late, Relaxed);
    }

    /// Whether 0-RTT data can be sent, and if so, whether as rc3, which is what the resumed session spoke.
    pub(crate) fn early(&self) -> Option<bool> {
        if !self.conn.has_0rtt() || self.conn.side().is_server() {
            return None;
        }
        self.sessions.as_ref()?.resumed()
    }

    /// Whether the server took the 0-RTT data; known once connected.
    pub(crate) fn early_accepted(&self) -> bool {
        self.conn.accepted_0rtt()
    }

    /// The 0-RTT data was refused: quinn-proto has forgotten its packets and told nobody.
    pub(crate) fn on_early_rejected(&mut self) {
        self.shared.in_flight.store(0, Relaxed);
        self.waiting = Waiting::ForPacer;
    }

    /// The protocol is agreed: sessions the server lets us resume belong to it.
    pub(crate) fn on_negotiated(&mut self, rc3: bool) {
        if let Some(sessions) = &self.sessions {
            sessions.on_negotiated(rc3);
        }
    }

    /// Queues an application datagram (RFC 9221). With `drop_old` older ones that wait give way, otherwise it
    /// may have to wait itself.
    pub(crate) fn send_datagram(&mut self, data: Bytes, drop_old: bool) -> Result<(), SendDatagramError> {
        self.waiting = Waiting::ForPacer;
        self.conn.datagrams().send(data, drop_old).map_err(|error| match error {
            quic::SendDatagramError::UnsupportedByPeer => SendDatagramError::UnsupportedByPeer,
            quic::SendDatagramError::Disabled => SendDatagramError::Disabled,
            quic::SendDatagramError::TooLarge => SendDatagramError::TooLarge,
            quic::SendDatagramError::Blocked(data) => SendDatagramError::Blocked(data),
        })
    }

    pub(crate) fn read_datagram(&mut self) -> Option<Bytes> {
        self.conn.datagrams().recv()
    }

    pub(crate) fn max_datagram_size(&mut self) -> Option<usize> {
        self.conn.datagrams().max_size()
    }

    pub(crate) fn datagram_send_buffer_space(&mut self) -> usize {
        self.conn.datagrams().send_buffer_space()
    }

    /// How many streams the peer may have open at once, and how many it is allowed by now.
    pub(crate) fn set_max_concurrent_streams(&mut self, dir: Dir, count: VarInt) {
        self.conn.set_max_concurrent_streams(dir, with_control(dir, count));
    }

    /// Streams the peer may have open, its control stream included. Follows a lowered limit only as streams end.
    pub(crate) fn max_concurrent_streams(&self, dir: Dir) -> u64 {
        self.conn.max_concurrent_streams(dir)
    }

    pub(crate) fn force_key_update(&mut self) {
        self.conn.force_key_update();
    }

    /// Our address has changed: lets the peer hear from the new one.
    pub(crate) fn on_local_address_changed(&mut self) {
        self.conn.local_address_changed();
    }

    /// The smallest round-trip time seen on the path.
    pub(crate) fn min_rtt(&self) -> Duration {
        self.conn.min_rtt()
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

    /// Whether nothing is encrypted; known once the peer has spoken.
    #[cfg(feature = "simulation")]
    pub(crate) fn is_simulated(&self) -> bool {
        self.peer_identity().is_some_and(|identity| identity.is::<simulated::NoIdentity>())
    }

    /// The peer's certificate chain, once known, as rustls gives it.
    pub(crate) fn peer_identity(&self) -> Option<Box<dyn std::any::Any>> {
        self.conn.crypto_session().peer_identity()
    }

    pub(crate) fn close(&mut self, now: Instant, code: VarInt, reason: Bytes) {
        self.conn.close(now, code, reason);
    }

    /// Bytes the peer may send on all streams beyond what was read.
    pub(crate) fn set_receive_window(&mut self, bytes: u64) {
        self.conn.set_receive_window(varint(bytes));
    }

    /// Bytes that may wait for packets and acknowledgments.
    pub(crate) fn set_send_window(&mut self, bytes: u64) {
        self.conn.set_send_window(bytes);
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
        Some(match self.conn.poll()? {
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
            quic::Event::DatagramReceived => PrimaryEvent::DatagramReceived,
            quic::Event::DatagramsUnblocked => PrimaryEvent::DatagramsUnblocked,
        })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        [self.conn.poll_timeout(), self.stall_deadline()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.conn.poll_timeout().is_some_and(|deadline| deadline <= now) {
            self.conn.handle_timeout(now);
            self.stall.on_timeout();
        }
        if self.stall_deadline().is_some_and(|deadline| deadline <= now) {
            self.stall.on_probe();
            self.shared.window_open.store(true, Relaxed);
            self.probe();
        }
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
        if self.shared.acks_came.swap(false, Relaxed) {
            self.stall.on_moved(now);
        }
        self.shared.consulted.store(0, Relaxed);
        let mtu = self.conn.current_mtu();
        // One packet ends a stall: its acknowledgment tells of all that was lost before it.
        let stalled = self.shared.window_open.load(Relaxed);
        let datagrams_max = if stalled { 1 } else { datagrams_max };
        let transmit = self.conn.poll_transmit(now, datagrams_max, buf);
        let consulted = self.shared.consulted.load(Relaxed);
        if consulted > 0 || transmit.is_none() {
            self.shared.window_open.store(false, Relaxed);
        }
        let Some(transmit) = transmit else {
            // See `controller`.
            self.waiting = match consulted {
                0 => Waiting::Nothing,
                1 => Waiting::ForWindow,
                _ => Waiting::ForPacer,
            };
            return None;
        };
        match consulted {
            0 => self.stall.on_exempt(),
            _ if stalled => {}
            _ => self.stall.on_moved(now),
        }
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

    fn read(&mut self, id: StreamId, max: usize, ordered: bool, chunks: &mut Vec<(u64, Bytes)>) -> ReadEnd {
        let mut stream = self.conn.recv_stream(id);
        let Ok(mut reader) = stream.read(ordered) else { return ReadEnd::Closed };
        let mut left = max;
        while left > 0 {
            match reader.next(left) {
                Ok(Some(chunk)) => {
                    left -= chunk.bytes.len();
                    chunks.push((chunk.offset, chunk.bytes));
                }
                Ok(None) => return ReadEnd::Finished,
                Err(quic::ReadError::Blocked) => return ReadEnd::Blocked,
                Err(quic::ReadError::Reset(code)) => return ReadEnd::Reset(code),
            }
        }
        ReadEnd::More
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
            in_flight: self.shared.in_flight.load(Relaxed),
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

    /// The connection id the peer chose for us to begin with.
    pub fn orig_dst_cid(&self) -> ConnectionId {
        *self.0.orig_dst_cid()
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
        if let Some(seed) = seed {
            // A simulated link takes datagrams of any length.
            config.max_udp_payload_size(u16::MAX - 8).expect("the largest there is");
            seed_endpoint(&mut config, seed);
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
        let (crypto, sessions) = client_crypto(config)?;
        let mut client = quic::ClientConfig::new(crypto);
        let seam = Seam::new(now, &config.transport, Side::Client, remote);
        client.transport_config(seam.transport.clone()).token_store(config.token_store.clone());
        let (handle, conn) = self.endpoint.connect(now, client, remote, server_name)?;
        Ok((handle, seam.quic(now, conn, sessions)))
    }

    /// The settings new connections are accepted with.
    pub(crate) fn server_transport(&self) -> Option<&Arc<TransportConfig>> {
        self.server.as_ref().map(|(_, transport)| transport)
    }

    /// Goes on with a handshake, with settings of its own if given.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
        server: Option<&Accepting>,
        response: &mut Vec<u8>,
    ) -> Result<(ConnectionHandle, Quic), Box<AcceptFailed>> {
        let remote = incoming.remote_address();
        let (seam, config) = match server.map(|server| &server.0).or(self.server.as_ref()) {
            Some((config, transport)) => {
                let seam = Seam::new(now, transport, Side::Server, remote);
                let mut config = config.clone();
                config.transport_config(seam.transport.clone());
                (seam, Some(Arc::new(config)))
            }
            None => (Seam::new(now, &TransportConfig::default(), Side::Server, remote), None),
        };
        match self.endpoint.accept(*incoming.0, now, response, config) {
            Ok((handle, conn)) => Ok((handle, seam.quic(now, conn, None))),
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
    /// QUIC is TLS 1.3, and knows early data of no length or any (RFC 9001 §4.2, §4.6.1).
    #[error(
        "the TLS configuration is not for QUIC; enable TLS 1.3, set max_early_data_size to 0 or u32::MAX"
    )]
    NotForQuic,
}

/// Settings to accept one connection with, in the form the primary wants.
pub(crate) struct Accepting((quic::ServerConfig, Arc<TransportConfig>));

impl Accepting {
    pub(crate) fn new(config: &ServerConfig) -> Result<Self, ConfigError> {
        server_config(config).map(Self)
    }

    pub(crate) fn transport(&self) -> &Arc<TransportConfig> {
        &self.0.1
    }
}

/// What a connection and its controller share, and the settings that carry it into quinn-proto.
struct Seam {
    shared: Arc<Shared>,
    fed_late: Arc<AtomicBool>,
    transport: Arc<quic::TransportConfig>,
    trace: Trace,
}

impl Seam {
    #[cfg_attr(not(feature = "qlog"), expect(unused_variables, reason = "for the header of the log"))]
    fn new(now: Instant, config: &TransportConfig, side: Side, remote: SocketAddr) -> Self {
        let shared = Arc::<Shared>::default();
        let fed_late = Arc::<AtomicBool>::default();
        let factory = Factory {
            inner: controller_factory(config),
            shared: shared.clone(),
            paced: config.paced,
            fed_late: fed_late.clone(),
        };
        #[cfg_attr(not(feature = "qlog"), expect(unused_mut, reason = "the log is all that is added"))]
        let (mut transport, mut trace) = (quic_transport(config, factory), Trace::default());
        #[cfg(feature = "qlog")]
        if let Some((ours, output)) = crate::qlog::begin(config.qlog.as_ref(), now, side, remote) {
            let mut qlog = quic::QlogConfig::default();
            qlog.start_time(now).writer(output.without_header());
            transport.qlog_stream(qlog.into_stream());
            trace = ours;
        }
        Self { shared, fed_late, transport: Arc::new(transport), trace }
    }

    fn quic(self, now: Instant, conn: quic::Connection, sessions: Option<Arc<ConnectionSessions>>) -> Quic {
        Quic {
            remote: conn.remote_address(),
            rtt_before: None,
            conn,
            shared: self.shared,
            fed_late: self.fed_late,
            waiting: Waiting::ForPacer,
            stall: Stall::new(now),
            sessions,
            trace: self.trace,
        }
    }
}

/// What quinn-proto draws at random for an endpoint beside its seeded generator.
#[cfg(not(feature = "simulation"))]
fn seed_endpoint(config: &mut quic::EndpointConfig, _: [u8; 32]) {
    let reset_key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[0; 32]);
    config.reset_key(Arc::new(reset_key));
}

#[cfg(feature = "simulation")]
fn seed_endpoint(config: &mut quic::EndpointConfig, seed: [u8; 32]) {
    config
        .reset_key(Arc::new(simulated::ResetKey))
        .cid_generator(move || Box::new(simulated::ConnectionIds::new(&seed)));
}

fn controller_factory(
    config: &TransportConfig,
) -> Arc<dyn quic::congestion::ControllerFactory + Send + Sync> {
    macro_rules! with_window {
        ($config:expr) => {{
            let mut inner = $config;
            if let Some(bytes) = config.initial_window_bytes() {
                inner.initial_window(bytes);
            }
            Arc::new(inner)
        }};
    }
    if let Some(factory) = &config.passed.controller {
        return factory.clone();
    }
    match config.congestion {
        Congestion::NewReno => with_window!(quic::congestion::NewRenoConfig::default()),
        Congestion::Cubic => with_window!(quic::congestion::CubicConfig::default()),
        Congestion::Bbr => with_window!(quic::congestion::BbrConfig::default()),
    }
}

fn quic_transport(config: &TransportConfig, factory: Factory) -> quic::TransportConfig {
    let mut quic = quic::TransportConfig::default();
    quic.max_concurrent_uni_streams(with_control(Dir::Uni, config.max_concurrent_uni_streams))
        .max_concurrent_bidi_streams(with_control(Dir::Bi, config.max_concurrent_bidi_streams))
        .stream_receive_window(config.stream_receive_window.into())
        .receive_window(varint(config.receive_tuner().window()))
        .send_window(config.send_tuner().window())
        .initial_rtt(config.initial_rtt)
        .initial_mtu(config.mtu())
        .keep_alive_interval(config.keep_alive_interval)
        .congestion_controller_factory(Arc::new(factory));
    quic.max_idle_timeout(config.max_idle_timeout);
    config.passed.apply(&mut quic);
    if config.segment_size.is_some() {
        quic.mtu_discovery_config(None);
    }
    quic
}

/// One unidirectional stream more: the peer's control stream.
fn with_control(dir: Dir, count: VarInt) -> VarInt {
    let control = u64::from(dir == Dir::Uni);
    VarInt::from_u64(count.into_inner() + control).unwrap_or(VarInt::MAX)
}

type ClientCryptoParts = (Arc<dyn quic::crypto::ClientConfig>, Option<Arc<ConnectionSessions>>);

/// What one connection of a client is secured with, and the sessions it takes from if it may use 0-RTT.
#[cfg_attr(
    not(feature = "simulation"),
    expect(clippy::infallible_destructuring_match, reason = "there is one kind only")
)]
fn client_crypto(config: &ClientConfig) -> Result<ClientCryptoParts, ConfigError> {
    let crypto = match &config.crypto {
        ClientTls::Rustls(crypto) => crypto,
        #[cfg(feature = "simulation")]
        ClientTls::Simulated(application) => {
            let offer = alpn_offer(application, config.transport.rlp);
            return Ok((Arc::new(simulated::Settings::new(offer)), None));
        }
    };
    let mut crypto = rustls::ClientConfig::clone(crypto);
    crypto.alpn_protocols = alpn_offer(&crypto.alpn_protocols, config.transport.rlp);
    let sessions = crypto.enable_early_data.then(|| {
        let sessions = Arc::new(ConnectionSessions::new(config.sessions.clone()));
        crypto.resumption = rustls::client::Resumption::store(sessions.clone());
        sessions
    });
    let crypto = quic::crypto::rustls::QuicClientConfig::try_from(crypto)
        .map_err(|_| ConfigError::NoInitialCipherSuite)?;
    Ok((Arc::new(crypto), sessions))
}

#[cfg_attr(
    not(feature = "simulation"),
    expect(clippy::infallible_destructuring_match, reason = "there is one kind only")
)]
fn server_crypto(config: &ServerConfig) -> Result<Arc<dyn quic::crypto::ServerConfig>, ConfigError> {
    let crypto = match &config.crypto {
        ServerTls::Rustls(crypto) => crypto,
        #[cfg(feature = "simulation")]
        ServerTls::Simulated(application) => {
            let offer = alpn_offer(application, config.transport.rlp);
            return Ok(Arc::new(simulated::Settings::new(offer)));
        }
    };
    let mut crypto = rustls::ServerConfig::clone(crypto);
    crypto.alpn_protocols = alpn_offer(&crypto.alpn_protocols, config.transport.rlp);
    let crypto = Arc::new(crypto);
    // quinn-proto takes for granted that this succeeds whenever a client comes.
    rustls::quic::ServerConnection::new(crypto.clone(), rustls::quic::Version::V1, Vec::new())
        .map_err(|_| ConfigError::NotForQuic)?;
    let crypto = quic::crypto::rustls::QuicServerConfig::try_from(crypto)
        .map_err(|_| ConfigError::NoInitialCipherSuite)?;
    Ok(Arc::new(crypto))
}

fn server_config(config: &ServerConfig) -> Result<(quic::ServerConfig, Arc<TransportConfig>), ConfigError> {
    let mut quic = quic::ServerConfig::new(server_crypto(config)?, config.token_key.clone());
    quic.migration(config.migration)
        // The endpoint refuses what is beyond its own limit; quinn-proto would say nothing, and the peer wait.
        .max_incoming(config.max_incoming.saturating_add(1))
        .incoming_buffer_size(config.incoming_buffer_size)
        .incoming_buffer_size_total(config.incoming_buffer_size_total)
        .validation_token_config(config.validation_token.clone())
        .retry_token_lifetime(config.retry_token_lifetime)
        .preferred_address_v4(config.preferred_address_v4)
        .preferred_address_v6(config.preferred_address_v6);
    Ok((quic, config.transport.clone()))
}

/// A key for tokens that nobody else has.
///
/// # Panics
/// When the system has no randomness to give.
pub(crate) fn random_token_key() -> Arc<dyn HandshakeTokenKey> {
    let random = ring::rand::generate::<[u8; 32]>(&ring::rand::SystemRandom::new());
    let key = random.expect("the system has randomness").expose();
    Arc::new(ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(&key))
}

pub(crate) fn ring_provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn varint(number: u64) -> VarInt {
    VarInt::from_u64(number).unwrap_or(VarInt::MAX)
}

/// A round trip less the peer's delay, which quinn-proto tells nobody: it follows from how the sample has moved the
/// smoothed time, by an eighth of the difference (RFC 9002 §5.3). Where that is not what happened, the delay is taken
/// as zero.
fn without_ack_delay(raw: Duration, before: Duration, after: Duration) -> Duration {
    /// RFC 9000 §18.2, max_ack_delay.
    const DELAY_MAX: Duration = Duration::from_millis(25);
    /// The estimator rounds down to nanoseconds.
    const ROUNDING: Duration = Duration::from_nanos(8);
    let sample = (after * 8 + ROUNDING).saturating_sub(before * 7);
    if sample < raw && raw <= sample + DELAY_MAX + ROUNDING { sample } else { raw }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn the_peers_delay_follows_from_how_the_smoothed_time_moves() {
        let before = us(40_000);
        // RFC 9002 §5.3 with a sample of 52 ms of which the peer delayed 10 ms, and with one that it did not.
        let after = (before * 7 + us(42_000)) / 8;
        assert!(without_ack_delay(us(52_000), before, after) - us(42_000) < us(1));
        let after = (before * 7 + us(52_000)) / 8;
        assert_eq!(without_ack_delay(us(52_000), before, after), us(52_000));
    }

    #[test]
    fn a_smoothed_time_that_did_not_move_like_that_tells_nothing() {
        assert_eq!(without_ack_delay(us(52_000), us(333_000), us(52_000)), us(52_000));
        assert_eq!(without_ack_delay(us(20_000), us(40_000), us(40_000)), us(20_000));
    }
}
