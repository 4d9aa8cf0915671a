//! What connections are accepted with: a server's settings in the form quinn-proto wants.

use std::sync::Arc;

use quinn_proto as quic;

use super::{ConfigError, crypto::server_crypto};
use crate::config::{ServerConfig, TransportConfig};

/// Settings to accept one connection with, in the form the primary wants.
pub(crate) struct Accepting(pub(super) (quic::ServerConfig, Arc<TransportConfig>));

impl Accepting {
    pub(crate) fn new(config: &ServerConfig) -> Result<Self, ConfigError> {
        server_config(config).map(Self)
    }

    pub(crate) fn transport(&self) -> &Arc<TransportConfig> {
        &self.0.1
    }
}

pub(super) fn server_config(
    config: &ServerConfig,
) -> Result<(quic::ServerConfig, Arc<TransportConfig>), ConfigError> {
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
