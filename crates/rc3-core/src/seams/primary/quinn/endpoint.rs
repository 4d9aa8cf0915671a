//! The QUIC side of an endpoint: connection ids, stateless answers, handshakes that begin.

use std::{
    net::{IpAddr, SocketAddr},
    ops::Deref,
    sync::Arc,
    time::Instant,
};

use bytes::BytesMut;
use quinn_proto as quic;
use thiserror::Error;

use super::{
    Quic,
    accepting::Accepting,
    checked_ids::{CheckedIds, IdCount},
    from_transmit,
    seam::{Bounds, Seam},
    seeded,
};
use crate::quic::{ConnectError, ConnectionError, ConnectionEvent, ConnectionHandle, Side};
use crate::seams::{keys::ReceiverId, tls::ConfigError};
use crate::{
    config::{ClientConfig, EndpointConfig, ID_BYTES_MIN, ServerConfig, TransportConfig},
    shows::shows,
    transmit::Transmit,
};

/// A handshake that a peer starts: quinn-proto's type, with what the first datagram has shown. Answer it with one of
/// the endpoint's `accept`, `refuse`, `retry` or `ignore`.
#[derive(Debug)]
pub struct Incoming {
    quic: Box<quic::Incoming>,
    /// Payload bytes of its leading fragment, if it arrived in fragments.
    pub(crate) leading_len: Option<u16>,
    /// Bytes of it.
    pub(crate) len: u16,
}

impl Deref for Incoming {
    type Target = quic::Incoming;

    fn deref(&self) -> &quic::Incoming {
        &self.quic
    }
}

/// Result of handling a datagram.
pub(crate) enum RoutedDatagram {
    /// It went to this connection.
    Connection(ConnectionHandle, ConnectionEvent),
    /// A client wants to connect.
    Incoming(Incoming),
    /// The answer is in the buffer.
    Response(Transmit),
}

/// Why a handshake failed, and the answer.
pub(crate) type AcceptFailed = (ConnectionError, Option<Transmit>);

/// The QUIC side of an endpoint: connection ids, stateless answers, new connections.
pub(crate) struct QuicEndpoint {
    endpoint: quic::Endpoint,
    /// For new connections.
    pub(crate) server: Option<Accepting>,
    ids: IdCount,
    /// Where ids of RLP come from, if they must not be derived.
    pub(crate) receiver_ids: Option<CheckedIds>,
    /// Endpoints that share the port, and with it the limits of `server`.
    workers: usize,
}

impl QuicEndpoint {
    /// `seed` makes ids and tokens repeatable: for simulations only. `mtu_discovery`: datagrams are never fragmented.
    pub(crate) fn new(
        config: &EndpointConfig,
        server: Option<&ServerConfig>,
        seed: Option<[u8; 32]>,
        mtu_discovery: bool,
    ) -> Result<Self, ConfigError> {
        let ids = IdCount::default();
        let (mut quic, receiver_ids) = quic_config(config, &ids)?;
        quic.rng_seed(seed);
        if let Some(seed) = seed {
            seeded::seed(&mut quic, &seed);
        }
        let workers = config.worker.as_ref().map_or(1, |worker| worker.destination.hash.workers());
        let server = server.map(Accepting::new).transpose()?;
        let for_endpoint = server.as_ref().map(|server| server.for_endpoint(workers));
        let endpoint = quic::Endpoint::new(Arc::new(quic), for_endpoint, mtu_discovery, None);
        Ok(Self { endpoint, server, ids, receiver_ids, workers })
    }

    pub(crate) fn set_server(&mut self, server: Option<&ServerConfig>) -> Result<(), ConfigError> {
        self.server = server.map(Accepting::new).transpose()?;
        let for_endpoint = self.server.as_ref().map(|server| server.for_endpoint(self.workers));
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
    ) -> Option<RoutedDatagram> {
        self.ids.reset();
        let ecn = quic::EcnCodepoint::from_bits(ecn);
        let len = data.len() as u16;
        Some(match self.endpoint.handle(now, remote, local_ip, ecn, data, response)? {
            quic::DatagramEvent::ConnectionEvent(handle, event) => RoutedDatagram::Connection(handle, event),
            quic::DatagramEvent::NewConnection(incoming) => {
                RoutedDatagram::Incoming(Incoming { quic: Box::new(incoming), leading_len: None, len })
            }
            quic::DatagramEvent::Response(transmit) => RoutedDatagram::Response(answer(transmit)),
        })
    }

    pub(crate) fn connect(
        &mut self,
        now: Instant,
        config: &ClientConfig,
        remote: SocketAddr,
        server_name: &str,
        bounds: Bounds,
    ) -> Result<(ConnectionHandle, Quic), ConnectFailed> {
        self.ids.reset();
        let session = config.security.session(config.transport.speaks_rc3(), &config.sessions)?;
        let id = (config.initial_dst_cid_provider)();
        if id.len() < ID_BYTES_MIN {
            return Err(ConfigError::ConnectionIds.into());
        }
        let seam = Seam::new(now, &config.transport, Side::Client, remote, id, bounds);
        let mut client = quic::ClientConfig::new(seam.client_crypto(session.crypto));
        client
            .initial_dst_cid_provider(Arc::new(move || id))
            .transport_config(seam.transport.clone())
            .token_store(config.token_store.clone())
            .version(config.version);
        let (handle, conn) = self.endpoint.connect(now, client, remote, server_name)?;
        Ok((handle, seam.quic(now, conn, true, session.tickets)))
    }

