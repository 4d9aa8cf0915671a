//! A server's configuration for accepting, in quinn-proto's form.

use std::sync::Arc;

use quinn_proto as quic;

use super::seam::with_control;
use crate::{
    config::{ServerConfig, TransportConfig},
    quic::{Dir, Side},
    seams::{
        keys::protection::Protection,
        tls::{ConfigError, early_limits::EarlyLimits},
    },
};

/// Bytes of datagrams stored for one waiting handshake, unless the application sets another number.
const INCOMING_BUFFER: u64 = 1 << 20;

/// Configuration for accepting connections, in the primary's form.
pub(crate) struct Accepting {
    pub(super) quic: quic::ServerConfig,
    pub(crate) transport: Arc<TransportConfig>,
    /// The protection of their RLP datagrams.
    pub(crate) protection: &'static dyn Protection,
    incoming_buffer_size_total: u64,
}

impl Accepting {
    pub(crate) fn new(config: &ServerConfig) -> Result<Self, ConfigError> {
        let session =
            config.security.session(config.transport.speaks_rc3(), early_limits(&config.transport))?;
        let mut quic = quic::ServerConfig::new(session, config.token_key.clone());
        // The endpoint refuses handshakes beyond its own limit; quinn-proto would ignore them, and the peer would wait.
        quic.max_incoming(config.max_incoming.saturating_add(1))
            .incoming_buffer_size(INCOMING_BUFFER)
            .validation_token_config(config.validation_token.clone());
        config.passed.iter().for_each(|change| change(&mut quic));
        Ok(Self {
            quic,
            transport: config.transport.clone(),
            protection: config.security.protection(),
            incoming_buffer_size_total: config.incoming_buffer_size_total,
        })
    }
    /// For one of the `workers` endpoints of a port, which together store what one would.
    pub(super) fn for_endpoint(&self, workers: usize) -> Arc<quic::ServerConfig> {
        let mut quic = self.quic.clone();
        quic.incoming_buffer_size_total(self.incoming_buffer_size_total / workers.max(1) as u64);
        Arc::new(quic)
    }
}

/// The transport parameters that `seam.rs` sets and quinn-proto's clients compare.
fn early_limits(config: &TransportConfig) -> EarlyLimits {
    let streams = |dir, count| with_control(dir, count).into_inner();
    let datagram_max = |bytes: usize| bytes.min(u16::MAX.into()) as u64 + 1;
    EarlyLimits {
        data: config.advertised_receive(Side::Server, u64::MAX),
        stream_data: config.stream_receive_window.into(),
        bidi: streams(Dir::Bi, config.max_concurrent_bidi_streams),
        uni: streams(Dir::Uni, config.max_concurrent_uni_streams),
        datagram: config.datagram_receive_buffer_size.map_or(0, datagram_max),
    }
}
