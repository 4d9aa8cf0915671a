//! Connecting.

use std::{io, net::SocketAddr};

use rc3_core::{ConfigError, ConnectFailed};
use thiserror::Error;

/// Why a connection could not be started. As quinn's, it has no further variants: programs match all of them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// The endpoint was closed, or its runtime has ended.
    #[error("endpoint stopping")]
    EndpointStopping,
    /// Too many connections exist.
    #[error("no connection ids left, close some connections")]
    CidsExhausted,
    /// The server name is neither a domain name nor an address.
    #[error("invalid server name: {0}")]
    InvalidServerName(String),
    /// Port 0, an unspecified address, or an IPv6 address on an IPv4 socket.
    #[error("invalid remote address: {0}")]
    InvalidRemoteAddress(SocketAddr),
    /// Neither `set_default_client_config` nor `connect_with` provided one.
    #[error("no default client config, set one or use connect_with")]
    NoDefaultClientConfig,
    /// The endpoint does not support the requested QUIC version, or the [`ClientConfig`](crate::ClientConfig) is not for
    /// QUIC, for a reason ([`ConfigError`]) that is logged.
    #[error("unsupported QUIC version")]
    UnsupportedVersion,
}

impl From<ConfigError> for ConnectError {
    fn from(error: ConfigError) -> Self {
        tracing::error!(%error, "the client's settings are not for QUIC");
        Self::UnsupportedVersion
    }
}

impl From<ConnectFailed> for ConnectError {
    fn from(error: ConnectFailed) -> Self {
        use rc3_core::ConnectError as Core;
        match error {
            ConnectFailed::Connect(error) => match error {
                Core::EndpointStopping => Self::EndpointStopping,
                Core::CidsExhausted => Self::CidsExhausted,
                Core::InvalidServerName(name) => Self::InvalidServerName(name),
                Core::InvalidRemoteAddress(address) => Self::InvalidRemoteAddress(address),
                Core::NoDefaultClientConfig => Self::NoDefaultClientConfig,
                Core::UnsupportedVersion => Self::UnsupportedVersion,
            },
            ConnectFailed::Config(error) => Self::from(error),
        }
    }
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::EndpointStopping => io::ErrorKind::NotConnected,
            ConnectError::CidsExhausted => io::ErrorKind::AddrNotAvailable,
            _ => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}