    /// Continues a handshake, with its own configuration if given. Otherwise returns why it failed, and the answer.
    pub(crate) fn accept(
        &mut self,
        now: Instant,
        incoming: Incoming,
        server: Option<&Accepting>,
        bounds: Bounds,
        response: &mut Vec<u8>,
    ) -> Result<(ConnectionHandle, Quic), Box<AcceptFailed>> {
        self.ids.reset();
        let (remote, original) = (incoming.remote_address(), *incoming.orig_dst_cid());
        let validated = incoming.remote_address_validated();
        let (seam, config) = match server.or(self.server.as_ref()) {
            Some(Accepting { quic, transport, .. }) => {
                let seam = Seam::new(now, transport, Side::Server, remote, original, bounds);
                let mut config = quic.clone();
                config.transport_config(seam.transport.clone());
                config.crypto = seam.server_crypto(config.crypto);
                (seam, Some(Arc::new(config)))
            }
            None => {
                let transport = TransportConfig::default();
                (Seam::new(now, &transport, Side::Server, remote, original, bounds), None)
            }
        };
        match self.endpoint.accept(*incoming.quic, now, response, config) {
            Ok((handle, conn)) => Ok((handle, seam.quic(now, conn, validated, None))),
            Err(error) => Err(Box::new((error.cause, error.response.map(answer)))),
        }
    }

    pub(crate) fn refuse(&mut self, incoming: Incoming, response: &mut Vec<u8>) -> Transmit {
        self.ids.reset();
        answer(self.endpoint.refuse(*incoming.quic, response))
    }

    pub(crate) fn retry(&mut self, incoming: Incoming, response: &mut Vec<u8>) -> Result<Transmit, Incoming> {
        self.ids.reset();
        let Incoming { leading_len, len, .. } = incoming;
        self.endpoint.retry(*incoming.quic, response).map(answer).map_err(|e| Incoming {
            quic: Box::new(e.into_incoming()),
            leading_len,
            len,
        })
    }

    pub(crate) fn ignore(&mut self, incoming: Incoming) {
        self.endpoint.ignore(*incoming.quic);
    }

    /// Passes a datagram to its connection. Returns whether at least one of its packets was authentic and new.
    pub(crate) fn deliver(conn: &mut Quic, event: ConnectionEvent) -> bool {
        conn.conn.handle_event(event);
        conn.take_frames_received()
    }

    /// Exchanges the pending events of a connection and its endpoint. Call it after every change.
    pub(crate) fn service(&mut self, handle: ConnectionHandle, conn: &mut Quic) {
        while let Some(event) = conn.conn.poll_endpoint_events() {
            self.ids.reset();
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                conn.conn.handle_event(answer);
            }
        }
    }
}

shows!(QuicEndpoint: endpoint);

/// The settings in quinn-proto's form, and the source of ids for RLP, if it is not derivation.
fn quic_config(
    config: &EndpointConfig,
    count: &IdCount,
) -> Result<(quic::EndpointConfig, Option<CheckedIds>), ConfigError> {
    let mut quic = match &config.reset_key {
        Some(key) => quic::EndpointConfig::new(key.clone()),
        None => quic::EndpointConfig::default(),
    };
    // The fixed bit distinguishes QUIC from RLP datagrams: it must not be greased (RFC 9287).
    quic.grease_quic_bit(false)
        .supported_versions(config.supported_versions.clone())
        .min_reset_interval(config.min_reset_interval);
    quic.max_udp_payload_size(config.max_udp_payload_size).map_err(|_| ConfigError::OutOfBounds)?;
    let destination = config.worker.as_ref().map(|worker| worker.destination);
    let generator = config.id_generator()?;
    if generator.is_none() && destination.is_none() {
        return Ok((quic, None));
    }
    let random = |len| Box::new(quic::RandomConnectionIdGenerator::new(len));
    let ids = CheckedIds::new(generator.unwrap_or_else(|| random(ID_BYTES_MIN)), destination, count.clone());
    let for_quic = ids.clone();
    quic.cid_generator(move || Box::new(for_quic.clone()));
    let fits = quic::ConnectionIdGenerator::cid_len(&ids) == size_of::<ReceiverId>();
    let receiver_ids = match destination {
        _ if fits => Some(ids),
        None => None,
        // Longer ids, which no RLP datagram can carry.
        Some(_) => Some(CheckedIds::new(random(size_of::<ReceiverId>()), destination, IdCount::default())),
    };
    Ok((quic, receiver_ids))
}

/// Datagrams outside connections must not be fragmented.
fn answer(transmit: quic::Transmit) -> Transmit {
    from_transmit(transmit, true)
}

/// Why a connection could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectFailed {
    /// The address, name or endpoint does not allow it.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The TLS settings do not allow it.
    #[error(transparent)]
    Config(#[from] ConfigError),
}
