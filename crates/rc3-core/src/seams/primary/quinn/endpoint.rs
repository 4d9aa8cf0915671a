//! The QUIC side of an endpoint: connection ids, stateless answers, handshakes that begin.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use bytes::BytesMut;
use quinn_proto as quic;
use thiserror::Error;

use super::{Quic, accepting::Accepting, from_transmit, seam::Seam, seeded};
use crate::quic::{ConnectError, ConnectionError, ConnectionHandle, ConnectionId, Side};
use crate::seams::tls::ConfigError;
use crate::{
    config::{ClientConfig, ServerConfig, TransportConfig},
    transmit::Transmit,
};

/// A handshake that a peer wants to begin. Answer it with one of the endpoint's `accept`, `refuse`, `retry` or
/// `ignore`.
pub struct Incoming {
    quic: Box<quic::Incoming>,
    /// Bytes of payload of its leading fragment, if it came in fragments.
    pub(crate) leading_len: Option<u16>,
}

impl Incoming {
    /// The peer's address.
    pub fn remote_address(&self) -> SocketAddr {
        self.quic.remote_address()
    }

    /// Our address, where known.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.quic.local_ip()
    }

    /// Whether the peer has shown that it receives at its address.
    pub fn remote_address_validated(&self) -> bool {
        self.quic.remote_address_validated()
    }

    /// Whether `retry` is still possible.
    pub fn may_retry(&self) -> bool {
        self.quic.may_retry()
    }

    /// The connection id the peer chose for us to begin with.
    pub fn orig_dst_cid(&self) -> ConnectionId {
        *self.quic.orig_dst_cid()
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quic.fmt(f)
    }
}

/// What became of a datagram.
pub(crate) enum Routed {
    /// It went to this connection.
    Connection(ConnectionHandle, ToConnection),
    /// Somebody wants to connect.
    Incoming(Incoming),
    /// It wants this answer, which is in the buffer.
    Response(Transmit),
}

/// Why a handshake could not go on, and what to answer.
pub(crate) struct AcceptFailed {
    pub(crate) cause: ConnectionError,
    pub(crate) response: Option<Transmit>,
}

/// Something for one connection only.
pub(crate) struct ToConnection(quic::ConnectionEvent);

/// The QUIC side of an endpoint: connection ids, stateless answers, new connections.
pub(crate) struct QuicEndpoint {
    endpoint: quic::Endpoint,
    server: Option<Accepting>,
}

impl QuicEndpoint {
    /// `seed` makes ids and tokens repeatable: for simulations only.
    pub(crate) fn new(server: Option<&ServerConfig>, seed: Option<[u8; 32]>) -> Result<Self, ConfigError> {
        let mut config = quic::EndpointConfig::default();
        // The fixed bit tells QUIC from RLP datagrams: it must not be greased (RFC 9287).
        config.grease_quic_bit(false).rng_seed(seed);
        // Buffers have room for the longest datagram there is, so what passes is up to the path.
        config.max_udp_payload_size(u16::MAX - 8).expect("the largest there is");
        if let Some(seed) = seed {
            seeded::seed(&mut config, &seed);
        }
        let server = server.map(Accepting::new).transpose()?;
        let for_endpoint = server.as_ref().map(|server| Arc::new(server.quic.clone()));
        Ok(Self { endpoint: quic::Endpoint::new(Arc::new(config), for_endpoint, true, None), server })
    }

    pub(crate) fn set_server(&mut self, server: Option<&ServerConfig>) -> Result<(), ConfigError> {
        self.server = server.map(Accepting::new).transpose()?;
        let for_endpoint = self.server.as_ref().map(|server| Arc::new(server.quic.clone()));
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
            quic::DatagramEvent::NewConnection(incoming) => {
                Routed::Incoming(Incoming { quic: Box::new(incoming), leading_len: None })
            }
            quic::DatagramEvent::Response(transmit) => Routed::Response(answer(transmit)),
        })
    }

    pub(crate) fn connect(
        &mut self,
        now: Instant,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<(ConnectionHandle, Quic), ConnectFailed> {
        let session = config.security.session(config.transport.speaks_rc3(), &config.sessions)?;
        let mut client = quic::ClientConfig::new(session.crypto);
        let seam = Seam::new(now, &config.transport, Side::Client, remote);
        client.transport_config(seam.transport.clone()).token_store(config.token_store.clone());
        let (handle, conn) = self.endpoint.connect(now, client, remote, server_name)?;
        Ok((handle, seam.quic(now, conn, session.tickets)))
    }

    /// The settings new connections are accepted with.
    pub(crate) fn accepting(&self) -> Option<&Accepting> {
        self.server.as_ref()
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
        let (seam, config) = match server.or(self.server.as_ref()) {
            Some(Accepting { quic, transport, .. }) => {
                let seam = Seam::new(now, transport, Side::Server, remote);
                let mut config = quic.clone();
                config.transport_config(seam.transport.clone());
                (seam, Some(Arc::new(config)))
            }
            None => (Seam::new(now, &TransportConfig::default(), Side::Server, remote), None),
        };
        match self.endpoint.accept(*incoming.quic, now, response, config) {
            Ok((handle, conn)) => Ok((handle, seam.quic(now, conn, None))),
            Err(error) => {
                Err(Box::new(AcceptFailed { cause: error.cause, response: error.response.map(answer) }))
            }
        }
    }

    pub(crate) fn refuse(&mut self, incoming: Incoming, response: &mut Vec<u8>) -> Transmit {
        answer(self.endpoint.refuse(*incoming.quic, response))
    }

    pub(crate) fn retry(&mut self, incoming: Incoming, response: &mut Vec<u8>) -> Result<Transmit, Incoming> {
        let leading_len = incoming.leading_len;
        self.endpoint
            .retry(*incoming.quic, response)
            .map(answer)
            .map_err(|e| Incoming { quic: Box::new(e.into_incoming()), leading_len })
    }

    pub(crate) fn ignore(&mut self, incoming: Incoming) {
        self.endpoint.ignore(*incoming.quic);
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

/// What goes out beside connections is not to be fragmented.
fn answer(transmit: quic::Transmit) -> Transmit {
    from_transmit(transmit, true)
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
